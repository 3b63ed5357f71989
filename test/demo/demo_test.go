// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// TestFind: every scenario is found by its name, the first is the default, and what is not found
// gets a list.
func TestFind(t *testing.T) {
	t.Parallel()
	names := sets.New[string]()
	for _, s := range scenarios() {
		require.False(t, names.Has(s.name), "two scenarios %s", s.name)
		names.Insert(s.name)
		require.NotEmpty(t, s.shows)
		require.NotNil(t, s.start)
		found, err := find([]string{s.name})
		require.NoError(t, err)
		require.Equal(t, s.shows, found.shows)
	}
	found, err := find(nil)
	require.NoError(t, err)
	require.Equal(t, "nodes", found.name)

	_, err = find([]string{"zones"})
	require.EqualError(t, err, `there is no scenario "zones", but:
  nodes      a NodeHealthCheck repairs a node with a remediator
  machines   a MachineHealthCheck replaces Machines, and backs off from those that never join
  zone       a budget leaves a zone alone that fails as a whole`)
	_, err = find([]string{""})
	require.Error(t, err)
	_, err = find([]string{"nodes", "machines"})
	require.EqualError(t, err, `one scenario at a time, not ["nodes" "machines"]`)
}

// TestCommandLine: the printed line can be pasted into a shell.
func TestCommandLine(t *testing.T) {
	t.Parallel()
	require.Equal(t, "kubectl get nodes", commandLine([]string{"get", "nodes"}))
	require.Equal(t, `kubectl get nodes -o 'jsonpath={range .items[*]}{"\n"}{end}'`, commandLine([]string{"get", "nodes", "-o", `jsonpath={range .items[*]}{"\n"}{end}`}))
}

// TestMachineLines: what the timeline says of a Machine in each state.
func TestMachineLines(t *testing.T) {
	t.Parallel()
	ref := map[string]any{"name": "node-1"}
	for want, status := range map[string]map[string]any{
		"":                            {},
		"Provisioned, without a node": {"phase": "Provisioned"},
		"Running on node-1":           {"phase": "Running", "nodeRef": ref},
	} {
		object := &unstructured.Unstructured{Object: map[string]any{"status": status}}
		require.Equal(t, want, parseMachine(object).String())
		object.SetDeletionTimestamp(new(metav1.Now()))
		require.Equal(t, "is being deleted", parseMachine(object).String())
	}
}

// TestChanges: counts and decisions are printed when they change, and only then.
func TestChanges(t *testing.T) {
	t.Parallel()
	until := metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	status := func(healthy int, reasons ...v1alpha1.DecisionReason) v1beta1.MachineHealthCheckStatus {
		s := v1beta1.MachineHealthCheckStatus{ExpectedMachines: new(3), CurrentHealthy: new(healthy)}
		for _, reason := range reasons {
			s.UnhealthyMachines = append(s.UnhealthyMachines, v1beta1.UnhealthyMachine{
				Name: "worker-1", Trigger: &v1beta1.MachineTrigger{Reason: v1beta1.TriggerNodeStartupTimeout},
				Decision: v1alpha1.Decision{Type: v1beta1.DecisionType(reason), Reason: reason, NextCheckTime: &until},
			})
		}
		return s
	}
	require.Empty(t, changes(v1beta1.MachineHealthCheckStatus{}, v1beta1.MachineHealthCheckStatus{}))
	require.Equal(t, []line{{"machinehealthcheck", "3 of 3 machines healthy"}}, changes(v1beta1.MachineHealthCheckStatus{}, status(3)))
	require.Equal(t, []line{
		{"machinehealthcheck", "2 of 3 machines healthy"},
		{"decision", "worker-1: Waiting, BackOff (NodeStartupTimeout) until 03:04:05"},
	}, changes(status(3), status(2, v1beta1.DecidedBackOff)))
	require.Empty(t, changes(status(2, v1beta1.DecidedBackOff), status(2, v1beta1.DecidedBackOff)))
	require.Equal(t, []line{{"decision", "worker-1: Remediating, MachineDeleting (NodeStartupTimeout) until 03:04:05"}},
		changes(status(2, v1beta1.DecidedBackOff), status(2, v1beta1.DecidedMachineDeleting)))
}
