// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package nodes

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestBadNode: a node that cannot start says why in the first line, and nothing is left of its cluster.
func TestBadNode(t *testing.T) {
	t.Parallel()
	require.NoError(t, CheckRequirements())
	archive := filepath.Join(t.TempDir(), "bad.tar")
	require.NoError(t, os.WriteFile(archive, []byte("no archive"), 0o600))
	controller, err := ControllerImage()
	require.NoError(t, err)
	for name, bad := range map[string]struct {
		opts Options
		says []string
	}{
		"no image":      {Options{Images: []Image{{Name: "bad", Archive: archive}}}, []string{"switching node a on", archive}},
		"another image": {Options{Images: []Image{{Name: "bad:1", Archive: controller.Archive}}}, []string{"switching node a on", "has no image bad:1"}},
		// What answers there does not know the interface of runtimes, like one that is too old.
		"a kubelet that refuses the runtime": {
			Options{KubeletArgs: []string{"--container-runtime-endpoint=unix:///var/lib/kubelet/plugins/" + Driver + "/csi.sock"}},
			[]string{"0 of 1 nodes are Ready: starting node a: kubelet ends again and again", "runtime.v1.RuntimeService"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bad.opts.Nodes, bad.opts.Logs = []string{"a"}, logs(t)
			_, err := Start(t.Context(), bad.opts)
			require.Error(t, err)
			first, _, _ := strings.Cut(err.Error(), "\n")
			t.Log(first)
			for _, text := range bad.says {
				require.Contains(t, first, text)
			}
			specs, err := filepath.Glob(filepath.Join(os.TempDir(), "*", "node-a", "config", "spec.json"))
			require.NoError(t, err)
			for _, path := range specs { // Others may run.
				spec, err := os.ReadFile(path)
				require.NoError(t, err)
				require.NotContains(t, string(spec), bad.opts.Logs)
			}
		})
	}
}

// TestRequirements: what the machine lacks is said with the command that installs it.
func TestRequirements(t *testing.T) {
	require.ErrorContains(t, checkRequirements(1000), "real nodes need root")
	t.Setenv("PATH", t.TempDir())
	require.EqualError(t, checkRequirements(0), "real nodes need more packages: apt-get install --no-install-recommends e2fsprogs iproute2 iptables mount util-linux")
}
