// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	logsapi "k8s.io/component-base/logs/api/v1"
)

// execute runs the command with arguments, and returns what it prints.
func execute(t *testing.T, arguments ...string) (string, error) {
	t.Helper()
	require.NoError(t, logsapi.ResetForTest(nil), "logging is configured once a process")
	var output bytes.Buffer
	command := NewCommand()
	command.SetArgs(arguments)
	command.SetOut(&output)
	command.SetErr(&output)
	err := command.ExecuteContext(t.Context())
	return output.String(), err
}

func TestCommandBadFlags(t *testing.T) {
	for name, tc := range map[string]struct {
		arguments []string
		want      string
	}{
		"22.6 an unknown flag":             {arguments: []string{"--no-such-flag"}, want: "no-such-flag"},
		"22.6 a value of the wrong type":   {arguments: []string{"--concurrent-syncs=many"}, want: "concurrent-syncs"},
		"22.6 a value that is not valid":   {arguments: []string{"--leader-elect=false", "--concurrent-syncs=0"}, want: "--concurrent-syncs"},
		"22.6 an unknown logging format":   {arguments: []string{"--logging-format=xml"}, want: "xml"},
		"22.6 not the renewal but the end": {arguments: []string{"--leader-elect-resource-namespace=x", "--leader-elect-renew-deadline=1h"}, want: "--leader-elect-lease-duration"},
	} {
		t.Run(name, func(t *testing.T) {
			output, err := execute(t, tc.arguments...)
			require.ErrorContains(t, err, tc.want, "exit with 1")
			require.NotContains(t, output, "Usage:")
			require.Equal(t, 1, strings.Count(output, "\n"), "the error alone: %s", output)
		})
	}
}

func TestCommandTakesNoArguments(t *testing.T) {
	_, err := execute(t, "start")
	require.Error(t, err)
}

func TestCommandFailedStart(t *testing.T) {
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, os.WriteFile(kubeconfig, []byte("no kubeconfig"), 0o600))
	output, err := execute(t, "--kubeconfig="+kubeconfig, "--leader-elect=false")
	require.ErrorContains(t, err, "reading the access to the API server", "22.6: exit with 1")
	require.NotContains(t, output, "Usage:", "the flags were fine")
}

func TestCommandHelpNamesEveryFlagOfTheSpec(t *testing.T) {
	output, err := execute(t, "--help")
	require.NoError(t, err)
	for _, flag := range []string{"--kubeconfig", "--lease-namespace", "--leader-elect", "--metrics-bind-address", "--health-probe-bind-address", "-v, --v", "--logging-format"} {
		require.Contains(t, output, flag, "22.4")
	}
}
