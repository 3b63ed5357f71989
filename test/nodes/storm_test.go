// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package nodes

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nhc-controller/nhc-controller/test/deploy"
	"github.com/nhc-controller/nhc-controller/test/remediator"
)

// slowly has nodes counted as unhealthy so late that Kubernetes has noticed all that failed at the same time.
const slowly = `{"unhealthyConditions":[{"type":"Ready","status":"Unknown","duration":"15s"},{"type":"Ready","status":"False","duration":"15s"}]}`

// TestStorm: while too many nodes fail, none is remediated. When one has come back, the other one is.
func TestStorm(t *testing.T) {
	t.Parallel()
	s := newStory(t, Options{}, true)
	s.configure(slowly)
	leader, _ := s.controllers()
	var failed []*Node
	for _, node := range s.nodes {
		if node != leader {
			failed = append(failed, node)
		}
	}
	s.fail(failed[0], "a power cut", (*Node).PowerOff)
	s.timeline.Say("test", "a power cut of node "+failed[1].Name)
	require.NoError(t, failed[1].PowerOff())
	for _, node := range failed {
		s.await("node " + node.Name + " Ready=Unknown")
	}
	time.Sleep(watched)
	_, _, created, _ := s.timeline.find("remediation", "\x00")
	require.False(t, created, "two of three nodes are down, and 51% have to be healthy")

	s.timeline.Say("test", "the power of node "+failed[1].Name+" is back")
	require.NoError(t, failed[1].PowerOn())
	s.await("node " + failed[1].Name + " Ready=True")
	s.await("remediation " + failed[0].Name + " created")
	s.await("remediation " + failed[0].Name + " deleted")
	_, _, created, _ = s.timeline.find("remediation "+failed[1].Name, "\x00")
	require.False(t, created)
	s.settle()
}

const zoneBudget = `
apiVersion: nhc-controller.io/v1alpha1
kind: RemediationBudget
metadata:
  name: zones
spec:
  nodeSelector: {}
  topologyKey: topology.kubernetes.io/zone
  maxUnhealthy: 1
  reason: a failure of the zone
`

// TestZone: while a zone fails, none of its nodes is remediated, and nodes of other zones are.
func TestZone(t *testing.T) {
	t.Parallel()
	s := newStory(t, Options{Nodes: []string{"a", "b", "c", "d"}}, true)
	leader, _ := s.controllers()
	var others []*Node
	for _, node := range s.nodes {
		if node != leader {
			others = append(others, node)
		}
	}
	down, alone := others[:2], others[2]
	for _, node := range down {
		s.kubectl("label", "node", node.Name, "topology.kubernetes.io/zone=east")
	}
	s.kubectl("label", "node", leader.Name, alone.Name, "topology.kubernetes.io/zone=west")
	s.configure(slowly)
	s.configure(`{"minHealthy":0}`)
	require.NoError(t, s.Apply(t.Context(), zoneBudget))
	s.fail(down[0], "a power cut", (*Node).PowerOff)
	for _, node := range []*Node{down[1], alone} {
		s.timeline.Say("test", "a power cut of node "+node.Name)
		require.NoError(t, node.PowerOff())
	}
	s.await("remediation " + alone.Name + " created")
	s.await("remediation " + alone.Name + " deleted")
	for _, node := range down {
		s.await("node " + node.Name + " Ready=Unknown")
		_, _, created, _ := s.timeline.find("remediation "+node.Name, "\x00")
		require.False(t, created)
	}
	require.NoError(t, down[0].PowerOn())
	s.await("remediation " + down[1].Name + " deleted")
	s.settle()
}

// TestEscalation: the first remediator does nothing, so that the second one has to repair the node.
func TestEscalation(t *testing.T) {
	t.Parallel()
	s := newStory(t, Options{}, true)
	idle := strings.NewReplacer("PowerCycle", "Idle", "powercycle", "idle", "power-cycle", "idle", "demo.nhc", "idle.nhc")
	kinds := deploy.Kinds{Manifest: idle.Replace(remediator.Manifest), Group: idle.Replace(remediator.Resource.Group)}
	require.NoError(t, deploy.InstallKinds(t.Context(), s.ControlPlane, kinds))
	require.NoError(t, s.Apply(t.Context(), idle.Replace(remediator.TemplateManifest)))
	step := `{"remediationTemplate":{"apiVersion":"%s.nhc-controller.io/v1alpha1","kind":"%sRemediationTemplate","namespace":"default","name":"%s"},"order":%d,"timeout":"60s"}`
	s.configure(`{"remediationTemplate":null,"escalatingRemediations":[` +
		fmt.Sprintf(step, "idle", "Idle", "idle", 1) + "," + fmt.Sprintf(step, "demo", "PowerCycle", "power-cycle", 2) + "]}")
	s.settle()
	node := s.nodeOfDatabase()
	s.fail(node, "a pulled cable", (*Node).Cut)
	noticed := s.await("node " + node.Name + " Ready=Unknown")
	escalated := s.await("remediation " + node.Name + " created")
	require.Greater(t, escalated-noticed, 60*time.Second)
	require.Less(t, escalated-noticed, 60*time.Second+2*decided)
	s.await("BMC of " + node.Name + " has its power back")
	require.NoError(t, node.Join())
	s.await("remediation " + node.Name + " deleted")
	s.requireOneWriter()
	s.settle()
}
