// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// moduleRoot is the directory of go.mod, from here.
const moduleRoot = "../.."

// usersExecutable is the controller that users get, without the race detector, in moduleRoot.
const usersExecutable = "bin/nhc-controller"

// TestMemoryLimit has 4,000 of 10,000 nodes fail at once and recover, in the environment of
// test/bench, whose nodes are as large as real ones. The executable that users get stays
// below the memory limit of its Deployment, from its start until all is over.
func TestMemoryLimit(t *testing.T) {
	if !*longForm {
		t.Skip("10,000 nodes take minutes")
	}
	limit := memoryLimit(t)
	for what, megabytes := range benchPeaks(t) {
		t.Logf("%s: %.0f MB, the limit is %.0f MB", what, megabytes, limit)
		require.Less(t, megabytes, limit, what)
	}
}

// memoryLimit returns that of the manifest, in MB.
func memoryLimit(t *testing.T) float64 {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(moduleRoot, "manifests", "base", "deployment.yaml"))
	require.NoError(t, err)
	for document := range strings.SplitSeq(string(content), "\n---\n") {
		var deployment appsv1.Deployment
		require.NoError(t, yaml.Unmarshal([]byte(document), &deployment))
		if deployment.Kind == "Deployment" {
			return deployment.Spec.Template.Spec.Containers[0].Resources.Limits.Memory().AsApproximateFloat64() / 1e6
		}
	}
	require.Fail(t, "there is no Deployment")
	return 0
}

// benchPeaks returns the peaks of the controller's memory while the bench had it start
// and live through a storm, in MB.
func benchPeaks(t *testing.T) map[string]float64 {
	t.Helper()
	out := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	bench := exec.CommandContext(ctx, "go", "run", "./test/bench",
		"-nodes=10000", "-scenarios=idle,storm", "-rounds=1", "-duration=5s",
		"-controller="+usersExecutable,
		"-out="+out)
	bench.Dir = moduleRoot
	output, err := bench.CombinedOutput()
	require.NoError(t, err, string(output))
	reports, err := filepath.Glob(filepath.Join(out, "*.json"))
	require.NoError(t, err)
	require.Len(t, reports, 1)
	content, err := os.ReadFile(reports[0])
	require.NoError(t, err)
	var report struct {
		Goals []struct {
			Scenario, What string
			Value          float64
		}
	}
	require.NoError(t, json.Unmarshal(content, &report))
	peaks := map[string]float64{}
	for _, figure := range report.Goals {
		if strings.HasPrefix(figure.What, "peak memory") {
			peaks[figure.Scenario+": "+figure.What] = figure.Value
		}
	}
	require.Len(t, peaks, 2, "of the start and of the storm")
	return peaks
}
