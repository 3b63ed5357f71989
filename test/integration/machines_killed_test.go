// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/test/deploy"
)

// TestMachinesKilledAtEachWrite has a Machine fail again and again, and kills the controller at its
// n-th write, as TestKilledAtEachWrite does. The end is always the same: the Machine is deleted once,
// nothing else is, and no lease is left (P8, spec M14.4).
func TestMachinesKilledAtEachWrite(t *testing.T) {
	t.Parallel()
	c := exclusiveCluster(t)
	c.installMachineAPIs(t)
	c.applyOverlay(t, ownOverlay)
	m := &killedController{t: t, cluster: c}
	m.startProxy()
	m.start()

	writes := m.replacement("alive", machineAPIs[0], killPoint{})
	require.Greater(t, writes, 4, "lease of the Node, lease of the owner, deletion, status, leases again")
	for i, point := range killPoints(t, writes) {
		apis := machineAPIs
		if !*killAll { // A sample has some of each.
			apis = machineAPIs[i%len(machineAPIs):][:1]
		}
		for _, api := range apis {
			m.replacement(fmt.Sprintf("%s, write %d of %d, carried out: %t", api.name, point.write, writes, point.carriedOut), api, point)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	require.NotZero(t, m.kills)
	require.GreaterOrEqual(t, m.starts, m.kills, "it was started again")
}

// replacement has a Machine fail that has a Node, and its replacement join, and returns the number of
// writes.
func (m *killedController) replacement(name string, api machineAPI, next killPoint) (writes int) {
	m.t.Run(name, func(t *testing.T) {
		s := newMachineScenario(t, m.cluster, api.machine)
		s.startMachineSet(2, s.joins)
		s.createCheck()
		s.eventuallyCounts(2, 2)
		m.mu.Lock()
		m.writes, m.next = 0, next
		m.mu.Unlock()

		time.Sleep(time.Second) // A Machine that is older than the failure by the clock stands for no other.
		s.setPhase("m1", "Failed")
		s.eventuallyGone("m1")
		s.eventuallyCounts(2, 2)
		s.eventually("no lease is left", func() bool {
			leases, err := s.kube.CoordinationV1().Leases("medik8s-leases").List(t.Context(), metav1.ListOptions{})
			require.NoError(t, err)
			return len(leases.Items) == 0
		})
		s.eventually("the history is complete", func() bool {
			history := s.status().RemediationHistory
			return len(history) == 1 && history[0].Finished != nil && history[0].Replacement == "m3"
		})
		accepted := 0
		for _, request := range s.deleteRequests("") {
			require.Equal(t, "m1", request.Name)
			if request.Code == http.StatusOK {
				accepted++
			}
		}
		require.Equal(t, 1, accepted, "no Machine is deleted twice")
		m.mu.Lock()
		defer m.mu.Unlock()
		require.Empty(t, deploy.LogFaults(m.process))
		writes = m.writes
	})
	return writes
}
