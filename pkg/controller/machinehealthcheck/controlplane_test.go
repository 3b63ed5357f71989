// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
	"github.com/nhc-controller/nhc-controller/pkg/slot"
)

// TestSlotTakenByOthers: of those that are waited for, the first by name may be remediated, unless
// another one has a remediation object (spec M13.1).
func TestSlotTakenByOthers(t *testing.T) {
	t.Parallel()
	named := func(names ...string) (slotHolders []slotHolder) {
		for _, name := range names {
			slotHolders = append(slotHolders, slotHolder{slot.Member{Machine: "m-" + name, Node: name}, name, ""})
		}
		return slotHolders
	}
	for name, tc := range map[string]struct {
		awaited, remediated []slotHolder
		want                []string
	}{
		"nothing":                      {},
		"itself":                       {awaited: named("b"), remediated: named("b")},
		"itself, the first of several": {awaited: named("c", "b", "c")},
		"N1 another Machine that names the same Node, the first of several": {awaited: []slotHolder{{slot.Member{Machine: "m-a", Node: "b"}, "b", ""}, {slot.Member{Machine: "m-c", Node: "c"}, "c", ""}}, want: []string{"b", "c"}},
		"another Machine that names the same Node":                          {awaited: []slotHolder{{slot.Member{Machine: "m-a", Node: "b"}, "b", ""}}, want: []string{"b"}},
		"a remediation object for its Node":                                 {remediated: []slotHolder{{slot.Member{Node: "b"}, "b", ""}}},
		"itself, not the first":                                             {awaited: named("a", "b", "c"), want: []string{"a", "c"}},
		"others":                                                            {awaited: named("c", "a", "c"), want: []string{"a", "c"}},
		"another one is remediated":                                         {remediated: named("a"), want: []string{"a"}},
		"another one is both":                                               {awaited: named("c"), remediated: named("c"), want: []string{"c"}},
		"itself, the first, and another one is remediated":                  {awaited: named("b", "c"), remediated: named("c"), want: []string{"c"}},
		"itself is remediated, and not the first":                           {awaited: named("a", "b"), remediated: named("b"), want: []string{"a"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, namesOf(others(tc.awaited, tc.remediated, slot.Member{Machine: "m-b", Node: "b"})))
		})
	}
}

// TestSlotTakenByRemediationObject: which remediation objects take the slot, and under which name (spec
// M13.1).
func TestSlotTakenByRemediationObject(t *testing.T) {
	t.Parallel()
	labelled := func(change ...func(*object.CR)) *object.CR {
		cr := &object.CR{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m", Labels: map[string]string{v1alpha1.LabelControlPlane: ""}}}
		for _, c := range change {
			c(cr)
		}
		return cr
	}
	owned := func(cr *object.CR) {
		cr.OwnerReferences = []metav1.OwnerReference{{APIVersion: v1beta1.SchemeGroupVersion.String(), Kind: v1beta1.Kind, Name: "check"}}
	}
	ofNode := func(cr *object.CR) { cr.Annotations = map[string]string{v1alpha1.AnnotationNodeName: "n"} }
	for name, tc := range map[string]struct {
		cr   *object.CR
		want []string
	}{
		"of a Machine with a Node":              {labelled(owned, ofNode), []string{"n"}},
		"of a Machine without a Node":           {labelled(owned), []string{"Machine ns/m"}},
		"left behind by its MachineHealthCheck": {labelled(ofNode), []string{"n"}},
		"of others, for what is not known":      {labelled(), nil},
		"not one of the control plane":          {labelled(owned, ofNode, func(cr *object.CR) { cr.Labels = nil }), nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, namesOf(slotHoldersOf(tc.cr)))
		})
	}
}
