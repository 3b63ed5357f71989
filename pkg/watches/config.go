// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package watches

import (
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/tools/cache"
)

// Config is what a Set depends on. Fields are required unless they say otherwise.
type Config struct {
	// Name is that of the set in logs and metrics.
	Name      string
	Client    dynamic.Interface
	Discovery Discovery
	Access    authorizationclient.SelfSubjectAccessReviewInterface
	// Verbs are the permissions that a kind needs: get, list and watch first. With only these
	// three the kind is watched, although it counts as forbidden.
	Verbs []string
	// Keep means that a kind that was watched stays watched when no owner wants it any more, until it is gone, or may not
	// be read and had no objects. Optional.
	Keep bool
	// CRDs returns the names of the CustomResourceDefinitions of an API group, and false
	// if they are not known yet. Gone depends on it: a kind that is not served, and not gone, is probed again and again.
	CRDs func(group string) (names []string, known bool)
	// Parse turns an object of the API into the one that is cached.
	Parse func(*unstructured.Unstructured) runtime.Object
	// Indexers index the caches.
	Indexers cache.Indexers
	// Handler receives the events of every watched kind.
	Handler cache.ResourceEventHandler
	// Freshness follows the caches.
	Freshness *Freshness
	// Changed is called with the owners of a kind when its state has changed. With Keep, there may be none.
	Changed func(owners []string)
}

// probeInterval is the time between two probes of a kind that cannot be watched.
const probeInterval = 15 * time.Second

// ReadOnly returns the part of a Config that all sets of a process share, for kinds that are only read.
func ReadOnly(kube kubernetes.Interface, client dynamic.Interface, crds cache.SharedIndexInformer, freshness *Freshness) Config {
	return Config{
		Client: client, Discovery: kube.Discovery(), Access: kube.AuthorizationV1().SelfSubjectAccessReviews(),
		Verbs: readingVerbs, CRDs: crdsIn(crds), Freshness: freshness,
	}
}
