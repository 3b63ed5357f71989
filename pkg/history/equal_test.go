// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"reflect"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// TestEqual: an episode that differs in any field is another one, or the change is lost.
func TestEqual(t *testing.T) {
	t.Parallel()
	episode := func() *v1alpha1.Episode {
		e := open(startedAt(6), fencedAt(7), finishedAt(8), releasedAt(9), took(ended(step("Reboot", 6), 7, v1alpha1.StepTimedOut)))
		e.Outcome = v1alpha1.OutcomeRecovered
		return &e
	}
	require.True(t, same(episode(), episode()), "the values count, not the pointers")
	fields := func(of any) int { return reflect.TypeOf(of).NumField() }
	for i := range fields(v1alpha1.Episode{}) {
		changed := episode()
		field := reflect.ValueOf(changed).Elem().Field(i)
		require.False(t, field.IsZero(), "all fields are set")
		field.SetZero()
		require.False(t, same(episode(), changed), "%+v", changed)
	}
	for i := range fields(v1alpha1.EpisodeStep{}) {
		changed := episode()
		field := reflect.ValueOf(&changed.Steps[0]).Elem().Field(i)
		require.False(t, field.IsZero(), "all fields are set")
		field.SetZero()
		require.False(t, same(episode(), changed), "%+v", changed)
	}
	other := episode()
	other.Trigger.Reason, other.Trigger.Status = "", ""
	require.False(t, same(episode(), other))
}

// TestUpdateShares: a round in which nothing changes for a node copies nothing.
func TestUpdateShares(t *testing.T) {
	t.Parallel()
	seen := []Observation{unhealthy(named("a")), unhealthy(named("b"), with(timedOut(7, reboot(6)))), healthy(named("c"), with(reboot(6)))}
	before, _ := ledger(open(of("c"))).Update(slices.Values(seen), at(8))
	unchanged, _ := before.Update(slices.Values(seen), at(9))
	seen[0].CRs = []CR{{Remediation: cr("Reboot", 9)}}
	after, _ := unchanged.Update(slices.Values(seen), at(10))
	for _, node := range []string{"a", "b", "c"} {
		require.Same(t, before.Episode(node), unchanged.Episode(node))
	}
	require.NotSame(t, unchanged.Episode("a"), after.Episode("a"))
	require.Nil(t, before.Episode("a").Started, "what a ledger says stays as it is")
	require.Equal(t, new(metav1.NewTime(at(9))), after.Episode("a").Started)
	require.Same(t, unchanged.Episode("b"), after.Episode("b"))
}
