// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Command localkube is a Kubernetes control plane in one executable: its first
// argument, or the name it was called by, picks the component that it becomes.
// The tests and the demo of nhc-controller run on it where no container engine
// is available. Package test/localkube starts and stops it.
//
// It is a module of its own, so that the dependencies of a whole control plane
// stay out of the module that users build.
package main

import (
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"          // Makes --logging-format=json known.
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // Registers the client and workqueue metrics.
	_ "k8s.io/component-base/metrics/prometheus/version"  // Registers kubernetes_build_info.
	"k8s.io/kubectl/pkg/cmd"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"

	"github.com/nhc-controller/nhc-controller/hack/localkube/internal/leash"
)

// component runs until the process is told to stop and returns its exit code.
// It finds its arguments in os.Args, as the main of its own program would.
type component func() int

func components() map[string]component {
	return map[string]component{
		"etcd": func() int {
			etcdmain.Main(os.Args)
			return 0
		},
		"kube-apiserver":          func() int { return cli.Run(apiserver.NewAPIServerCommand()) },
		"kube-controller-manager": func() int { return cli.Run(controllermanager.NewControllerManagerCommand()) },
		"kubectl":                 func() int { return cli.Run(cmd.NewDefaultKubectlCommand()) },
		"leash":                   func() int { return leash.Main(os.Args[1:], os.Stdin, os.Stderr) },
	}
}

func main() {
	known := components()
	// A symbolic link called kubectl is kubectl.
	name := filepath.Base(os.Args[0])
	run, ok := known[name]
	if !ok {
		if len(os.Args) < 2 {
			usage(os.Stderr, known)
			os.Exit(2)
		}
		name = os.Args[1]
		if run, ok = known[name]; !ok {
			usage(os.Stderr, known)
			os.Exit(2)
		}
		// Components read os.Args themselves, and kubectl looks there for plugins.
		os.Args = append([]string{name}, os.Args[2:]...)
	}
	os.Exit(run())
}

func usage(w io.Writer, known map[string]component) {
	names := slices.Sorted(maps.Keys(known))
	fmt.Fprintf(w, "usage: localkube {%s} [arguments]\n", strings.Join(names, "|"))
}
