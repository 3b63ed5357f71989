// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package referee

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nhc-controller/nhc-controller/test/rules"
)

// TestReadLog: the log of a process is read by the version that each line names.
func TestReadLog(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "log")
	require.NoError(t, os.WriteFile(path, []byte(`{"ts":1795991608275.5977,"logger":"nhc-controller","caller":"sync.go:28","msg":"Syncing","v":4,"nodeHealthCheck":"red"}
{"ts":1795991608275.5,"logger":"nhc-controller","caller":"execute/executor.go:117","msg":"Carrying out","v":4,"nodeHealthCheck":"red","node":"master-2","action":"remediation.Confirm","healthCheckVersion":"1486","nodeVersion":"1437","leaseVersion":"1483","machineVersion":""}
{"ts":1795991609000,"logger":"machinehealthcheck","caller":"execute/executor.go:117","msg":"Carrying out","v":4,"machineHealthCheck":"machines/east","node":"Machine machines/m","action":"remediation.DeleteMachine","healthCheckVersion":"1083"}
`), 0o600))
	actions, err := ReadLog(path, "proxy")
	require.NoError(t, err)
	require.Equal(t, []rules.LoggedAction{
		{Time: time.UnixMicro(1795991608275500), Client: "proxy", Check: "red", Node: "master-2", Version: 1486},
		{Time: time.UnixMicro(1795991609000000), Client: "proxy", Check: "machines/east", Node: "Machine machines/m", Version: 1083},
	}, actions)
}
