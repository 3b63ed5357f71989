// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
)

func selecting(name string, selector metav1.LabelSelector) *v1alpha1.NodeHealthCheck {
	return &v1alpha1.NodeHealthCheck{ObjectMeta: metav1.ObjectMeta{Name: name, Generation: 1}, Spec: v1alpha1.NodeHealthCheckSpec{Selector: selector}}
}

func byRole(role string) metav1.LabelSelector {
	return metav1.LabelSelector{MatchLabels: map[string]string{"role": role}}
}

func testSelectors() *selectors {
	s := &selectors{}
	s.set(selecting("workers", byRole("worker")))
	s.set(selecting("infra", byRole("infra")))
	s.set(selecting("all", metav1.LabelSelector{}))
	s.set(selecting("broken", metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "role", Operator: "Near"}}}))
	return s
}

func TestConcerned(t *testing.T) {
	t.Parallel()
	worker, infra, none := testNode("n", labelled("role", "worker")), testNode("n", labelled("role", "infra")), testNode("n")
	tests := map[string]struct {
		old, node *corev1.Node
		matters   bool
		want      []string
	}{
		"21.1 created":                                      {node: worker, matters: true, want: []string{"all", "workers"}},
		"21.1 deleted":                                      {old: worker, matters: true, want: []string{"all", "workers"}},
		"21.1 a condition has changed":                      {old: worker, node: worker, matters: true, want: []string{"all", "workers"}},
		"21.1 another label has changed":                    {old: worker, node: testNode("n", labelled("role", "worker"), labelled("x", "y"))},
		"P2 judged by its old and by its new state":         {old: worker, node: infra, want: []string{"infra", "workers"}},
		"P2 and more has changed as well":                   {old: worker, node: infra, matters: true, want: []string{"all", "infra", "workers"}},
		"21.1 selected now":                                 {old: none, node: infra, want: []string{"infra"}},
		"21.1 no longer selected":                           {old: infra, node: none, want: []string{"infra"}},
		"4.7 an empty selector matches, an invalid one not": {old: none, node: none, matters: true, want: []string{"all"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := testSelectors().concerned(tc.old, tc.node, tc.matters)
			slices.Sort(got)
			require.Equal(t, tc.want, got)
		})
	}
}

func TestSelectorsFollowTheSpec(t *testing.T) {
	t.Parallel()
	s := &selectors{}
	node := testNode("n", labelled("role", "worker"))
	require.Empty(t, s.concerned(nil, node, true))
	nhc := selecting("workers", byRole("worker"))
	s.set(nhc)
	require.Equal(t, []string{"workers"}, s.concerned(nil, node, true))

	changed := nhc.DeepCopy()
	changed.Spec.Selector, changed.Generation = byRole("infra"), 2
	s.set(changed)
	require.Empty(t, s.concerned(nil, node, true), "the spec has changed")

	again := nhc.DeepCopy()
	again.UID = "another"
	again.Generation = 2
	s.set(again)
	require.Equal(t, []string{"workers"}, s.concerned(nil, node, true), "deleted and created again, with the same generation")
	require.Equal(t, []string{"workers"}, s.names())
	s.remove("workers")
	require.Empty(t, s.names())
	require.Empty(t, s.concerned(nil, node, true))
}

func TestReferring(t *testing.T) {
	t.Parallel()
	reference := func(apiVersion, kind, namespace, name string) corev1.ObjectReference {
		return corev1.ObjectReference{APIVersion: apiVersion, Kind: kind, Namespace: namespace, Name: name}
	}
	s := &selectors{}
	classic := selecting("classic", byRole("worker"))
	classic.Spec.RemediationTemplate = new(reference("example.com/v1", "RebootTemplate", "ns", "reboot"))
	s.set(classic)
	escalating := selecting("escalating", byRole("worker"))
	escalating.Spec.EscalatingRemediations = []v1alpha1.EscalatingRemediation{
		{Order: 2, RemediationTemplate: reference("example.com/v1", "FenceTemplate", "ns", "fence")},
		{Order: 1, RemediationTemplate: reference("example.com/v1", "RebootTemplate", "ns", "reboot")},
		{Order: 3, RemediationTemplate: reference("example.com/v1", "GlobalTemplate", "ignored", "global")},
	}
	s.set(escalating)
	kind := func(kind string) schema.GroupVersionKind {
		return schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: kind}
	}
	tests := map[string]struct {
		kind            schema.GroupVersionKind
		namespace, name string
		want            []string
	}{
		"21.1 those that refer to it":     {kind: kind("RebootTemplate"), namespace: "ns", name: "reboot", want: []string{"classic", "escalating"}},
		"P7 any step":                     {kind: kind("FenceTemplate"), namespace: "ns", name: "fence", want: []string{"escalating"}},
		"21.1 a cluster-scoped template":  {kind: kind("GlobalTemplate"), name: "global", want: []string{"escalating"}},
		"P9 the same name, another kind":  {kind: kind("FenceTemplate"), namespace: "ns", name: "reboot"},
		"P9 another namespace":            {kind: kind("RebootTemplate"), namespace: "other", name: "reboot"},
		"P9 another name":                 {kind: kind("RebootTemplate"), namespace: "ns", name: "other"},
		"P9 the same kind, another group": {kind: schema.GroupVersionKind{Group: "example.org", Version: "v1", Kind: "RebootTemplate"}, namespace: "ns", name: "reboot"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := s.referring(tc.kind, types.NamespacedName{Namespace: tc.namespace, Name: tc.name})
			slices.Sort(got)
			require.Equal(t, tc.want, got)
		})
	}
}

func TestWaiting(t *testing.T) {
	t.Parallel()
	var w waiting
	a, b := awaitedCR(testCR("a", "1")), awaitedLease("node-b")
	require.Empty(t, w.on(a))
	w.replace("one", sets.New(a, b))
	w.replace("two", sets.New(a))
	require.ElementsMatch(t, []string{"one", "two"}, w.on(a), "21.1: those that wait for it")
	require.Equal(t, []string{"one"}, w.on(b))
	w.replace("one", sets.New(b))
	require.Equal(t, []string{"two"}, w.on(a), "P4: it does not wait any more")
	w.forget("one")
	w.forget("two")
	require.Empty(t, w.on(a))
	require.Empty(t, w.on(b))
	require.Empty(t, w.waiters, "nothing is left over")
}

func TestAwaitedNamesOneObject(t *testing.T) {
	t.Parallel()
	base := testCR("a", "1")
	for name, change := range map[string]func(*remediation.CR){
		"P9 kind":      func(cr *remediation.CR) { cr.Kind = "FenceRemediation" },
		"P9 group":     func(cr *remediation.CR) { cr.APIVersion = "example.org/v1" },
		"P9 namespace": func(cr *remediation.CR) { cr.Namespace = "other" },
		"P9 name":      func(cr *remediation.CR) { cr.Name = "b" },
	} {
		require.NotEqual(t, awaitedCR(base), awaitedCR(testCR("a", "1", change)), name)
	}
	require.Equal(t, awaitedCR(base), awaitedCR(testCR("a", "2", func(cr *remediation.CR) { cr.APIVersion = "example.com/v2" })), "11.4: the name is what is needed, in any version")
}

func TestWantedKinds(t *testing.T) {
	t.Parallel()
	nhc := testCheck()
	template := func(kind, name string) corev1.ObjectReference {
		return corev1.ObjectReference{APIVersion: "example.com/v1", Kind: kind, Namespace: "ns", Name: name}
	}
	nhc.Spec.EscalatingRemediations = []v1alpha1.EscalatingRemediation{
		{Order: 2, RemediationTemplate: template("RebootTemplate", "hard")}, {Order: 1, RemediationTemplate: template("RebootTemplate", "soft")},
		{Order: 3, RemediationTemplate: template("NoSuffix", "x")},
	}
	nhc.Status.UnhealthyNodes = []v1alpha1.UnhealthyNode{{Name: "a", Remediations: []v1alpha1.Remediation{
		{Resource: corev1.ObjectReference{APIVersion: "example.com/v1", Kind: "Former"}}, {Resource: corev1.ObjectReference{APIVersion: "example.com/v1", Kind: "Reboot"}},
	}}}
	templates, crs := wantedKinds(nhc)
	kind := func(kind string) schema.GroupVersionKind {
		return schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: kind}
	}
	require.Equal(t, map[schema.GroupVersionKind][]types.NamespacedName{
		kind("RebootTemplate"): {{Namespace: "ns", Name: "soft"}, {Namespace: "ns", Name: "hard"}},
	}, templates, "6.1: in ascending order; what cannot be a template kind is not looked for")
	require.Equal(t, map[schema.GroupVersionKind][]types.NamespacedName{kind("Reboot"): nil, kind("Former"): nil}, crs, "6.8: and where status points to")
}
