// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/test/localkube"
)

// The kinds of the steps in tests of escalation.
var (
	rungGroup = schema.GroupVersion{Group: "ladder.test.nhc-controller.io", Version: "v1alpha1"}
	rungKinds = []remediationKind{rungKind("Restart"), rungKind("Reinstall"), rungKind("Replace")}
)

func rungKind(name string) remediationKind {
	return remediationKind{
		name:         name,
		remediations: rungGroup.WithResource(strings.ToLower(name) + "s"),
		templates:    rungGroup.WithResource(strings.ToLower(name) + "templates"),
	}
}

// installRungs installs the kinds of the steps.
func (s *scenario) installRungs() {
	s.t.Helper()
	_, err := s.KubectlInput(s.t.Context(), strings.NewReader(rungManifest()), "apply", "-f", "-")
	require.NoError(s.t, err)
	_, err = s.Kubectl(s.t.Context(), "wait", "--for=condition=Established", "--timeout=60s", "crd", "-l", "test.nhc-controller.io/rung")
	require.NoError(s.t, err)
	for _, kind := range rungKinds {
		for _, verb := range remediationVerbs {
			s.eventually("the permission to "+verb+" "+kind.remediations.Resource, func() bool { return s.mayController(verb, kind.remediations) })
		}
	}
}

func rungManifest() string {
	const crd = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[1]s.%[3]s, labels: {test.nhc-controller.io/rung: ""}}
spec:
  group: %[3]s
  names: {kind: %[2]s, listKind: %[2]sList, plural: %[1]s, singular: %[4]s}
  scope: Namespaced
  versions:
    - name: v1alpha1
      served: true
      storage: true
      subresources: {status: {}}
      schema:
        openAPIV3Schema:
          type: object
          properties:
            spec: {type: object, x-kubernetes-preserve-unknown-fields: true}
            status: {type: object, x-kubernetes-preserve-unknown-fields: true}
---`
	const role = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: ladder-ext-remediation, labels: {%s: "true"}}
rules: [{apiGroups: [%s], resources: ["*"], verbs: [get, list, watch, create, update, patch, delete]}]
`
	var manifest strings.Builder
	for _, kind := range rungKinds {
		fmt.Fprintf(&manifest, crd, kind.remediations.Resource, kind.name, rungGroup.Group, strings.ToLower(kind.name))
		fmt.Fprintf(&manifest, crd, kind.templates.Resource, kind.templateName(), rungGroup.Group, strings.ToLower(kind.templateName()))
	}
	fmt.Fprintf(&manifest, role, v1alpha1.LabelAggregate, rungGroup.Group)
	return manifest.String()
}

// ladder is a scenario whose NodeHealthCheck escalates.
type ladder struct {
	*scenario
	// rungs are the steps in their order: the scenario, seen with the kind of the step.
	rungs []*scenario
}

// newLadder returns a scenario with a template for each of some steps. It has the kind
// of the first one.
func newLadder(t *testing.T, c *cluster, steps int) *ladder {
	t.Helper()
	s := newEmptyScenario(t, c, t.Name(), rungKinds[0])
	s.installRungs()
	l := &ladder{scenario: s}
	for _, kind := range rungKinds[:steps] {
		l.rungs = append(l.rungs, s.asKind(kind))
	}
	return l
}

// asKind returns the scenario seen with another kind, and with a template of it.
func (s *scenario) asKind(kind remediationKind) *scenario {
	s.t.Helper()
	rung := *s
	rung.kind = kind
	rung.createTemplate(usualTemplate())
	s.atEnd = append(s.atEnd, rung.dropCRs)
	return &rung
}

// dropCRs removes the CRs of a kind, at the end of a test.
func (s *scenario) dropCRs(ctx context.Context) {
	crs, err := s.crClient().List(ctx, metav1.ListOptions{})
	if err != nil {
		return
	}
	for i := range crs.Items {
		s.patchMetadata(ctx, s.crClient(), crs.Items[i].GetName(), map[string]any{"finalizers": nil})
		_ = s.crClient().Delete(ctx, crs.Items[i].GetName(), metav1.DeleteOptions{})
	}
}

// escalation makes a NodeHealthCheck escalate over steps of an hour each, or over
// these timeouts. In the list the last step comes first: positions mean nothing (P7).
func (l *ladder) escalation(timeouts ...time.Duration) func(*v1alpha1.NodeHealthCheckSpec) {
	return func(spec *v1alpha1.NodeHealthCheckSpec) {
		spec.RemediationTemplate, spec.EscalatingRemediations = nil, nil
		for i, rung := range slices.Backward(l.rungs) {
			timeout := time.Hour
			if i < len(timeouts) {
				timeout = timeouts[i]
			}
			spec.EscalatingRemediations = append(spec.EscalatingRemediations, v1alpha1.EscalatingRemediation{
				RemediationTemplate: *rung.templateReference(), Order: int32(10*i - 5), Timeout: metav1.Duration{Duration: timeout},
			})
		}
	}
}

// reportFailure and the like play the remediator of the CR of a node.
func (s *scenario) reportFailure(name string) {
	s.t.Helper()
	s.report(name, [2]string{v1alpha1.RemediationSucceeded, "False"})
}

// eventuallyStep waits until the node has a CR for the step and for each before, and
// status shows just these, in their order, all but the last as ended.
func (l *ladder) eventuallyStep(name string, step int) []*unstructured.Unstructured {
	l.t.Helper()
	return l.eventuallySteps(name, step+1, step)
}

// eventuallyExhausted waits until all steps have a CR, and status shows them as ended.
func (l *ladder) eventuallyExhausted(name string) []*unstructured.Unstructured {
	l.t.Helper()
	return l.eventuallySteps(name, len(l.rungs), len(l.rungs))
}

func (l *ladder) eventuallySteps(name string, begun, ended int) []*unstructured.Unstructured {
	l.t.Helper()
	var crs []*unstructured.Unstructured
	l.eventually(fmt.Sprintf("node %s with %d steps begun, %d ended", name, begun, ended), func() bool {
		// Status first: what it tells has been done to the CRs by then.
		entry := l.entry(name)
		crs = nil
		for _, rung := range l.rungs {
			if cr := rung.cr(name); cr != nil {
				crs = append(crs, cr)
			}
		}
		if entry == nil || len(crs) != begun || len(entry.Remediations) != begun {
			return false
		}
		for i, shown := range entry.Remediations {
			if shown.Resource.UID != crs[i].GetUID() || (shown.TimedOut != nil) != (i < ended) {
				return false
			}
		}
		return true
	})
	for i, shown := range l.entry(name).Remediations {
		require.Equal(l.t, l.rungs[i].kind.name, shown.Resource.Kind, "18.3: in the order of the steps")
		require.Equal(l.t, crs[i].GetCreationTimestamp().UTC(), shown.Started.UTC(), "18.3")
		require.Equal(l.t, l.name, shown.TemplateName, "18.3")
	}
	return crs
}

// requireEnded requires that a step ended at the time that both its CR and status
// tell.
func (l *ladder) requireEnded(name string, step int, cr *unstructured.Unstructured) {
	l.t.Helper()
	l.requireTimedOut(cr)
	require.Equal(l.t, cr.GetAnnotations()[v1alpha1.AnnotationTimedOut],
		l.entry(name).Remediations[step].TimedOut.UTC().Format(time.RFC3339), "13.3: timedOut in status is the time on the CR")
}

// patches returns the controller's writes to existing CRs of a node, of all steps.
func (l *ladder) patches(name string) []localkube.Request {
	l.t.Helper()
	var all []localkube.Request
	for _, rung := range l.rungs {
		all = append(all, rung.crRequests("patch", name)...)
		all = append(all, rung.crRequests("update", name)...)
	}
	return all
}

func (l *ladder) noTemplateLeft(name string) string {
	return "Remediation timed out, and no template left to try. didn't find a template to use for NHC " + l.name + " and node " + l.node(name)
}
