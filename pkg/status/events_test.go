// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
)

func refusal(node *remediation.Node, why v1alpha1.DecisionReason) Event {
	cr := &unstructured.Unstructured{Object: map[string]any{"kind": "Reboot", "metadata": map[string]any{"name": node.Name}}}
	e, tells := skippedForNode(&remediation.NodePlan{Node: node, Refused: why != "", Reason: why, WouldCreate: cr})
	if !tells {
		return Event{}
	}
	return e
}

// TestEvents is the table of spec 19.1.
func TestEvents(t *testing.T) {
	t.Parallel()
	n := testNode("n")
	named := func(name string) *object.CR {
		cr := testCR("n", "1")
		cr.Name = name
		return cr
	}
	tests := map[string]struct {
		event Event
		line  string
		both  bool
	}{
		"19.1 Enabled":            {event: enabled(), line: "Normal Enabled: No issues found, NodeHealthCheck is enabled."},
		"19.1 Disabled":           {event: disabled("RemediationTemplateInvalid", "it is broken"), line: "Warning Disabled: Disabling NHC. Reason: RemediationTemplateInvalid, Message: it is broken"},
		"19.1 Disabled, conflict": {event: disabled("ConflictingMachineHealthCheckDetected", remediation.Conflict().Message), line: "Warning Disabled: Custom MachineHealthCheck(s) detected, disabling NodeHealthCheck to avoid conflicts"},
		"19.1 DetectedUnhealthy": {
			event: detectedUnhealthy(n), both: true,
			line: `Normal DetectedUnhealthy: Node matches unhealthy condition. Node "n", condition type "Ready", condition status "Unknown"`,
		},
		"19.1 RemediationCreated": {event: remediationCreated(n, "RebootRemediation"), both: true, line: "Normal RemediationCreated: Created remediation object for node n"},
		"19.1 RemediationRemoved": {event: remediationRemoved(n, testCR("n", "1")), both: true, line: "Normal RemediationRemoved: Deleted remediation CR of kind RebootRemediation with name n"},
		"19.1 RemediationRemoved, of another template": {
			event: remediationRemoved(n, named("n-1a2b3c4d")), both: true,
			line: "Normal RemediationRemoved: Deleted remediation CR of kind RebootRemediation with name n-1a2b3c4d",
		},
		"FR-312 an unhealthy node loses its label": {
			event: notSelectedAnyMore(n), both: true,
			line: "Warning RemediationSkipped: Node n is not healthy, and the selector does not select it any more: nothing is done about it",
		},
		"8.6 gate": {
			event: skippedForGate(health.Gate{Healthy: 4, Required: 6}),
			line:  "Warning RemediationSkipped: Skipped remediation because the number of healthy nodes selected by the selector is 4 and should equal or exceed 6",
		},
		"8.6 gate, other numbers": {
			event: skippedForGate(health.Gate{Healthy: 5, Required: 6}),
			line:  "Warning RemediationSkipped: Skipped remediation because the number of healthy nodes selected by the selector is 5 and should equal or exceed 6",
		},
		"8.6 gate, another spec": {
			event: skippedForGate(health.Gate{Healthy: 4, Required: 7}),
			line:  "Warning RemediationSkipped: Skipped remediation because the number of healthy nodes selected by the selector is 4 and should equal or exceed 7",
		},
		"4.7 stored spec": {event: skippedForSpec("Selector is mandatory"), line: "Warning RemediationSkipped: Selector is mandatory"},
		"12.4 control plane": {
			event: refusal(n, v1alpha1.DecidedControlPlaneBusy), both: true,
			line: "Warning RemediationSkipped: Skipping remediation of n for preventing control plane / etcd quorum loss, going to retry in a minute",
		},
		"12.4 etcd": {
			event: refusal(n, v1alpha1.DecidedEtcdQuorum), both: true,
			line: "Warning RemediationSkipped: Skipping remediation of n for preventing control plane / etcd quorum loss, going to retry in a minute",
		},
		"14.3 lease":     {event: refusal(n, v1alpha1.DecidedLeaseTaken), both: true, line: "Warning RemediationSkipped: Skipped remediation of node: n, because node lease is already taken"},
		"5.6 dry run":    {event: refusal(n, v1alpha1.DecidedDryRun), both: true, line: "Normal RemediationSkipped: Dry run: would create Reboot n for node n"},
		"15.1 exclusion": {event: refusal(n, v1alpha1.DecidedExcluded), both: true, line: "Warning RemediationSkipped: Remediation skipped on node n: node has Exclude from Remediation label"},
		"10.4 pause":     {event: skippedForPause(), line: "Normal RemediationSkipped: Postponing potential remediations because of pause requests"},
		"10.4 upgrade":   {event: skippedForUpgrade(), line: "Normal RemediationSkipped: Postponing potential remediations because of ongoing cluster upgrade"},
		"13.6 exhausted": {event: noTemplateLeft("workers", n), both: true, line: "Warning NoTemplateLeft: Remediation timed out, and no template left to try. didn't find a template to use for NHC workers and node n"},
		"19.1 StormRecoveryStarted": {
			event: stormStarted(),
			line:  "Warning StormRecoveryStarted: Storm recovery mode activated - delaying remediation until threshold is reached",
		},
		"19.1 StormRecoveryCooldownStarted": {event: stormCooldownStarted(), line: "Warning StormRecoveryCooldownStarted: Storm recovery mode will exit after cooldown delay"},
		"19.1 StormRecoveryEnded":           {event: stormEnded(), line: "Normal StormRecoveryEnded: Storm recovery mode deactivated - normal remediation resumed"},
		"19.2 storm":                        {event: skippedForStorm(), line: "Warning RemediationSkipped: Storm recovery active: skipping creation of new remediations"},
		"17.6 old CR":                       {event: oldRemediation(n, testCR("n", "1")), both: true, line: "Warning OldRemediationCR: Remediation CR of kind RebootRemediation with name n for node n is older than 48h"},
		"15.2 empty label": {
			event: invalidNodeLabel(n), both: true,
			line: "Warning InvalidNodeLabel: Node n has exclude-from-remediation label with empty value, label will be ignored. Set value to 'true' to exclude node from remediation",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			line := strings.Replace(tc.line, ": ", ": [remediation] ", 1)
			require.Equal(t, line, tc.event.Type+" "+tc.event.Reason+": "+tc.event.Text())
			require.NotEmpty(t, tc.event.Action, "the API refuses it")
			require.Equal(t, tc.both, tc.event.Node == n, "19.1: recorded on the Node as well")
			require.Equal(t, tc.both, tc.event.Node != nil)
		})
	}
	notes := map[string]string{}
	for name, tc := range tests {
		key := tc.event.Reason + "/" + tc.event.Action
		require.True(t, notes[key] == "" || notes[key] == tc.event.Note, "19.1 %s: events that differ in nothing but the note are taken for one", name)
		notes[key] = tc.event.Note
	}
	for _, quiet := range []v1alpha1.DecisionReason{"", v1alpha1.DecidedPaused, v1alpha1.DecidedGateClosed, v1alpha1.DecidedForeignRemediation, v1alpha1.DecidedCreateFailed, v1alpha1.DecidedDisabled} {
		require.Empty(t, refusal(n, quiet).Reason, "19.1 %q is not reported per node", quiet)
	}
}

// Notes contain what users write, which may be long.
func TestEventNotes(t *testing.T) {
	t.Parallel()
	long := skippedForSpec(strings.Repeat("ü%d", 600))
	note := long.Text()
	require.LessOrEqual(t, len(note), 1024, "the API accepts no more")
	require.Greater(t, len(note), 1000)
	require.True(t, utf8.ValidString(note), "19.1: cut between characters")
	require.True(t, strings.HasSuffix(note, "..."))
	require.Equal(t, strings.Repeat("x", 1024), shorten(strings.Repeat("x", 1024)), "as long as it may be")
	require.Equal(t, strings.Repeat("ü", 510)+"...", shorten(strings.Repeat("ü", 513)))
}

// TestRecalledFailures: a new process tells no failure of a step that was over by status: another one has (spec 19.3). S21: it
// did, unless the decision was still StepFailed.
func TestRecalledFailures(t *testing.T) {
	t.Parallel()
	for reason, told := range map[v1alpha1.DecisionReason]bool{v1alpha1.DecidedStepFailed: true, v1alpha1.DecidedGateClosed: true, v1alpha1.DecidedStepRunning: false} {
		entry := v1alpha1.UnhealthyNode{Name: "n", Decision: &v1alpha1.Decision{Type: reason.Type(), Reason: reason}}
		entry.Remediations = []v1alpha1.Remediation{{Resource: corev1.ObjectReference{UID: "cr"}}}
		reported := RecallReported(&v1alpha1.NodeHealthCheckStatus{UnhealthyNodes: []v1alpha1.UnhealthyNode{entry}})
		require.Equal(t, told, reported.failed.Has("cr"), reason)
	}
}

// TestRecalledRefusals: a new process does not tell again what a decision in status says (spec 19.3). The gate and the storm keep
// nodes waiting that have no remediation yet; the reason of another node does not count for them.
func TestRecalledRefusals(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		reason       v1alpha1.DecisionReason
		remediations []v1alpha1.Remediation
		want         Reported
	}{
		"the gate":                     {reason: v1alpha1.DecidedGateClosed, want: Reported{gateClosed: true}},
		"the gate, of a next step":     {reason: v1alpha1.DecidedGateClosed, remediations: make([]v1alpha1.Remediation, 1)},
		"the storm":                    {reason: v1alpha1.DecidedStormActive, want: Reported{storm: true}},
		"the storm, of a next step":    {reason: v1alpha1.DecidedStormActive, remediations: make([]v1alpha1.Remediation, 1)},
		"an upgrade":                   {reason: v1alpha1.DecidedClusterUpgrading, want: Reported{upgrading: true}},
		"the last step":                {reason: v1alpha1.DecidedNoTemplateLeft, want: Reported{exhausted: sets.New("n")}},
		"a refusal of the node itself": {reason: v1alpha1.DecidedLeaseTaken},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			entry := v1alpha1.UnhealthyNode{Name: "n", Decision: &v1alpha1.Decision{Reason: tc.reason}, Remediations: tc.remediations}
			got := RecallReported(&v1alpha1.NodeHealthCheckStatus{UnhealthyNodes: []v1alpha1.UnhealthyNode{entry, {Name: "undecided"}}})
			require.Equal(t, map[string]v1alpha1.DecisionReason{"n": tc.reason}, got.refused)
			require.Equal(t, []bool{tc.want.gateClosed, tc.want.storm, tc.want.upgrading}, []bool{got.gateClosed, got.storm, got.upgrading})
			require.ElementsMatch(t, tc.want.exhausted.UnsortedList(), got.exhausted.UnsortedList())
		})
	}
}
