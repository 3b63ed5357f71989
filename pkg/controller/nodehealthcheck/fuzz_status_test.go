// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
)

// FuzzStatusTimes: whatever times stand in a Node, a Lease and a CR, the status can be
// stored, and says the same when it is read again (spec 18.2, P1).
func FuzzStatusTimes(f *testing.F) {
	odd := []int64{0, 1, -62135596800, -62135596801, 253402300799, 253402300800, math.MaxInt32, math.MinInt32}
	for _, transition := range odd {
		for _, acquired := range odd {
			f.Add(transition, acquired, transition, acquired, "2026-01-01T00:00:00Z", int64(time.Hour), "Unknown", true)
		}
	}
	f.Add(int64(1), int64(1), int64(1), int64(1), "9999-12-31T23:59:59-23:59", int64(math.MaxInt64), "True", false)
	f.Fuzz(func(t *testing.T, transition, acquired, created, fenced int64, marked string, duration int64, status string, deleting bool) {
		const year = 366 * 24 * time.Hour
		bounded := func(seconds int64) time.Time { // What the API accepts in a time.
			return time.Unix(min(max(seconds, -62135596800), 253402300799), 0).UTC()
		}
		s := newStory(t, func(nhc *v1alpha1.NodeHealthCheck) {
			nhc.Spec.UnhealthyConditions = []v1alpha1.UnhealthyCondition{{Type: "Ready", Status: "Unknown", Duration: metav1.Duration{Duration: time.Duration(duration)}}}
			nhc.Spec.RemediationTemplate = &corev1.ObjectReference{APIVersion: "example.com/v1", Kind: "RebootRemediationTemplate", Namespace: "remediators", Name: "reboot"}
		})
		cr := testCR("n", "1", func(cr *object.CR) {
			cr.CreationTimestamp, cr.Fenced, cr.FencedSince = metav1.NewTime(bounded(created)), true, bounded(fenced)
			cr.Annotations[v1alpha1.AnnotationTimedOut] = marked
			if deleting {
				crDeleting(cr)
			}
		})
		conditions := []corev1.NodeCondition{{Type: "Ready", Status: corev1.ConditionStatus(status), LastTransitionTime: metav1.NewTime(bounded(transition))}}
		lease := &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{
			HolderIdentity: new(object.OwnerOf(s.nhc).LeaseHolder()), AcquireTime: new(metav1.NewMicroTime(bounded(acquired))),
			RenewTime: new(metav1.NewMicroTime(bounded(acquired))), LeaseDurationSeconds: new(int32(math.MaxInt32)),
		}}
		policy := &remediation.Policy{Owner: object.OwnerOf(s.nhc), Steps: remediation.Steps(&s.nhc.Spec), Templates: []*object.Template{{}}}
		for _, s.now = range []time.Time{epoch, epoch.Add(year), epoch.Add(2 * year)} {
			p := seen("n", health.Healthy)
			p.node.Status.Conditions = conditions
			nodes := []remediation.Node{{
				Name: "n", UID: p.node.UID, Lease: lease, Own: []*object.CR{cr},
				Verdict: health.Judge(s.nhc.Spec.UnhealthyConditions, health.Evidence{Conditions: conditions}, s.now),
			}}
			p.plan = remediation.NewPlans(policy, nodes, s.now)[0]
			after := s.result(p).Status
			encoded, err := json.Marshal(after)
			require.NoError(t, err)
			var read v1alpha1.NodeHealthCheckStatus
			require.NoError(t, json.Unmarshal(encoded, &read), "%s", encoded)
			require.True(t, equality.Semantic.DeepEqual(*after, read), "%s", encoded)
			s.nhc.Status = read
		}
	})
}
