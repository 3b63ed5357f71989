// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !kubebuilder_assets

package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
)

// The components that build.sh leaves out if KUBEBUILDER_ASSETS has them.
func init() {
	components["etcd"] = func() int {
		etcdmain.Main(os.Args)
		return 0
	}
	components["kube-apiserver"] = func() int { return cli.Run(apiserver.NewAPIServerCommand()) }
}
