// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// leaseOf returns a lease of a minute's step of node "n", with changes.
func leaseOf(holder string, acquired float64, change ...func(*coordinationv1.Lease)) *coordinationv1.Lease {
	lease := newLease("n", holder, at(acquired), 2*time.Minute)
	lease.Spec.LeaseTransitions = new(int32(0))
	ownedBy("uid of n")(lease)
	for _, c := range change {
		c(lease)
	}
	return lease
}

func ownedBy(uid types.UID) func(*coordinationv1.Lease) {
	return func(lease *coordinationv1.Lease) {
		lease.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "n", UID: uid}}
	}
}

func renewed(second float64) func(*coordinationv1.Lease) {
	return func(lease *coordinationv1.Lease) { lease.Spec.RenewTime = new(metav1.NewMicroTime(at(second))) }
}

func lasting(d time.Duration) func(*coordinationv1.Lease) {
	return func(lease *coordinationv1.Lease) { lease.Spec.LeaseDurationSeconds = new(int32(d.Seconds())) }
}

func transitions(n int32) func(*coordinationv1.Lease) {
	return func(lease *coordinationv1.Lease) { lease.Spec.LeaseTransitions = &n }
}

func incomplete(lease *coordinationv1.Lease) { lease.Spec.LeaseDurationSeconds = nil }

// TestLeaseWrites judges writes of a NodeHealthCheck whose steps take a minute.
func TestLeaseWrites(t *testing.T) {
	t.Parallel()
	const ours, other = "NodeHealthCheck-nhc", "other"
	for name, tc := range map[string]struct {
		before, after *coordinationv1.Lease
		want          []string
	}{
		"14.1 new":                                        {nil, leaseOf(ours, 100), nil},
		"14.1 renewed later":                              {nil, leaseOf(ours, 100, renewed(101)), []string{"14.1"}},
		"14.1 too short":                                  {nil, leaseOf(ours, 100, lasting(time.Minute)), []string{"14.1"}},
		"14.1 of another Node":                            {nil, leaseOf(ours, 100, ownedBy("x")), []string{"14.1"}},
		"14.1 with transitions":                           {nil, leaseOf(ours, 100, transitions(1)), []string{"14.1"}},
		"14.2 again in the same second, too long":         {leaseOf(ours, 100), leaseOf(ours, 100, lasting(time.Hour)), []string{"14.2"}},
		"14.2 again in the same second, for another one":  {leaseOf(ours, 100), leaseOf(ours, 100, ownedBy("x")), []string{"14.2"}},
		"14.5 written again in the same second":           {leaseOf(ours, 100), leaseOf(ours, 100), []string{"14.5"}},
		"14.2 again, too long":                            {leaseOf(ours, 10), leaseOf(ours, 100, lasting(time.Hour)), []string{"14.2"}},
		"14.4 without a transition":                       {leaseOf(other, 10), leaseOf(ours, 100), []string{"14.4"}},
		"14.5 before its time":                            {leaseOf(ours, 10), leaseOf(ours, 10, renewed(50)), []string{"14.5"}},
		"14.5 to an earlier end":                          {leaseOf(ours, 10, lasting(time.Hour)), leaseOf(ours, 10, renewed(71)), []string{"14.5"}},
		"14.5 with a transition":                          {leaseOf(ours, 10), leaseOf(ours, 10, renewed(71), transitions(1)), []string{"14.5"}},
		"14.5 for another time":                           {leaseOf(ours, 10), leaseOf(ours, 10, renewed(71), lasting(time.Hour)), []string{"14.5"}},
		"14.5 without a duration":                         {leaseOf(ours, 10), leaseOf(ours, 10, incomplete), []string{"14.5"}},
		"14.5 completed, then renewed in the same minute": {leaseOf(ours, 100, renewed(98)), leaseOf(ours, 100, renewed(101)), []string{"14.5"}},
		"14.5 it stays incomplete":                        {leaseOf(ours, 10, incomplete), leaseOf(ours, 100, incomplete), []string{"14.5"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newFixture()
			s.node(past, failedNode("n"))
			s.nhc(past, healthCheck(escalating))
			s.judgeLeaseWrite(Change{ResourceVersion: s.next(), Time: at(100)}, tc.before, tc.after, request(100))
			require.Equal(t, tc.want, brokenRules(s.violations), "%v", s.violations)
		})
	}
}

// healthy has a node that is healthy, and no CR.
func healthy(s *fixture) { s.node(past, healthyNode("n")) }

// remediated has a node that is not healthy, with this CR.
func remediated(cr *CR) func(s *fixture) {
	return func(s *fixture) {
		s.node(past, failedNode("n"))
		s.cr(past, cr)
	}
}

// TestLeaseRelease deletes the lease of node "n" at second 100.
func TestLeaseRelease(t *testing.T) {
	t.Parallel()
	cr := newCR("n", "Reboot", "one")
	for name, tc := range map[string]struct {
		setup func(s *fixture)
		lease *coordinationv1.Lease
		want  []string
	}{
		"14.9 no CR":                     {healthy, leaseOf("NodeHealthCheck-nhc", 10), nil},
		"14.9 a CR":                      {remediated(cr), leaseOf("NodeHealthCheck-nhc", 10), []string{"14.9"}},
		"14.9 a CR of a former template": {func(s *fixture) { remediated(newCR("n", "Other", "x"))(s); s.nhc(past, healthCheck()) }, leaseOf("NodeHealthCheck-nhc", 10), []string{"14.9"}},
		"14.9 another holder":            {healthy, leaseOf("other", 10), []string{"14.9"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newFixture()
			tc.setup(s)
			s.judgeLeaseRelease(Change{ResourceVersion: s.next(), Time: at(100)}, tc.lease, request(100))
			require.Equal(t, tc.want, brokenRules(s.violations), "%v", s.violations)
		})
	}
}

// TestLastsForStep begins a step of an hour at second 100.
func TestLastsForStep(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		lease  *coordinationv1.Lease
		broken bool
	}{
		"14.6 too short": {leaseOf("NodeHealthCheck-nhc", 90), true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newFixture()
			s.lease(past, tc.lease)
			w := window{nhc: "nhc", node: "n", known: at(90), rv: s.rv, at: at(100)}
			require.Equal(t, tc.broken, s.lastsForStep(w, step{timeout: time.Hour}).text != "")
		})
	}
}
