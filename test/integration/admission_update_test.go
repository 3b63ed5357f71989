// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/test/patience"
)

const (
	selectorFixed = "selector update prohibited due to running remediation"
	templateFixed = "remediation template update prohibited due to running remediation"
	stepsFixed    = "escalating remediations update prohibited due to running remediation"
	deletionFixed = "deletion prohibited due to running remediation, unless annotation remediation.medik8s.io/allow-delete-while-remediating is set"
)

// testUpdateWhileRemediating tests 4.4.
func testUpdateWhileRemediating(a *admission) {
	for name, tc := range map[string]struct {
		base, changes string
		denied        []string
	}{
		"nothing":            {base: classicSpec, changes: `{}`},
		"minHealthy":         {base: classicSpec, changes: `{minHealthy: 1}`},
		"another limit":      {base: classicSpec, changes: `{minHealthy: null, maxUnhealthy: 1}`},
		"unhealthyCondition": {base: classicSpec, changes: `{unhealthyConditions: [{type: a, status: b, duration: 1s}]}`},
		"pause":              {base: classicSpec, changes: `{pauseRequests: [maintenance]}`},
		"delay":              {base: classicSpec, changes: `{healthyDelay: 1h}`},
		"storm":              {base: classicSpec, changes: `{stormRecoveryThreshold: 3, stormCooldownDuration: 1m}`},
		"rules of the spec":  {base: classicSpec, changes: `{minHealthy: -4}`, denied: []string{"minHealthy must not be negative: -4"}},

		"label":             {base: classicSpec, changes: `{selector: {matchLabels: {node-role.kubernetes.io/worker: other}}}`, denied: []string{selectorFixed}},
		"added expression":  {base: classicSpec, changes: `{selector: {matchExpressions: [{key: a, operator: Exists}]}}`, denied: []string{selectorFixed}},
		"expression":        {base: escalatingSpec, changes: `{selector: {matchExpressions: [{key: other, operator: Exists}]}}`, denied: []string{selectorFixed}},
		"no selector":       {base: classicSpec, changes: `{selector: null}`, denied: []string{noSelector, selectorFixed}},
		"empty expressions": {base: classicSpec, changes: `{selector: {matchExpressions: []}}`},

		"another template":      {base: classicSpec, changes: `{remediationTemplate: {name: other}}`, denied: []string{templateFixed}},
		"added reference field": {base: classicSpec, changes: `{remediationTemplate: {uid: "1"}}`, denied: []string{templateFixed}},
		"from classic to escalating": {
			base: classicSpec, changes: `{remediationTemplate: null, escalatingRemediations: [{order: 1, timeout: 1h, remediationTemplate: {apiVersion: a/v1, kind: ATemplate, name: a}}]}`,
			denied: []string{stepsFixed, templateFixed},
		},
		"from escalating to classic": {
			base: escalatingSpec, changes: `{escalatingRemediations: null, remediationTemplate: {apiVersion: a/v1, kind: ATemplate, name: a}}`,
			denied: []string{stepsFixed, templateFixed},
		},
		"empty list of steps": {base: classicSpec, changes: `{escalatingRemediations: []}`},
		"reordered steps": {base: escalatingSpec, changes: `{escalatingRemediations: [` +
			`{order: 2, timeout: 5m0.5s, remediationTemplate: {apiVersion: example.com/v1, kind: SecondTemplate, namespace: remediators, name: second}},` +
			`{order: 1, timeout: 60s, remediationTemplate: {apiVersion: example.com/v1, kind: FirstTemplate, namespace: remediators, name: first}}]}`,
			denied: []string{stepsFixed}},
		"timeout of a step": {base: escalatingSpec, changes: `{escalatingRemediations: [` +
			`{order: 1, timeout: 61s, remediationTemplate: {apiVersion: example.com/v1, kind: FirstTemplate, namespace: remediators, name: first}},` +
			`{order: 2, timeout: 5m0.5s, remediationTemplate: {apiVersion: example.com/v1, kind: SecondTemplate, namespace: remediators, name: second}}]}`,
			denied: []string{stepsFixed}},
		"everything": {
			base: classicSpec, changes: `{minHealthy: null, selector: {matchLabels: {a: b}}, remediationTemplate: null, escalatingRemediations: [{order: 1, timeout: 59s, remediationTemplate: {apiVersion: a/v1, kind: ATemplate, name: a}}]}`,
			denied: []string{
				"EscalatingRemediation Timeout must be at least one minute: found timeout 59s", stepsFixed, noLimit, templateFixed, selectorFixed,
			},
		},
	} {
		a.Run(name, func(t *testing.T) {
			a := newAdmission(t, a.cluster)
			base, changed := a.spec(tc.base, `{}`), a.spec(tc.base, tc.changes)
			remediating := a.store("remediating", base, remediatingStatus)
			require.ElementsMatch(t, tc.denied, a.update(remediating, changed), "while a remediation runs")

			idle := a.store("idle", base, idleStatus)
			var always []string
			for _, message := range tc.denied {
				if !strings.Contains(message, "prohibited") {
					always = append(always, message)
				}
			}
			require.ElementsMatch(t, always, a.update(idle, changed), "while none runs")
		})
	}
}

// testCost stores as many nodes as a status may have: the rules must not become
// too expensive for the API server, which would deny every request.
func testCost(a *admission) {
	nodes := make([]any, 5000)
	for i := range nodes {
		nodes[i] = map[string]any{"name": fmt.Sprintf("node-%04d.%s", i, strings.Repeat("a", 60))}
	}
	stored := a.store("many", a.spec(escalatingSpec, `{}`), "")
	stored.Object["status"] = map[string]any{"unhealthyNodes": nodes}
	stored, err := a.client.UpdateStatus(a.Context(), stored, metav1.UpdateOptions{})
	require.NoError(a, err)
	changed := a.spec(classicSpec, `{}`)
	require.Empty(a, a.update(stored, changed))
	require.NoError(a, a.client.Delete(a.Context(), "many", metav1.DeleteOptions{DryRun: dryRun}))

	last, _ := nodes[len(nodes)-1].(map[string]any)
	last["remediations"] = a.parse(remediatingStatus)["unhealthyNodes"].([]any)[1].(map[string]any)["remediations"]
	stored.Object["status"] = map[string]any{"unhealthyNodes": nodes}
	stored, err = a.client.UpdateStatus(a.Context(), stored, metav1.UpdateOptions{})
	require.NoError(a, err)
	require.Equal(a, []string{stepsFixed, templateFixed, selectorFixed}, a.update(stored, changed))
	require.True(a, apierrors.IsForbidden(a.client.Delete(a.Context(), "many", metav1.DeleteOptions{DryRun: dryRun})))
}

// testDeletion tests 4.5.
func testDeletion(a *admission) {
	remediating := a.store("remediating", a.spec(classicSpec, `{}`), remediatingStatus)
	a.store("idle", a.spec(escalatingSpec, `{}`), idleStatus)
	a.store("new", a.spec(escalatingSpec, `{}`), "")
	remove := func(name string) error {
		return a.client.Delete(a.Context(), name, metav1.DeleteOptions{DryRun: dryRun})
	}

	// A policy applies a moment after it was created.
	require.Eventually(a, func() bool { return remove("remediating") != nil }, patience.Limit, 100*time.Millisecond)
	err := remove("remediating")
	require.True(a, apierrors.IsForbidden(err), "%v", err)
	status, _ := errors.AsType[*apierrors.StatusError](err)
	require.Equal(a, int32(http.StatusForbidden), status.ErrStatus.Code)
	require.True(a, strings.HasSuffix(status.ErrStatus.Message, " denied request: "+deletionFixed), status.ErrStatus.Message)

	err = a.client.DeleteCollection(a.Context(), metav1.DeleteOptions{DryRun: dryRun}, metav1.ListOptions{})
	require.True(a, apierrors.IsForbidden(err), "%v", err)
	require.ErrorContains(a, err, deletionFixed)
	_, err = a.cluster.Kubectl(a.Context(), "delete", "nhc", "--all", "--dry-run=server")
	require.ErrorContains(a, err, deletionFixed)

	require.NoError(a, remove("idle"))
	require.NoError(a, remove("new"))
	for _, value := range []string{"", "false"} {
		annotated := remediating.DeepCopy()
		annotated.SetAnnotations(map[string]string{v1alpha1.AnnotationAllowDelete: value, "other": ""})
		remediating, err = a.client.Update(a.Context(), annotated, metav1.UpdateOptions{})
		require.NoError(a, err)
		require.NoError(a, remove("remediating"), "annotation %q", value)
	}
	annotated := remediating.DeepCopy()
	annotated.SetAnnotations(map[string]string{"other": ""})
	_, err = a.client.Update(a.Context(), annotated, metav1.UpdateOptions{})
	require.NoError(a, err)
	require.ErrorContains(a, remove("remediating"), deletionFixed)
}

func versionSchema(crd *unstructured.Unstructured) map[string]any {
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	version, _ := versions[0].(map[string]any)
	schema, _, _ := unstructured.NestedMap(version, "schema", "openAPIV3Schema")
	return schema
}

// withoutRules runs what stores objects that the rules of their kind deny. It replaces the CRD
// for that time.
func (a *admission) withoutRules(store func()) {
	a.Helper()
	crds := a.cluster.dynamic.Resource(crdResource)
	name := a.plural + "." + a.version.Group
	withRules, err := crds.Get(a.Context(), name, metav1.GetOptions{})
	require.NoError(a, err)
	replaceSchema := func(schema map[string]any) {
		crd, err := crds.Get(a.Context(), name, metav1.GetOptions{})
		require.NoError(a, err)
		versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
		version, _ := versions[0].(map[string]any)
		require.NoError(a, unstructured.SetNestedMap(version, schema, "schema", "openAPIV3Schema"))
		require.NoError(a, unstructured.SetNestedSlice(crd.Object, versions, "spec", "versions"))
		_, err = crds.Update(a.Context(), crd, metav1.UpdateOptions{})
		require.NoError(a, err)
	}

	open := versionSchema(withRules)
	delete(open, "x-kubernetes-validations")
	delete(open, "required")
	anything := map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}
	require.NoError(a, unstructured.SetNestedMap(open, anything, "properties", "spec"))
	replaceSchema(open)
	require.Eventually(a, func() bool { return len(a.create(nil)) == 0 }, patience.Limit, 100*time.Millisecond, "the rules are gone")
	store()
	replaceSchema(versionSchema(withRules))
	require.Eventually(a, func() bool { return len(a.create(nil)) > 0 }, patience.Limit, 100*time.Millisecond, "the rules are back")
}

// storeUnnamed creates an object with a name of the API server, and returns the name.
func (a *admission) storeUnnamed(spec map[string]any) string {
	a.Helper()
	object := a.object("", spec)
	object.SetGenerateName("stored-")
	object, err := a.client.Create(a.Context(), object, metav1.CreateOptions{})
	require.NoError(a, err)
	return object.GetName()
}

// testStoredBefore tests 4.7: any object that was stored before the rules existed stays
// usable. Only a change of the spec is judged.
func testStoredBefore(a *admission) {
	stored := map[string]string{} // From the test case to the NodeHealthCheck.
	var nhc *unstructured.Unstructured
	a.withoutRules(func() {
		for test, tc := range specRules {
			stored[test] = a.storeUnnamed(a.spec(tc.base, tc.changes))
		}
		nhc = a.store("empty-selector", a.spec(classicSpec, `{selector: {}}`), "")
	})

	// A change of such a spec is judged as a whole.
	require.Equal(a, []string{noSelector}, a.update(nhc, a.spec(classicSpec, `{selector: {}, pauseRequests: [a]}`)))
	require.Empty(a, a.update(nhc, a.spec(classicSpec, `{pauseRequests: [a]}`)))

	lenient := a.cluster.minor(a.T) >= 33
	for test, tc := range specRules {
		nhc, err := a.client.Get(a.Context(), stored[test], metav1.GetOptions{})
		require.NoError(a, err)
		// Older API servers judge the spec in a status write, too.
		writesStatus := lenient || len(tc.denied) == 0
		if writesStatus {
			a.writeStatuses(nhc)
		}
		_, err = a.client.Patch(a.Context(), nhc.GetName(), types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{})
		require.NoError(a, err, "%s: metadata", test)
		nhc, err = a.client.Get(a.Context(), stored[test], metav1.GetOptions{})
		require.NoError(a, err)
		if writesStatus {
			nhc = a.writeStatus(nhc, idleStatus)
		}
		require.NoError(a, a.client.Delete(a.Context(), nhc.GetName(), metav1.DeleteOptions{}), "%s: deletion is subject to no other rule", test)
	}
}

// writeStatuses writes the status in every way.
func (a *admission) writeStatuses(nhc *unstructured.Unstructured) {
	a.Helper()
	// Twice: when the second one is written, the rules about updates apply.
	nhc = a.writeStatus(nhc, remediatingStatus)
	nhc = a.writeStatus(nhc, remediatingStatus+"reason: anything\n")
	apply := &unstructured.Unstructured{Object: map[string]any{"status": a.parse(`{observedNodes: 3, phase: Remediating}`)}}
	apply.SetGroupVersionKind(nhc.GroupVersionKind())
	apply.SetName(nhc.GetName())
	apply.SetResourceVersion(nhc.GetResourceVersion())
	_, err := a.client.ApplyStatus(a.Context(), nhc.GetName(), apply, metav1.ApplyOptions{FieldManager: "test", Force: true})
	require.NoError(a, err)
}

// testColumns tests what kubectl get shows.
func testColumns(a *admission) {
	a.store("shown", a.spec(classicSpec, `{mode: DryRun}`), `{phase: Remediating, observedNodes: 12, healthyNodes: 9, unhealthyNodeCount: 3, remediatingNodes: 2, soonUnhealthyNodes: 1, reason: NHC is remediating 2 nodes,
		conditions: [{type: RemediationAllowed, status: "False", reason: Closed, message: too few, lastTransitionTime: "2026-01-01T00:00:00Z"}, {type: StormActive, status: "True", reason: HealthyNodeThresholdChange, message: "", lastTransitionTime: "2026-01-01T00:00:00Z"}]}`)
	for _, tc := range []struct{ command, want string }{
		{"get nhc shown", "NAME PHASE OBSERVED HEALTHY UNHEALTHY REMEDIATING GATE AGE\nshown Remediating 12 9 3 2 Closed"},
		{"get nhc shown -o wide", "NAME PHASE OBSERVED HEALTHY UNHEALTHY REMEDIATING GATE AGE MODE SOON-UNHEALTHY STORM WHY\nshown Remediating 12 9 3 2 Closed"},
		{"get medik8s", "NAME PHASE OBSERVED HEALTHY UNHEALTHY REMEDIATING GATE AGE\n"}, // Last: kubectl looks anew for a kind that it does not know, but not for a category.
	} {
		output, err := a.cluster.Kubectl(a.Context(), strings.Fields(tc.command)...)
		require.NoError(a, err)
		var lines []string
		for line := range strings.Lines(output) {
			lines = append(lines, strings.Join(strings.Fields(line), " "))
		}
		require.Contains(a, strings.Join(lines, "\n"), tc.want, tc.command)
		if strings.Contains(tc.command, "wide") {
			require.Contains(a, strings.Join(lines, "\n"), " DryRun 1 True too few")
		}
	}
}
