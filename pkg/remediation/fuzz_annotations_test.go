// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
)

// FuzzAnnotations: whatever others write into the annotations of a CR, it can be
// planned with; it is for one node, and has timed out or not.
func FuzzAnnotations(f *testing.F) {
	for _, value := range []string{
		"", " ", "n", "n/n", "../n", strings.Repeat("n", 300), "ä\x00", "2026-01-01T00:00:00Z", "2026-01-01t00:00:00z", "2026-01-01T01:00:00+02:00", "2026-01-01 00:00:00",
		"2026-02-30T00:00:00Z", "0001-01-01T00:00:00Z", "0000-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59", "2026-01-01T00:00:00.999999999999Z", "1767225600", "true",
	} {
		for present := range uint8(8) {
			f.Add(value, value, value, present, int64(0))
			f.Add("n", "reboot", value, present, int64(time.Hour))
		}
	}
	f.Fuzz(func(t *testing.T, node, template, timedOut string, present uint8, elapsed int64) {
		annotations := map[string]string{"example.com/other": node}
		for i, annotation := range [][2]string{
			{v1alpha1.AnnotationNodeName, node}, {v1alpha1.AnnotationTemplateName, template}, {v1alpha1.AnnotationTimedOut, timedOut},
		} {
			if present&(1<<i) != 0 {
				annotations[annotation[0]] = annotation[1]
			}
		}
		raw := &unstructured.Unstructured{Object: map[string]any{}}
		raw.SetName("n")
		raw.SetCreationTimestamp(cr("n").CreationTimestamp)
		raw.SetOwnerReferences(cr("n").OwnerReferences)
		raw.SetAnnotations(annotations)
		got := object.ParseCR(raw)
		require.True(t, got.OwnedBy(ownerNamed("workers")))
		want := "n"
		if present&1 != 0 {
			want = node
		}
		require.Equal(t, want, got.Node(), "1.4")
		_, known := got.Template()
		require.Equal(t, present&2 != 0, known)
		require.Equal(t, present&4 != 0, got.TimedOut(), "13.8: whatever the value is")
		at, known := got.TimedOutAt()
		require.False(t, known && !got.TimedOut())
		require.False(t, known && timedOut == "", "%s", at)
		if known {
			stored, err := json.Marshal(metav1.NewTime(at))
			require.NoError(t, err)
			var read *metav1.Time
			require.NoError(t, json.Unmarshal(stored, &read), "18.2: %s", stored)
			require.NotNil(t, read, "18.2: %s", stored)
		}

		now := epoch.Add(time.Duration(elapsed))
		for _, s := range []*Policy{classicPolicy(reboot()), escalation()} {
			plan := planBy(s, sick("n", with(got)), now)
			require.False(t, !plan.Recheck.IsZero() && !plan.Recheck.After(now), "P2: %s", plan.Recheck)
			if got.TimedOut() {
				require.NotContains(t, describe(plan.Actions), "mark n", "13.8: once")
			}
		}
	})
}
