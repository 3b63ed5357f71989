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

// newInformer returns an informer of MachineHealthChecks, not started, whose requests Freshness of config follows.
func newInformer(config *Config) informers.TypedMachineHealthCheckInformer {
	factory := externalversions.NewSharedInformerFactoryWithOptions(config.Client, 0, externalversions.WithTransform(config.Transform))
	factory.InformerFor(&v1beta1.MachineHealthCheck{}, func(client versioned.Interface, _ time.Duration) cache.SharedIndexInformer {
		return watches.NewInformer(config.Freshness, watches.MachineHealthCheckCache, client, client.MachineV1beta1().MachineHealthChecks(metav1.NamespaceAll), &v1beta1.MachineHealthCheck{}, "")
	})
	return factory.Machine().V1beta1().MachineHealthChecks()
}
