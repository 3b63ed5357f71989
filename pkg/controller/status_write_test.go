// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	nhcac "github.com/nhc-controller/nhc-controller/pkg/generated/applyconfiguration/remediation/v1alpha1"
	nhcfake "github.com/nhc-controller/nhc-controller/pkg/generated/clientset/versioned/fake"
)

// fill sets every field to something, or to zero where a pointer tells that from
// nothing.
func fill(t *testing.T, v reflect.Value, zero bool) {
	t.Helper()
	if v.Type() == reflect.TypeFor[metav1.Time]() {
		v.Set(reflect.ValueOf(metav1.NewTime(epoch)))
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		if !zero || v.Elem().Kind() == reflect.Struct {
			fill(t, v.Elem(), zero)
		}
	case reflect.Struct:
		for _, field := range v.Fields() {
			fill(t, field, zero)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			fill(t, v.Index(i), zero)
		}
	case reflect.Map:
		value := reflect.New(v.Type().Elem()).Elem()
		fill(t, value, zero)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("key").Convert(v.Type().Key()), value)
	case reflect.String:
		v.SetString("text")
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(7)
	case reflect.Bool:
		v.SetBool(true)
	default:
		t.Fatalf("no value for %s", v.Type())
	}
}

// TestStatusApplyConfigurationIsComplete: what an apply leaves out is removed, so
// nothing may be missing.
func TestStatusApplyConfigurationIsComplete(t *testing.T) {
	t.Parallel()
	for name, zero := range map[string]bool{"18.2 every field": false, "18.2 7.8 zero counts too": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			status := &v1alpha1.NodeHealthCheckStatus{}
			fill(t, reflect.ValueOf(status).Elem(), zero)
			ac, err := statusApplyConfiguration(status)
			require.NoError(t, err)
			want, err := json.Marshal(status)
			require.NoError(t, err)
			got, err := json.Marshal(nhcac.NodeHealthCheck("n").WithStatus(ac).Status)
			require.NoError(t, err)
			require.JSONEq(t, string(want), string(got))
			if zero {
				require.Contains(t, string(got), `"healthyNodes":0`)
				require.Contains(t, string(got), `"stormRecoveryActive":false`)
			}
			acType := reflect.TypeFor[nhcac.NodeHealthCheckStatusApplyConfiguration]()
			require.Equal(t, reflect.TypeFor[v1alpha1.NodeHealthCheckStatus]().NumField(), acType.NumField(), "generated code is up to date")
		})
	}
}

// statusWriter is a controller that can write a status.
func statusWriter(nhc *v1alpha1.NodeHealthCheck) (*Controller, *nhcfake.Clientset) {
	client := nhcfake.NewClientset(nhc)
	return &Controller{client: client.RemediationV1alpha1(), clock: clock.RealClock{}}, client
}

func TestWriteStatus(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.sync(sick("a", own(testCR("a", "1"))))
	before := testCheck()
	c, client := statusWriter(before)
	written, err := c.writeStatus(t.Context(), before, &s.nhc.Status)
	require.NoError(t, err)
	require.True(t, written)

	require.Len(t, client.Actions(), 1, "P3: one request")
	patch := client.Actions()[0].(clienttesting.PatchActionImpl)
	require.Equal(t, "status", patch.GetSubresource(), "18.2: only the status subresource")
	require.Equal(t, types.ApplyPatchType, patch.GetPatchType())
	require.Equal(t, metav1.PatchOptions{FieldManager: "nhc-controller", Force: new(true)}, patch.PatchOptions)
	var body struct {
		Metadata map[string]any
		Spec     map[string]any
		Status   v1alpha1.NodeHealthCheckStatus
	}
	require.NoError(t, json.Unmarshal(patch.GetPatch(), &body))
	require.Equal(t, map[string]any{"name": "workers", "resourceVersion": "10"}, body.Metadata, "P9: bound to what it was computed from")
	require.Empty(t, body.Spec, "18.2")
	require.True(t, body.Status.LastUpdateTime.Equal(s.nhc.Status.LastUpdateTime))
	require.Equal(t, s.nhc.Status.Reason, body.Status.Reason)
	stored, err := client.RemediationV1alpha1().NodeHealthChecks().Get(t.Context(), "workers", metav1.GetOptions{})
	require.NoError(t, err)
	require.Len(t, stored.Status.UnhealthyNodes, 1)
}

func TestWriteStatusSilence(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.sync(sick("a", own(testCR("a", "1"))))
	r := s.result(sick("a", own(testCR("a", "1"))))
	c, client := statusWriter(r.nhc)
	written, err := c.writeStatus(t.Context(), r.nhc, r.status)
	require.NoError(t, err)
	require.False(t, written)
	require.Empty(t, client.Actions(), "P3 18.2: nothing differs, nothing is written")
}

func TestWriteStatusFails(t *testing.T) {
	t.Parallel()
	nhc := testCheck()
	c, client := statusWriter(nhc)
	conflict := apierrors.NewConflict(nhcResource, "workers", nil)
	client.PrependReactor("patch", "nodehealthchecks", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, conflict })
	_, err := c.writeStatus(t.Context(), nhc, &v1alpha1.NodeHealthCheckStatus{Phase: v1alpha1.PhaseEnabled})
	require.ErrorIs(t, err, conflict, "18.2: repaired by the next sync")
	require.Len(t, client.Actions(), 1)
}

// TestWriteStatusOverOthers: what somebody else has written, and an apply leaves
// alone, is replaced.
func TestWriteStatusOverOthers(t *testing.T) {
	t.Parallel()
	nhc := testCheck()
	nhc.Status.InFlightRemediations = map[string]metav1.Time{"a": metav1.NewTime(epoch)}
	status := &v1alpha1.NodeHealthCheckStatus{Phase: v1alpha1.PhaseEnabled}
	for name, answer := range map[string]func() (runtime.Object, error){
		"18.5 it is still there after the apply": func() (runtime.Object, error) {
			left := nhc.DeepCopy()
			left.ResourceVersion, left.Status.Phase = "11", v1alpha1.PhaseEnabled
			return left, nil
		},
		"18.5 the apply is invalid because of it": func() (runtime.Object, error) {
			return nil, apierrors.NewInvalid(v1alpha1.SchemeGroupVersion.WithKind(v1alpha1.Kind).GroupKind(), "workers", nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, client := statusWriter(nhc)
			client.PrependReactor("patch", "nodehealthchecks", func(clienttesting.Action) (bool, runtime.Object, error) {
				object, err := answer()
				return true, object, err
			})
			_, err := c.writeStatus(t.Context(), nhc, status)
			require.NoError(t, err)
			require.Len(t, client.Actions(), 2)
			update := client.Actions()[1].(clienttesting.UpdateActionImpl)
			require.Equal(t, "status", update.GetSubresource())
			require.Equal(t, *status, update.GetObject().(*v1alpha1.NodeHealthCheck).Status)
			require.NotEmpty(t, update.GetObject().(*v1alpha1.NodeHealthCheck).ResourceVersion, "P9: still bound to a version")
		})
	}
}
