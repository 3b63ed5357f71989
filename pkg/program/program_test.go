// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package program

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/validation/field"
	logsapi "k8s.io/component-base/logs/api/v1"
)

func TestCommand(t *testing.T) { //nolint:paralleltest // logging is configured once a process
	failed := errors.New("the port is taken")
	for name, tc := range map[string]struct {
		arguments []string
		want      string
		usage     bool
	}{
		"it runs":              {arguments: []string{"--color=red"}},
		"it fails":             {arguments: []string{"--color=blue"}, want: failed.Error()},
		"an argument":          {arguments: []string{"now"}, want: "unknown command"},
		"an unknown flag":      {arguments: []string{"--size=1"}, want: "unknown flag: --size", usage: true},
		"a bad value":          {arguments: []string{"--color=green"}, want: "--color: Invalid value", usage: true},
		"a bad logging format": {arguments: []string{"--logging-format=xml"}, want: "xml", usage: true},
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, logsapi.ResetForTest(nil))
			color, ran := "", false
			command := Program{
				Name:     "painter",
				AddFlags: func(flags *pflag.FlagSet) { flags.StringVar(&color, "color", "red", "") },
				Validate: func() field.ErrorList {
					if color == "green" {
						return field.ErrorList{field.Invalid(field.NewPath("--color"), color, "must be sold")}
					}
					return nil
				},
				Run: func(ctx context.Context) error {
					require.NoError(t, ctx.Err())
					ran = true
					if color == "blue" {
						return failed
					}
					return nil
				},
			}.Command()
			var output bytes.Buffer
			command.SetArgs(tc.arguments)
			command.SetOut(&output)
			command.SetErr(&output)
			err := command.ExecuteContext(t.Context())
			require.Equal(t, tc.usage, bytes.Contains(output.Bytes(), []byte("--help lists the flags")), "only if the flags were wrong: %s", output.String())
			if tc.want == "" {
				require.NoError(t, err)
				require.True(t, ran)
				return
			}
			require.ErrorContains(t, err, tc.want)
		})
	}
}

func TestEnvironment(t *testing.T) {
	t.Setenv("PAINTER_COLOR", "red")
	require.Equal(t, "red", Environment("PAINTER_COLOR", "blue"))
	t.Setenv("PAINTER_COLOR", "")
	require.Equal(t, "blue", Environment("PAINTER_COLOR", "blue"))
}

// The context of the process ends with that of the caller, and waits for no signal.
func TestSignalContext(t *testing.T) {
	t.Parallel()
	parent, cancel := context.WithCancel(t.Context())
	ctx, stop := signalContext(parent)
	defer stop()
	require.NoError(t, ctx.Err())
	cancel()
	<-ctx.Done()
	other, stopOther := signalContext(context.Background())
	stopOther()
	<-other.Done()
}

// TestSecondSignal: the first signal ends the context, and a second one the process (spec 22.6). The test runs itself as
// that process.
func TestSecondSignal(t *testing.T) {
	t.Parallel()
	const child = "NHC_TEST_SECOND_SIGNAL"
	if os.Getenv(child) == "" {
		command := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestSecondSignal$")
		command.Env = append(os.Environ(), child+"=1")
		output, err := command.CombinedOutput()
		require.Error(t, err)
		require.Equal(t, 1, command.ProcessState.ExitCode())
		require.NotContains(t, string(output), "FAIL")
		return
	}
	ctx, stop := signalContext(t.Context())
	defer stop()
	self, err := os.FindProcess(os.Getpid())
	require.NoError(t, err)
	require.NoError(t, self.Signal(syscall.SIGTERM))
	<-ctx.Done()
	require.NoError(t, self.Signal(syscall.SIGINT))
	select {} // The process ends here, or the test is too late.
}
