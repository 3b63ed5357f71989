// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
)

func intOrString(value string) intstr.IntOrString { return intstr.FromString(value) }

// The delays that the controller of TestMachines has.
const (
	testBackOffBase = 4 * time.Second
)

// testMachineBackOff: Machines that fail one after the other live longer each time, until one is
// healthy (spec M14).
func testMachineBackOff(t *testing.T, s *machineScenario) {
	s.createCheck()
	set := s.startMachineSet(1, func(ctx context.Context, machine string) error {
		if machine == "m4" {
			return s.joins(ctx, machine)
		}
		return s.fails(ctx, machine)
	})
	delays := []time.Duration{0, testBackOffBase, 2 * testBackOffBase}
	for i, delay := range delays {
		name := fmt.Sprintf("m%d", i+1)
		if delay > 0 {
			entry := s.eventuallyDecided(name, "BackOff")
			require.NotNil(t, entry.Decision.NextCheckTime)
			created := s.machine(name).GetCreationTimestamp()
			require.Equal(t, created.Add(delay).Unix(), entry.Decision.NextCheckTime.Unix(), "M14.2: generation %d", i+1)
			lease, err := s.kube.CoordinationV1().Leases("medik8s-leases").Get(t.Context(), "machine-owner-"+string(s.owner.UID), metav1.GetOptions{})
			require.NoError(t, err)
			require.Equal(t, int32(i), *lease.Spec.LeaseTransitions, "M14.4")
			require.Equal(t, "MachineHealthCheck-"+s.name+"/"+s.name, *lease.Spec.HolderIdentity)
			require.Equal(t, "ConfigMap/"+s.name+"/pool", lease.Annotations["nhc-controller/owner"])
		}
		s.eventuallyGone(name)
	}
	s.eventuallyCounts(1, 1)
	s.eventually("the rounds are forgotten, because a Machine is healthy", func() bool {
		leases, err := s.kube.CoordinationV1().Leases("medik8s-leases").List(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=machine-owner-" + string(s.owner.UID)})
		require.NoError(t, err)
		return len(leases.Items) == 0
	})
	require.Equal(t, []string{"m1", "m2", "m3", "m4"}, set.Created())
	require.Len(t, s.deleteRequests(""), 3)
}

// testMachineStrategies: Machines of a bare-metal cluster are handed over by annotations (spec M11).
func testMachineStrategies(t *testing.T, c *cluster) {
	s := newMachineScenario(t, c, openShiftMachine)
	s.createMachine("a", unowned)
	s.createMachine("b", finalized)
	s.join("a", "b")
	s.createCheck(annotated(v1beta1.AnnotationRemediationStrategy, v1beta1.StrategyExternalBaremetal))
	s.setReady("a", "Unknown")
	s.eventuallyDecided("a", "ExternalRemediation")
	require.Equal(t, map[string]string{v1beta1.AnnotationExternalRemediation: "", v1beta1.AnnotationRemediationStrategy: v1beta1.StrategyExternalBaremetal}, s.machine("a").GetAnnotations(), "M11.1")
	target := s.name + "/" + s.name + "/a/" + s.nodeName("a")
	s.eventuallyEvent("Machine", "a", "ExternalAnnotationAdded", "Requesting external remediation of node associated with machine "+target)

	// The consumer: it powers the host off, deletes the Node, powers it on, and removes its key.
	require.NoError(t, c.kube.CoreV1().Nodes().Delete(t.Context(), s.nodeName("a"), metav1.DeleteOptions{}))
	s.eventually("the Node is gone", func() bool {
		history := s.status().RemediationHistory
		return len(history) == 1 && history[0].Fenced != nil
	})
	require.NotNil(t, s.machine("a"), "M11.2: nothing further is done")
	s.join("a")
	s.eventually("nothing is wrong any more", func() bool {
		entry := s.entry("a")
		return entry != nil && entry.Trigger != nil && s.machine("a").GetAnnotations()[v1beta1.AnnotationRemediationStrategy] != ""
	})
	require.Contains(t, s.machine("a").GetAnnotations(), v1beta1.AnnotationExternalRemediation, "M11.2: the controller never removes it")
	s.patchMachine("a", map[string]any{"annotations": map[string]any{v1beta1.AnnotationExternalRemediation: nil}})
	s.eventually("the second key follows the first", func() bool { return len(s.machine("a").GetAnnotations()) == 0 })
	s.eventuallyCounts(2, 2)
	s.eventually("the history is complete", func() bool {
		history := s.status().RemediationHistory
		return len(history) == 1 && history[0].Finished != nil && history[0].RemediationType == v1beta1.RemediationExternal
	})

	s.setPhase("b", "Failed") // A reboot does not help.
	s.eventuallyDecided("b", "MachineDeleting")
	require.Empty(t, s.deleteRequests("a"))
	require.Len(t, s.deleteRequests("b"), 1, "M10.1")
}
