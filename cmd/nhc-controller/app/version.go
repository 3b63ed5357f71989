// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/nhc-controller/nhc-controller/pkg/buildinfo"
)

// registerVersion registers a metric with the version. It has the name and the labels that all
// components of Kubernetes use. The one of component-base cannot be corrected.
func registerVersion(registry prometheus.Registerer) error {
	build := buildinfo.Version()
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
