// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"crypto/sha256"
	"encoding/hex"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// TestEscalation follows one node through all steps, to its recovery (spec 13.1 to
// 13.3, 13.6, 16.1, 18.3, P7).
func TestEscalation(t *testing.T) {
	t.Parallel()
	l := newLadder(t, sharedCluster(t), 3)
	l.createNodes("a", "b")
	l.createNHC(l.escalation())
	l.eventuallyCounts(2, 2)

	l.fail("a")
	l.eventuallyStep("a", 0)
	require.Nil(t, l.rungs[1].cr("a"), "P7: order counts, positions do not")
	require.Nil(t, l.rungs[2].cr("a"), "P7")
	versions := map[types.UID]string{}
	for step := range 2 {
		// A remediator may report anything else in the meantime.
		l.rungs[step].report("a", [2]string{"Processing", "True"}, [2]string{v1alpha1.RemediationSucceeded, "Unknown"})
		l.rungs[step].reportFailure("a")
		crs := l.eventuallyStep("a", step+1)
		l.requireEnded("a", step, crs[step])
		versions[crs[step].GetUID()] = crs[step].GetResourceVersion()
		require.Equal(t, v1alpha1.PhaseRemediating, l.status().Phase, "13.3")
		require.Equal(t, "NHC is remediating 1 nodes", l.status().Reason)
		require.Equal(t, map[string]string{v1alpha1.AnnotationNodeName: l.node("a"), v1alpha1.AnnotationTemplateName: l.name}, crs[step+1].GetAnnotations(), "11.1")
		require.Empty(t, l.events("NoTemplateLeft"))
	}
	l.rungs[2].reportFailure("a")
	crs := l.eventuallyExhausted("a")
	l.requireEnded("a", 2, crs[2])
	versions[crs[2].GetUID()] = crs[2].GetResourceVersion()
	l.eventuallyEvent("NoTemplateLeft", l.noTemplateLeft("a"))
	l.eventually("the event about the node", func() bool { return len(l.eventsAbout("Node", l.node("a"), "NoTemplateLeft")) > 0 })

	// Nothing more comes, whatever else happens.
	l.catchUp()
	l.rungs[2].report("a", [2]string{v1alpha1.RemediationSucceeded, "True"})
	l.rungs[2].reportFailure("a")
	l.catchUp()
	for i, cr := range l.eventuallyExhausted("a") {
		require.Equal(t, crs[i].GetUID(), cr.GetUID(), "13.6: the CRs stay")
		require.Nil(t, cr.GetDeletionTimestamp())
		require.Equal(t, crs[i].GetAnnotations(), cr.GetAnnotations(), "13.8: never changed")
		if i < 2 {
			require.Equal(t, versions[cr.GetUID()], cr.GetResourceVersion(), "11.2")
		}
	}
	require.Equal(t, v1alpha1.PhaseRemediating, l.status().Phase)
	require.Len(t, l.patches("a"), 3, "13.8: written once per step")
	require.Equal(t, []string{l.noTemplateLeft("a")}, l.events("NoTemplateLeft"), "13.6: once")

	l.heal("a")
	l.eventuallyCounts(2, 2)
	require.Empty(t, l.listed())
	require.Equal(t, v1alpha1.PhaseEnabled, l.status().Phase)
	for _, rung := range l.rungs {
		require.Empty(t, rung.crs(), "16.1: of every step, timed out or not")
		require.Len(t, rung.crRequests("create", "a"), 1, "13.1")
		require.Len(t, rung.crRequests("delete", "a"), 1, "16.1")
		l.eventuallyEvent("RemediationRemoved", "Deleted remediation CR of kind "+rung.kind.name+" with name "+l.node("a"))
	}
	require.Len(t, l.eventsAbout("Node", l.node("a"), "DetectedUnhealthy"), 1, "19.1: one episode")
	require.Len(t, l.eventsAbout("Node", l.node("a"), "RemediationCreated"), 3)
	require.Len(t, l.eventsAbout("Node", l.node("a"), "RemediationRemoved"), 3)

	// The next episode begins with the first step.
	l.fail("a")
	l.eventuallyStep("a", 0)
	require.Nil(t, l.rungs[1].cr("a"))
}

// TestEscalationOfOneKind: templates of one kind, told apart by name or by namespace
// (spec 1.4, 6.1, 11.1, P9).
func TestEscalationOfOneKind(t *testing.T) {
	t.Parallel()
	type reference struct{ namespace, name string }
	// prepare returns a scenario with two templates of one kind.
	prepare := func(t *testing.T, sameName bool) (s *scenario, references [2]reference) {
		t.Helper()
		t.Parallel()
		s = newEmptyScenario(t, sharedCluster(t), t.Name(), powerCycle)
		other := s
		references[0], references[1] = reference{s.name, "first"}, reference{s.name, "second"}
		if sameName {
			other = newEmptyScenario(t, sharedCluster(t), t.Name()+"/other", powerCycle)
			references[1] = reference{other.name, "first"}
		}
		s.createNamedTemplate(references[0].name)
		other.createNamedTemplate(references[1].name)
		return s, references
	}
	escalation := func(references [2]reference) func(*v1alpha1.NodeHealthCheckSpec) {
		return func(spec *v1alpha1.NodeHealthCheckSpec) {
			spec.RemediationTemplate = nil
			for i, r := range references {
				spec.EscalatingRemediations = append(spec.EscalatingRemediations, v1alpha1.EscalatingRemediation{
					RemediationTemplate: corev1.ObjectReference{
						APIVersion: powerCycle.templates.GroupVersion().String(), Kind: powerCycle.templateName(), Namespace: r.namespace, Name: r.name,
					},
					Order: int32(i), Timeout: metav1.Duration{Duration: time.Hour},
				})
			}
		}
	}
	for name, sameName := range map[string]bool{"1.4-two-names": false, "1.4-two-namespaces": true} {
		t.Run(name, func(t *testing.T) {
			s, references := prepare(t, sameName)
			s.createNodes("a")
			s.createNHC(escalation(references))
			s.fail("a")
			// of returns the CR of a step, nil if there is none.
			of := func(step int) *unstructured.Unstructured {
				r := references[step]
				sum := sha256.Sum256([]byte(r.namespace + "/" + r.name))
				cr, err := s.dynamic.Resource(powerCycle.remediations).Namespace(r.namespace).
					Get(t.Context(), s.node("a")+"-"+hex.EncodeToString(sum[:])[:8], metav1.GetOptions{})
				if apierrors.IsNotFound(err) {
					return nil
				}
				require.NoError(t, err)
				return cr
			}
			shows := func(crs ...*unstructured.Unstructured) bool {
				entry := s.entry("a")
				if entry == nil || len(entry.Remediations) != len(crs) {
					return false
				}
				for i, cr := range crs {
					shown := entry.Remediations[i]
					if cr == nil || shown.Resource.UID != cr.GetUID() || shown.Resource.Name != cr.GetName() || shown.TemplateName != references[i].name {
						return false
					}
				}
				return true
			}
			fail := func(cr *unstructured.Unstructured) {
				client := s.dynamic.Resource(powerCycle.remediations).Namespace(cr.GetNamespace())
				s.patch(client, cr.GetName(), map[string]any{"status": map[string]any{"conditions": []any{
					map[string]any{"type": v1alpha1.RemediationSucceeded, "status": "False"},
				}}}, "status")
			}
			s.eventually("the first step", func() bool { return shows(of(0)) })
			require.Nil(t, of(1))
			require.Equal(t, references[0].name, of(0).GetAnnotations()[v1alpha1.AnnotationTemplateName])
			fail(of(0))
			s.eventually("the second step", func() bool { return shows(of(0), of(1)) })
			s.requireTimedOut(of(0))
			require.NotContains(t, of(1).GetAnnotations(), v1alpha1.AnnotationTimedOut, "P9")
			require.NotNil(t, s.entry("a").Remediations[0].TimedOut)
			require.Nil(t, s.entry("a").Remediations[1].TimedOut, "P9")

			// Its CR is the one that comes again when it vanishes.
			second := of(1)
			require.NoError(t, s.dynamic.Resource(powerCycle.remediations).Namespace(second.GetNamespace()).Delete(t.Context(), second.GetName(), metav1.DeleteOptions{}))
			s.eventually("a new CR of the second step", func() bool { cr := of(1); return cr != nil && cr.GetUID() != second.GetUID() && shows(of(0), cr) })
			fail(of(1))
			s.eventually("the end of the second step", func() bool { return shows(of(0), of(1)) && s.entry("a").Remediations[1].TimedOut != nil })
			s.heal("a")
			s.eventuallyCounts(1, 1)
			require.Nil(t, of(0))
			require.Nil(t, of(1))
		})
	}
}

// createNamedTemplate creates a template that supports others of its kind.
func (s *scenario) createNamedTemplate(name string) {
	s.t.Helper()
	template := &unstructured.Unstructured{Object: map[string]any{"spec": usualTemplate()}}
	template.SetGroupVersionKind(s.kind.templates.GroupVersion().WithKind(s.kind.templateName()))
	template.SetName(name)
	template.SetAnnotations(map[string]string{v1alpha1.AnnotationMultipleTemplates: ""})
	_, err := s.resource(s.kind.templates).Create(s.t.Context(), template, metav1.CreateOptions{})
	require.NoError(s.t, err)
}
