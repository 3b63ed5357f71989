// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Command localkube is a Kubernetes control plane in one executable: its first
// argument picks the component that it becomes. The tests and the demo of nhc-controller
// run on it where no container engine is available. Package test/localkube starts and stops it.
//
// It is a module of its own, so that the dependencies of a whole control plane
// stay out of the module that users build.
package main

import (
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"          // Makes --logging-format=json known.
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // Registers the client and workqueue metrics.
	_ "k8s.io/component-base/metrics/prometheus/version"  // Registers kubernetes_build_info.
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
)

// component runs until the process is told to stop and returns its exit code.
// It finds its arguments in os.Args, as the main of its own program would.
type component func() int

// components has kube-controller-manager, too: a small one (controllers.go), or that of Kubernetes with
// kube-scheduler (full.go).
var components = map[string]component{
	"etcd": func() int {
		etcdmain.Main(os.Args)
		return 0
	},
	"kube-apiserver": func() int { return cli.Run(apiserver.NewAPIServerCommand()) },
}

func main() {
	if len(os.Args) > 1 {
		if run, ok := components[os.Args[1]]; ok {
			os.Args = os.Args[1:] // Components read it themselves.
			os.Exit(run())
		}
	}
	usage(os.Stderr)
	os.Exit(2)
}

func usage(w io.Writer) {
	names := slices.Sorted(maps.Keys(components))
	fmt.Fprintf(w, "usage: localkube {%s} [arguments]\n", strings.Join(names, "|"))
}
