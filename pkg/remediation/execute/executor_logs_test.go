// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package execute

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	"github.com/nhc-controller/nhc-controller/pkg/remediation"
)

// TestActionsAreLogged: without any flag the log says what was done to which node. With -v=4 it says by which versions.
func TestActionsAreLogged(t *testing.T) {
	t.Parallel()
	logger := ktesting.NewLogger(ktesting.NopTL{}, ktesting.NewConfig(ktesting.Verbosity(4), ktesting.BufferLogs(true)))
	ctx := klog.NewContext(t.Context(), logger)
	th := newTestExecutor()
	outcome := th.run(ctx, actions(remediation.Create{Object: rendered(sick("n"), reboot())}))
	require.NoError(t, outcome.Err)
	own := outcome.NewCR()
	require.NoError(t, th.run(ctx, actions(remediation.MarkTimedOut{CR: own, At: epoch, EndsStep: true}, remediation.Delete{CR: own})).Err)

	again := actions(remediation.Create{Object: rendered(sick("n"), reboot())})
	again.Node.ResourceVersion, again.Node.Lease = "7", held(ours, epoch)
	require.NoError(t, th.run(ctx, again).Err)
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
		if entry.Verbosity == 0 || strings.Contains(line, "nodeVersion=7") {
			lines = append(lines, line)
		}
	}
	const cr = " node=n kind=RebootRemediation remediation=remediators/n"
	require.Equal(t, []string{
		"Created remediation" + cr,
		"Marked remediation as timed out" + cr + " endsStep=true",
		"Step ended" + cr + " failed=false",
		"Deleted remediation" + cr,
		"Carrying out node=n action=remediation.Create healthCheckVersion= nodeVersion=7 leaseVersion=5 machineVersion=",
		"Created remediation" + cr,
	}, lines, "23c")
}
