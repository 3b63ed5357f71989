// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
)

// logged syncs and returns what is logged at this verbosity, in the order of
// Controller.sync: the level, the message, and its keys and values.
func (s *story) logged(t *testing.T, verbosity int, parts ...part) []string {
	t.Helper()
	logger := ktesting.NewLogger(ktesting.NopTL{}, ktesting.NewConfig(ktesting.Verbosity(verbosity), ktesting.BufferLogs(true)))
	ctx := klog.NewContext(t.Context(), logger)
	r := s.result(parts...)
	plans := make([]remediation.NodePlan, 0, len(r.results))
	for _, result := range r.results {
		plans = append(plans, *result.Plan)
	}
	logSync(ctx, r.snapshot, r.Evaluated, plans)
	actions, _ := r.Actions()
	logEvents(ctx, actions)
	r.logTransitions(ctx, r.Transitions())
	r.logDecisions(ctx)
	s.sync(parts...)
	sink, ok := logger.GetSink().(ktesting.Underlier)
	require.True(t, ok)
	var lines []string
	for _, entry := range sink.GetBuffer().Data() {
		line := fmt.Sprintf("V%d %s", entry.Verbosity, entry.Message)
		for i := 0; i+1 < len(entry.ParameterKVList); i += 2 {
			if list, ok := entry.ParameterKVList[i+1].([]string); ok {
				require.NotNil(t, list, "it is logged as [], never as null")
			}
			line += fmt.Sprintf(" %v=%v", entry.ParameterKVList[i], entry.ParameterKVList[i+1])
		}
		lines = append(lines, line)
	}
	return lines
}

// planned sets the actions of a plan, and when it is looked at again.
func planned(recheck time.Time, actions ...remediation.Action) func(*part) {
	return func(p *part) { p.plan.Actions, p.plan.Recheck = actions, recheck }
}

// TestLogs tells one small story: what appears at which level.
func TestLogs(t *testing.T) {
	t.Parallel()
	for _, verbosity := range []int{0, 1, 2, 3, 4, 5} {
		t.Run(fmt.Sprintf("V%d", verbosity), func(t *testing.T) {
			t.Parallel()
			s := newStory(t)
			for _, chapter := range logChapters() {
				var want []string
				for _, line := range chapter.want {
					if line[:2] <= fmt.Sprintf("V%d", verbosity) {
						want = append(want, line)
					}
				}
				s.observe = chapter.observe
				require.Equal(t, want, s.logged(t, verbosity, chapter.parts...), chapter.title)
			}
		})
	}
}

// logChapter is one sync of the story: what it observes, and what it logs.
type logChapter struct {
	title   string
	observe func(*observed)
	parts   []part
	want    []string
}

// logChapters returns the story anew each time, because a sync changes its parts.
func logChapters() []logChapter {
	cr := testCR("a", "1")
	foreign := testCR("a", "2")
	closed := func(w *observed) {
		w.Gate = health.Gate{Observed: 2, Healthy: 1, Required: 2}
		w.Summary.Healthy, w.Summary.SoonUnhealthy = 1, 4
	}
	open := func(w *observed) {
		w.Gate = health.Gate{Open: true, Observed: 2, Healthy: 1, Required: 1}
		w.Summary.Healthy, w.Summary.Remediated = 1, 1
	}
	restrained := func(p *part) {
		p.plan.Node.Constraints.GateClosed, p.plan.Node.Foreign = true, []*object.CR{foreign}
	}
	return []logChapter{
		{
			title: "all is well", observe: open, parts: []part{well("a"), well("b")},
			want: []string{
				"V4 Syncing observed=2 healthy=1 soonUnhealthy=0 unhealthy=0 remediated=1 gateOpen=true required=1 storm=false upgrading=false disabled=false",
				"V5 Planned node=a state=Healthy condition= since=never remediations=0 foreign=0 reason= actions=[] recheck=never",
				"V5 Planned node=b state=Healthy condition= since=never remediations=0 foreign=0 reason= actions=[] recheck=never",
				"V0 NodeHealthCheck changed reason=Enabled note=No issues found, NodeHealthCheck is enabled.",
			},
		},
		{
			title: "a node waits, by a closed gate", observe: closed, parts: []part{sick("a", restrained, refused(v1alpha1.DecidedGateClosed)), well("b")},
			want: []string{
				"V4 Syncing observed=2 healthy=1 soonUnhealthy=4 unhealthy=1 remediated=0 gateOpen=false required=2 storm=false upgrading=false disabled=false",
				"V5 Planned node=a state=Unhealthy condition=Ready=Unknown since=2025-12-31T23:59:00Z remediations=0 foreign=1 reason=GateClosed actions=[] recheck=never",
				"V5 Planned node=b state=Healthy condition= since=never remediations=0 foreign=0 reason= actions=[] recheck=never",
				"V0 Gate closed observed=2 healthy=1 required=2",
				"V0 Detected unhealthy node node=a note=Node matches unhealthy condition. Node \"a\", condition type \"Ready\", condition status \"Unknown\"",
				"V0 NodeHealthCheck changed reason=RemediationSkipped note=Skipped remediation because the number of healthy nodes selected by the selector is 1 and should equal or exceed 2",
				"V2 Decision changed node=a decision=Held reason=GateClosed before= message=Too few nodes are healthy: it begins when enough of them are healthy again",
			},
		},
		{
			title: "nothing has changed", observe: closed, parts: []part{sick("a", restrained, refused(v1alpha1.DecidedGateClosed)), well("b")},
			want: []string{
				"V4 Syncing observed=2 healthy=1 soonUnhealthy=4 unhealthy=1 remediated=0 gateOpen=false required=2 storm=false upgrading=false disabled=false",
				"V5 Planned node=a state=Unhealthy condition=Ready=Unknown since=2025-12-31T23:59:00Z remediations=0 foreign=1 reason=GateClosed actions=[] recheck=never",
				"V5 Planned node=b state=Healthy condition= since=never remediations=0 foreign=0 reason= actions=[] recheck=never",
			},
		},
		{
			title: "its CR is created", observe: open,
			parts: []part{sick("a", refused(""), planned(epoch.Add(time.Hour), remediation.WriteLease{}, remediation.Create{}), created(cr), decided(v1alpha1.DecidedStepRunning)), well("b")},
			want: []string{
				"V4 Syncing observed=2 healthy=1 soonUnhealthy=0 unhealthy=1 remediated=1 gateOpen=true required=1 storm=false upgrading=false disabled=false",
				"V5 Planned node=a state=Unhealthy condition=Ready=Unknown since=2025-12-31T23:59:00Z remediations=0 foreign=0 reason=StepRunning actions=[WriteLease Create] recheck=2026-01-01T01:00:00Z",
				"V5 Planned node=b state=Healthy condition= since=never remediations=0 foreign=0 reason= actions=[] recheck=never",
				"V0 Gate opened observed=2 healthy=1 required=1",
				"V2 Decision changed node=a decision=Remediating reason=StepRunning before=GateClosed message=RebootRemediation a is running",
			},
		},
		{
			title: "it is gone", observe: open, parts: []part{well("a"), well("b")},
			want: []string{
				"V4 Syncing observed=2 healthy=1 soonUnhealthy=0 unhealthy=0 remediated=1 gateOpen=true required=1 storm=false upgrading=false disabled=false",
				"V5 Planned node=a state=Healthy condition= since=never remediations=0 foreign=0 reason= actions=[] recheck=never",
				"V5 Planned node=b state=Healthy condition= since=never remediations=0 foreign=0 reason= actions=[] recheck=never",
				"V0 Node recovered node=a outcome=Recovered detected=2025-12-31T23:59:00Z remediations=1",
				"V2 Decision ended node=a before=StepRunning",
			},
		},
		{
			title: "storm, upgrade and a broken template", parts: []part{sick("b", nodeDeleted, own(testCR("b", "3")), decided(v1alpha1.DecidedAwaitingDeletion))},
			observe: func(w *observed) {
				w.Gate.Open, w.Storm.Active, w.platform.progressing, w.templates.Problem = true, true, true, &remediation.Problem{Reason: "Broken", Message: "it is"}
			},
			want: []string{
				"V4 Syncing observed=0 healthy=0 soonUnhealthy=0 unhealthy=0 remediated=0 gateOpen=true required=0 storm=true upgrading=true disabled=true",
				"V5 Planned node=b state=Healthy condition= since=never remediations=1 foreign=0 reason=AwaitingDeletion actions=[] recheck=never",
				"V0 NodeHealthCheck changed reason=Disabled note=Disabling NHC. Reason: Broken, Message: it is",
				"V0 NodeHealthCheck changed reason=RemediationSkipped note=Postponing potential remediations because of ongoing cluster upgrade",
				"V0 NodeHealthCheck changed reason=StormRecoveryStarted note=Storm recovery mode activated - delaying remediation until threshold is reached",
				"V2 Decision changed node=b decision=Waiting reason=AwaitingDeletion before= message=Waiting until RebootRemediation b is gone, which its remediator may hold by a finalizer",
			},
		},
	}
}

// decided sets the reason of a plan.
func decided(reason v1alpha1.DecisionReason) func(*part) {
	return func(p *part) { p.plan.Reason = reason }
}
