// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package integration tests the controller on a real control plane: with the
// manifests that users get, as its own ServiceAccount, as a process of its own.
//
// Most tests share one cluster and one controller, and keep apart by labels and
// names (see newScenario). A test that needs a controller of its own, or stops the API
// server, has a cluster for itself (see exclusiveCluster).
package integration

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/nhc-controller/nhc-controller/pkg/generated/clientset/versioned"
	"github.com/nhc-controller/nhc-controller/test/deploy"
	"github.com/nhc-controller/nhc-controller/test/localkube"
	"github.com/nhc-controller/nhc-controller/test/remediator"
)

// cluster is a control plane with the controller installed, and clients of an
// admin.
type cluster struct {
	*localkube.ControlPlane
	kube    kubernetes.Interface
	nhc     versioned.Interface
	dynamic dynamic.Interface

	changes     *changes
	stopChanges context.CancelFunc
	// begin is when the test that uses the cluster began. What happened earlier does not
	// concern it.
	begin time.Time
}

// minor returns the minor version of the API server.
func (c *cluster) minor(t *testing.T) int {
	t.Helper()
	version, err := c.kube.Discovery().ServerVersion()
	require.NoError(t, err)
	minor, err := strconv.Atoi(version.Minor)
	require.NoError(t, err)
	return minor
}

// grantedToServiceAccounts returns what Kubernetes itself permits to all ServiceAccounts.
func (c *cluster) grantedToServiceAccounts(t *testing.T) []string {
	t.Helper()
	if c.minor(t) < 37 {
		return nil
	}
	const bundles = " clustertrustbundles.certificates.k8s.io"
	return []string{"get" + bundles, "list" + bundles, "watch" + bundles}
}

// stop stops the control plane.
func (c *cluster) stop() error {
	c.stopChanges()
	return c.Stop()
}

// shared is the cluster of most tests, with a running controller. It is started by
// the first test that asks for it.
var shared struct {
	once       sync.Once
	cluster    *cluster
	controller *localkube.Process
	err        error
}

// clusters bounds the clusters besides the shared one. Each takes up to a gigabyte of memory.
var clusters = flag.Int("clusters", 5, "the number of clusters, at a time, for tests that need one for themselves")

// permits has an entry for each of them.
var permits chan struct{}

func TestMain(m *testing.M) {
	flag.Parse()
	rest.SetDefaultWarningHandler(rest.NoWarnings{}) // Of versions that are deprecated, and of what is stored in spite of a rule.
	permits = make(chan struct{}, *clusters)
	code := m.Run()
	if shared.cluster != nil {
		if problem := stopShared(); problem != "" {
			fmt.Fprintln(os.Stderr, problem)
			code = 1
		}
	}
	os.Exit(code)
}

// stopShared stops the shared cluster and tells what was wrong with its controller.
func stopShared() string {
	var problems []string
	if shared.controller != nil {
		problems = append(problems, faults(shared.controller)...)
	}
	if err := shared.cluster.stop(); err != nil {
		problems = append(problems, err.Error())
	}
	return strings.Join(problems, "\n")
}

// faults returns what must not be in the life of any controller: an unexpected
// exit, a data race, a panic.
func faults(controller *localkube.Process) []string {
	var problems []string
	select {
	case <-controller.Exited():
		problems = append(problems, "the controller has exited:\n"+controller.LogTail())
	default:
	}
	return append(problems, deploy.LogFaults(controller)...)
}

// sharedCluster returns the cluster of most tests.
func sharedCluster(t *testing.T) *cluster {
	t.Helper()
	shared.once.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
		defer cancel()
		shared.cluster, shared.err = startCluster(ctx, localkube.Options{AuditUsers: []string{deploy.User}})
		if shared.err == nil {
			shared.controller, shared.err = deploy.Start(ctx, shared.cluster.ControlPlane, deploy.Controller{Name: "shared", Args: []string{"-v=5"}})
		}
	})
	require.NoError(t, shared.err, "starting the shared cluster")
	return shared.cluster
}

// exclusiveCluster returns a new cluster without a controller, for this test alone. It goes at the end of the test.
func exclusiveCluster(t *testing.T) *cluster {
	t.Helper()
	select {
	case permits <- struct{}{}:
	case <-t.Context().Done():
		t.Fatal("no cluster may be started")
	}
	t.Cleanup(func() { <-permits })
	c, err := startCluster(t.Context(), localkube.Options{AuditUsers: []string{deploy.User}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.stop()) })
	c.begin = time.Now()
	return c
}

// startCluster starts a control plane, and installs the controller and the kinds of
// the demo remediator. The demo remediator does not run: tests play it.
func startCluster(ctx context.Context, options localkube.Options) (*cluster, error) {
	options.OneProcessor = true
	c, err := deploy.NewCluster(ctx, options, deploy.Kinds{Manifest: remediator.Manifest, Group: remediator.Resource.Group})
	if err != nil {
		return nil, err
	}
	watching, stop := context.WithCancel(context.WithoutCancel(ctx)) // ctx limits the start only.
	changes, err := watchChanges(watching, c.AdminConfig())
	if err != nil {
		stop()
		return nil, errors.Join(err, c.Stop())
	}
	return &cluster{ControlPlane: c.ControlPlane, kube: c.Kube, nhc: c.NHC, dynamic: c.Dynamic, changes: changes, stopChanges: stop}, nil
}

// startController starts a controller in a cluster of the test's own. At the end of
// the test it is stopped, and checked for races and panics.
func (c *cluster) startController(t *testing.T, name string, args ...string) *localkube.Process {
	t.Helper()
	return c.startDeployed(t, deploy.Controller{Name: name, Args: append([]string{"-v=5"}, args...)})
}

// startDeployed is startController for one that is not installed in the usual way.
func (c *cluster) startDeployed(t *testing.T, controller deploy.Controller) *localkube.Process {
	t.Helper()
	process, err := deploy.Start(t.Context(), c.ControlPlane, controller)
	require.NoError(t, err)
	t.Cleanup(func() {
		process.Stop()
		require.Empty(t, deploy.LogFaults(process))
		if t.Failed() {
			t.Logf("log of %s:\n%s", controller.Name, process.LogTail())
		}
	})
	return process
}
