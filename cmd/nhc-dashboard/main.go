// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// nhc-dashboard serves the pages of kubectl nhc dashboard in the cluster, to users who may
// list what they show.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register" // --logging-format=json

	"github.com/nhc-controller/nhc-controller/cmd/nhc-dashboard/app"
)

func main() {
	os.Exit(cli.Run(app.NewCommand()))
}
