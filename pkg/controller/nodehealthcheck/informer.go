// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	"time"

	"k8s.io/client-go/tools/cache"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/generated/clientset/versioned"
	"github.com/nhc-controller/nhc-controller/pkg/generated/informers/externalversions"
	informers "github.com/nhc-controller/nhc-controller/pkg/generated/informers/externalversions/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/watches"
)

// NewInformer returns an informer of NodeHealthChecks, not started, whose requests freshness follows.
func NewInformer(freshness *watches.Freshness, client versioned.Interface, transform cache.TransformFunc) informers.TypedNodeHealthCheckInformer {
	factory := externalversions.NewSharedInformerFactoryWithOptions(client, 0, externalversions.WithTransform(transform))
	factory.InformerFor(&v1alpha1.NodeHealthCheck{}, func(client versioned.Interface, _ time.Duration) cache.SharedIndexInformer {
		return watches.NewInformer(freshness, watches.NodeHealthCheckCache, client, client.RemediationV1alpha1().NodeHealthChecks(), &v1alpha1.NodeHealthCheck{}, "")
	})
	return factory.Remediation().V1alpha1().NodeHealthChecks()
}
