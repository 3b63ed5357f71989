// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
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
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/test/deploy"
	"github.com/nhc-controller/nhc-controller/test/localkube"
)

// realRemediators are the remediators that users have, by the directory of their
// manifests.
var realRemediators = map[string]remediationKind{
	"cur":    realKind("CustomizedUserRemediation", "customized-user-remediation.medik8s.io", "v1alpha1"),
	"far":    realKind("FenceAgentsRemediation", "fence-agents-remediation.medik8s.io", "v1alpha1"),
	"mdr":    realKind("MachineDeletionRemediation", "machine-deletion-remediation.medik8s.io", "v1alpha1"),
	"metal3": realKind("Metal3Remediation", "infrastructure.cluster.x-k8s.io", "v1beta1"),
	"sbr":    realKind("StorageBasedRemediation", "storage-based-remediation.medik8s.io", "v1alpha1"),
	"snr":    realKind("SelfNodeRemediation", "self-node-remediation.medik8s.io", "v1alpha1"),
}

func realKind(name, group, version string) remediationKind {
	gv := schema.GroupVersion{Group: group, Version: version}
	return remediationKind{
		name: name, remediations: gv.WithResource(strings.ToLower(name) + "s"), templates: gv.WithResource(strings.ToLower(name) + "templates"),
	}
}

// remediatorManifests returns the directory of the remediators' own manifests, which
// is beside the checkout where there is one.
func remediatorManifests(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	require.NoError(t, err)
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			break
		}
		require.NotEqual(t, filepath.Dir(dir), dir, "this is not inside of the module")
		dir = filepath.Dir(dir)
	}
	manifests := filepath.Join(filepath.Dir(dir), "shared", "remediators")
	if _, err := os.Stat(manifests); err != nil {
		t.Skip("the manifests of real remediators are not beside the checkout, in shared/remediators")
	}
	return manifests
}

// readManifests returns the objects in the YAML files that match a pattern.
func readManifests(t *testing.T, pattern ...string) []*unstructured.Unstructured {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(pattern...))
	require.NoError(t, err)
	require.NotEmpty(t, files, pattern)
	var objects []*unstructured.Unstructured
	for _, file := range files {
		content, err := os.Open(file)
		require.NoError(t, err)
		decoder := yaml.NewYAMLOrJSONDecoder(content, 4096)
		for {
			object := &unstructured.Unstructured{}
			err := decoder.Decode(object)
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err, file)
			if len(object.Object) > 0 {
				objects = append(objects, object)
			}
		}
		require.NoError(t, content.Close())
	}
	return objects
}

// installRealRemediators installs the kinds, and the ClusterRoles that aggregate.
func installRealRemediators(t *testing.T, c *cluster, manifests string) {
	t.Helper()
	for name, kind := range realRemediators {
		_, err := c.Kubectl(t.Context(), "apply", "--server-side", "-f", filepath.Join(manifests, name, "crd"))
		require.NoError(t, err)
		roles := c.dynamic.Resource(schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"})
		if name == "metal3" { // It brings none: its users write it.
			_, err := c.KubectlInput(t.Context(), strings.NewReader(`
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: metal3-ext-remediation, labels: {rbac.ext-remediation/aggregate-to-ext-remediation: "true"}}
rules: [{apiGroups: [infrastructure.cluster.x-k8s.io], resources: [metal3remediations, metal3remediationtemplates], verbs: [get, list, watch, create, patch, delete]}]
`), "apply", "-f", "-")
			require.NoError(t, err)
		} else {
			for _, role := range readManifests(t, manifests, name, "rbac", "*.yaml") {
				role.SetName(name + "-" + role.GetName()) // Each in a namespace of its own, as it were: they share the name.
				_, err := roles.Create(t.Context(), role, metav1.CreateOptions{})
				require.NoError(t, err)
			}
		}
		require.NoError(t, deploy.AwaitRBAC(t.Context(), c.ControlPlane, kind.templates.Group))
	}
	_, err := c.Kubectl(t.Context(), "wait", "--for=condition=Established", "--timeout=60s", "crd", "--all")
	require.NoError(t, err)
}

// realStep is a step with a template that a real remediator brings.
type realStep struct {
	*scenario
	template *unstructured.Unstructured
}

// newRealScenario returns a scenario with the templates of real remediators, seen with
// the kind of each.
func newRealScenario(t *testing.T, c *cluster, manifests string, remediators ...string) (s *scenario, steps []*realStep) {
	t.Helper()
	s = newEmptyScenario(t, c, t.Name(), realRemediators[remediators[0]])
	for _, name := range remediators {
		view := *s
		view.kind = realRemediators[name]
		s.atEnd = append(s.atEnd, view.dropCRs)
		for _, template := range readManifests(t, manifests, name, "templates", "*.yaml") {
			template.SetNamespace(s.name)
			created, err := view.resource(view.kind.templates).Create(t.Context(), template, metav1.CreateOptions{})
			require.NoError(t, err)
			steps = append(steps, &realStep{scenario: &view, template: created})
			break
		}
		for _, verb := range remediationVerbs {
			s.eventually("the permission to "+verb+" "+view.kind.remediations.Resource, func() bool { return s.mayController(verb, view.kind.remediations) })
		}
	}
	return s, steps
}

func (r *realStep) reference() corev1.ObjectReference {
	return corev1.ObjectReference{
		APIVersion: r.template.GetAPIVersion(), Kind: r.template.GetKind(), Namespace: r.template.GetNamespace(), Name: r.template.GetName(),
	}
}

// classicStep and escalatingSteps refer to these templates.
func classicStep(step *realStep) func(*v1alpha1.NodeHealthCheckSpec) {
	return func(spec *v1alpha1.NodeHealthCheckSpec) { spec.RemediationTemplate = new(step.reference()) }
}

func escalatingSteps(steps []*realStep) func(*v1alpha1.NodeHealthCheckSpec) {
	return func(spec *v1alpha1.NodeHealthCheckSpec) {
		spec.RemediationTemplate = nil
		for i, step := range steps {
			spec.EscalatingRemediations = append(spec.EscalatingRemediations, v1alpha1.EscalatingRemediation{
				RemediationTemplate: step.reference(), Order: int32(i), Timeout: metav1.Duration{Duration: time.Hour},
			})
		}
	}
}

// crOf returns the CR for a node, whatever its name, nil if there is none.
func (r *realStep) crOf(name string) *unstructured.Unstructured {
	r.t.Helper()
	for _, cr := range r.crs() {
		if cr.GetAnnotations()[v1alpha1.AnnotationNodeName] == r.node(name) {
			return &cr
		}
	}
	return nil
}

// eventuallyCROf waits until a node has a CR, which status shows.
func (r *realStep) eventuallyCROf(name string) *unstructured.Unstructured {
	r.t.Helper()
	var cr *unstructured.Unstructured
	r.eventually("a "+r.kind.name+" for node "+name, func() bool {
		cr = r.crOf(name)
		entry := r.entry(name)
		return cr != nil && entry != nil && slices.ContainsFunc(entry.Remediations, func(shown v1alpha1.Remediation) bool { return shown.Resource.UID == cr.GetUID() })
	})
	return cr
}

// eventuallySucceeded waits until the remediator of a node reports success.
func (r *realStep) eventuallySucceeded(name string) {
	r.t.Helper()
	r.eventually("success for node "+name, func() bool {
		cr := r.crOf(name)
		if cr == nil {
			return false
		}
		list, _, _ := unstructured.NestedSlice(cr.Object, "status", "conditions")
		return slices.ContainsFunc(list, func(entry any) bool {
			condition := entry.(map[string]any)
			return condition["type"] == v1alpha1.RemediationSucceeded && condition["status"] == "True"
		})
	})
}

// eventuallyGone waits until nothing is left of the remediation of a node.
func (r *realStep) eventuallyGone(name string) {
	r.t.Helper()
	r.eventually("no "+r.kind.name+" for node "+name, func() bool { return r.crOf(name) == nil })
	r.eventually("no entry of node "+name, func() bool { return r.entry(name) == nil })
	r.eventuallyNoNodeLease(name)
}

// writes returns the controller's writes to existing CRs of the kind, whose names may
// be anything.
func (r *realStep) writes(verbs ...string) []localkube.Request {
	r.t.Helper()
	return r.requests(func(q localkube.Request) bool {
		return slices.Contains(verbs, q.Verb) && q.Resource == r.kind.remediations.Resource && q.Namespace == r.name
	})
}

// realConditions is a status as the schemas of the remediators want it.
func realConditions(conditions ...[2]string) map[string]any {
	list := make([]any, 0, len(conditions))
	for _, condition := range conditions {
		list = append(list, map[string]any{
			"type": condition[0], "status": condition[1], "reason": "Test", "message": "", "lastTransitionTime": metav1.Now().UTC().Format(time.RFC3339),
		})
	}
	return map[string]any{"status": map[string]any{"conditions": list}}
}

// tell reports conditions of a CR. It is the remediator's part, in its own goroutine.
func (r *realStep) tell(cr *unstructured.Unstructured, conditions ...[2]string) {
	patch, err := json.Marshal(realConditions(conditions...))
	if err == nil {
		_, err = r.crClient().Patch(r.t.Context(), cr.GetName(), types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	}
	if err != nil && !apierrors.IsNotFound(err) && r.t.Context().Err() == nil {
		r.t.Errorf("reporting for %s: %v", cr.GetName(), err)
	}
}

func (r *realStep) holdOn(cr *unstructured.Unstructured, finalizers ...string) {
	r.patchMetadata(r.t.Context(), r.crClient(), cr.GetName(), map[string]any{"finalizers": finalizers})
}

// run plays a remediator: it calls react for every event of its CRs, until the test
// ends.
func (r *realStep) run(react func(event watch.EventType, cr *unstructured.Unstructured)) {
	r.t.Helper()
	watcher, err := r.crClient().Watch(r.t.Context(), metav1.ListOptions{})
	require.NoError(r.t, err)
	var wg sync.WaitGroup
	wg.Go(func() {
		for event := range watcher.ResultChan() {
			if cr, ok := event.Object.(*unstructured.Unstructured); ok {
				react(event.Type, cr)
			}
		}
	})
	r.t.Cleanup(func() {
		watcher.Stop()
		wg.Wait()
	})
}

const realFinalizer = "test.medik8s.io/remediator-finalizer"

// runFAR plays FAR: it holds a finalizer, fails within a moment, and lets go of its CR
// when the Node is there.
func (r *realStep) runFAR(outcome string) {
	r.t.Helper()
	r.run(func(event watch.EventType, cr *unstructured.Unstructured) {
		switch {
		case event == watch.Added:
			r.holdOn(cr, realFinalizer)
			r.tell(cr, [2]string{"Processing", "True"}, [2]string{"FenceAgentActionSucceeded", "Unknown"}, [2]string{v1alpha1.RemediationSucceeded, "Unknown"})
			r.tell(cr, [2]string{"Processing", "False"}, [2]string{"FenceAgentActionSucceeded", outcome}, [2]string{v1alpha1.RemediationSucceeded, outcome})
		case cr.GetDeletionTimestamp() != nil && len(cr.GetFinalizers()) > 0:
			if _, err := r.kube.CoreV1().Nodes().Get(r.t.Context(), cr.GetAnnotations()[v1alpha1.AnnotationNodeName], metav1.GetOptions{}); err == nil {
				r.holdOn(cr)
			}
		}
	})
}

// TestInterop has the real kinds of the remediators that users run, and small
// stand-ins for what these do (the numbers are those of the list of what is easy to get
// wrong with them).
func TestInterop(t *testing.T) {
	t.Parallel()
	manifests := remediatorManifests(t)
	c := newCluster(t, localkube.Options{AuditUsers: []string{deploy.User}})
	installRealRemediators(t, c, manifests)
	takeOver := prepareTakeOver(t, c, manifests)
	c.startController(t, "interop", "--leader-elect=false")
	takeOver()

	for name := range realRemediators {
		t.Run("11.1-"+name+"-accepts-what-is-rendered", func(t *testing.T) {
			s, steps := newRealScenario(t, c, manifests, name)
			step := steps[0]
			s.createNodes("a.example.com", "b")
			s.createNHC(classicStep(step))
			s.fail("a.example.com")
			cr := step.eventuallyCROf("a.example.com")
			spec, _, err := unstructured.NestedMap(step.template.Object, "spec", "template", "spec")
			require.NoError(t, err)
			require.Equal(t, spec, cr.Object["spec"], "11.1")
			_, several := step.template.GetAnnotations()[v1alpha1.AnnotationMultipleTemplates]
			require.Equal(t, slices.Contains([]string{"cur", "far", "snr"}, name), several)
			require.Equal(t, several, cr.GetName() != s.node("a.example.com"), "interop 2: MDR, SBR and Metal3 find the node by name")
			require.Len(t, cr.GetOwnerReferences(), 1)
			require.Empty(t, cr.GetFinalizers())
			require.Empty(t, cr.GetGenerateName(), "11.1")
			s.heal("a.example.com")
			step.eventuallyGone("a.example.com")
			require.Len(t, step.writes("create"), 1)
			require.Empty(t, step.writes("patch", "update"), "11.2")
		})
	}

	t.Run("interop-9-FAR-fails-at-once-and-MDR-is-next", func(t *testing.T) {
		s, steps := newRealScenario(t, c, manifests, "far", "mdr")
		far, mdr := steps[0], steps[1]
		far.runFAR("False")
		mdr.run(func(event watch.EventType, cr *unstructured.Unstructured) {
			if event != watch.Added {
				return
			}
			// MDR knows the node by the name of its CR.
			if _, err := mdr.kube.CoreV1().Nodes().Get(mdr.t.Context(), cr.GetName(), metav1.GetOptions{}); err != nil {
				mdr.tell(cr, [2]string{"Processing", "False"}, [2]string{v1alpha1.RemediationSucceeded, "False"})
				return
			}
			mdr.tell(cr, [2]string{"Processing", "True"}, [2]string{v1alpha1.RemediationPermanentNodeDeletionExpected, "Unknown"}, [2]string{v1alpha1.RemediationSucceeded, "Unknown"})
		})
		s.createNodes("a", "b")
		s.createNHC(escalatingSteps(steps))
		s.fail("a")
		replacing := mdr.eventuallyCROf("a")
		failed := far.crOf("a")
		s.requireTimedOut(failed)
		require.Equal(t, []string{realFinalizer}, failed.GetFinalizers(), "13.3: it stays")
		entry := s.entry("a")
		require.Len(t, entry.Remediations, 2)
		require.Equal(t, failed.GetUID(), entry.Remediations[0].Resource.UID)
		require.NotNil(t, entry.Remediations[0].TimedOut)
		require.Empty(t, s.events("NoTemplateLeft"), "interop 2: MDR has found its node")
		require.Equal(t, s.node("a"), replacing.GetName())

		// MDR deletes the Machine, and the Node goes with it (interop 11).
		s.patch(mdr.crClient(), replacing.GetName(), realConditions(
			[2]string{"Processing", "True"}, [2]string{v1alpha1.RemediationPermanentNodeDeletionExpected, "True"}, [2]string{v1alpha1.RemediationSucceeded, "Unknown"}), "status")
		s.createNodes("canary")
		s.fail("canary")
		mdr.eventuallyCROf("canary") // The MDR of the canary was reported after ours.
		mdr.eventually("the canary is being replaced", func() bool {
			list, _, _ := unstructured.NestedSlice(mdr.crOf("canary").Object, "status", "conditions")
			return len(list) > 0
		})
		s.heal("canary")
		mdr.eventuallyGone("canary")
		s.deleteNode("a")
		s.eventually("FAR's CR does not count any more", func() bool { return len(s.entry("a").Remediations) == 1 })
		require.Nil(t, mdr.crOf("a").GetDeletionTimestamp(), "17.3")
		require.Equal(t, replacing.GetUID(), s.entry("a").Remediations[0].Resource.UID, "17.3")
		require.NotContains(t, mdr.crOf("a").GetAnnotations(), v1alpha1.AnnotationTimedOut, "17.3")
		require.NotNil(t, far.crOf("a").GetDeletionTimestamp(), "17.2, interop 6: it hangs, which is FAR's affair")
		s.patch(mdr.crClient(), replacing.GetName(), realConditions(
			[2]string{"Processing", "False"}, [2]string{v1alpha1.RemediationPermanentNodeDeletionExpected, "True"}, [2]string{v1alpha1.RemediationSucceeded, "True"}), "status")
		s.eventually("all is over", func() bool { return mdr.crOf("a") == nil && s.entry("a") == nil })
		s.eventuallyNoNodeLease("a")
	})

	t.Run("interop-8-FAR-denies-the-annotation", func(t *testing.T) {
		s, steps := newRealScenario(t, c, manifests, "far", "sbr")
		far, sbr := steps[0], steps[1]
		far.runFAR("False")
		s.createNodes("a")
		s.deny(t, "far-webhook-"+s.name, denial{
			group: far.kind.remediations.Group, resource: far.kind.remediations.Resource, operation: admissionregistrationv1.Update,
			unless: "request.namespace != '" + s.name + "' || !has(object.metadata.annotations) || !('" + v1alpha1.AnnotationTimedOut + "' in object.metadata.annotations)",
			try: func(ctx context.Context, dryRun []string) error {
				probe := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"agent": "fence_dummy"}}}
				probe.SetGroupVersionKind(far.kind.remediations.GroupVersion().WithKind(far.kind.name))
				probe.SetName("probe")
				if _, err := far.crClient().Create(ctx, probe, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
					return err
				}
				_, err := far.crClient().Patch(ctx, "probe", types.MergePatchType, []byte(`{"metadata":{"annotations":{"`+v1alpha1.AnnotationTimedOut+`":""}}}`), metav1.PatchOptions{DryRun: dryRun})
				return err
			},
		})
		s.createNHC(escalatingSteps(steps))
		s.fail("a")
		require.Equal(t, s.node("a"), sbr.eventuallyCROf("a").GetName())
		require.NotContains(t, far.crOf("a").GetAnnotations(), v1alpha1.AnnotationTimedOut)
		require.NotNil(t, s.entry("a").Remediations[0].TimedOut, "13.3")
		s.heal("a")
		sbr.eventuallyGone("a")
		require.Nil(t, far.crOf("a"))
	})

	t.Run("interop-7-FAR-has-succeeded", func(t *testing.T) {
		s, steps := newRealScenario(t, c, manifests, "far", "mdr")
		far := steps[0]
		far.runFAR("True")
		s.createNodes("a", "canary")
		s.createNHC(escalatingSteps(steps))
		s.fail("a")
		far.eventuallyCROf("a")
		far.eventuallySucceeded("a")
		s.fail("canary")
		far.eventuallyCROf("canary")
		s.heal("canary")
		far.eventuallyGone("canary")
		require.NotContains(t, far.crOf("a").GetAnnotations(), v1alpha1.AnnotationTimedOut)
		// Somebody deletes it although the node is not healthy yet.
		require.NoError(t, far.crClient().Delete(t.Context(), far.crOf("a").GetName(), metav1.DeleteOptions{}))
		s.eventually("another attempt", func() bool { return len(far.writes("create")) == 3 })
		far.eventuallyCROf("a")
		far.eventuallySucceeded("a") // Before that, a CR of a deleted node is timed out, and rightly.
		s.deleteNode("a")
		s.eventually("no entry", func() bool { return s.entry("a") == nil })
		require.Empty(t, far.writes("patch", "update"), "13.8: never on a CR with Succeeded=True")
	})

	t.Run("interop-6-SNR-is-released-by-the-annotation", func(t *testing.T) {
		s, steps := newRealScenario(t, c, manifests, "snr")
		snr := steps[0]
		snr.run(func(event watch.EventType, cr *unstructured.Unstructured) {
			_, stopped := cr.GetAnnotations()[v1alpha1.AnnotationTimedOut]
			switch {
			case event == watch.Added:
				snr.holdOn(cr, realFinalizer)
				snr.tell(cr, [2]string{"Processing", "True"}, [2]string{v1alpha1.RemediationSucceeded, "Unknown"}) // Without its agent it stays so (interop 10).
			case event == watch.Modified && stopped && len(cr.GetFinalizers()) > 0:
				snr.tell(cr, [2]string{"Processing", "False"}, [2]string{v1alpha1.RemediationSucceeded, "False"})
				snr.holdOn(cr)
			}
		})
		s.createNodes("a", "b")
		s.createNHC(classicStep(snr))
		s.fail("a")
		snr.eventuallyCROf("a")
		s.eventually("its finalizer", func() bool { return len(snr.crOf("a").GetFinalizers()) > 0 })
		s.deleteNode("a")
		snr.eventuallyGone("a")
		// The same when somebody deletes it while the node is unhealthy.
		s.fail("b")
		old := snr.eventuallyCROf("b")
		s.eventually("its finalizer", func() bool { return len(snr.crOf("b").GetFinalizers()) > 0 })
		require.NoError(t, snr.crClient().Delete(t.Context(), old.GetName(), metav1.DeleteOptions{}))
		s.eventually("a new CR", func() bool { cr := snr.crOf("b"); return cr != nil && cr.GetUID() != old.GetUID() })
		require.Len(t, snr.writes("patch", "update"), 2)
	})

	t.Run("interop-1-CUR-runs-at-every-write", func(t *testing.T) {
		s, steps := newRealScenario(t, c, manifests, "cur", "sbr")
		cur := steps[0]
		var mu sync.Mutex
		runs := map[types.UID]int{}
		cur.run(func(event watch.EventType, cr *unstructured.Unstructured) {
			mu.Lock()
			defer mu.Unlock()
			if event != watch.Deleted && cr.GetDeletionTimestamp() == nil {
				runs[cr.GetUID()]++
			}
		})
		ran := func(cr *unstructured.Unstructured) int {
			mu.Lock()
			defer mu.Unlock()
			return runs[cr.GetUID()]
		}
		s.createNodes("a", "b", "c")
		s.createNHC(escalatingSteps(steps))
		for _, name := range []string{"a", "b"} {
			s.fail(name)
			cur.eventuallyCROf(name)
		}
		cr := cur.crOf("a")
		// Whatever makes the controller look at it again.
		s.wipeStatus()
		cur.eventuallyCROf("a")
		s.updateNHC(pause("test"))
		s.updateNHC(pause())
		s.labelNode("a", map[string]any{v1alpha1.LabelExclude: "true"})
		s.labelNode("a", map[string]any{v1alpha1.LabelExclude: nil})
		s.fail("a")
		s.fail("c")
		cur.eventuallyCROf("c")
		require.Equal(t, cr.GetResourceVersion(), cur.crOf("a").GetResourceVersion(), "11.2: a CR is written once")
		require.Equal(t, 1, ran(cr), "11.2")
		// CUR never tells how it ended: somebody else's Succeeded stands for the timeout.
		s.patch(cur.crClient(), cr.GetName(), map[string]any{"metadata": map[string]any{"annotations": map[string]any{v1alpha1.AnnotationTimedOut: metav1.Now().UTC().Format(time.RFC3339)}}})
		steps[1].eventuallyCROf("a")
		s.heal("b")
		s.eventually("no entry", func() bool { return s.entry("b") == nil })
		require.Equal(t, 2, ran(cr), "11.2: nothing but nhc-timed-out")
		s.heal("a")
		cur.eventuallyGone("a")
		require.Len(t, cur.writes("create"), 3)
		require.Empty(t, cur.writes("patch", "update"))
	})

	t.Run("interop-14-the-node-is-cordoned-and-recreated", func(t *testing.T) {
		s, steps := newRealScenario(t, c, manifests, "metal3")
		metal3 := steps[0]
		metal3.run(func(event watch.EventType, cr *unstructured.Unstructured) {
			if event == watch.Added {
				metal3.holdOn(cr, realFinalizer)
			}
		})
		s.createNodes("a", "b")
		s.createNHC(classicStep(metal3))
		s.fail("a")
		cr := metal3.eventuallyCROf("a")
		s.eventually("its finalizer", func() bool { return len(metal3.crOf("a").GetFinalizers()) > 0 })
		s.patch(s.dynamic.Resource(corev1.SchemeGroupVersion.WithResource("nodes")), s.node("a"), map[string]any{"spec": map[string]any{"unschedulable": true}})
		s.catchUpNodes()
		s.requireOnly("a", metal3.crOf("a"))
		s.deleteNode("a")
		s.eventually("no entry", func() bool { return s.entry("a") == nil })
		s.createNodes("a")
		s.eventually("the CR counts again", func() bool { entry := s.entry("a"); return entry != nil && len(entry.Remediations) == 1 })
		s.eventuallyCounts(2, 1)
		require.Equal(t, cr.GetUID(), metal3.crOf("a").GetUID())
		metal3.holdOn(cr)
		metal3.eventuallyGone("a")
		s.eventuallyCounts(2, 2)
		require.Len(t, metal3.writes("create"), 1, "P9")
	})
}

// prepareTakeOver leaves what the upstream operator leaves when it is replaced: a CR
// with a generated name, and the status that says so. It returns what to check once
// the controller runs (spec 1.1, P8, 18.2).
func prepareTakeOver(t *testing.T, c *cluster, manifests string) (check func()) {
	t.Helper()
	s, steps := newRealScenario(t, c, manifests, "far", "mdr")
	far, mdr := steps[0], steps[1]
	s.createNodes("a", "b")
	s.fail("a")
	nhc, err := s.nhc.RemediationV1alpha1().NodeHealthChecks().Create(t.Context(), s.spec(escalatingSteps(steps)), metav1.CreateOptions{})
	require.NoError(t, err)
	cr := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"agent": "fence_dummy"}}}
	cr.SetGroupVersionKind(far.kind.remediations.GroupVersion().WithKind(far.kind.name))
	cr.SetGenerateName(s.node("a") + "-")
	cr.SetAnnotations(map[string]string{v1alpha1.AnnotationNodeName: s.node("a"), v1alpha1.AnnotationTemplateName: far.template.GetName()})
	cr.SetLabels(map[string]string{v1alpha1.LabelPartOf: v1alpha1.PartOf})
	cr.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: v1alpha1.Kind, Name: nhc.Name, UID: nhc.UID, Controller: new(false)}})
	cr, err = far.crClient().Create(t.Context(), cr, metav1.CreateOptions{FieldManager: "manager"})
	require.NoError(t, err)
	nhc.Status = v1alpha1.NodeHealthCheckStatus{
		ObservedNodes: new(int32(2)), HealthyNodes: new(int32(1)), Phase: v1alpha1.PhaseRemediating, Reason: "NHC is remediating 1 nodes",
		LastUpdateTime: new(metav1.Now().Rfc3339Copy()),
		UnhealthyNodes: []v1alpha1.UnhealthyNode{{Name: s.node("a"), Remediations: []v1alpha1.Remediation{{
			Resource: corev1.ObjectReference{APIVersion: cr.GetAPIVersion(), Kind: cr.GetKind(), Namespace: cr.GetNamespace(), Name: cr.GetName(), UID: cr.GetUID()},
			Started:  cr.GetCreationTimestamp(), TemplateName: far.template.GetName(),
		}}}},
	}
	_, err = s.nhc.RemediationV1alpha1().NodeHealthChecks().UpdateStatus(t.Context(), nhc, metav1.UpdateOptions{FieldManager: "manager"})
	require.NoError(t, err)
	return func() {
		t.Helper()
		s.eventually("the controller has taken over", func() bool { return s.status().ObservedGeneration > 0 })
		require.Equal(t, cr.GetUID(), far.eventuallyCROf("a").GetUID(), "P8")
		require.Len(t, far.crs(), 1, "P8: nothing is repeated")
		require.Equal(t, cr.GetResourceVersion(), far.crs()[0].GetResourceVersion(), "11.2")
		s.patch(far.crClient(), cr.GetName(), realConditions([2]string{v1alpha1.RemediationSucceeded, "False"}), "status")
		mdr.eventuallyCROf("a")
		s.requireTimedOut(far.crOf("a"))
		s.heal("a")
		far.eventuallyGone("a")
		s.eventuallyCounts(2, 2)
		require.Empty(t, s.status().UnhealthyNodes, "18.2: also what another manager had written")
		require.Equal(t, v1alpha1.PhaseEnabled, s.status().Phase)
		s.fail("b")
		far.eventuallyCROf("b")
		s.heal("b")
		far.eventuallyGone("b")
	}
}
