// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	coordinationinformers "k8s.io/client-go/informers/coordination/v1"

	nhcinformers "github.com/nhc-controller/nhc-controller/pkg/generated/informers/externalversions"
	machineinformers "github.com/nhc-controller/nhc-controller/pkg/generated/informers/externalversions/machine/v1beta1"
)

// newMachineHealthChecks returns the informer of MachineHealthChecks, which only this controller
// needs.
func newMachineHealthChecks(config *Config) machineinformers.TypedMachineHealthCheckInformer {
	factory := nhcinformers.NewSharedInformerFactoryWithOptions(config.Client, 0, nhcinformers.WithTransform(config.Transform))
	return factory.Machine().V1beta1().MachineHealthChecks()
}

// newOtherLeaders returns the informer of the leases named OtherLeaderLease in all namespaces.
func newOtherLeaders(config *Config) coordinationinformers.TypedLeaseInformer {
	named := func(options *metav1.ListOptions) {
		options.FieldSelector = fields.OneTermEqualSelector("metadata.name", OtherLeaderLease).String()
	}
	factory := informers.NewSharedInformerFactoryWithOptions(config.Kube, 0, informers.WithTransform(config.Transform), informers.WithTweakListOptions(named))
	return factory.Coordination().V1().Leases()
}
