// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// TestContent judges a CR for node "n" that is created at second 100.
func TestContent(t *testing.T) {
	t.Parallel()
	owner := func(change func(*metav1.OwnerReference)) func(*unstructured.Unstructured) {
		return func(object *unstructured.Unstructured) {
			owners := object.GetOwnerReferences()
			change(&owners[0])
			object.SetOwnerReferences(owners)
		}
	}
	label := func(object *unstructured.Unstructured) {
		object.SetLabels(map[string]string{v1alpha1.LabelPartOf: v1alpha1.PartOf, v1alpha1.LabelControlPlane: ""})
	}
	for name, tc := range map[string]struct {
		setup  func(s *fixture)
		change func(*unstructured.Unstructured)
		want   []string
	}{
		"11.1 another spec":  {notHealthy, func(o *unstructured.Unstructured) { o.Object["spec"] = how("x") }, []string{"11.1"}},
		"11.1 no spec":       {notHealthy, func(o *unstructured.Unstructured) { delete(o.Object, "spec") }, []string{"11.1"}},
		"11.1 a label":       {notHealthy, label, []string{"11.1"}},
		"11.1 no label":      {func(s *fixture) { s.node(past, failedNode("n", controlPlane)) }, func(*unstructured.Unstructured) {}, []string{"11.1"}},
		"11.1 an annotation": {notHealthy, func(o *unstructured.Unstructured) { o.SetAnnotations(map[string]string{"x": "y"}) }, []string{"11.1"}},
		"11.1 a finalizer":   {notHealthy, func(o *unstructured.Unstructured) { o.SetFinalizers([]string{"x"}) }, []string{"11.1"}},
		"11.1 the template has changed before": {func(s *fixture) {
			notHealthy(s)
			s.template(at(50), "Reboot", "one", &Template{Spec: how("x"), HasSpec: true, Multiple: true})
		}, func(*unstructured.Unstructured) {}, []string{"11.1"}},
		"11.1 named like the node": {func(s *fixture) {
			notHealthy(s)
			s.template(past, "Reboot", "one", &Template{Spec: how("one"), HasSpec: true})
		}, func(*unstructured.Unstructured) {}, []string{"11.1"}},
		"11.3 a controller":       {notHealthy, owner(func(o *metav1.OwnerReference) { o.Controller = new(true) }), []string{"11.3"}},
		"11.3 another uid":        {notHealthy, owner(func(o *metav1.OwnerReference) { o.UID = "x" }), []string{"11.3"}},
		"11.3 no NodeHealthCheck": {notHealthy, owner(func(o *metav1.OwnerReference) { o.Kind = "Machine" }), []string{"11.3"}},
		"11.3 and something else": {notHealthy, second("Node"), []string{"11.3"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newFixture()
			tc.setup(s)
			s.nhc(past, healthCheck())
			cr := newCR("n", "Reboot", "one")
			object := objectOf(cr)
			tc.change(object)
			w := window{nhc: "nhc", node: "n", known: at(97), nodeKnown: at(97), rv: s.rv, at: at(100)}
			require.Equal(t, tc.want, broke(s.crContent(w, cr, object)))
		})
	}
}

// second adds an owner.
func second(kind string) func(*unstructured.Unstructured) {
	return func(object *unstructured.Unstructured) {
		object.SetOwnerReferences(append(object.GetOwnerReferences(), metav1.OwnerReference{Kind: kind, Controller: new(false)}))
	}
}

func TestNamedFor(t *testing.T) {
	t.Parallel()
	s := step{template: template("Reboot", "one")}
	long := strings.Repeat("a", longestName)
	require.True(t, namedFor("n", "n", s, false))
	require.False(t, namedFor("n-4742edba", "n", s, false))
	require.True(t, namedFor("n-4742edba", "n", s, true), "11.1: the first digits of SHA-256 over ns/one")
	require.False(t, namedFor("n", "n", s, true))
	require.True(t, namedFor(long[:244]+"-"+hash(long+"/ns/one"), long, s, true))
	require.False(t, namedFor(long[:244]+"-"+hash("ns/one"), long, s, true))
}
