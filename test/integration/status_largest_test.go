// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/controller/nodehealthcheck"
	"github.com/nhc-controller/nhc-controller/pkg/history"
	"github.com/nhc-controller/nhc-controller/pkg/status"
)

// The texts that fill a status. What is escaped in JSON takes six bytes for one.
var (
	escapedText = strings.Repeat("<", 512)
	plainText   = strings.Repeat("m", 512)
	since       = metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
)

// late reports whether a request took longer than the API server permits, or such a request has been carried out after all.
func late(err error) bool { return apierrors.IsTimeout(err) || apierrors.IsConflict(err) }

// testLargestStatus writes the largest status of each mix as the controller writes it:
// the API server accepts it, and stores less than 1 MiB (spec 18.6).
func testLargestStatus(a *admission) {
	long := func(i int) string { return fmt.Sprintf("%s%05d", strings.Repeat("n", 248), i) }
	short := func(i int) string { return fmt.Sprintf("n%d", i) }
	name := a.store("largest", a.spec(escalatingSpec, `{}`), "").GetName()
	for mix, tc := range map[string]struct {
		node         func(int) string
		nodes        int // 5000 by default.
		remediations int
		message      string
	}{
		"many nodes":                      {node: short},
		"many nodes, long messages":       {node: short, message: plainText},
		"many nodes, messages of <":       {node: short, message: escapedText},
		"fewer nodes, messages of <":      {node: short, nodes: 700, message: escapedText},
		"long names":                      {node: long, message: plainText},
		"long names, messages of <":       {node: long, message: escapedText},
		"remediations":                    {node: short, remediations: 1, message: plainText},
		"remediations, messages of <":     {node: short, remediations: 1, message: escapedText},
		"remediations of long names":      {node: long, remediations: 1, message: plainText},
		"many remediations of long names": {node: long, remediations: 32, message: escapedText},
	} {
		a.Run(mix, func(t *testing.T) {
			var stored *unstructured.Unstructured
			entries := make([]v1alpha1.UnhealthyNode, cmp.Or(tc.nodes, 5000))
			for i := range entries {
				entries[i] = largestEntry(tc.node(i), tc.remediations, tc.message)
			}
			status := &v1alpha1.NodeHealthCheckStatus{
				UnhealthyNodes: status.LimitEntries(entries, 5000), RemediationHistory: fullHistory(t), Reason: escapedText + escapedText,
			}
			for _, condition := range []string{"Disabled", "RemediationAllowed", "SelectorOverlap", "StormActive", "StormCooldownActive"} {
				status.Conditions = append(status.Conditions, metav1.Condition{
					Type: condition, Status: metav1.ConditionFalse, Reason: "RemediationTemplateNotFound", Message: escapedText + escapedText, LastTransitionTime: since,
				})
			}
			// Twice: the second time the rules about updates apply, and fields are owned.
			for _, reason := range []v1alpha1.Phase{"Disabled", "Enabled"} {
				status.Phase = reason
				content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(status)
				require.NoError(t, err)
				require.NoError(t, retry.OnError(retry.DefaultRetry, late, func() error {
					latest, err := a.client.Get(t.Context(), name, metav1.GetOptions{})
					if err == nil {
						latest.Object["status"] = content
						stored, err = a.client.UpdateStatus(t.Context(), latest, metav1.UpdateOptions{FieldManager: nodehealthcheck.Name})
					}
					return err
				}))
			}
			encoded, err := json.Marshal(stored.Object) // As the API server stores it: managed fields and all.
			require.NoError(t, err)
			require.Less(t, len(encoded), 1<<20, "18.6: %d entries", len(status.UnhealthyNodes))
			t.Logf("%d entries, %d bytes", len(status.UnhealthyNodes), len(encoded))
		})
	}
}

// largestEntry returns an entry with all that an entry may have.
func largestEntry(node string, remediations int, message string) v1alpha1.UnhealthyNode {
	entry := v1alpha1.UnhealthyNode{
		Name:     node,
		Trigger:  &v1alpha1.Trigger{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, Reason: "NodeStatusUnknown"},
		Detected: &since,
		Decision: &v1alpha1.Decision{Type: v1alpha1.DecisionRemediating, Reason: v1alpha1.DecidedAwaitingReplacement, Message: message, Since: since, NextCheckTime: &since},
	}
	for range remediations {
		entry.ConditionsHealthyTimestamp, entry.HealthyDelayed = &since, new(true)
		entry.Remediations = append(entry.Remediations, v1alpha1.Remediation{
			Resource: corev1.ObjectReference{
				APIVersion: "self-node-remediation.medik8s.io/v1alpha1", Kind: "SelfNodeRemediation", Namespace: "self-node-remediation", Name: node,
				UID: types.UID("00000000-0000-0000-0000-000000000000"),
			},
			Started: since, TimedOut: &since, TemplateName: "self-node-remediation-automatic-strategy-template",
		})
	}
	return entry
}

// fullHistory returns as much history as the controller writes.
func fullHistory(t *testing.T) []v1alpha1.Episode {
	t.Helper()
	episode := v1alpha1.Episode{
		Node: strings.Repeat("n", 253), Trigger: &v1alpha1.Trigger{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, Reason: strings.Repeat("<", 100)},
		Detected: since, Started: &since, Fenced: &since, Finished: &since, Outcome: v1alpha1.OutcomeRecovered,
	}
	for range 5 {
		episode.Steps = append(episode.Steps, v1alpha1.EpisodeStep{Kind: "SelfNodeRemediation", TemplateName: "automatic", Started: since, Ended: &since, Result: v1alpha1.StepTimedOut})
	}
	encoded, err := json.Marshal(episode)
	require.NoError(t, err)
	episodes := make([]v1alpha1.Episode, min(100, history.MaxSize/(len(encoded)+1)))
	for i := range episodes {
		episodes[i] = episode
	}
	require.Greater(t, len(episodes)*len(encoded), history.MaxSize*3/4)
	return episodes
}
