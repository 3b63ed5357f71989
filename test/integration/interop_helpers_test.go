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

// remediatorManifests has a directory with the manifests of each real remediator.
const remediatorManifests = "testdata/remediators"

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
func installRealRemediators(t *testing.T, c *cluster) {
	t.Helper()
	for name, kind := range realRemediators {
		_, err := c.Kubectl(t.Context(), "apply", "--server-side", "-f", filepath.Join(remediatorManifests, name, "crd"))
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
			for _, role := range readManifests(t, remediatorManifests, name, "rbac", "*.yaml") {
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
func newRealScenario(t *testing.T, c *cluster, remediators ...string) (s *scenario, steps []*realStep) {
	t.Helper()
	s = newEmptyScenario(t, c, t.Name(), realRemediators[remediators[0]])
	for _, name := range remediators {
		view := *s
		view.kind = realRemediators[name]
		s.atEnd = append(s.atEnd, view.dropCRs)
		for _, template := range readManifests(t, remediatorManifests, name, "templates", "*.yaml") {
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
