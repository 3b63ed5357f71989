// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package localkube

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/kubernetes"
)

const (
	auditedNamespace = "default"
	auditedName      = "audited"
)

// shared is the control plane of all tests that do not need one of their own. It
// is started by the first of them.
var shared struct {
	once    sync.Once
	cluster *ControlPlane
	taken   int // The port that was tried first.
	err     error
}

func TestMain(m *testing.M) {
	if mode := os.Getenv(parentEnv); mode != "" {
		actAsParent(mode) // Does not return.
	}
	code := m.Run()
	if shared.cluster != nil {
		if err := shared.cluster.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

func sharedCluster(t *testing.T) (*ControlPlane, *kubernetes.Clientset) {
	t.Helper()
	shared.once.Do(func() {
		shared.cluster, shared.taken, shared.err = startShared()
	})
	require.NoError(t, shared.err)
	client, err := kubernetes.NewForConfig(shared.cluster.AdminConfig())
	require.NoError(t, err)
	return shared.cluster, client
}

// startShared starts a control plane for whose API server a port is chosen that is taken.
func startShared() (cluster *ControlPlane, port int, err error) {
	taken, err := net.Listen("tcp", net.JoinHostPort(loopback, "0"))
	if err != nil {
		return nil, 0, err
	}
	defer taken.Close()
	port = taken.Addr().(*net.TCPAddr).Port
	cluster = newControlPlane(Options{
		NodeLifecycle: true,
		Kubelets:      true,
		AuditUsers:    []string{"system:serviceaccount:" + auditedNamespace + ":" + auditedName},
	})
	attempts := 0
	cluster.choosePort = func() (int, error) {
		if attempts++; attempts == 1 {
			return port, nil
		}
		return freePort()
	}
	if err := cluster.start(context.Background()); err != nil {
		return nil, 0, errors.Join(err, cluster.Stop())
	}
	return cluster, port, nil
}
