// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/nhc-controller/nhc-controller/pkg/generated/clientset/versioned"
	"github.com/nhc-controller/nhc-controller/test/deploy"
	"github.com/nhc-controller/nhc-controller/test/localkube"
	"github.com/nhc-controller/nhc-controller/test/patience"
	"github.com/nhc-controller/nhc-controller/test/rules"
)

var (
	longForm  = flag.Bool("faults.long", false, "run the long form: larger environments, for longer")
	firstSeed = flag.Uint64("faults.seed", 1, "the seed of the first run of each test")
	byOrder   = flag.Bool("faults.order", false, "judge by order, identity and numbers only, so that the speed of the machine does not matter")
	seeds     = flag.Int("faults.seeds", 1, "how many seeds each test runs with")
)

// cluster is a control plane with the controller installed, and clients of an admin.
type cluster struct {
	*localkube.ControlPlane
	kube    kubernetes.Interface
	nhc     versioned.Interface
	dynamic dynamic.Interface
}

// shared is the control plane of all tests, which run one after the other and leave
// nothing behind in it.
var shared struct {
	once    sync.Once
	cluster *cluster
	err     error
}

func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	if shared.cluster != nil {
		if err := shared.cluster.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

func sharedCluster(t *testing.T) *cluster {
	t.Helper()
	shared.once.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
		defer cancel()
		shared.cluster, shared.err = startCluster(ctx)
	})
	require.NoError(t, shared.err, "starting the control plane")
	return shared.cluster
}

func startCluster(ctx context.Context) (*cluster, error) {
	machines, err := machineManifest()
	if err != nil {
		return nil, err
	}
	c, err := deploy.NewCluster(ctx, localkube.Options{AuditUsers: []string{deploy.User}, AuditResponses: true}, deploy.Kinds{Manifest: manifest() + machines, Group: group.Group})
	if err != nil {
		return nil, err
	}
	if err := deploy.InstallOverlay(ctx, c.ControlPlane, "machine-health-check"); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return &cluster{c.ControlPlane, c.Kube, c.NHC, c.Dynamic}, nil
}

// tolerance is what the controller may not have seen when nothing is wrong. By order only, that is all since the
// beginning of the test: no rule depends on how fast a process is.
func tolerance() rules.Tolerance {
	if *byOrder {
		return rules.Tolerance{Cache: patience.Limit, LiveRead: patience.Limit, Sync: patience.Limit}
	}
	return rules.Quiet
}

// forEachSeed runs a test with each of the seeds.
func forEachSeed(t *testing.T, test func(t *testing.T, seed uint64)) {
	t.Helper()
	for i := range *seeds {
		seed := *firstSeed + uint64(i)
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) { test(t, seed) })
	}
}

// lasting returns how long something goes on, in the short and in the long form.
func lasting(short, long time.Duration) time.Duration {
	if *longForm {
		return long
	}
	return short
}

// numberOf returns how many there are, in the short and in the long form.
func numberOf(short, long int) int {
	if *longForm {
		return long
	}
	return short
}
