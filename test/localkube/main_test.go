// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package localkube

import (
	"context"
	"fmt"
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
		shared.cluster, shared.err = Start(context.Background(), Options{
			AuditUsers: []string{"system:serviceaccount:" + auditedNamespace + ":" + auditedName},
		})
	})
	require.NoError(t, shared.err)
	client, err := kubernetes.NewForConfig(shared.cluster.AdminConfig())
	require.NoError(t, err)
	return shared.cluster, client
}
