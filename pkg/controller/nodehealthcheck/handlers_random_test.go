// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// TestNodeAheadOfIndex: a node that needed a look and is gone, and whose event is
// about to come, counts for nothing, and least of all as healthy. One that has come back counts.
func TestNodeAheadOfIndex(t *testing.T) {
	t.Parallel()
	f := newHandlerCluster(t)
	nhc := selecting("all", metav1.LabelSelector{})
	nhc.Spec.UnhealthyConditions = []v1alpha1.UnhealthyCondition{{Type: "Ready", Status: "False"}}
	f.nhcChanged(nil, nhc)
	f.put(testNode("healthy", conditions(testCondition("Ready", "True", epoch))))
	f.put(testNode("sick", conditions(testCondition("Ready", "False", epoch))))
	f.deliver = func(func()) {}
	f.drop("sick")
	s := testSnapshot(nhc)
	names, err := f.observeNeedingLook(s)
	require.NoError(t, err)
	require.Empty(t, names)
	require.NoError(t, f.countSelected(s))
	require.Equal(t, 1, s.observed)

	f.nodeDeleted("sick")
	again := testNode("sick", conditions(testCondition("Ready", "False", epoch)))
	f.put(again)
	s = testSnapshot(nhc, again) // It has a CR, for example.
	require.NoError(t, f.countSelected(s))
	require.Equal(t, 2, s.observed, "it has come back, and its event is about to come")

	s.nhc.Generation++
	_, err = f.observeNeedingLook(s)
	require.ErrorIs(t, err, errIndexBehind)
}
