// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	nhcfake "github.com/nhc-controller/nhc-controller/pkg/generated/clientset/versioned/fake"
)

// statusWriter is a controller that can write a status.
func statusWriter(nhc *v1alpha1.NodeHealthCheck) (*Controller, *nhcfake.Clientset) {
	client := nhcfake.NewSimpleClientset(nhc)
	c := bareController()
	c.client = client.RemediationV1alpha1()
	return c, client
}

func TestWriteStatus(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.sync(sick("a", own(testCR("a", "1"))))
	before := testCheck()
	before.Status.InFlightRemediations = map[string]metav1.Time{"a": metav1.NewTime(epoch)}
	before.Status.UnhealthyNodes = []v1alpha1.UnhealthyNode{{Name: "of another writer"}}
	cached := before.DeepCopy()
	c, client := statusWriter(before)
	written, err := c.writeStatus(t.Context(), cached, &s.nhc.Status)
	require.NoError(t, err)
	require.NotEmpty(t, written)
	require.Equal(t, before, cached, "the cache is not changed")

	require.Len(t, client.Actions(), 1, "P3: one request")
	update := client.Actions()[0].(clienttesting.UpdateActionImpl)
	require.Equal(t, "status", update.GetSubresource(), "18.2: only the status subresource")
	require.Equal(t, metav1.UpdateOptions{FieldManager: "nhc-controller"}, update.UpdateOptions)
	sent := update.GetObject().(*v1alpha1.NodeHealthCheck)
	require.Equal(t, "10", sent.ResourceVersion, "P9: bound to what it was computed from")
	require.Equal(t, before.UID, sent.UID)
	stored, err := client.RemediationV1alpha1().NodeHealthChecks().Get(t.Context(), "workers", metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, s.nhc.Status, stored.Status, "18.2 18.5: as a whole, whichever client wrote the old one")
	require.True(t, c.Writes.IsLast("workers", nhcResource, stored.ResourceVersion), "the cache has to show it before the next sync")
}

func TestWriteStatusSilence(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.sync(sick("a", own(testCR("a", "1"))))
	r := s.result(sick("a", own(testCR("a", "1"))))
	c, client := statusWriter(r.nhc)
	written, err := c.writeStatus(t.Context(), r.nhc, r.Status)
	require.NoError(t, err)
	require.Empty(t, written)
	require.Empty(t, client.Actions(), "P3 18.2: nothing differs, nothing is written")
}

func TestWriteStatusFails(t *testing.T) {
	t.Parallel()
	nhc := testCheck()
	c, client := statusWriter(nhc)
	conflict := apierrors.NewConflict(nhcResource, "workers", nil)
	client.PrependReactor("update", "nodehealthchecks", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, conflict })
	_, err := c.writeStatus(t.Context(), nhc, &v1alpha1.NodeHealthCheckStatus{Phase: v1alpha1.PhaseEnabled})
	require.ErrorIs(t, err, conflict, "18.2: repaired by the next sync")
	require.Len(t, client.Actions(), 1)
}
