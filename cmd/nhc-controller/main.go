// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// nhc-controller watches Nodes and has unhealthy ones repaired, as the NodeHealthChecks
// of the cluster say.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register" // --logging-format=json

	"github.com/nhc-controller/nhc-controller/cmd/nhc-controller/app"
)

func main() {
	os.Exit(cli.Run(app.NewCommand()))
}
