// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package localkube

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/test/patience"
)

// Not parallel: other tests get no answer meanwhile.
func TestHang(t *testing.T) {
	cluster, client := sharedCluster(t)
	for name, tc := range map[string]struct {
		hang func() (goOn func(), err error)
		p    *Process
	}{
		"API server": {cluster.HangAPIServer, cluster.apiServer},
		"etcd":       {cluster.HangEtcd, cluster.etcd},
	} {
		t.Run(name, func(t *testing.T) {
			goOn, err := tc.hang()
			require.NoError(t, err)
			defer goOn()
			patience.Eventually(t, "it is frozen", func() bool { return frozen(t, tc.p) })
			goOn()
			goOn()
			patience.Eventually(t, "it goes on", func() bool { return !frozen(t, tc.p) })
			_, err = client.CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{})
			require.NoError(t, err)
		})
	}

	require.NoError(t, cluster.StopAPIServer())
	_, err := cluster.HangAPIServer()
	require.ErrorIs(t, err, os.ErrProcessDone)
	require.NoError(t, cluster.StartAPIServer(t.Context()))
}

// frozen reports whether the kernel has stopped a process.
func frozen(t *testing.T, p *Process) bool {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Pid()))
	require.NoError(t, err)
	return strings.Contains(string(status), "\nState:\tT")
}
