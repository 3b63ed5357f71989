// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Command kubectl is kubectl. It is no part of localkube: that takes longer to start, and
// the tests start kubectl hundreds of times.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register" // Makes --logging-format=json known.
	"k8s.io/kubectl/pkg/cmd"
)

func main() { os.Exit(cli.Run(cmd.NewDefaultKubectlCommand())) }
