// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"cmp"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/dynamic"
	coordinationinformers "k8s.io/client-go/informers/coordination/v1"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"

	"github.com/nhc-controller/nhc-controller/pkg/budget"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/kinds"
	"github.com/nhc-controller/nhc-controller/pkg/sightings"
	"github.com/nhc-controller/nhc-controller/pkg/watches"
)

// Config is what the controllers of health checks depend on. Every field is required, except ClockTrusted, DryRun,
// Sightings and Budgets.
type Config struct {
	Kube    kubernetes.Interface
	Dynamic dynamic.Interface
	Nodes   coreinformers.TypedNodeInformer
	// Leases watches LeaseNamespace, where the leases of nodes are.
	Leases         coordinationinformers.TypedLeaseInformer
	LeaseNamespace string
	// CRDs watches the metadata of CustomResourceDefinitions.
	CRDs cache.SharedIndexInformer
	// Remediations are the kinds of CRs, shared by the controllers of this process. The caller runs them.
	Remediations *kinds.Kinds
	// Freshness follows all informers.
	Freshness *watches.Freshness
	Recorder  events.EventRecorder
	Clock     clock.PassiveClock
	// ClockTrusted reports whether remediations may begin by Clock. Nil means always. The caller calls SyncAll when the
	// answer, or Clock, has changed.
	ClockTrusted func() bool
	// With DryRun, everything is decided and nothing begins, whatever the mode of a health check is.
	DryRun bool
	// Sightings are shared by the controllers of this process. Nil means that there is no other.
	Sightings *sightings.Sightings
	// Budgets are the RemediationBudgets that this process looks after. Nil means none.
	Budgets budget.Budgets
	// Metrics receives the collectors of the controller.
	Metrics prometheus.Registerer
}

// SetDefaults sets the fields that are not required.
func (c *Config) SetDefaults() {
	c.Sightings = cmp.Or(c.Sightings, sightings.New(c.Clock.Now, func() int64 { return 0 }))
	if c.Budgets == nil {
		c.Budgets = budget.None{}
	}
}

// ClockUntrusted reports whether nothing may begin by the clock.
func (c *Config) ClockUntrusted() bool { return c.ClockTrusted != nil && !c.ClockTrusted() }
