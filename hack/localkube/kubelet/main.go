// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Command kubelet is the kubelet of the real nodes of test/nodes. It is no part of localkube,
// which the demo and most tests build: it has many packages of its own.
package main

import (
	"context"
	"os"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // Registers the client and workqueue metrics.
	_ "k8s.io/component-base/metrics/prometheus/version"  // Registers kubernetes_build_info.
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

func main() { os.Exit(cli.Run(kubelet.NewKubeletCommand(context.Background()))) }
