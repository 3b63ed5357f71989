// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// report is the condition Ready as a process sees it, a number of seconds after epoch.
type report struct {
	at     int
	status corev1.ConditionStatus
	// since and heartbeat are the times that the reporter gives, in seconds after epoch.
	since, heartbeat int
	// missed means that versions of the Node before this one may be unknown.
	missed bool
}

func seconds(n int) time.Time { return epoch.Add(time.Duration(n) * time.Second) }

func (r report) condition() corev1.NodeCondition {
	c := condition(corev1.NodeReady, r.status, seconds(r.since))
	c.LastHeartbeatTime = metav1.NewTime(seconds(r.heartbeat))
	return c
}

// TestSince: since when the last report holds, judged with the memory of the others (spec 7.2). Nodes
// are created at epoch, if the row says nothing else.
func TestSince(t *testing.T) {
	t.Parallel()
	const (
		yes, no, unknown = corev1.ConditionTrue, corev1.ConditionFalse, corev1.ConditionUnknown
		century          = -53 * 365 * 24 * 3600
	)
	tests := map[string]struct {
		created, machine int
		reports          []report
		want             int
		doubt            string
	}{
		"7.2 a transition that was seen":            {reports: []report{{at: 0, status: yes, heartbeat: 5}, {at: 61, status: unknown, since: 60, heartbeat: 5}}, want: 60},
		"7.2 one that was there before the process": {reports: []report{{at: 100, status: unknown, since: 60}}, want: 60},

		"7.2 a Node is restored with its old status (FR-314)":        {created: 90, reports: []report{{at: 100, status: unknown, since: 10}}, want: 90, doubt: doubtNode},
		"7.2 a Node is created with an old condition (O35)":          {created: 90, reports: []report{{at: 91, status: unknown, since: -40}}, want: 90, doubt: doubtNode},
		"7.2 a kubelet registers its Node":                           {created: 90, reports: []report{{at: 91, status: no, since: 89}}, want: 90},
		"M6.2 a new Machine takes over a Node (FR-313 B)":            {machine: 90, reports: []report{{at: 100, status: unknown, since: 10}}, want: 90, doubt: doubtMachine},
		"M6.2 an old Machine gets another Node":                      {created: 90, machine: 10, reports: []report{{at: 100, status: unknown, since: 20}}, want: 90, doubt: doubtNode},
		"7.2 our own clock is behind that of the API server":         {created: 90, reports: []report{{at: 80, status: unknown, since: 10}}, want: 80, doubt: doubtNode},
		"7.2 a clock is ahead (FR-316)":                              {reports: []report{{at: 0, status: yes}, {at: 10, status: no, since: 3610}, {at: 40, status: no, since: 3610, heartbeat: 3640}}, want: 10, doubt: "its reporter's clock is 3600s ahead"},
		"7.2 a clock is ahead of a new process":                      {reports: []report{{at: 30, status: no, since: 3610}}, want: 30, doubt: "its reporter's clock is 3580s ahead"},
		"7.2 a clock is ahead by little":                             {reports: []report{{at: 10, status: no, since: 12}}, want: 10},
		"7.2 a clock that was ahead is right again":                  {reports: []report{{at: 0, status: no, since: 3600}, {at: 20, status: unknown, since: 20}}, want: 20},
		"7.2 a board without a clock boots (FR-315)":                 {reports: []report{{at: 10, status: unknown, since: 10}, {at: 13, status: no, since: -1187}}, created: -5000, want: 13, doubt: doubtBack},
		"7.2 a board boots in 1973 (O32)":                            {reports: []report{{at: 10, status: unknown, since: 10}, {at: 13, status: no, since: century}}, created: -5000, want: 13, doubt: doubtBack},
		"7.2 a board boots before its last heartbeat":                {reports: []report{{at: 10, status: yes, since: -4000, heartbeat: 9}, {at: 13, status: no, since: -1187}}, created: -5000, want: 13, doubt: doubtBack},
		"7.2 a board without a clock becomes Ready and fails again":  {reports: []report{{at: 10, status: yes, since: 10}, {at: 13, status: no, since: century}, {at: 40, status: yes, since: century + 27}, {at: 90, status: no, since: century + 77}}, created: -5000, want: 90, doubt: doubtBack},
		"7.2 a clock has gone back while the Nodes were listed anew": {reports: []report{{at: 10, status: no, since: 10}, {at: 50, status: no, since: -100, missed: true}}, created: -5000, want: 50, doubt: doubtBack},
		"7.2 the time moves with each heartbeat (FR-317)":            {reports: []report{{at: 0, status: yes}, {at: 10, status: no, since: 10}, {at: 13, status: no, since: 13}, {at: 40, status: no, since: 40}}, want: 10, doubt: doubtMoves},
		"7.2 the time moves and is ahead":                            {reports: []report{{at: 10, status: no, since: 3610}, {at: 40, status: no, since: 3640}}, want: 10, doubt: "its reporter's clock is 3600s ahead"},
		"7.2 the time moves back":                                    {reports: []report{{at: 10, status: no, since: 10}, {at: 40, status: no, since: -500}}, created: -5000, want: 10, doubt: doubtMoves},
		"P11 the time has moved, and a change may have been missed":  {reports: []report{{at: 10, status: no, since: 10}, {at: 40, status: no, since: 35, missed: true}}, want: 35},
		"P11 the status was another one in between":                  {reports: []report{{at: 10, status: no, since: 10}, {at: 12, status: yes, since: 12}, {at: 15, status: no, since: 14}}, want: 14},
		"7.2 the first time that a reporter gives":                   {reports: []report{{at: 10, status: no, since: -1 << 40}, {at: 40, status: no, since: 30}}, want: 30},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var seen *Sighting
			var last corev1.NodeCondition
			var now time.Time
			for _, r := range tc.reports {
				last, now = r.condition(), seconds(r.at)
				if r.since == -1<<40 {
					last.LastTransitionTime = metav1.Time{}
				}
				seen = new(seen.Next(&last, !r.missed, now))
			}
			evidence := Evidence{Conditions: []corev1.NodeCondition{last}, Created: seconds(tc.created), Seen: []Sighting{*seen}}
			if tc.machine != 0 {
				evidence.MachineCreated = seconds(tc.machine)
			}
			since, doubt := evidence.Since(&last, now)
			require.Equal(t, seconds(tc.want), since)
			require.Equal(t, tc.doubt, doubt)
			if tc.created <= tc.reports[len(tc.reports)-1].at {
				later, again := evidence.Since(&last, now.Add(time.Minute))
				require.Equal(t, since, later, "time alone does not move it")
				require.Equal(t, doubt, again)
			}
			verdict := Judge([]v1alpha1.UnhealthyCondition{rule(last.Type, last.Status, time.Minute)}, evidence, now)
			require.Equal(t, since, verdict.Since)
			require.Equal(t, doubt, verdict.Doubt)
			require.Equal(t, since.Add(time.Minute), verdict.Deadline)
		})
	}
}

// TestSinceOfWhatWasNotRecorded: a version that the process has read, and its memory has not got yet,
// may have others before it (spec 7.2).
func TestSinceOfWhatWasNotRecorded(t *testing.T) {
	t.Parallel()
	former := condition(corev1.NodeReady, corev1.ConditionUnknown, seconds(10))
	evidence := Evidence{Seen: []Sighting{(*Sighting)(nil).Next(&former, true, seconds(10))}}
	for name, tc := range map[string]struct {
		read corev1.NodeCondition
		want time.Time
	}{
		"the status has changed":       {read: condition(corev1.NodeReady, corev1.ConditionFalse, seconds(30)), want: seconds(30)},
		"the time has moved":           {read: condition(corev1.NodeReady, corev1.ConditionUnknown, seconds(30)), want: seconds(30)},
		"the clock has gone back":      {read: condition(corev1.NodeReady, corev1.ConditionFalse, seconds(-30)), want: seconds(40)},
		"a condition that is new":      {read: condition("Disk", corev1.ConditionTrue, seconds(-30)), want: seconds(-30)},
		"a condition that is new soon": {read: condition("Disk", corev1.ConditionTrue, seconds(50)), want: seconds(40)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			since, _ := evidence.Since(&tc.read, seconds(40))
			require.Equal(t, tc.want, since)
		})
	}
}
