// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
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

func TestDashboardCommand(t *testing.T) {
	help, err := execute(t, "--help")
	require.NoError(t, err)
	for _, flag := range []string{"--bind-address", "--cluster-name", "--tls-cert-file", "--logging-format"} {
		require.Contains(t, help, flag)
	}
	for want, arguments := range map[string][]string{
		"--leader-elect":           {"--leader-elect"}, // It is not the controller.
		"--tls-private-key-file":   {"--tls-cert-file=a"},
		"--tls-min-version":        {"--tls-min-version=VersionTLS10"},
		"--lease-namespace":        {"--lease-namespace="},
		"unknown command":          {"now"},
		"the access to the API se": {"--kubeconfig=/nowhere", "--bind-address=127.0.0.1:0", "--health-probe-bind-address=127.0.0.1:0"},
	} {
		_, err := execute(t, arguments...)
		require.ErrorContains(t, err, want, "%v", arguments)
	}
}
