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
		"vanished":                {before: []v1alpha1.EpisodeStep{running}, saw: unhealthy(), after: []v1alpha1.EpisodeStep{ended(running, 9, v1alpha1.StepVanished)}},
		"vanished, soon":          {before: []v1alpha1.EpisodeStep{running}, saw: unhealthy(soon), after: []v1alpha1.EpisodeStep{ended(running, 9, v1alpha1.StepVanished)}},
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
		"the CR of a namesake": {
			before: []v1alpha1.EpisodeStep{running}, saw: unhealthy(created(4), with(fencing(3), reboot(6))),
			after: []v1alpha1.EpisodeStep{running}, left: 1,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			after, left := advanceSteps(tc.before, &tc.saw, at(9))
			require.Equal(t, tc.after, after)
			require.Equal(t, tc.left, left)
			again, left := advanceSteps(after, &tc.saw, at(10))
			require.Equal(t, after, again, "seen again, it is no news")
			require.Equal(t, tc.left, left)
		})
	}
}

func TestStepTextIsCut(t *testing.T) {
	t.Parallel()
	saw := unhealthy(with(v1alpha1.Remediation{Started: stamp(6), TemplateName: strings.Repeat("t", 1000)}))
	saw.Remediations[0].Resource.Kind = strings.Repeat("k", 1000)
	steps, left := advanceSteps(nil, &saw, at(9))
	require.Equal(t, []v1alpha1.EpisodeStep{{Kind: strings.Repeat("k", 316), TemplateName: strings.Repeat("t", 316), Started: stamp(6)}}, steps)
	require.Equal(t, 1, left)
	again, _ := advanceSteps(steps, &saw, at(10))
	require.Equal(t, steps, again, "a CR is known by what is left of its names")
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
			steps, left := advanceSteps(nil, &saw, at(100))
			require.Equal(t, len(tc.crs), left, "what is not listed still counts")
			require.Len(t, steps, 32)
			for _, kind := range tc.dropped {
				require.NotContains(t, kinds(steps), kind)
			}
			again, left := advanceSteps(steps, &saw, at(101))
			require.Equal(t, steps, again, "what was dropped is dropped again")
			require.Equal(t, len(tc.crs), left)
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
	steps, _ := advanceSteps(nil, &saw, at(9))
	require.Equal(t, slices.Concat(first, second), steps)
}
