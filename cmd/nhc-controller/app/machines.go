// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	coordinationinformers "k8s.io/client-go/informers/coordination/v1"
	"k8s.io/client-go/tools/events"

	"github.com/nhc-controller/nhc-controller/pkg/budget"
	"github.com/nhc-controller/nhc-controller/pkg/controller/machinehealthcheck"
	nhcinformers "github.com/nhc-controller/nhc-controller/pkg/generated/informers/externalversions"
	machinev1beta1 "github.com/nhc-controller/nhc-controller/pkg/generated/informers/externalversions/machine/v1beta1"
)

// machineHealthChecks is the controller of MachineHealthChecks with the informers that only it needs.
type machineHealthChecks struct {
	*machinehealthcheck.Controller
	checks       machinev1beta1.TypedMachineHealthCheckInformer
	otherLeaders coordinationinformers.TypedLeaseInformer
}

// newMachineHealthChecks makes the controller and starts nothing. The informers of the process must
// have been made.
func (p *process) newMachineHealthChecks(ctx context.Context, recorder events.EventRecorder, budgets budget.Budgets) (*machineHealthChecks, error) {
	m := &machineHealthChecks{
		checks: nhcinformers.NewSharedInformerFactoryWithOptions(p.clients.nhc, 0, nhcinformers.WithTransform(stripManagedFields)).Machine().V1beta1().MachineHealthChecks(),
		otherLeaders: informers.NewSharedInformerFactoryWithOptions(p.clients.kube, 0, informers.WithTransform(stripManagedFields),
			informers.WithTweakListOptions(func(options *metav1.ListOptions) {
				options.FieldSelector = fields.OneTermEqualSelector("metadata.name", machinehealthcheck.OtherLeaderLease).String()
			})).Coordination().V1().Leases(),
	}
	var err error
	m.Controller, err = machinehealthcheck.New(ctx, machinehealthcheck.Config{
		Kube: p.clients.kube, Client: p.clients.nhc.MachineV1beta1(), Dynamic: p.clients.dynamic,
		MachineHealthChecks: m.checks, Nodes: p.nodes, Leases: p.leases, LeaseNamespace: p.options.LeaseNamespace,
		OtherLeaders: m.otherLeaders, CRDs: p.crds, Recorder: recorder, Clock: p.clock, ClockTrusted: p.clock.trusted,
		DryRun: p.options.DryRun, BackOff: p.options.MachineBackOff, Budgets: budgets, Metrics: p.registry,
	})
	if err != nil {
		return nil, err
	}
	return m, nil
}

// run runs the informers and watches until ctx is done.
func (m *machineHealthChecks) run(ctx context.Context) {
	var wg sync.WaitGroup
	wg.Go(func() { m.checks.Informer().RunWithContext(ctx) })
	wg.Go(func() { m.otherLeaders.Informer().RunWithContext(ctx) })
	wg.Go(func() { m.RunWatches(ctx) })
	wg.Wait()
}
