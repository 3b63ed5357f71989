// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealth

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
)

// entriesAfter are the entries after a sync of one target.
func entriesAfter(p *Policy, t Target, before Entries, now time.Time) Entries {
	return p.NewEntries([]TargetResult{result(p, t, remediation.Outcome{}, now)}, before, now)
}

// TestEntries: what makes a Machine unhealthy, since when, and since when it was decided.
func TestEntries(t *testing.T) {
	t.Parallel()
	later := epoch.Add(time.Hour + 700*time.Millisecond)
	whole := epoch.Add(time.Hour)
	byCondition := &v1beta1.MachineTrigger{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, Reason: v1beta1.TriggerUnhealthyCondition}
	byPhase := &v1beta1.MachineTrigger{Reason: v1beta1.TriggerMachineFailed}
	before := func(trigger *v1beta1.MachineTrigger, reason v1alpha1.DecisionReason) Entries {
		entry := &v1beta1.UnhealthyMachine{Name: "m", Trigger: trigger, Decision: v1alpha1.Decision{Type: v1beta1.DecisionType(reason), Reason: reason, Since: metav1.NewTime(epoch.Add(time.Minute))}}
		if trigger != nil {
			entry.Detected = new(metav1.NewTime(epoch.Add(30 * time.Second)))
		}
		return Entries{"m": entry}
	}
	seen := epoch.Add(30 * time.Second)
	for name, tc := range map[string]struct {
		target   Target
		before   Entries
		trigger  *v1beta1.MachineTrigger
		detected time.Time
		since    time.Time
	}{
		"M16.2 a condition, since it has its status": {target: target(machine("m")), trigger: byCondition, detected: epoch, since: whole},
		"M16.1 a condition that has not lasted yet":  {target: target(machine("m"), soon), trigger: byCondition, detected: epoch, since: whole},
		"M16.2 a phase, when first seen":             {target: target(machine("m"), because(v1beta1.TriggerMachineFailed)), trigger: byPhase, detected: whole, since: whole},
		"M16.2 a phase that was seen before":         {target: target(machine("m"), because(v1beta1.TriggerMachineFailed)), before: before(byPhase, v1alpha1.DecidedGateClosed), trigger: byPhase, detected: seen, since: whole},
		"M16.2 a phase after a condition":            {target: target(machine("m"), because(v1beta1.TriggerMachineFailed)), before: before(byCondition, v1alpha1.DecidedGateClosed), trigger: byPhase, detected: whole, since: whole},
		"M16.2 no startup, when first seen": {target: target(machine("m", noNode), func(t *Target) {
			t.Verdict = policy().Criteria.Judge(t.Machine, NodeUnknown, health.Evidence{}, false, later)
		}), trigger: &v1beta1.MachineTrigger{Reason: v1beta1.TriggerNodeStartupTimeout}, detected: whole, since: whole},
		"M16.1 S22 as another process has seen it": {target: target(machine("m")), before: before(byCondition, v1alpha1.DecidedGateClosed), trigger: byCondition, detected: seen, since: whole},
		"M8.3 the same decision goes on":           {target: target(machine("m")), before: before(byCondition, v1beta1.DecidedMachineDeleting), trigger: byCondition, detected: seen, since: epoch.Add(time.Minute)},
		"M16.1 what was wrong when it was deleted": {target: target(machine("m", deletingMachine), verdict(Deleting)), before: before(byPhase, v1beta1.DecidedMachineDeleting), trigger: byPhase, detected: seen, since: epoch.Add(time.Minute)},
		"M16.1 what was wrong until it recovered":  {target: target(machine("m", firstKey), verdict(UnderRemediation)), before: before(byCondition, v1beta1.DecidedExternalRemediation), trigger: byCondition, detected: seen, since: epoch.Add(time.Minute)},
		"P5 the Node is looked for":                {target: target(machine("m"), verdict(SoonUnhealthy)), before: before(byCondition, v1alpha1.DecidedGateClosed), trigger: byCondition, detected: seen, since: whole},
		"M16.1 deleted by others":                  {target: target(machine("m", deletingMachine), verdict(Deleting)), since: whole},
		"M16.1 not started after it was":           {target: target(machine("m", noNode), verdict(NotStarted)), before: before(byPhase, v1beta1.DecidedMachineDeleting), since: whole},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			entry := entriesAfter(policy(), tc.target, tc.before, later)["m"]
			require.NotNil(t, entry)
			require.Equal(t, tc.trigger, entry.Trigger)
			require.Equal(t, tc.target.Machine.Node, entry.Node)
			require.Equal(t, tc.since, entry.Decision.Since.Time)
			if tc.trigger == nil {
				require.Nil(t, entry.Detected)
				return
			}
			require.True(t, tc.detected.Equal(entry.Detected.Time), "%s", entry.Detected)
		})
	}
	require.Empty(t, entriesAfter(policy(), target(machine("m"), verdict(Healthy)), before(byPhase, v1beta1.DecidedMachineDeleting), later), "M16.1: only those that are not healthy")
	status := &v1beta1.MachineHealthCheckStatus{UnhealthyMachines: []v1beta1.UnhealthyMachine{{Name: "a"}, {Name: "b"}}}
	require.Equal(t, Entries{"a": &status.UnhealthyMachines[0], "b": &status.UnhealthyMachines[1]}, EntriesOf(status))
}

func TestStatus(t *testing.T) {
	t.Parallel()
	old := metav1.NewTime(epoch.Add(-time.Hour))
	now := epoch.Add(500 * time.Millisecond)
	allowed := v1beta1.Condition{Type: "RemediationAllowed", Status: "True", LastTransitionTime: metav1.NewTime(epoch)}
	restricted := v1beta1.Condition{
		Type: "RemediationAllowed", Status: "False", Severity: "Warning", Reason: "TooManyUnhealthy", LastTransitionTime: metav1.NewTime(epoch),
		Message: "Remediation is not allowed, the number of not started or unhealthy machines exceeds maxUnhealthy (total: 1, unhealthy: 1, maxUnhealthy: 100%). 100% of 1 allows 0.",
	}
	since := func(c v1beta1.Condition) v1beta1.Condition { c.LastTransitionTime = old; return c }
	failure := func(typ, reason, message string) v1beta1.Condition {
		return v1beta1.Condition{Type: typ, Status: "False", Severity: "Error", Reason: reason, Message: message, LastTransitionTime: metav1.NewTime(epoch)}
	}
	stalled := func(reason, message string) v1beta1.Condition {
		return v1beta1.Condition{Type: "Stalled", Status: "True", Reason: reason, Message: message, LastTransitionTime: metav1.NewTime(epoch)}
	}
	entry := func(reason v1alpha1.DecisionReason, message string) *v1beta1.UnhealthyMachine {
		return &v1beta1.UnhealthyMachine{Decision: v1alpha1.Decision{Reason: reason, Message: message}}
	}
	for name, tc := range map[string]struct {
		policy     func(*Policy)
		entries    Entries
		overlaps   []string
		before     []v1beta1.Condition
		conditions []v1beta1.Condition
	}{
		"M7.3 allowed":                          {conditions: []v1beta1.Condition{allowed}},
		"M7.3 blocked":                          {policy: blocked, conditions: []v1beta1.Condition{restricted}},
		"M16.1 its time moves with the status":  {policy: blocked, before: []v1beta1.Condition{since(allowed)}, conditions: []v1beta1.Condition{restricted}},
		"M16.1 and only with it":                {policy: blocked, before: []v1beta1.Condition{{Type: "RemediationAllowed", Status: "False", Message: "of other numbers", LastTransitionTime: old}}, conditions: []v1beta1.Condition{since(restricted)}},
		"M12.1 no template":                     {policy: func(p *Policy) { byTemplate(p); p.Template, p.TemplateProblem = nil, "failed" }, conditions: []v1beta1.Condition{allowed, failure("ExternalRemediationTemplateAvailable", "ExternalRemediationTemplateNotFound", "failed"), stalled("ExternalRemediationTemplateNotFound", "failed")}},
		"M16.4 an invalid spec":                 {policy: func(p *Policy) { p.Criteria.Problem = "wrong" }, before: []v1beta1.Condition{since(allowed), since(stalled("InvalidSpec", "wrong"))}, conditions: []v1beta1.Condition{since(allowed), since(stalled("InvalidSpec", "wrong"))}},
		"M16.4 it goes away with its cause":     {before: []v1beta1.Condition{since(allowed), stalled("InvalidSpec", "wrong")}, conditions: []v1beta1.Condition{since(allowed)}},
		"M12.1 it goes away with its cause":     {policy: byTemplate, before: []v1beta1.Condition{since(allowed), failure("ExternalRemediationTemplateAvailable", "ExternalRemediationTemplateNotFound", "failed"), failure("ExternalRemediationRequestAvailable", "x", "y")}, conditions: []v1beta1.Condition{since(allowed)}},
		"M12.1 a refused CR, the first by name": {policy: byTemplate, entries: Entries{"b": entry(v1alpha1.DecidedCreateFailed, "of b"), "a": entry(v1alpha1.DecidedCreateFailed, "of a"), "0": entry(v1alpha1.DecidedDeleteFailed, "of 0")}, conditions: []v1beta1.Condition{allowed, failure("ExternalRemediationRequestAvailable", "ExternalRemediationRequestCreationFailed", "of a")}},
		"M7.4 others select the same Machines":  {overlaps: []string{"a", "b"}, conditions: []v1beta1.Condition{allowed, {Type: "SelectorOverlap", Status: "True", Reason: "MachinesShared", Message: "Machines are also selected by a, b", LastTransitionTime: metav1.NewTime(epoch)}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := policy()
			if tc.policy != nil {
				tc.policy(p)
			}
			stored := check(func(c *v1beta1.MachineHealthCheck) { c.Status.Conditions = tc.before })
			got := p.NewStatus(&StatusInput{Check: stored, Entries: tc.entries, Overlaps: tc.overlaps, Now: now})
			require.Equal(t, tc.conditions, got.Conditions)
		})
	}
	p := policy(func(p *Policy) { p.Summary = Summary{Expected: 10, Healthy: 8, Ignored: 3, Limit: 5} })
	got := p.NewStatus(&StatusInput{Check: check(), Now: now, History: []v1beta1.Remediation{{Machine: "m"}}})
	require.Equal(t, []int{10, 8, 3, 3}, []int{*got.ExpectedMachines, *got.CurrentHealthy, int(*got.RemediationsAllowed), *got.IgnoredMachines})
	require.Equal(t, int64(3), got.ObservedGeneration)
	require.Equal(t, []v1beta1.Remediation{{Machine: "m"}}, got.RemediationHistory)
	empty := policy(func(p *Policy) { p.Summary = Summary{Limit: 5} }).NewStatus(&StatusInput{Check: check(), Now: now})
	require.Equal(t, []int{0, 0, 0}, []int{*empty.ExpectedMachines, *empty.CurrentHealthy, int(*empty.RemediationsAllowed)}, "M7.3: without targets all numbers are 0")
	require.Nil(t, empty.IgnoredMachines)
}

func TestListOrder(t *testing.T) {
	t.Parallel()
	entries := Entries{}
	for i, reason := range []v1alpha1.DecisionReason{v1alpha1.DecidedGateClosed, v1beta1.DecidedMachineDeleting, v1beta1.DecidedNotStarted, v1beta1.DecidedExternalRemediation} {
		name := fmt.Sprintf("m-%d", i)
		entries[name] = &v1beta1.UnhealthyMachine{Name: name, Decision: v1alpha1.Decision{Type: v1beta1.DecisionType(reason), Reason: reason}}
	}
	var names []string
	for _, entry := range listed(entries) {
		names = append(names, entry.Name)
	}
	require.Equal(t, []string{"m-1", "m-3", "m-0", "m-2"}, names, "M16.1: remediations first, then by name")
}

// TestStatusFits: a status stays below the limit of an object, whatever is in it (spec M16.1).
func TestStatusFits(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("n", 253)
	row := v1beta1.Remediation{
		TargetKind: "Machine", TargetName: long, Machine: long, ConditionType: corev1.NodeConditionType(strings.Repeat("t", 316)), ConditionStatus: "Unknown", Reason: "NodeStartupTimeout", Detected: metav1.NewTime(epoch),
		Started: new(metav1.NewTime(epoch)), Fenced: new(metav1.NewTime(epoch)), Finished: new(metav1.NewTime(epoch)), RemediationType: v1beta1.RemediationMachineDeletion, Replacement: long, Owner: strings.Repeat("u", 36),
	}
	for name, tc := range map[string]struct {
		text, message string
		listed        int
		messages      bool
	}{
		"M16.1 usual texts":            {text: "worker-us-east-1a-x7k2p", message: strings.Repeat("m", 120), listed: 1000, messages: true},
		"M16.1 long messages":          {text: strings.Repeat("n", 63), message: strings.Repeat("m", 250), listed: 1000, messages: true},
		"M16.1 messages of characters": {text: strings.Repeat("n", 63), message: strings.Repeat("<", 512), listed: 1000},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			status := fullStatus(tc.text, tc.message, row)
			require.Len(t, status.UnhealthyMachines, tc.listed)
			require.Equal(t, tc.messages, status.UnhealthyMachines[0].Decision.Message != "")
			requireFits(t, &status)
		})
	}
	t.Run("M16.1 the longest texts", func(t *testing.T) {
		t.Parallel()
		status := fullStatus(long, strings.Repeat("\u0001", 512), row)
		require.Greater(t, len(status.UnhealthyMachines), 500)
		requireFits(t, &status)
	})
}

// fullStatus is a status with all that may be in it.
func fullStatus(text, message string, row v1beta1.Remediation) v1beta1.MachineHealthCheckStatus {
	entries := Entries{}
	for i := range 1200 {
		name := fmt.Sprintf("%04d%s", i, text)[:max(4, len(text))]
		entries[name] = &v1beta1.UnhealthyMachine{
			Name: name, Node: name, Detected: new(metav1.NewTime(epoch)),
			Trigger:  &v1beta1.MachineTrigger{Type: corev1.NodeConditionType(strings.Repeat("t", min(len(text), 100))), Status: "Unknown", Reason: v1beta1.TriggerUnhealthyCondition},
			Decision: v1alpha1.Decision{Type: v1alpha1.DecisionRemediating, Reason: v1beta1.DecidedExternalRemediation, Message: message, Since: metav1.NewTime(epoch), NextCheckTime: new(metav1.NewTime(epoch))},
		}
	}
	p := policy(func(p *Policy) { p.Summary = Summary{Expected: 1200, Limit: 1200} })
	in := &StatusInput{Check: check(), Entries: entries, Now: epoch}
	for range v1beta1.MaxClosedRemediations + v1beta1.MaxOpenRemediations {
		in.History = append(in.History, row)
	}
	return p.NewStatus(in)
}

func requireFits(t *testing.T, status *v1beta1.MachineHealthCheckStatus) {
	t.Helper()
	text, err := json.Marshal(status)
	require.NoError(t, err)
	require.Less(t, len(text), 1<<20)
	require.Equal(t, 1200, *status.ExpectedMachines, "M16.1: counts are exact whatever is listed")
}
