// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package buildinfo

import (
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"
	apimachineryversion "k8s.io/apimachinery/pkg/version"
)

func TestTruthfulVersion(t *testing.T) {
	t.Parallel()
	placeholder := apimachineryversion.Info{GitVersion: "v0.0.0-master+$Format:%H$", GitCommit: "$Format:%H$"}
	linked := apimachineryversion.Info{GitVersion: "v1.2.3", GitCommit: "abc", GitTreeState: "clean"}
	build := func(version string, settings ...debug.BuildSetting) *debug.BuildInfo {
		return &debug.BuildInfo{Main: debug.Module{Version: version}, Settings: settings}
	}
	revision := debug.BuildSetting{Key: "vcs.revision", Value: "464d36b"}
	modified := func(value string) debug.BuildSetting { return debug.BuildSetting{Key: "vcs.modified", Value: value} }
	for name, tc := range map[string]struct {
		linked apimachineryversion.Info
		build  *debug.BuildInfo
		want   apimachineryversion.Info
	}{
		"a release":        {linked: linked, build: build("v0.0.0-2026-464d36b", revision), want: linked},
		"go build":         {linked: placeholder, build: build("v0.0.0-2026-464d36b", revision, modified("false")), want: apimachineryversion.Info{GitVersion: "v0.0.0-2026-464d36b", GitCommit: "464d36b", GitTreeState: "clean"}},
		"with changes":     {linked: placeholder, build: build("v0.0.0-2026-464d36b+dirty", revision, modified("true")), want: apimachineryversion.Info{GitVersion: "v0.0.0-2026-464d36b+dirty", GitCommit: "464d36b", GitTreeState: "dirty"}},
		"go install":       {linked: placeholder, build: build("v1.2.3"), want: apimachineryversion.Info{GitVersion: "v1.2.3"}},
		"go run":           {linked: placeholder, build: build("(devel)"), want: apimachineryversion.Info{GitVersion: "devel"}},
		"no version":       {linked: placeholder, build: build(""), want: apimachineryversion.Info{GitVersion: "devel"}},
		"nothing is known": {linked: placeholder, want: apimachineryversion.Info{GitVersion: "devel"}},
	} {
		require.Equal(t, tc.want, truthfulVersion(tc.linked, tc.build), name)
	}
}

// TestVersion: the test itself is built without linker flags.
func TestVersion(t *testing.T) {
	t.Parallel()
	require.NotEmpty(t, Version().GitVersion)
	require.NotContains(t, Version().GitVersion, "Format")
}
