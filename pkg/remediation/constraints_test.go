// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// columns are those of the table in spec 5.2, with 4.7 and 4.8, in the order of spec 5.4, 10.5 and 18.5. What a column does not name is not allowed.
var columns = []struct {
	// refusal is empty for a node that there is nothing to repair of.
	refusal v1alpha1.DecisionReason
	set     func(*Constraints)
	allowed Permissions
}{
	{"", func(c *Constraints) { c.NodeDeleted = true }, Permissions{KeepLease: true, CleanUp: true}},
	{v1alpha1.DecidedUnselected, func(c *Constraints) { c.Unselected = true }, blocked},
	{v1alpha1.DecidedDisabled, func(c *Constraints) { c.TemplatesUnusable = true }, blocked},
	{v1alpha1.DecidedDisabled, func(c *Constraints) { c.Conflict = true }, Permissions{}},
	{v1alpha1.DecidedInvalidSpec, func(c *Constraints) { c.InvalidSpec = true }, blocked},
	{v1alpha1.DecidedTerminating, func(c *Constraints) { c.Terminating = true }, blocked},
	{v1alpha1.DecidedClockUntrusted, func(c *Constraints) { c.ClockUntrusted = true }, blocked},
	{v1alpha1.DecidedClusterUpgrading, func(c *Constraints) { c.Upgrading = true }, blocked},
	{v1alpha1.DecidedClusterUpgrading, func(c *Constraints) { c.UpdateEnds = epoch }, blocked},
	{v1alpha1.DecidedPaused, func(c *Constraints) { c.Paused = true }, blocked},
	{v1alpha1.DecidedGateClosed, func(c *Constraints) { c.GateClosed = true }, blocked},
	{v1alpha1.DecidedStormActive, func(c *Constraints) { c.Storm = true }, Permissions{CreateNext: true, EndStep: true, KeepLease: true, DeleteRecovered: true, CleanUp: true}},
	{v1alpha1.DecidedExcluded, func(c *Constraints) { c.Excluded = true }, blocked},
	{v1alpha1.DecidedMachineHealthCheck, func(c *Constraints) { c.MachineClaim = "why" }, Permissions{CreateNext: true, EndStep: true, KeepLease: true, DeleteRecovered: true, CleanUp: true}},
}

// blocked is what most columns say: what runs is finished, and nothing is begun or
// ended.
var blocked = Permissions{KeepLease: true, DeleteRecovered: true, CleanUp: true}

// combinations calls f with every combination of constraints, and what the spec
// says about it.
func combinations(f func(c Constraints, refusal v1alpha1.DecisionReason, want Permissions)) {
	for bits := range 1 << len(columns) {
		var constraints Constraints
		var refusal v1alpha1.DecisionReason
		want := Permissions{CreateFirst: true, CreateNext: true, EndStep: true, KeepLease: true, DeleteRecovered: true, CleanUp: true}
		for i, column := range columns {
			if bits&(1<<i) == 0 {
				continue
			}
			column.set(&constraints)
			if refusal == "" {
				refusal = column.refusal
			}
			want.CreateFirst = want.CreateFirst && column.allowed.CreateFirst
			want.CreateNext = want.CreateNext && column.allowed.CreateNext
			want.EndStep = want.EndStep && column.allowed.EndStep
			want.KeepLease = want.KeepLease && column.allowed.KeepLease
			want.DeleteRecovered = want.DeleteRecovered && column.allowed.DeleteRecovered
			want.CleanUp = want.CleanUp && column.allowed.CleanUp
		}
		// There is nothing to clean up after a node that is there.
		want.CleanUp = want.CleanUp && constraints.NodeDeleted
		f(constraints, refusal, want)
	}
}

// TestPermissions walks through all combinations: if several states apply, all
// must allow (spec 5.2), and the first refusal is the one reported (spec 5.4).
func TestPermissions(t *testing.T) {
	t.Parallel()
	combinations(func(c Constraints, refusal v1alpha1.DecisionReason, want Permissions) {
		require.Equal(t, want, c.Permissions(), "5.2 %+v", c)
		require.Equal(t, refusal, c.Refusal(true), "5.4 %+v", c)
		goesOn := c
		goesOn.Storm, goesOn.MachineClaim = false, ""
		require.Equal(t, goesOn.Refusal(true), c.Refusal(false), "9.6 M15.2: these do not refuse the next steps")
	})
}

// A circumstance that is added must be added to the table above.
func TestPermissionsTableIsComplete(t *testing.T) {
	t.Parallel()
	require.Equal(t, len(columns), reflect.TypeFor[Constraints]().NumField()-1+reflect.TypeFor[NodeConstraints]().NumField())
	require.Equal(t, 6, reflect.TypeFor[Permissions]().NumField())
	for _, column := range columns {
		var c Constraints
		column.set(&c)
		require.Equal(t, column.refusal, c.Refusal(true), "the column sets its own field and no other")
	}
}
