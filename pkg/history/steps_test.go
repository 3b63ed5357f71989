// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

func TestSteps(t *testing.T) {
	t.Parallel()
	running := step("Reboot", 6)
	over := ended(running, 7, v1alpha1.StepTimedOut)
	tests := map[string]struct {
		before []v1alpha1.EpisodeStep
		saw    Observation
		after  []v1alpha1.EpisodeStep
		left   int
	}{
		"none":            {saw: unhealthy()},
		"the first":       {saw: unhealthy(with(reboot(6))), after: []v1alpha1.EpisodeStep{running}, left: 1},
		"nothing new":     {before: []v1alpha1.EpisodeStep{running}, saw: unhealthy(with(reboot(6))), after: []v1alpha1.EpisodeStep{running}, left: 1},
		"timed out":       {before: []v1alpha1.EpisodeStep{running}, saw: unhealthy(with(timedOut(7, reboot(6)))), after: []v1alpha1.EpisodeStep{over}, left: 1},
		"failed":          {before: []v1alpha1.EpisodeStep{running}, saw: unhealthy(with(timedOut(7, reboot(6))), failed("Reboot")), after: []v1alpha1.EpisodeStep{ended(running, 7, v1alpha1.StepFailed)}, left: 1},
		"another failed":  {before: []v1alpha1.EpisodeStep{running}, saw: unhealthy(with(timedOut(7, reboot(6))), failed("Fence")), after: []v1alpha1.EpisodeStep{over}, left: 1},
		"fails later":     {before: []v1alpha1.EpisodeStep{over}, saw: unhealthy(with(timedOut(7, reboot(6))), failed("Reboot")), after: []v1alpha1.EpisodeStep{over}, left: 1},
		"fails, not over": {before: []v1alpha1.EpisodeStep{running}, saw: unhealthy(with(reboot(6)), failed("Reboot")), after: []v1alpha1.EpisodeStep{running}, left: 1},
		"over at once":    {saw: unhealthy(with(timedOut(7, reboot(6)))), after: []v1alpha1.EpisodeStep{over}, left: 1},
		"over before it began": {
			before: []v1alpha1.EpisodeStep{running}, saw: unhealthy(with(timedOut(1, reboot(6)))),
			after: []v1alpha1.EpisodeStep{ended(running, 6, v1alpha1.StepTimedOut)}, left: 1,
		},
		"the next one": {
			before: []v1alpha1.EpisodeStep{running}, saw: unhealthy(with(timedOut(7, reboot(6)), fencing(7))),
			after: []v1alpha1.EpisodeStep{over, step("Fence", 7)}, left: 2,
		},
		"recovered": {before: []v1alpha1.EpisodeStep{running}, saw: healthy(), after: []v1alpha1.EpisodeStep{ended(running, 9, v1alpha1.StepRecovered)}},
		"recovered, one left": {
			before: []v1alpha1.EpisodeStep{over, step("Fence", 7)}, saw: healthy(with(timedOut(7, reboot(6)))),
			after: []v1alpha1.EpisodeStep{over, ended(step("Fence", 7), 9, v1alpha1.StepRecovered)}, left: 1,
		},
		"gone after it timed out": {before: []v1alpha1.EpisodeStep{over}, saw: healthy(), after: []v1alpha1.EpisodeStep{over}},
		"the Node is gone":        {before: []v1alpha1.EpisodeStep{running}, saw: unhealthy(gone), after: []v1alpha1.EpisodeStep{ended(running, 9, v1alpha1.StepNodeDeleted)}},
		"another Node is there":   {before: []v1alpha1.EpisodeStep{running}, saw: healthy(created(8)), after: []v1alpha1.EpisodeStep{ended(running, 9, v1alpha1.StepNodeDeleted)}},
		"23b.4 the controller deleted it, and the node is unhealthy again": {
			before: []v1alpha1.EpisodeStep{running}, saw: unhealthy(went(reboot(6), requested)),
			after: []v1alpha1.EpisodeStep{ended(running, 9, v1alpha1.StepRecovered)},
		},
		"23b.4 the controller deleted it, and the Node is gone": {
			before: []v1alpha1.EpisodeStep{running}, saw: unhealthy(gone, went(reboot(6), requested)),
			after: []v1alpha1.EpisodeStep{ended(running, 9, v1alpha1.StepNodeDeleted)},
		},
		"23b.4 the controller deleted another one": {
			before: []v1alpha1.EpisodeStep{running, step("Fence", 7)}, saw: unhealthy(went(reboot(6)), went(fencing(7), requested)),
			after: []v1alpha1.EpisodeStep{ended(running, 9, v1alpha1.StepVanished), ended(step("Fence", 7), 9, v1alpha1.StepRecovered)},
		},
		"what went and was never seen is no step": {saw: unhealthy(went(reboot(6)))},
		"one went, its successor of the same second is there": {
			before: []v1alpha1.EpisodeStep{running}, saw: unhealthy(went(reboot(6), requested), with(reboot(6))),
			after: []v1alpha1.EpisodeStep{running}, left: 1,
		},
		"vanished":       {before: []v1alpha1.EpisodeStep{running}, saw: unhealthy(), after: []v1alpha1.EpisodeStep{ended(running, 9, v1alpha1.StepVanished)}},
		"vanished, soon": {before: []v1alpha1.EpisodeStep{running}, saw: unhealthy(soon), after: []v1alpha1.EpisodeStep{ended(running, 9, v1alpha1.StepVanished)}},
		"vanished and replaced": {
			before: []v1alpha1.EpisodeStep{running}, saw: unhealthy(with(reboot(9))),
			after: []v1alpha1.EpisodeStep{ended(running, 9, v1alpha1.StepVanished), step("Reboot", 9)}, left: 1,
		},
		"vanished before, created in the same second": {
			before: []v1alpha1.EpisodeStep{ended(running, 6, v1alpha1.StepVanished)}, saw: unhealthy(with(reboot(6))),
			after: []v1alpha1.EpisodeStep{ended(running, 6, v1alpha1.StepVanished), running}, left: 1,
		},
		"of another template": {
			before: []v1alpha1.EpisodeStep{running}, saw: unhealthy(with(func() v1alpha1.Remediation { cr := reboot(6); cr.TemplateName = "other"; return cr }())),
			after: []v1alpha1.EpisodeStep{ended(running, 9, v1alpha1.StepVanished), {Kind: "Reboot", TemplateName: "other", Started: stamp(6)}}, left: 1,
		},
		"two alike":         {saw: unhealthy(with(reboot(6), reboot(6))), after: []v1alpha1.EpisodeStep{running, running}, left: 2},
		"one of two alike":  {before: []v1alpha1.EpisodeStep{running, running}, saw: healthy(with(reboot(6))), after: []v1alpha1.EpisodeStep{running, ended(running, 9, v1alpha1.StepRecovered)}, left: 1},
		"in order of start": {saw: unhealthy(with(fencing(8), reboot(6))), after: []v1alpha1.EpisodeStep{running, step("Fence", 8)}, left: 2},
		"the CR of another of that name": {
			before: []v1alpha1.EpisodeStep{running}, saw: unhealthy(created(4), with(fencing(3), reboot(6))),
			after: []v1alpha1.EpisodeStep{running}, left: 1,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first := advanceSteps(tc.before, &tc.saw, at(9))
			require.Equal(t, tc.after, first.steps)
			require.Equal(t, tc.left, first.left)
			again := advanceSteps(first.steps, &tc.saw, at(10))
			require.Equal(t, first.steps, again.steps, "seen again, it is no news")
			require.Equal(t, tc.left, again.left)
		})
	}
}

func TestStepTextIsCut(t *testing.T) {
	t.Parallel()
	saw := unhealthy(with(v1alpha1.Remediation{Started: stamp(6), TemplateName: strings.Repeat("t", 1000)}))
	saw.CRs[0].Resource.Kind = strings.Repeat("k", 1000)
	first := advanceSteps(nil, &saw, at(9))
	require.Equal(t, []v1alpha1.EpisodeStep{{Kind: strings.Repeat("k", 316), TemplateName: strings.Repeat("t", 316), Started: stamp(6)}}, first.steps)
	require.Equal(t, 1, first.left)
	require.Equal(t, first.steps, advanceSteps(first.steps, &saw, at(10)).steps, "a CR is known by what is left of its names")
}

func TestMaxSteps(t *testing.T) {
	t.Parallel()
	many := func(n int, over ...int) (crs []v1alpha1.Remediation) {
		for i := range n {
			cr := cr(fmt.Sprintf("Kind%d", i), float64(i))
			cr.Resource.UID = types.UID(cr.Resource.Kind)
			crs = append(crs, cr)
		}
		for _, i := range over {
			crs[i] = timedOut(float64(i)+0.5, crs[i])
		}
		return crs
	}
	kinds := func(steps []v1alpha1.EpisodeStep) (kinds []string) {
		for i := range steps {
			kinds = append(kinds, steps[i].Kind)
		}
		return kinds
	}
	tests := map[string]struct {
		crs     []v1alpha1.Remediation
		dropped []string
	}{
		"as many as fit":             {crs: many(32, 0, 1, 2)},
		"the oldest that ended":      {crs: many(34, 3, 9, 20), dropped: []string{"Kind3", "Kind9"}},
		"none has ended: the oldest": {crs: many(34), dropped: []string{"Kind0", "Kind1"}},
		"those that ended first":     {crs: many(34, 7), dropped: []string{"Kind0", "Kind7"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			saw := unhealthy(with(tc.crs...))
			first := advanceSteps(nil, &saw, at(100))
			require.Equal(t, len(tc.crs), first.left, "what is not listed still counts")
			require.Len(t, first.steps, 32)
			for _, kind := range tc.dropped {
				require.NotContains(t, kinds(first.steps), kind)
			}
			again := advanceSteps(first.steps, &saw, at(101))
			require.Equal(t, first.steps, again.steps, "what was dropped is dropped again")
			require.Equal(t, len(tc.crs), again.left)
		})
	}
}

// TestStepsOfOneSecond has more of them than a small sort would keep in order.
func TestStepsOfOneSecond(t *testing.T) {
	t.Parallel()
	var crs []v1alpha1.Remediation
	var first, second []v1alpha1.EpisodeStep
	for i := range 30 {
		kind := fmt.Sprintf("Kind%d", i)
		if i*i%7 < 3 {
			crs, first = append(crs, cr(kind, 6)), append(first, step(kind, 6))
		} else {
			crs, second = append(crs, cr(kind, 7)), append(second, step(kind, 7))
		}
	}
	saw := unhealthy(with(crs...))
	require.Equal(t, slices.Concat(first, second), advanceSteps(nil, &saw, at(9)).steps)
}
