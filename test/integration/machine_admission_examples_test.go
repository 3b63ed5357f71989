// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// testMHCCost judges a MachineHealthCheck as large as there is any reason for: the API server
// gives up on rules that cost too much, and then denies the request.
func testMHCCost(a *mhcAdmission) {
	conditions := make([]any, 256)
	for i := range conditions {
		conditions[i] = map[string]any{"type": fmt.Sprintf("Condition%d", i), "status": "True", "timeout": strings.Repeat("1s", 32)}
	}
	labels := map[string]any{}
	for i := range 256 {
		labels[fmt.Sprintf("%s.example.com/label-%d", strings.Repeat("a", 63), i)] = strings.Repeat("v", 63)
	}
	values := make([]any, 512)
	for i := range values {
		values[i] = fmt.Sprintf("%s-%d", strings.Repeat("v", 55), i)
	}
	object := a.mhc("large", externalStrategy, `{}`)
	object.Object["spec"] = map[string]any{
		"unhealthyConditions": conditions,
		"selector": map[string]any{
			"matchLabels":      labels,
			"matchExpressions": []any{map[string]any{"key": "a", "operator": "In", "values": values}, map[string]any{"key": "b", "operator": "NotIn", "values": values}},
		},
	}
	require.Empty(a, a.create(object))
	conditions[255] = map[string]any{"type": "Last", "status": "True", "timeout": "9999999h"}
	require.Equal(a, "timeout must be a duration: 9999999h", a.create(object))
}

// testMHCDefaults tests the defaults of M3.1, which are those of OpenShift.
func testMHCDefaults(a *mhcAdmission) {
	for spec, want := range map[string]string{
		`{}`:                        `{maxUnhealthy: 100%, nodeStartupTimeout: 10m}`,
		`{maxUnhealthy: 0}`:         `{maxUnhealthy: 0, nodeStartupTimeout: 10m}`,
		`{nodeStartupTimeout: "0"}`: `{maxUnhealthy: 100%, nodeStartupTimeout: "0"}`,
	} {
		created, err := a.client.Create(a.Context(), a.mhc("defaults", "", spec), metav1.CreateOptions{DryRun: dryRun})
		require.NoError(a, err)
		require.Equal(a, a.parse(want), created.Object["spec"], spec)
		require.NotContains(a, created.Object, "status")
	}
	created, err := a.client.Create(a.Context(), a.mhc("defaults", "", ""), metav1.CreateOptions{DryRun: dryRun})
	require.NoError(a, err)
	require.NotContains(a, created.Object, "spec")
}

// testAddedFields writes every field that is not OpenShift's (M3.1, M16), with values that a later
// version may have.
func (a *mhcAdmission) testAddedFields(crd servedCRD) {
	created, err := a.client.Create(a.Context(), a.mhc("added", "", `{}`), metav1.CreateOptions{})
	require.NoError(a, err)
	defer a.delete("added")
	status := a.parse(`
observedGeneration: 7
ignoredMachines: 3
unhealthyMachines:
- name: worker-1
  node: node-1
  trigger: {type: Ready, status: Unknown, reason: Later}
  detected: "2026-01-02T03:04:05Z"
  decision: {type: Later, reason: Later, message: why, since: "2026-01-02T03:04:05Z", nextCheckTime: "2026-01-02T03:04:06Z"}
remediationHistory:
- {targetKind: Machine, targetName: worker-1, machine: worker-1, reason: MachineFailed, detected: "2026-01-02T03:04:05Z", started: "2026-01-02T03:04:05Z",
   fenced: "2026-01-02T03:04:05Z", closed: "2026-01-02T03:04:05Z", remediationType: later, replacement: worker-2, owner: "1"}
`)
	created.Object["status"] = merge(status, a.parse(`{conditions: [{type: RemediationAllowed, status: "False", severity: Warning, reason: TooManyUnhealthy, message: why, lastTransitionTime: "2026-01-02T03:04:05Z"}]}`))
	want := created.Object["status"]
	if crd.name == openShiftCRD.name {
		want = map[string]any{"conditions": want.(map[string]any)["conditions"]}
	}
	created, err = a.client.UpdateStatus(a.Context(), created, metav1.UpdateOptions{})
	require.NoError(a, err)
	requireSameJSON(a, want, created.Object["status"])
}

func requireSameJSON(a *mhcAdmission, want, got any) {
	a.Helper()
	wantJSON, err := json.Marshal(want)
	require.NoError(a, err)
	gotJSON, err := json.Marshal(got)
	require.NoError(a, err)
	require.JSONEq(a, string(wantJSON), string(gotJSON))
}

// testMHCColumns tests what kubectl shows: as OpenShift does.
func testMHCColumns(a *mhcAdmission) {
	created, err := a.client.Create(a.Context(), a.mhc("shown", "", `{maxUnhealthy: 40%}`), metav1.CreateOptions{})
	require.NoError(a, err)
	defer a.delete("shown")
	a.writeStatus(created, `{expectedMachines: 5, currentHealthy: 4}`)
	for _, name := range []string{"mhc", "mhcs", "machinehealthchecks.machine.openshift.io"} {
		output, err := a.cluster.Kubectl(a.Context(), "get", name, "shown", "--namespace", machineNamespace)
		require.NoError(a, err)
		require.Equal(a, "NAME MAXUNHEALTHY EXPECTEDMACHINES CURRENTHEALTHY shown 40% 5 4", strings.Join(strings.Fields(output), " "))
	}
}
