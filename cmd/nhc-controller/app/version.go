// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"cmp"
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	apimachineryversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/component-base/version"
)

// buildVersion returns the version and the commit of the executable.
func buildVersion() apimachineryversion.Info {
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

// registerVersion has a metric tell the version, under the name and with the labels that all
// components of Kubernetes use. That of component-base cannot be corrected.
func registerVersion(registry prometheus.Registerer) error {
	build := buildVersion()
	info := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "kubernetes_build_info",
		Help: "1, labeled by the version of the controller, its commit, and how it was built.",
	}, []string{"major", "minor", "git_version", "git_commit", "git_tree_state", "build_date", "go_version", "compiler", "platform"})
	info.WithLabelValues(build.Major, build.Minor, build.GitVersion, build.GitCommit, build.GitTreeState, build.BuildDate, build.GoVersion, build.Compiler, build.Platform).Set(1)
	if err := registry.Register(info); err != nil {
		return fmt.Errorf("registering metrics: %w", err)
	}
	return nil
}
