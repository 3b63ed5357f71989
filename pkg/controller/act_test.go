// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
	"k8s.io/utils/clock"

	"github.com/nhc-controller/nhc-controller/pkg/remediation"
)

// failing returns the plans of so many nodes, and that all of them have failed.
func failing(n int) []remediation.NodeResult {
	results := make([]remediation.NodeResult, n)
	for i := range n {
		name := fmt.Sprintf("node-%04d", i)
		results[i].Plan = &remediation.NodePlan{Node: &remediation.Node{Name: name}}
		results[i].Outcome = &remediation.Outcome{Err: fmt.Errorf("creating remediation for node %s: %w", name, errors.New("exceeded quota"))}
	}
	return results
}

// TestFailuresAreOneError: one cause that fails thousands of nodes is one error per sync.
func TestFailuresAreOneError(t *testing.T) {
	t.Parallel()
	c := &Controller{clock: clock.RealClock{}}
	for n, want := range map[int][]string{
		0:    nil,
		1:    {"Acting on nodes failed, retrying nodes=1 first=node-0000: creating remediation for node node-0000: exceeded quota"},
		5000: {"Acting on nodes failed, retrying nodes=5000 first=node-0000: creating remediation for node node-0000: exceeded quota"},
	} {
		logger := ktesting.NewLogger(ktesting.NopTL{}, ktesting.NewConfig(ktesting.Verbosity(1), ktesting.BufferLogs(true)))
		s := &snapshot{nhc: testCheck(), state: (&nhcStates{}).of(testCheck())}
		c.remember(klog.NewContext(t.Context(), logger), s, failing(n))
		sink, ok := logger.GetSink().(ktesting.Underlier)
		require.True(t, ok)
		var lines []string
		for _, entry := range sink.GetBuffer().Data() {
			line := entry.Message
			for i := 0; i+1 < len(entry.ParameterKVList); i += 2 {
				line += fmt.Sprintf(" %v=%v", entry.ParameterKVList[i], entry.ParameterKVList[i+1])
			}
			lines = append(lines, fmt.Sprintf("%s: %v", line, entry.Err))
		}
		require.Equal(t, want, lines)
	}
}
