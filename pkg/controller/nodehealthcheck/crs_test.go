// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
)

// TestUnreadCRsCountAsExisting: what status names is there until it can be read
// (spec 6.8, P5), and there may be more.
func TestUnreadCRsCountAsExisting(t *testing.T) {
	t.Parallel()
	hidden := v1alpha1.Remediation{Resource: corev1.ObjectReference{APIVersion: "example.com/v1", Kind: hiddenKind.Kind, Namespace: "ns", Name: "a"}}
	readable := v1alpha1.Remediation{Resource: corev1.ObjectReference{APIVersion: "example.com/v1", Kind: readableKind.Kind, Namespace: "ns", Name: "b"}}
	own := slotCR("c", func(cr *unstructured.Unstructured) {
		cr.SetOwnerReferences(object.Render(object.OwnerOf(testCheck()), object.Target{Node: "c"}, &object.Template{}).GetOwnerReferences())
	})
	remediators := fakeRemediators{
		crs:    []*unstructured.Unstructured{own},
		status: []v1alpha1.UnhealthyNode{{Name: "a", Remediations: []v1alpha1.Remediation{hidden}}, {Name: "b", Remediations: []v1alpha1.Remediation{readable}}},
	}
	withRemediations(t, remediators, nil, func(t *testing.T, c *Controller) {
		t.Helper()
		nhc, err := c.nhcs.Get("workers")
		require.NoError(t, err)
		found, err := c.findCRs(nhc, &nhcState{})
		require.NoError(t, err)
		require.Equal(t, map[string][]v1alpha1.Remediation{"a": {hidden}}, found.unreadable)
		require.True(t, found.incomplete)
		require.True(t, remediated(found, "a"))
		require.False(t, remediated(found, "b"), "an empty cache is an answer")
		require.True(t, remediated(found, "c"), "P1: the other kind is read all the same")
		require.ErrorContains(t, found.unread, hiddenKind.Kind, "6.8: nothing begins")
		require.True(t, c.othersRemediate("d"), "16.6: there may be a CR that status does not name")
	})
}

// TestUnreadCRsKeepTheirOrder: status lists them as before, whatever kinds they are of
// (P3, spec 18.3).
func TestUnreadCRsKeepTheirOrder(t *testing.T) {
	t.Parallel()
	var recorded []v1alpha1.Remediation
	for _, kind := range []string{hiddenKind.Kind, "NotServed", "NorIsThis", "NorThat"} {
		recorded = append(recorded, v1alpha1.Remediation{Resource: corev1.ObjectReference{APIVersion: "example.com/v1", Kind: kind, Namespace: "ns", Name: "a"}})
	}
	remediators := fakeRemediators{status: []v1alpha1.UnhealthyNode{{Name: "a", Remediations: recorded}}}
	withRemediations(t, remediators, nil, func(t *testing.T, c *Controller) {
		t.Helper()
		nhc, err := c.nhcs.Get("workers")
		require.NoError(t, err)
		for range 20 {
			found, err := c.findCRs(nhc, &nhcState{})
			require.NoError(t, err)
			require.Equal(t, recorded, found.unreadable["a"])
		}
	})
}

// TestForeignCRs: which CRs block a CR for node n (spec 11.4).
func TestForeignCRs(t *testing.T) {
	t.Parallel()
	ours := object.OwnerOf(testCheck())
	named := func(node, name string, changes ...func(*object.CR)) *object.CR {
		cr := testCR(node, name)
		cr.Name = name
		cr.OwnerReferences = object.Render(ours, object.Target{Node: node}, &object.Template{}).GetOwnerReferences()
		for _, change := range changes {
			change(cr)
		}
		return cr
	}
	foreign := func(cr *object.CR) { cr.OwnerReferences = nil }
	template := &object.Template{ObjectMeta: metav1.ObjectMeta{Namespace: "ns"}}
	inNamespace := func(cr *object.CR) { cr.Namespace = template.Namespace }
	elsewhere := func(cr *object.CR) { cr.Namespace = "elsewhere" }
	for name, tc := range map[string]struct {
		crs  []*object.CR
		want []string
	}{
		"none":                                {},
		"our own":                             {crs: []*object.CR{named("n", "n", inNamespace)}},
		"our own of another step":             {crs: []*object.CR{named("n", "n-12345678", inNamespace)}},
		"our own of another node":             {crs: []*object.CR{named("m", "m", inNamespace)}},
		"our own of another node by its name": {crs: []*object.CR{named("m", "n", inNamespace)}, want: []string{"n"}},
		"that of another owner":               {crs: []*object.CR{named("n", "other", foreign, inNamespace)}, want: []string{"other"}},
		"in another namespace":                {crs: []*object.CR{named("n", "n", foreign, elsewhere)}, want: []string{"n"}},
		"for another node":                    {crs: []*object.CR{named("m", "m", foreign, inNamespace)}},
		"for another node by its name":        {crs: []*object.CR{named("m", "n", foreign, inNamespace)}, want: []string{"n"}},
		"the same, in another namespace":      {crs: []*object.CR{named("m", "n", foreign, elsewhere)}},
		"once":                                {crs: []*object.CR{named("n", "n", foreign, inNamespace)}, want: []string{"n"}},
		"P3 several, always in the same order": {
			crs:  []*object.CR{named("n", "d", foreign), named("n", "b", foreign), named("m", "n", foreign, inNamespace), named("n", "a", foreign)},
			want: []string{"a", "b", "d", "n"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, crIndexers)
			for _, cr := range tc.crs {
				require.NoError(t, indexer.Add(cr))
			}
			for range 10 {
				var names []string
				for _, cr := range newForeignCRs(indexer, ours, template).of("n") {
					names = append(names, cr.Name)
				}
				require.Equal(t, tc.want, names)
			}
		})
	}
}

// TestCRsOfAKindThatIsGone: what status names of a kind that no CustomResourceDefinition
// has does not exist (spec P12). Any other kind that is not served may have CRs (P5).
func TestCRsOfAKindThatIsGone(t *testing.T) {
	t.Parallel()
	recorded := func(kind schema.GroupVersionKind) v1alpha1.Remediation {
		return v1alpha1.Remediation{Resource: corev1.ObjectReference{APIVersion: "example.com/v1", Kind: kind.Kind, Namespace: "ns", Name: "a"}}
	}
	for _, defined := range []bool{false, true} {
		remediators := fakeRemediators{status: []v1alpha1.UnhealthyNode{
			{Name: "a", Remediations: []v1alpha1.Remediation{recorded(goneKind)}},
			{Name: "b", Remediations: []v1alpha1.Remediation{recorded(hiddenKind)}},
		}, defined: defined}
		withRemediations(t, remediators, nil, func(t *testing.T, c *Controller) {
			t.Helper()
			nhc, err := c.nhcs.Get("workers")
			require.NoError(t, err)
			found, err := c.findCRs(nhc, &nhcState{})
			require.NoError(t, err)
			require.Equal(t, !defined, remediated(found, "a"))
			require.True(t, remediated(found, "b"), "6.8: it is served")
		})
	}
}

// TestLostCRsCountAsExisting: what a cache had last is there until the kind can be read
// again, whether status names it or not (spec 6.8, P5).
func TestLostCRsCountAsExisting(t *testing.T) {
	t.Parallel()
	named, unnamed := testCR("a", "1"), testCR("b", "2")
	kind := named.GroupVersionKind()
	foreign, deleting, requested := testCR("c", "3"), testCR("d", "4", crDeleting), testCR("e", "5")
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, crIndexers)
	for _, cr := range []*object.CR{named, unnamed, deleting, requested} {
		cr.OwnerReferences = object.Render(object.OwnerOf(testCheck()), object.Target{Node: cr.Name}, &object.Template{}).GetOwnerReferences()
		require.NoError(t, indexer.Add(cr))
	}
	require.NoError(t, indexer.Add(foreign))
	nhc := testCheck(func(nhc *v1alpha1.NodeHealthCheck) {
		nhc.Status.UnhealthyNodes = []v1alpha1.UnhealthyNode{{Name: "a", Remediations: []v1alpha1.Remediation{entryOf(named)}}}
	})
	for _, unread := range []bool{true, false} {
		crs := &ownCRs{unreadable: map[string][]v1alpha1.Remediation{}}
		kinds := map[schema.GroupKind]bool{kind.GroupKind(): unread}
		if !unread {
			clear(kinds)
		}
		crs.addRecorded(nhc, kinds)
		crs.addLost(nhc.Name, kinds, map[schema.GroupKind]cache.Indexer{kind.GroupKind(): indexer}, map[types.UID]bool{"5": true})
		require.Len(t, crs.unreadable["a"], len(kinds), "once")
		require.Len(t, crs.unreadable["b"], len(kinds))
		require.Len(t, crs.unreadable, 2*len(kinds), "17.2: neither what others own nor what is on its way out")
		require.Len(t, crs.lost, len(kinds), "its deletion is not requested twice")
	}
}

// remediated reports whether a node has an own CR.
func remediated(crs *ownCRs, node string) bool {
	return len(crs.read[node]) > 0 || len(crs.unreadable[node]) > 0
}
