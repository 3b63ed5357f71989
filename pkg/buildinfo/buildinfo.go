// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package buildinfo knows the version of the executable that it is part of.
package buildinfo

import (
	"cmp"
	"runtime/debug"
	"strings"

	apimachineryversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/component-base/version"
)

// Version returns the version and the commit of the executable.
func Version() apimachineryversion.Info {
	build, _ := debug.ReadBuildInfo()
	return truthfulVersion(version.Get(), build)
}

// truthfulVersion returns what the linker was given (hack/version.sh), or else what the Go
// toolchain knows: without linker flags, component-base has placeholders. Build may be nil.
func truthfulVersion(linked apimachineryversion.Info, build *debug.BuildInfo) apimachineryversion.Info {
	const placeholder, unknown = "$Format", "devel"
	if !strings.Contains(linked.GitVersion, placeholder) {
		return linked
	}
	truthful := linked
	truthful.GitVersion, truthful.GitCommit, truthful.GitTreeState = unknown, "", ""
	if build == nil {
		return truthful
	}
	if build.Main.Version != "(devel)" {
		truthful.GitVersion = cmp.Or(build.Main.Version, unknown)
	}
	for _, setting := range build.Settings {
		switch setting.Key {
		case "vcs.revision":
			truthful.GitCommit = setting.Value
		case "vcs.modified":
			truthful.GitTreeState = map[string]string{"true": "dirty", "false": "clean"}[setting.Value]
		}
	}
	return truthful
}
