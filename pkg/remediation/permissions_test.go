// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
)

// columns are those of the table in spec 5.2, with 4.7 and 4.8, in the order of spec 5.4, 10.5 and 18.5. What a column does not name is not allowed.
var columns = []struct {
	refusal Refusal
	set     func(*Circumstances)
	allowed Permissions
}{
	{RefusedNodeDeleted, func(c *Circumstances) { c.NodeDeleted = true }, Permissions{KeepLease: true, CleanUp: true}},
	{RefusedUnselected, func(c *Circumstances) { c.Unselected = true }, blocked},
	{RefusedDisabled, func(c *Circumstances) { c.TemplatesUnusable = true }, blocked},
	{RefusedDisabled, func(c *Circumstances) { c.Conflict = true }, Permissions{}},
	{RefusedInvalidSpec, func(c *Circumstances) { c.InvalidSpec = true }, blocked},
	{RefusedTerminating, func(c *Circumstances) { c.Terminating = true }, blocked},
	{RefusedClockUntrusted, func(c *Circumstances) { c.ClockUntrusted = true }, blocked},
	{RefusedUpgrading, func(c *Circumstances) { c.Upgrading = true }, blocked},
	{RefusedPaused, func(c *Circumstances) { c.Paused = true }, blocked},
	{RefusedGateClosed, func(c *Circumstances) { c.GateClosed = true }, blocked},
	{RefusedStormActive, func(c *Circumstances) { c.Storm = true }, Permissions{CreateNext: true, EndStep: true, KeepLease: true, DeleteRecovered: true, CleanUp: true}},
	{RefusedExcluded, func(c *Circumstances) { c.Excluded = true }, blocked},
}

// blocked is what most columns say: what runs is finished, and nothing is begun or
// ended.
var blocked = Permissions{KeepLease: true, DeleteRecovered: true, CleanUp: true}

// combinations calls f with every combination of circumstances, and what the spec
// says about it.
func combinations(f func(c Circumstances, refusal Refusal, want Permissions)) {
	for bits := range 1 << len(columns) {
		var circumstances Circumstances
		var refusal Refusal
		want := Permissions{CreateFirst: true, CreateNext: true, EndStep: true, KeepLease: true, DeleteRecovered: true, CleanUp: true}
		for i, column := range columns {
			if bits&(1<<i) == 0 {
				continue
			}
			column.set(&circumstances)
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
		want.CleanUp = want.CleanUp && circumstances.NodeDeleted
		f(circumstances, refusal, want)
	}
}

// TestPermissions walks through all combinations: if several states apply, all
// must allow (spec 5.2), and the first refusal is the one reported (spec 5.4).
func TestPermissions(t *testing.T) {
	t.Parallel()
	combinations(func(c Circumstances, refusal Refusal, want Permissions) {
		require.Equal(t, want, c.Permissions(), "5.2 %+v", c)
		require.Equal(t, refusal, c.Refusal(true), "5.4 %+v", c)
		goesOn := c
		goesOn.Storm = false
		require.Equal(t, goesOn.Refusal(true), c.Refusal(false), "9.6: a storm does not refuse the next steps")
	})
}

// A circumstance that is added must be added to the table above.
func TestPermissionsTableIsComplete(t *testing.T) {
	t.Parallel()
	require.Equal(t, len(columns), reflect.TypeFor[Circumstances]().NumField())
	require.Equal(t, 6, reflect.TypeFor[Permissions]().NumField())
	for _, column := range columns {
		var c Circumstances
		column.set(&c)
		require.Equal(t, column.refusal, c.Refusal(true), "the column sets its own field and no other")
	}
}
