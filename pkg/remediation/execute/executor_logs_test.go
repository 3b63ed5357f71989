// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package execute

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	"github.com/nhc-controller/nhc-controller/pkg/remediation"
)

// TestActionsAreLogged: without any flag the log says what was done to which node.
func TestActionsAreLogged(t *testing.T) {
	t.Parallel()
	logger := ktesting.NewLogger(ktesting.NopTL{}, ktesting.NewConfig(ktesting.Verbosity(0), ktesting.BufferLogs(true)))
	ctx := klog.NewContext(t.Context(), logger)
	th := newTestExecutor()
	outcome := th.run(ctx, actions(remediation.Create{Object: rendered(sick("n"), reboot())}))
	require.NoError(t, outcome.Err)
	own := outcome.NewCR()
	require.NoError(t, th.run(ctx, actions(remediation.MarkTimedOut{CR: own, At: epoch, EndsStep: true}, remediation.Delete{CR: own})).Err)

	require.NoError(t, th.run(ctx, actions(remediation.Create{Object: rendered(sick("n"), reboot())})).Err)
	sink, ok := logger.GetSink().(ktesting.Underlier)
	require.True(t, ok)
	var lines []string
	for _, entry := range sink.GetBuffer().Data() {
		line := entry.Message
		for _, list := range [][]any{entry.WithKVList, entry.ParameterKVList} {
			for i := 0; i+1 < len(list); i += 2 {
				line += fmt.Sprintf(" %v=%v", list[i], list[i+1])
			}
		}
		lines = append(lines, line)
	}
	const cr = " node=n kind=RebootRemediation remediation=remediators/n"
	require.Equal(t, []string{
		"Created remediation" + cr,
		"Marked remediation as timed out" + cr + " endsStep=true",
		"Step ended" + cr + " failed=false",
		"Deleted remediation" + cr,
		"Created remediation" + cr,
	}, lines, "23c")
}
