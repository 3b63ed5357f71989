// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kinds watches the kinds of remediation objects (CRs) of all health checks of a process.
package kinds

import (
	"context"
	"maps"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
	"github.com/nhc-controller/nhc-controller/pkg/watches"
)

// Kinds are the watched kinds of CRs. NodeHealthChecks want them by their names, MachineHealthChecks by
// <namespace>/<name>. A kind that was watched once stays watched: its CRs may outlive the template.
type Kinds struct {
	*watches.Set[schema.GroupKind]

	discovery watches.Discovery
	crds      cache.SharedIndexInformer
	indexers  cache.Indexers
	users     []User
	// searching means that syncs wait for the search for kinds. found are those that it has found, once it has ended.
	searching atomic.Bool
	found     atomic.Pointer[[]schema.GroupKind]

	mu sync.Mutex
	// recorded are the kinds that a status lists because there may be CRs, by health check.
	recorded map[string]sets.Set[schema.GroupKind]
}

// User is a controller that decides by CRs.
type User struct {
	// Indexers index the CRs. Their names differ from those of other users.
	Indexers cache.Indexers
	// Parsed is called with each version of a CR before the cache shows it. Optional.
	Parsed func(*object.CR)
	// Changed is called with each CR that is new (old is nil), that has changed or that is gone (current is nil).
	Changed func(old, current *object.CR)
	// KindsChanged is called when a kind can be read, or cannot any more.
	KindsChanged func()
}

// New returns kinds without users. It starts nothing.
func New(ctx context.Context, kube kubernetes.Interface, client dynamic.Interface, crds cache.SharedIndexInformer, freshness *watches.Freshness) (*Kinds, error) {
	k := &Kinds{discovery: kube.Discovery(), crds: crds, indexers: cache.Indexers{}}
	k.searching.Store(true)
	config := watches.ReadOnly(kube, client, crds, freshness)
	config.Name, config.Keep, config.Indexers = "remediations", true, k.indexers
	config.Verbs = []string{"get", "list", "watch", "create", "patch", "delete"}
	config.Parse, config.Handler, config.Changed = k.parse, watches.Handler(k.changed), func([]string) { k.kindsChanged() }
	k.Set = watches.NewSet[schema.GroupKind](config)
	s := watches.NewSubscription(ctx)
	s.SubscribeCRDs(crds, k.Refresh)
	return k, s.Err
}

// Use adds a user. It is called before Run.
func (k *Kinds) Use(user User) {
	maps.Copy(k.indexers, user.Indexers)
	k.users = append(k.users, user)
}

func (k *Kinds) parse(obj *unstructured.Unstructured) runtime.Object {
	cr := object.ParseCR(obj)
	for i := range k.users {
		if parsed := k.users[i].Parsed; parsed != nil {
			parsed(cr)
		}
	}
	return cr
}

func (k *Kinds) changed(old, current *object.CR) {
	for i := range k.users {
		k.users[i].Changed(old, current)
	}
}

func (k *Kinds) kindsChanged() {
	for i := range k.users {
		k.users[i].KindsChanged()
	}
}

// RecheckWritten asks again how the kinds that actions write may be used, because a request was refused.
func (k *Kinds) RecheckWritten(actions []remediation.Action) {
	for _, action := range actions {
		switch action := action.(type) {
		case remediation.Create:
			k.Recheck(action.Object.GroupVersionKind().GroupKind())
		case remediation.Delete:
			k.Recheck(action.CR.GroupVersionKind().GroupKind())
		case remediation.MarkTimedOut:
			k.Recheck(action.CR.GroupVersionKind().GroupKind())
		}
	}
}
