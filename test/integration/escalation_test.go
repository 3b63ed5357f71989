// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/test/deploy"
	"github.com/nhc-controller/nhc-controller/test/localkube"
)

// rungFinalizer is that of a remediator that has not finished.
const rungFinalizer = "test.nhc-controller.io/unfinished"

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

// laddered are the clusters that have these kinds.
var laddered struct {
	sync.Mutex
	clusters map[*cluster]error
}

// installRungs installs the kinds of the steps, once per cluster.
func (s *scenario) installRungs() {
	s.t.Helper()
	laddered.Lock()
	defer laddered.Unlock()
	err, installed := laddered.clusters[s.cluster]
	if !installed {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(s.t.Context()), patience)
		defer cancel()
		if laddered.clusters == nil {
			laddered.clusters = map[*cluster]error{}
		}
		_, err = s.KubectlInput(ctx, strings.NewReader(rungManifest()), "apply", "-f", "-")
		if err == nil {
			_, err = s.Kubectl(ctx, "wait", "--for=condition=Established", "--timeout=60s", "crd", "-l", "test.nhc-controller.io/rung")
		}
		laddered.clusters[s.cluster] = err
	}
	require.NoError(s.t, err, "installing the kinds of the steps")
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

// requireFirstStep requires that the only step that has begun for a node goes on.
func (l *ladder) requireFirstStep(name string) {
	l.t.Helper()
	cr := l.rungs[0].cr(name)
	require.NotNil(l.t, cr)
	require.NotContains(l.t, cr.GetAnnotations(), v1alpha1.AnnotationTimedOut, "5.3")
	require.Nil(l.t, l.rungs[1].cr(name), "5.2")
	entry := l.entry(name)
	require.NotNil(l.t, entry)
	require.Len(l.t, entry.Remediations, 1)
	require.Nil(l.t, entry.Remediations[0].TimedOut, "5.3")
	require.Empty(l.t, l.rungs[0].crRequests("patch", name), "5.3")
	require.Empty(l.t, l.rungs[1].crRequests("create", name), "5.2")
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

// witness makes a node whose CRs of the first steps, up to this one, are going away.
// Its end shows that the controller has seen all that happened to CRs of these kinds
// before, whatever else is blocked.
func (l *ladder) witness(step int) (conclude func()) {
	l.t.Helper()
	const name = "witness"
	l.createNodes(name)
	l.fail(name)
	l.eventuallyStep(name, 0)
	for i := range step {
		l.rungs[i].reportFailure(name)
		l.eventuallyStep(name, i+1)
	}
	for _, rung := range l.rungs[:step+1] {
		rung.setFinalizers(name, rungFinalizer)
	}
	l.heal(name)
	for _, rung := range l.rungs[:step+1] {
		rung.eventuallyDeleting(name)
	}
	return func() {
		l.t.Helper()
		for _, rung := range l.rungs[:step+1] {
			rung.setFinalizers(name)
		}
		l.eventually("the witness is gone", func() bool { return l.entry(name) == nil })
	}
}

func (l *ladder) noTemplateLeft(name string) string {
	return "Remediation timed out, and no template left to try. didn't find a template to use for NHC " + l.name + " and node " + l.node(name)
}

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

// TestEscalationOfSeveralNodes: each has come as far as it has (P1).
func TestEscalationOfSeveralNodes(t *testing.T) {
	t.Parallel()
	l := newLadder(t, sharedCluster(t), 3)
	l.createNodes("a", "b", "c")
	l.createNHC(l.escalation())
	for _, name := range []string{"a", "b", "c"} {
		l.fail(name)
	}
	for _, name := range []string{"a", "b", "c"} {
		l.eventuallyStep(name, 0)
	}
	l.reportFailure("b")
	l.reportFailure("c")
	l.eventuallyStep("b", 1)
	l.eventuallyStep("c", 1)
	l.rungs[1].reportFailure("c")
	l.eventuallyStep("c", 2)
	l.eventuallyStep("b", 1)
	l.requireFirstStep("a")
	l.heal("b")
	l.eventuallyListed(map[string]int{"a": 1, "c": 3})
	l.eventuallyCounts(3, 1)
	require.Equal(t, "NHC is remediating 2 nodes", l.status().Reason)
}

// TestEscalationTimeout: steps that end by time (spec 13.3 to 13.5, 13.7, 5.3, P2).
// All wait for the same minute.
func TestEscalationTimeout(t *testing.T) {
	t.Parallel()
	// begin has a node in a first step of a minute.
	begin := func(t *testing.T) *ladder {
		t.Helper()
		t.Parallel()
		l := newLadder(t, sharedCluster(t), 2)
		l.createNodes("a")
		l.createNHC(l.escalation(time.Minute))
		l.fail("a")
		l.eventuallyStep("a", 0)
		return l
	}
	// requireInTime requires that a step has ended not before its time.
	requireInTime := func(l *ladder, crs []*unstructured.Unstructured) {
		l.t.Helper()
		end := crs[0].GetCreationTimestamp().Add(time.Minute)
		require.False(l.t, crs[1].GetCreationTimestamp().Time.Before(end), "13.3: not before its time")
		require.False(l.t, l.entry("a").Remediations[0].TimedOut.Time.Before(end), "13.3: not before its time")
	}
	t.Run("13.3-timeout", func(t *testing.T) {
		l := begin(t)
		l.report("a", [2]string{"Processing", "True"}, [2]string{v1alpha1.RemediationSucceeded, "Unknown"})
		crs := l.eventuallyStep("a", 1)
		requireInTime(l, crs)
		l.requireEnded("a", 0, crs[0])
		require.Len(t, l.patches("a"), 1, "13.8: once")
		require.Empty(t, l.events("NoTemplateLeft"))
	})
	t.Run("13.4-succeeded-at-timeout", func(t *testing.T) {
		l := begin(t)
		l.report("a", [2]string{v1alpha1.RemediationSucceeded, "True"})
		crs := l.eventuallyStep("a", 1)
		requireInTime(l, crs)
		require.NotContains(t, crs[0].GetAnnotations(), v1alpha1.AnnotationTimedOut, "13.4")
		// What is over stays over.
		l.reportFailure("a")
		l.catchUp()
		l.eventuallyStep("a", 1)
		require.NotContains(t, l.cr("a").GetAnnotations(), v1alpha1.AnnotationTimedOut)
		require.Empty(t, l.patches("a"), "13.4")
		require.Len(t, l.rungs[1].crRequests("create", "a"), 1)
	})
	t.Run("13.5-denied-at-timeout", func(t *testing.T) {
		l := begin(t)
		allow := l.denyTimedOut()
		denied := func() int { return len(l.rungs[0].crRequests("patch", "a")) }
		l.eventually("two denied attempts", func() bool { return denied() > 1 })
		l.requireGoingOn("a")
		allow()
		crs := l.eventuallyStep("a", 1)
		requireInTime(l, crs)
		l.requireEnded("a", 0, crs[0])
	})
	t.Run("13.5-denied-and-then-failed", func(t *testing.T) {
		l := begin(t)
		l.denyTimedOut()
		l.eventually("a denied attempt", func() bool { return len(l.rungs[0].crRequests("patch", "a")) > 0 })
		l.requireGoingOn("a")
		l.reportFailure("a")
		crs := l.eventuallyStep("a", 1)
		require.NotContains(t, crs[0].GetAnnotations(), v1alpha1.AnnotationTimedOut)
	})
	t.Run("5.3-paused-at-timeout", func(t *testing.T) {
		l := begin(t)
		started := l.cr("a").GetCreationTimestamp()
		conclude := l.witness(0)
		l.updateNHC(pause("test"))
		// The witness of time is a second NodeHealthCheck with the same step.
		other := newEmptyScenario(t, l.cluster, t.Name()+"/other", rungKinds[0])
		clock := &ladder{scenario: other, rungs: []*scenario{other.asKind(rungKinds[0]), other.asKind(rungKinds[1])}}
		clock.createNodes("a")
		clock.createNHC(clock.escalation(time.Minute))
		clock.fail("a")
		crs := clock.eventuallyStep("a", 1)
		require.False(t, crs[1].GetCreationTimestamp().Time.Before(started.Add(time.Minute)))
		conclude()
		l.requireFirstStep("a")
		l.updateNHC(pause())
		l.eventuallyStep("a", 1)
		require.Len(t, l.patches("a"), 1)
	})
}

// requireGoingOn requires that the first step of a node goes on although the write of
// the annotation was tried.
func (l *ladder) requireGoingOn(name string) {
	l.t.Helper()
	require.Nil(l.t, l.rungs[1].cr(name), "13.5: only where the CR has failed")
	require.Nil(l.t, l.entry(name).Remediations[0].TimedOut)
	require.Empty(l.t, l.rungs[1].crRequests("create", name))
}

// denyTimedOut denies the annotation on CRs of the scenario.
func (l *ladder) denyTimedOut() (allow func()) {
	l.t.Helper()
	return l.deny(l.t, "timed-out-"+l.name, denial{
		group: l.kind.remediations.Group, resource: l.kind.remediations.Resource, operation: admissionregistrationv1.Update,
		unless: fmt.Sprintf("request.namespace != '%s' || !has(object.metadata.annotations) || !('%s' in object.metadata.annotations)", l.name, v1alpha1.AnnotationTimedOut),
		try: func(ctx context.Context, dryRun []string) error {
			patch := []byte(`{"metadata":{"annotations":{"` + v1alpha1.AnnotationTimedOut + `":"dry-run"}}}`)
			_, err := l.crClient().Patch(ctx, l.node("a"), types.MergePatchType, patch, metav1.PatchOptions{DryRun: dryRun})
			if apierrors.IsNotFound(err) {
				return nil
			}
			return err
		},
	})
}

// TestEscalationWithoutAnnotation: a remediator whose admission denies the annotation
// has said itself that it has failed (spec 13.5).
func TestEscalationWithoutAnnotation(t *testing.T) {
	t.Parallel()
	l := newLadder(t, sharedCluster(t), 2)
	l.createNodes("a")
	l.createNHC(l.escalation())
	l.fail("a")
	l.eventuallyStep("a", 0)
	allow := l.denyTimedOut()
	l.reportFailure("a")
	crs := l.eventuallyStep("a", 1)
	require.NotContains(t, crs[0].GetAnnotations(), v1alpha1.AnnotationTimedOut)
	require.Len(t, l.patches("a"), 1, "it was tried")
	allow()
	l.catchUp()
	require.Len(t, l.eventuallyStep("a", 1), 2)
	l.rungs[1].reportFailure("a")
	crs = l.eventuallyExhausted("a")
	l.requireEnded("a", 1, crs[1])
	require.NotContains(t, crs[0].GetAnnotations(), v1alpha1.AnnotationTimedOut)
	l.heal("a")
	l.eventuallyCounts(1, 1)
	require.Empty(t, l.listed())
}

// TestEscalationWhileTheRemediatorWrites: a write that somebody else was faster with is
// repeated, it was not denied (spec P5, 13.3).
func TestEscalationWhileTheRemediatorWrites(t *testing.T) {
	t.Parallel()
	l := newLadder(t, sharedCluster(t), 2)
	names := []string{"a", "b", "c", "d", "e", "f"}
	l.createNodes(names...)
	l.createNHC(l.escalation())
	for _, name := range names {
		l.fail(name)
	}
	var wg sync.WaitGroup
	for _, name := range names {
		l.eventuallyStep(name, 0)
		wg.Go(func() {
			for i := range 40 {
				l.patchMetadata(t.Context(), l.crClient(), l.node(name), map[string]any{"labels": map[string]string{"test.nhc-controller.io/write": fmt.Sprint(i)}})
			}
		})
		l.reportFailure(name)
	}
	wg.Wait()
	for _, name := range names {
		crs := l.eventuallyStep(name, 1)
		l.requireEnded(name, 0, crs[0])
	}
}

// TestEscalationBlocked: a step does not end while its successor may not be created,
// and ends at once when it may; so does the last one (spec 5.2, 5.3, 10.1, 15.3, 17.5).
func TestEscalationBlocked(t *testing.T) {
	t.Parallel()
	label := func(key string, value any) func(l *ladder) {
		return func(l *ladder) {
			l.labelNode("a", map[string]any{key: value})
			l.labelNode("b", map[string]any{key: value})
		}
	}
	tests := map[string]struct{ block, unblock func(l *ladder) }{
		"10.1-pause": {
			block:   func(l *ladder) { l.updateNHC(pause("test")) },
			unblock: func(l *ladder) { l.updateNHC(pause()) },
		},
		"8.5-gate-closed-by-spec": {
			block:   func(l *ladder) { l.updateNHC(minHealthy(intstr.FromString("100%"))) },
			unblock: func(l *ladder) { l.updateNHC(minHealthy(intstr.FromString("0%"))) },
		},
		"15.3-exclusion": {
			block: func(l *ladder) {
				label(v1alpha1.LabelExclude, "true")(l)
				l.catchUpNodes()
			},
			unblock: label(v1alpha1.LabelExclude, nil),
		},
		"17.5-unselected": {
			block: func(l *ladder) {
				label(scenarioLabel, "other")(l)
				l.eventually("they are not observed any more", func() bool { return *l.status().ObservedNodes == 1 })
			},
			unblock: func(l *ladder) { label(scenarioLabel, l.name)(l) },
		},
		"6.7-template-missing": {
			block: func(l *ladder) {
				l.rungs[1].deleteTemplate()
				l.eventuallyDisabled(v1alpha1.ReasonTemplateNotFound)
			},
			unblock: func(l *ladder) { l.rungs[1].createTemplate(usualTemplate()) },
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLadder(t, sharedCluster(t), 2)
			l.createNodes("a", "b")
			l.createNHC(l.escalation())
			l.fail("a")
			before := l.eventuallyStep("a", 0)
			l.fail("b")
			l.eventuallyStep("b", 0)
			l.reportFailure("b")
			l.eventuallyStep("b", 1)
			conclude := l.witness(1)
			tc.block(l)
			l.reportFailure("a")
			l.rungs[1].reportFailure("b")
			conclude()
			l.requireFirstStep("a")
			l.eventuallyStep("b", 1)
			require.NotContains(t, l.rungs[1].cr("b").GetAnnotations(), v1alpha1.AnnotationTimedOut, "5.3")
			require.Empty(t, l.events("NoTemplateLeft"))
			tc.unblock(l)
			crs := l.eventuallyStep("a", 1)
			require.Equal(t, before[0].GetUID(), crs[0].GetUID())
			l.requireEnded("a", 0, crs[0])
			require.Len(t, l.patches("a"), 1)
			l.requireEnded("b", 1, l.eventuallyExhausted("b")[1])
			l.eventuallyEvent("NoTemplateLeft", l.noTemplateLeft("b"))
		})
	}
}

// TestEscalationGateOpensByRecovery: nobody touches the NodeHealthCheck (spec 5.3, 8.5,
// P12).
func TestEscalationGateOpensByRecovery(t *testing.T) {
	t.Parallel()
	l := newLadder(t, sharedCluster(t), 2)
	l.createNodes("a", "b", "c", "d")
	l.createNHC(l.escalation(), minHealthy(intstr.FromInt32(2)))
	conclude := l.witness(0)
	l.fail("a")
	l.fail("b")
	l.eventuallyStep("a", 0)
	l.eventuallyStep("b", 0)
	l.reportFailure("b")
	l.eventuallyStep("b", 1)
	l.fail("c")
	l.fail("d")
	l.eventuallyListed(map[string]int{"a": 1, "b": 2, "c": 0, "d": 0, "witness": 1})
	l.reportFailure("a")
	conclude() // It leaves one healthy node, which is not enough.
	l.eventuallyCounts(5, 1)
	l.requireFirstStep("a")
	l.rungs[1].reportFailure("b")
	require.Empty(t, l.events("NoTemplateLeft"))
	l.heal("c")
	l.eventuallyStep("a", 1)
	l.eventuallyExhausted("b")
	l.eventuallyEvent("NoTemplateLeft", l.noTemplateLeft("b"))
}

// TestEscalationOfNodesThatAreNotUnhealthy: they have CRs, and stay where they are
// (spec 7.5, 16.4).
func TestEscalationOfNodesThatAreNotUnhealthy(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*v1alpha1.NodeHealthCheckSpec){
		"7.5-soon-unhealthy": func(spec *v1alpha1.NodeHealthCheckSpec) {
			spec.UnhealthyConditions = []v1alpha1.UnhealthyCondition{
				{Type: corev1.NodeReady, Status: corev1.ConditionUnknown},
				{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Duration: metav1.Duration{Duration: 24 * time.Hour}},
			}
		},
		"16.4-healthy-with-delay": func(spec *v1alpha1.NodeHealthCheckSpec) {
			spec.HealthyDelay = &metav1.Duration{Duration: -time.Second}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLadder(t, sharedCluster(t), 2)
			l.createNodes("a", "b")
			l.createNHC(l.escalation(), change)
			for _, name := range []string{"a", "b"} {
				l.fail(name)
				l.eventuallyStep(name, 0)
			}
			l.heal("a")
			l.reportFailure("a")
			// Both changes are seen once another CR of this kind has led to something.
			l.reportFailure("b")
			l.eventuallyStep("b", 1)
			l.requireFirstStep("a")
			l.fail("a")
			l.eventuallyStep("a", 1)
		})
	}
}

// TestEscalationCRDeletedByOthers: the step whose CR has vanished gets a new one (spec
// 11.6, 13.2, P9).
func TestEscalationCRDeletedByOthers(t *testing.T) {
	t.Parallel()
	t.Run("11.6-current-step", func(t *testing.T) {
		t.Parallel()
		l := newLadder(t, sharedCluster(t), 3)
		l.createNodes("a")
		l.createNHC(l.escalation())
		l.fail("a")
		l.eventuallyStep("a", 0)
		l.reportFailure("a")
		old := l.eventuallyStep("a", 1)
		l.rungs[1].setFinalizers("a", rungFinalizer)
		l.rungs[1].deleteCR("a")
		marked := l.rungs[1].eventuallyTimedOut("a")
		require.NotNil(t, marked.GetDeletionTimestamp(), "13.8")
		l.catchUp()
		require.Equal(t, old[1].GetUID(), l.rungs[1].cr("a").GetUID(), "P9: the old one has to be gone")
		require.Nil(t, l.rungs[2].cr("a"), "13.2: it does not stand for its step any more")
		l.rungs[1].setFinalizers("a")
		l.eventually("a new CR for the second step", func() bool { cr := l.rungs[1].cr("a"); return cr != nil && cr.GetUID() != old[1].GetUID() })
		crs := l.eventuallyStep("a", 1)
		require.Equal(t, old[0].GetUID(), crs[0].GetUID())
		require.NotEqual(t, old[1].GetUID(), crs[1].GetUID(), "11.6: status describes the new one")
		require.NotContains(t, crs[1].GetAnnotations(), v1alpha1.AnnotationTimedOut)
		l.rungs[1].reportFailure("a")
		l.eventuallyStep("a", 2)
		require.Len(t, l.rungs[1].crRequests("create", "a"), 2)
		require.Len(t, l.rungs[0].crRequests("create", "a"), 1)
	})
	t.Run("13.2-earlier-step", func(t *testing.T) {
		t.Parallel()
		l := newLadder(t, sharedCluster(t), 3)
		l.createNodes("a")
		l.createNHC(l.escalation())
		l.fail("a")
		l.eventuallyStep("a", 0)
		l.reportFailure("a")
		crs := l.eventuallyStep("a", 1)
		l.deleteCR("a")
		l.eventually("the entry of the first step is gone", func() bool { return len(l.entry("a").Remediations) == 1 })
		require.Equal(t, crs[1].GetUID(), l.entry("a").Remediations[0].Resource.UID, "18.3")
		l.rungs[1].reportFailure("a")
		last := l.rungs[2].eventuallyCR("a")
		entry := l.entry("a")
		require.Len(t, entry.Remediations, 2)
		require.Equal(t, []types.UID{crs[1].GetUID(), last.GetUID()}, []types.UID{entry.Remediations[0].Resource.UID, entry.Remediations[1].Resource.UID})
		require.Len(t, l.rungs[0].crRequests("create", "a"), 1, "13.2: a CR of a later step exists")
	})
	t.Run("11.6-last-step-after-its-end", func(t *testing.T) {
		t.Parallel()
		l := newLadder(t, sharedCluster(t), 2)
		l.createNodes("a")
		l.createNHC(l.escalation())
		l.fail("a")
		l.eventuallyStep("a", 0)
		l.reportFailure("a")
		l.eventuallyStep("a", 1)
		l.rungs[1].reportFailure("a")
		old := l.eventuallyExhausted("a")
		l.eventuallyEvent("NoTemplateLeft", l.noTemplateLeft("a"))
		l.rungs[1].deleteCR("a")
		crs := l.eventuallyStep("a", 1)
		require.NotEqual(t, old[1].GetUID(), crs[1].GetUID())
		l.rungs[1].reportFailure("a")
		l.eventuallyExhausted("a")
		// Events come in order: that of the recovery comes last.
		l.heal("a")
		l.eventuallyEvent("RemediationRemoved", "Deleted remediation CR of kind Restart with name "+l.node("a"))
		require.Equal(t, []string{l.noTemplateLeft("a")}, l.events("NoTemplateLeft"), "19.1: once per episode")
	})
	t.Run("11.6-all-steps", func(t *testing.T) {
		t.Parallel()
		l := newLadder(t, sharedCluster(t), 2)
		l.createNodes("a")
		l.createNHC(l.escalation())
		l.fail("a")
		l.eventuallyStep("a", 0)
		l.reportFailure("a")
		old := l.eventuallyStep("a", 1)
		// As long as the first is there, nothing else begins again.
		l.setFinalizers("a", rungFinalizer)
		l.deleteCR("a")
		l.rungs[1].setFinalizers("a", rungFinalizer)
		l.rungs[1].deleteCR("a")
		l.rungs[1].eventuallyTimedOut("a")
		l.rungs[1].setFinalizers("a")
		l.eventually("only the first step is left", func() bool { entry := l.entry("a"); return entry != nil && len(entry.Remediations) == 1 })
		require.Equal(t, old[0].GetUID(), l.entry("a").Remediations[0].Resource.UID)
		l.catchUp()
		require.Nil(t, l.rungs[1].cr("a"), "P9: a new beginning waits until all of the old is gone")
		l.setFinalizers("a")
		l.eventually("a new CR for the first step", func() bool { cr := l.cr("a"); return cr != nil && cr.GetUID() != old[0].GetUID() })
		l.eventuallyStep("a", 0)
		require.Nil(t, l.rungs[1].cr("a"), "13.1")
	})
}

// TestEscalationStatusWiped: what is known of the steps comes from the CRs (spec P8,
// 18.2).
func TestEscalationStatusWiped(t *testing.T) {
	t.Parallel()
	l := newLadder(t, sharedCluster(t), 3)
	l.createNodes("a")
	l.createNHC(l.escalation())
	l.fail("a")
	l.eventuallyStep("a", 0)
	l.reportFailure("a")
	l.eventuallyStep("a", 1)
	before := l.status()
	l.wipeStatus()
	l.eventuallyStep("a", 1)
	require.Equal(t, before.UnhealthyNodes, l.status().UnhealthyNodes, "18.2: rebuilt from the CRs")
	require.Nil(t, l.rungs[2].cr("a"), "P8: nothing is lost, nothing repeated")
	l.rungs[1].reportFailure("a")
	l.eventuallyStep("a", 2)
	l.rungs[2].reportFailure("a")
	l.eventuallyExhausted("a")
	before = l.status()
	l.wipeStatus()
	l.eventuallyExhausted("a")
	require.Equal(t, before.UnhealthyNodes, l.status().UnhealthyNodes, "18.2: rebuilt from the CRs")
	require.Len(t, l.patches("a"), 3)
	for _, rung := range l.rungs {
		require.Len(t, rung.crRequests("create", "a"), 1)
	}
	l.heal("a")
	l.eventuallyEvent("RemediationRemoved", "Deleted remediation CR of kind Replace with name "+l.node("a"))
	require.Len(t, l.events("NoTemplateLeft"), 1, "19.3: the process remembers what status does not show")
	require.Len(t, l.events("RemediationCreated"), 3, "19.3")
	require.Len(t, l.events("DetectedUnhealthy"), 1, "19.3")
}

// TestStatusPartlyWrittenByOthers: a field that somebody else has set in an entry does
// not keep the entry from going away (spec 18.2, P4).
func TestStatusPartlyWrittenByOthers(t *testing.T) {
	t.Parallel()
	s := newScenario(t, sharedCluster(t))
	s.createNodes("a")
	s.createNHC()
	s.fail("a")
	s.eventuallyCR("a")
	entry := s.entry("a")
	entry.Remediations[0].TimedOut = new(metav1.NewTime(time.Now().Truncate(time.Second)))
	s.patch(s.dynamic.Resource(v1alpha1.SchemeGroupVersion.WithResource(v1alpha1.Plural)), s.name,
		map[string]any{"status": map[string]any{"unhealthyNodes": []any{entry}}}, "status")
	s.heal("a")
	s.eventuallyNoCR("a")
	s.eventuallyCounts(1, 1)
	require.Empty(t, s.status().UnhealthyNodes)
	require.Equal(t, v1alpha1.PhaseEnabled, s.status().Phase)
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
	t.Run("6.1-annotation-missing", func(t *testing.T) {
		s, references := prepare(t, false)
		s.patch(s.resource(powerCycle.templates), "second", metadataPatch("annotations", map[string]any{v1alpha1.AnnotationMultipleTemplates: nil}))
		s.createNodes("a")
		s.createNHC(escalation(references))
		s.fail("a")
		require.Contains(t, s.eventuallyDisabled(v1alpha1.ReasonTemplateInvalid),
			"Using multiple templates of same kind is not supported for this template: PowerCycleRemediationTemplate")
		s.eventuallyListed(map[string]int{"a": 0})
		require.Empty(t, s.crs())
		s.patch(s.resource(powerCycle.templates), "second", metadataPatch("annotations", map[string]any{v1alpha1.AnnotationMultipleTemplates: ""}))
		s.eventuallyListed(map[string]int{"a": 1})
	})
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

// TestEscalationCrash: a process is killed on the way from one step to the next (spec
// P8, 13.2).
func TestEscalationCrash(t *testing.T) {
	t.Parallel()
	c := newCluster(t, localkube.Options{AuditUsers: []string{deploy.User}})
	begin := func(t *testing.T, name string) (*ladder, *localkube.Process) {
		t.Helper()
		l := newLadder(t, c, 3)
		l.createNodes("a")
		process := c.startController(t, name+"-1", "--leader-elect=false")
		l.createNHC(l.escalation())
		l.fail("a")
		l.eventuallyStep("a", 0)
		l.reportFailure("a")
		l.eventuallyStep("a", 1)
		return l, process
	}
	end := func(l *ladder) {
		l.t.Helper()
		l.rungs[2].reportFailure("a")
		l.eventuallyExhausted("a")
		l.eventuallyEvent("NoTemplateLeft", l.noTemplateLeft("a"))
		for _, rung := range l.rungs {
			created := l.requests(func(r localkube.Request) bool {
				return r.Verb == "create" && r.Resource == rung.kind.remediations.Resource && r.Namespace == l.name && r.Code == 201
			})
			require.Len(l.t, created, 1, "P8: no step is skipped or repeated")
		}
		l.heal("a")
		l.eventuallyCounts(1, 1)
		require.Empty(l.t, l.listed())
		for _, rung := range l.rungs {
			require.Empty(l.t, rung.crs())
		}
	}
	t.Run("in the middle of a step", func(t *testing.T) {
		l, process := begin(t, "step")
		before := l.status()
		require.NoError(t, process.Kill())
		l.rungs[1].reportFailure("a")
		c.startController(t, "step-2", "--leader-elect=false")
		crs := l.eventuallyStep("a", 2)
		require.Equal(t, before.UnhealthyNodes[0].Remediations[0], l.entry("a").Remediations[0])
		l.requireEnded("a", 1, crs[1])
		end(l)
	})
	t.Run("between the annotation and the next CR", func(t *testing.T) {
		l, process := begin(t, "annotation")
		creations := l.rungs[2].holdCreations()
		l.rungs[1].reportFailure("a")
		creations.await(t)
		require.NoError(t, process.Kill())
		l.requireTimedOut(l.rungs[1].cr("a"))
		require.Nil(t, l.entry("a").Remediations[1].TimedOut, "status knows nothing of it")
		creations.release()
		c.startController(t, "annotation-2", "--leader-elect=false")
		crs := l.eventuallyStep("a", 2)
		l.requireEnded("a", 1, crs[1])
		end(l)
	})
	t.Run("between the next CR and the status", func(t *testing.T) {
		l, process := begin(t, "status")
		allow := l.denyStatus()
		l.rungs[1].reportFailure("a")
		l.eventually("the CR of the last step", func() bool { return l.rungs[2].cr("a") != nil })
		require.NoError(t, process.Kill())
		require.Len(t, l.entry("a").Remediations, 2, "status knows nothing of it")
		allow()
		c.startController(t, "status-2", "--leader-elect=false")
		crs := l.eventuallyStep("a", 2)
		l.requireEnded("a", 1, crs[1])
		end(l)
	})
	t.Run("with the status wiped", func(t *testing.T) {
		l, process := begin(t, "wiped")
		require.NoError(t, process.Kill())
		l.wipeStatus()
		c.startController(t, "wiped-2", "--leader-elect=false")
		crs := l.eventuallyStep("a", 1)
		l.requireEnded("a", 0, crs[0])
		l.rungs[1].reportFailure("a")
		l.eventuallyStep("a", 2)
		end(l)
	})
}
