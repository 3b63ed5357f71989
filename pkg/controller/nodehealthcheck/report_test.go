// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	"github.com/nhc-controller/nhc-controller/pkg/status"
)

// TestReport: events report the actions, the status is written, and then further events report its
// changes. A later sync does not report the actions again, also if the status could not be written.
func TestReport(t *testing.T) {
	t.Parallel()
	cr := testCR("n", "1")
	const (
		removed = "Normal RemediationRemoved: [remediation] Deleted remediation CR of kind RebootRemediation with name n"
		enabled = "Normal Enabled: [remediation] No issues found, NodeHealthCheck is enabled."
		begins  = "Normal RemediationCreated: [remediation] Created remediation object for node "
	)
	detected := "Normal DetectedUnhealthy: [remediation] " + strings.TrimPrefix(strings.ReplaceAll(saidDetected, `"n"`, `"m"`), "DetectedUnhealthy: ")
	done := []string{detected, detected, begins + "m", begins + "m", removed, removed}
	tests := map[string]struct {
		failure error
		told    []string
		logged  []string
		phase   string
	}{
		"19.1 written":     {told: append(slices.Clip(done), enabled, begins+"n", begins+"n"), logged: []string{"Detected unhealthy node", "NodeHealthCheck changed", "Decision changed"}, phase: "Remediating"},
		"19.1 not written": {failure: errors.New("the API server is gone"), told: done, logged: []string{"Detected unhealthy node"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStory(t)
			c, client := statusWriter(s.nhc)
			recorder := &testRecorder{}
			c.events, c.metrics = eventReporter{recorder: recorder}, s.metrics
			if tc.failure != nil {
				client.PrependReactor("update", "nodehealthchecks", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, tc.failure })
			}
			logger := ktesting.NewLogger(ktesting.NopTL{}, ktesting.NewConfig(ktesting.Verbosity(2), ktesting.BufferLogs(true)))
			r := s.result(well("n", own(cr), deleted(cr)), sick("m", created(testCR("m", "2"))))
			before := *s.state
			_, err := c.report(klog.NewContext(t.Context(), logger), r.snapshot, r.Evaluated, r.results, r.now)
			var told, logged []string
			for _, event := range recorder.all {
				told = append(told, event.line)
			}
			sink, ok := logger.GetSink().(ktesting.Underlier)
			require.True(t, ok)
			for _, entry := range sink.GetBuffer().Data() {
				logged = append(logged, entry.Message)
			}
			require.Equal(t, tc.told, told)
			require.Equal(t, tc.logged, logged)
			stored, readErr := client.RemediationV1alpha1().NodeHealthChecks().Get(t.Context(), "workers", metav1.GetOptions{})
			require.NoError(t, readErr)
			require.EqualValues(t, tc.phase, stored.Status.Phase)
			if tc.failure != nil {
				require.ErrorIs(t, err, tc.failure, "18.2: the next sync repairs it")
				before.healthy = s.state.healthy
				_, before.reported = r.Actions()
				before.storm, before.unwritten = r.Storm, true // 9.5
				require.Equal(t, before, *s.state, "P8: nothing else counts as reported")
				require.Empty(t, s.values(t, "nhc_observed_nodes"), "20.2: as in status")
				require.Equal(t, []string{saidEnabled, saidCreated}, s.sync(well("n", own(cr)), sick("m", own(testCR("m", "2")))))
				return
			}
			require.NoError(t, err)
			require.NotEmpty(t, s.values(t, "nhc_observed_nodes"), "20.2")
			require.NotNil(t, (&status.Finder{Entries: s.state.entries}).Decision("n"))
		})
	}
}
