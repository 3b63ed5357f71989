// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

func describe(list []v1alpha1.Episode) []string {
	var lines []string
	for i := range list {
		line := fmt.Sprintf("%s %s", list[i].Node, list[i].Detected.UTC().Format("15:04"))
		if list[i].Finished != nil {
			line += " - " + list[i].Finished.UTC().Format("15:04")
		}
		lines = append(lines, line)
	}
	return lines
}

func TestList(t *testing.T) {
	t.Parallel()
	closed := func(node string, detected, finished float64) v1alpha1.Episode {
		return open(of(node), detectedAt(detected), startedAt(detected), endedAt(finished, v1alpha1.OutcomeRecovered))
	}
	unremediated := func(node string, detected, finished float64) v1alpha1.Episode {
		return open(of(node), detectedAt(detected), endedAt(finished, v1alpha1.OutcomeRecoveredWithoutRemediation))
	}
	tests := map[string]struct {
		open   []v1alpha1.Episode
		closed []v1alpha1.Episode
		limit  *int32
		want   []string
	}{
		"nothing": {},
		"newest first": {
			open:   []v1alpha1.Episode{open(of("a"), detectedAt(1)), open(of("b"), detectedAt(5))},
			closed: []v1alpha1.Episode{closed("c", 3, 7), closed("d", 6, 8)},
			want:   []string{"d 00:06 - 00:08", "b 00:05", "c 00:03 - 00:07", "a 00:01"},
		},
		"in the same second, by node": {
			open:   []v1alpha1.Episode{open(of("c")), open(of("a"))},
			closed: []v1alpha1.Episode{closed("d", 5, 9), closed("b", 5, 6)},
			want:   []string{"a 00:05", "b 00:05 - 00:06", "c 00:05", "d 00:05 - 00:09"},
		},
		"of one node in the same second, the later first": {
			open:   []v1alpha1.Episode{open(of("a"))},
			closed: []v1alpha1.Episode{closed("a", 5, 5), closed("a", 5, 6)},
			want:   []string{"a 00:05", "a 00:05 - 00:06", "a 00:05 - 00:05"},
		},
		"limit 0":          {open: []v1alpha1.Episode{open()}, closed: []v1alpha1.Episode{closed("b", 1, 2)}, limit: new(int32(0))},
		"limit below zero": {open: []v1alpha1.Episode{open()}, limit: new(int32(-1))},
		"healthy, and its CR is left": {
			open: []v1alpha1.Episode{open(of("a"), finishedAt(9))}, closed: []v1alpha1.Episode{closed("a", 5, 8)},
			want: []string{"a 00:05 - 00:09", "a 00:05 - 00:08"},
		},
		"23b.3 the one that finished longest ago is dropped": {
			closed: []v1alpha1.Episode{closed("b", 2, 9), closed("c", 3, 8), closed("d", 4, 7)},
			limit:  new(int32(2)),
			want:   []string{"c 00:03 - 00:08", "b 00:02 - 00:09"},
		},
		"finished in the same second, the one detected longest ago is dropped": {
			closed: []v1alpha1.Episode{closed("b", 2, 9), closed("c", 3, 9), closed("d", 1, 9)},
			limit:  new(int32(2)),
			want:   []string{"c 00:03 - 00:09", "b 00:02 - 00:09"},
		},
		"23b.3 open ones besides, as many again, newest": {
			open:   []v1alpha1.Episode{open(of("a"), detectedAt(1)), open(of("b"), detectedAt(3)), open(of("c"), detectedAt(2))},
			closed: []v1alpha1.Episode{closed("d", 8, 9), closed("e", 4, 5), closed("f", 0, 1)},
			limit:  new(int32(2)),
			want:   []string{"d 00:08 - 00:09", "e 00:04 - 00:05", "b 00:03", "c 00:02"},
		},
		"of open ones those with a CR first": {
			open:  []v1alpha1.Episode{open(of("a"), detectedAt(1), startedAt(2)), open(of("b"), detectedAt(3)), open(of("c"), detectedAt(2))},
			limit: new(int32(2)),
			want:  []string{"b 00:03", "a 00:01"},
		},
		"23b.3 without a CR only where room is left": {
			open:   []v1alpha1.Episode{open(of("a"), detectedAt(1))},
			closed: []v1alpha1.Episode{unremediated("b", 8, 9), closed("c", 2, 3), unremediated("d", 6, 7), unremediated("e", 4, 5)},
			limit:  new(int32(3)),
			want:   []string{"b 00:08 - 00:09", "d 00:06 - 00:07", "c 00:02 - 00:03", "a 00:01"},
		},
		"23b.3 no room without a CR": {
			closed: []v1alpha1.Episode{unremediated("b", 8, 9), closed("c", 2, 3), closed("d", 1, 2)},
			limit:  new(int32(2)),
			want:   []string{"c 00:02 - 00:03", "d 00:01 - 00:02"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for range 10 { // No order of a map may show.
				l := ledger(tc.open...)
				slices.Reverse(tc.closed)
				l.closed = latest(nil, tc.closed)
				require.Equal(t, tc.want, describe(l.List(tc.limit)))
			}
		})
	}
}

// crowd returns a ledger with a number of open episodes, and as many closed ones with a
// CR.
func crowd(n int, change func(*v1alpha1.Episode)) *Ledger {
	l := ledger()
	var ended []v1alpha1.Episode
	for i := range n {
		episode := open(of(fmt.Sprintf("node-%04d", i)), detectedAt(float64(i)))
		change(&episode)
		l.open[episode.Node] = &episode
		startedAt(float64(i))(&episode)
		endedAt(float64(i+1), v1alpha1.OutcomeRecovered)(&episode)
		ended = append(ended, episode)
	}
	l.closed = latest(nil, ended)
	return l
}

func TestListLimits(t *testing.T) {
	t.Parallel()
	l := crowd(300, func(*v1alpha1.Episode) {})
	require.Len(t, l.List(nil), 40)
	require.Len(t, l.List(new(int32(100))), 200)
	require.Len(t, l.List(new(int32(101))), 200, "the API accepts no more")
	require.Len(t, crowd(60, func(*v1alpha1.Episode) {}).List(new(int32(100))), 120)
	require.Len(t, l.closed, 100, "nor need more be kept")
	require.Nil(t, (*Ledger)(nil).List(nil))

	l.closed = latest(l.closed, []v1alpha1.Episode{open(detectedAt(900), endedAt(901, v1alpha1.OutcomeRecoveredWithoutRemediation))})
	require.NotContains(t, describe(l.closed), "node-1 15:00 - 15:01", "23b.3: it displaces none with a CR")
}

// TestListOfNodesThatFlap has more episodes than a small sort would keep in order.
func TestListOfNodesThatFlap(t *testing.T) {
	t.Parallel()
	l := ledger(open(of("a")), open(of("b")))
	want := map[string][]v1alpha1.Episode{"a": {open(of("a"))}, "b": {open(of("b"))}}
	for i := range 60 {
		node := []string{"a", "b"}[i*i%7%2]
		episode := open(of(node), startedAt(5), endedAt(float64(65-i), v1alpha1.OutcomeRecovered))
		want[node] = append(want[node], episode)
		l.closed = latest(l.closed, []v1alpha1.Episode{episode})
	}
	require.Equal(t, slices.Concat(want["a"], want["b"]), l.List(new(int32(100))), "of each, the later first")
}

func TestListSize(t *testing.T) {
	t.Parallel()
	steps := make([]v1alpha1.EpisodeStep, 32)
	for i := range steps {
		steps[i] = ended(v1alpha1.EpisodeStep{Kind: strings.Repeat("K", 63), TemplateName: strings.Repeat("t", 253), Started: stamp(1)}, 2, v1alpha1.StepNodeDeleted)
	}
	text := cut(strings.Repeat("\x01", 1000))
	escapes := slices.Repeat([]v1alpha1.EpisodeStep{{Kind: text, TemplateName: text, Started: stamp(1)}}, 32)
	longName := func(e *v1alpha1.Episode) {
		e.Node += strings.Repeat("n", 253-len(e.Node))
		startedAt(1)(e)
		fencedAt(1)(e)
	}
	tests := map[string]struct {
		change  func(*v1alpha1.Episode)
		atLeast int
	}{
		"longest names":              {change: longName, atLeast: 100},
		"longest names, three steps": {change: func(e *v1alpha1.Episode) { longName(e); took(steps[:3]...)(e) }, atLeast: 80},
		"all that the API accepts":   {change: func(e *v1alpha1.Episode) { longName(e); took(steps...)(e) }, atLeast: 10},
		"nothing but escapes": {change: func(e *v1alpha1.Episode) {
			longName(e)
			took(escapes...)(e)
			e.Trigger = triggerOf(&v1alpha1.Trigger{Reason: strings.Repeat("\x01", 1000)})
		}, atLeast: 1},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			list := crowd(5000, tc.change).List(new(int32(100)))
			encoded, err := json.Marshal(list)
			require.NoError(t, err)
			t.Logf("%d episodes take %d bytes", len(list), len(encoded))
			require.LessOrEqual(t, len(encoded), MaxSize)
			require.GreaterOrEqual(t, len(list), tc.atLeast)
			require.Equal(t, "node-4999", list[0].Node[:9], "it is the oldest that are dropped")
			closed := slices.IndexFunc(list, func(e v1alpha1.Episode) bool { return e.Outcome != "" })
			require.Equal(t, "node-4999", list[closed].Node[:9])
		})
	}
}

func TestListFillsItsSize(t *testing.T) {
	t.Parallel()
	list := crowd(5000, func(e *v1alpha1.Episode) { e.Trigger.Reason = strings.Repeat("r", 3000) }).List(new(int32(100)))
	encoded, err := json.Marshal(list)
	require.NoError(t, err)
	require.LessOrEqual(t, len(encoded), MaxSize)
	require.Greater(t, len(encoded), MaxSize-3200, "one more would have been too many")
}
