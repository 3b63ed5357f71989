// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/generated/clientset/versioned"
	"github.com/nhc-controller/nhc-controller/pkg/generated/informers/externalversions"
	informers "github.com/nhc-controller/nhc-controller/pkg/generated/informers/externalversions/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/watches"
)

// newInformer returns an informer of MachineHealthChecks, not started, whose requests freshness follows.
func newInformer(freshness *watches.Freshness, client versioned.Interface, transform cache.TransformFunc) informers.TypedMachineHealthCheckInformer {
	factory := externalversions.NewSharedInformerFactoryWithOptions(client, 0, externalversions.WithTransform(transform))
	factory.InformerFor(&v1beta1.MachineHealthCheck{}, func(client versioned.Interface, _ time.Duration) cache.SharedIndexInformer {
		return watches.NewInformer(freshness, watches.MachineHealthCheckCache, client, client.MachineV1beta1().MachineHealthChecks(metav1.NamespaceAll), &v1beta1.MachineHealthCheck{}, "")
	})
	return factory.Machine().V1beta1().MachineHealthChecks()
}
