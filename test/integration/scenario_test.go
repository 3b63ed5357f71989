// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/dynamic"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/test/patience"
	"github.com/nhc-controller/nhc-controller/test/remediator"
)

// remediationKind is a kind of CRs with the kind of its templates.
type remediationKind struct {
	name                    string // Of the kind of the CRs.
	remediations, templates schema.GroupVersionResource
	clusterScoped           bool
}

func (k remediationKind) templateName() string { return k.name + v1alpha1.TemplateKindSuffix }

// powerCycle is that of the demo remediator.
var powerCycle = remediationKind{
	name:         "PowerCycleRemediation",
	remediations: remediator.Resource,
	templates:    remediator.Resource.GroupVersion().WithResource("powercycleremediationtemplates"),
}

// scenarioLabel keeps the nodes of scenarios apart.
const scenarioLabel = "test.nhc-controller.io/scenario"

// scenario is one NodeHealthCheck with its nodes and its template, in a namespace
// of its own.
type scenario struct {
	*cluster
	t *testing.T
	// name is that of the NodeHealthCheck, the namespace and the template, and the
	// prefix of the nodes.
	name string
	kind remediationKind
	// begin is when the scenario began. No request for its objects is older.
	begin time.Time
	// atEnd is done after everything else has been removed.
	atEnd []func(context.Context)
}

// newScenario returns a scenario with a template and nothing else. What it makes
// goes at the end of the test.
func newScenario(t *testing.T, c *cluster) *scenario {
	t.Helper()
	s := newEmptyScenario(t, c, t.Name(), powerCycle)
	s.createTemplate(usualTemplate())
	return s
}

// newEmptyScenario returns a scenario without a template. The key is unique.
func newEmptyScenario(t *testing.T, c *cluster, key string, kind remediationKind) *scenario {
	t.Helper()
	s := &scenario{cluster: c, t: t, name: uniqueName(key), kind: kind, begin: time.Now()}
	_, err := c.kube.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.name}}, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Logf("scenario %s", s.name)
	t.Cleanup(s.cleanUp)
	return s
}

// uses counts how often a key of a scenario was used: with -count a test runs again.
var uses struct {
	sync.Mutex
	of map[string]int
}

// uniqueName returns a name that scenarioName matches.
func uniqueName(key string) string {
	uses.Lock()
	defer uses.Unlock()
	if uses.of == nil {
		uses.of = map[string]int{}
	}
	uses.of[key]++
	hash := fnv.New32a()
	_, _ = fmt.Fprint(hash, key, uses.of[key])
	return fmt.Sprintf("s-%08x", hash.Sum32())
}

func usualTemplate() map[string]any {
	return map[string]any{"template": map[string]any{"spec": map[string]any{"offSeconds": int64(1)}}}
}

// cleanUp removes what counts in other scenarios: nothing does but the load.
func (s *scenario) cleanUp() {
	ctx, cancel := context.WithTimeout(context.Background(), patience.Limit)
	defer cancel()
	if s.t.Failed() {
		if output, err := s.Kubectl(ctx, "get", "nodehealthcheck", s.name, "-o", "yaml"); err == nil {
			s.t.Logf("NodeHealthCheck at the end:\n%s", output)
		}
	}
	nhcs := s.nhc.RemediationV1alpha1().NodeHealthChecks()
	allow := []byte(`{"metadata":{"annotations":{"` + v1alpha1.AnnotationAllowDelete + `":""}}}`)
	_, _ = nhcs.Patch(ctx, s.name, types.MergePatchType, allow, metav1.PatchOptions{})
	_ = nhcs.Delete(ctx, s.name, metav1.DeleteOptions{})
	_ = s.kube.CoreV1().Nodes().DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: scenarioLabel + "=" + s.name})
	s.dropCRs(ctx)
	for _, f := range s.atEnd {
		f(ctx)
	}
}

// createTemplate creates the template, with annotations that have no value.
func (s *scenario) createTemplate(spec map[string]any, annotations ...string) {
	s.t.Helper()
	template := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	for _, key := range annotations {
		template.SetAnnotations(map[string]string{key: ""})
	}
	template.SetGroupVersionKind(s.kind.templates.GroupVersion().WithKind(s.kind.templateName()))
	template.SetName(s.name)
	_, err := s.resource(s.kind.templates).Create(s.t.Context(), template, metav1.CreateOptions{})
	require.NoError(s.t, err)
}

// spec returns a NodeHealthCheck that finds a node unhealthy as soon as its Ready is
// Unknown or False, and whose gate is always open; change changes it.
func (s *scenario) spec(change ...func(*v1alpha1.NodeHealthCheckSpec)) *v1alpha1.NodeHealthCheck {
	nhc := &v1alpha1.NodeHealthCheck{
		ObjectMeta: metav1.ObjectMeta{Name: s.name},
		Spec: v1alpha1.NodeHealthCheckSpec{
			Selector:   metav1.LabelSelector{MatchLabels: map[string]string{scenarioLabel: s.name}},
			MinHealthy: new(intstr.FromInt32(0)),
			UnhealthyConditions: []v1alpha1.UnhealthyCondition{
				{Type: corev1.NodeReady, Status: corev1.ConditionFalse},
				{Type: corev1.NodeReady, Status: corev1.ConditionUnknown},
			},
			RemediationTemplate: s.templateReference(),
		},
	}
	for _, c := range change {
		c(&nhc.Spec)
	}
	return nhc
}

func (s *scenario) templateReference() *corev1.ObjectReference {
	return &corev1.ObjectReference{
		APIVersion: s.kind.templates.GroupVersion().String(), Kind: s.kind.templateName(), Namespace: s.name, Name: s.name,
	}
}

// createNHC creates the NodeHealthCheck and waits until it was synced once, with the
// template if there is one: its watch may show it later than another watch shows the
// NodeHealthCheck.
func (s *scenario) createNHC(change ...func(*v1alpha1.NodeHealthCheckSpec)) {
	s.t.Helper()
	nhc, err := s.nhc.RemediationV1alpha1().NodeHealthChecks().Create(s.t.Context(), s.spec(change...), metav1.CreateOptions{})
	require.NoError(s.t, err)
	_, err = s.resource(s.kind.templates).Get(s.t.Context(), s.name, metav1.GetOptions{})
	hasTemplate := err == nil && reflect.DeepEqual(nhc.Spec.RemediationTemplate, s.templateReference())
	s.eventually("the NodeHealthCheck has a phase", func() bool {
		status := s.status()
		disabled := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionDisabled)
		return status.Phase != "" && (!hasTemplate || disabled == nil || disabled.Reason != v1alpha1.ReasonTemplateNotFound)
	})
}

// updateNHC changes the spec, and waits until that generation was synced.
func (s *scenario) updateNHC(change func(*v1alpha1.NodeHealthCheckSpec)) {
	s.t.Helper()
	var generation int64
	s.eventually("the NodeHealthCheck can be updated", func() bool {
		nhc := s.get()
		change(&nhc.Spec)
		updated, err := s.nhc.RemediationV1alpha1().NodeHealthChecks().Update(s.t.Context(), nhc, metav1.UpdateOptions{})
		if apierrors.IsConflict(err) {
			return false
		}
		require.NoError(s.t, err)
		generation = updated.Generation
		return true
	})
	s.eventually("the new spec was synced", func() bool { return s.status().ObservedGeneration >= generation })
}

func (s *scenario) get() *v1alpha1.NodeHealthCheck {
	s.t.Helper()
	nhc, err := s.nhc.RemediationV1alpha1().NodeHealthChecks().Get(s.t.Context(), s.name, metav1.GetOptions{})
	require.NoError(s.t, err)
	return nhc
}

func (s *scenario) status() v1alpha1.NodeHealthCheckStatus {
	s.t.Helper()
	return s.get().Status
}

// lookInterval is how soon a test looks again for what no watch shows: logs, recorded requests,
// permissions. The longer it has waited, the longer it waits, up to slowLookInterval.
const (
	lookInterval     = 100 * time.Millisecond
	slowLookInterval = time.Second
)

// eventually waits until something holds. It looks whenever an object of the scenario has
// changed, and after lookInterval.
func (s *scenario) eventually(what string, holds func() bool) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience.Limit)
	defer cancel()
	for interval := lookInterval; ; interval = min(interval*3/2, slowLookInterval) {
		changed := s.changes.next(s.name)
		if holds() {
			return
		}
		select {
		case <-changed:
		case <-time.After(interval):
		case <-ctx.Done():
			s.t.Fatalf("did not come: %s\nstatus: %s", what, s.statusText())
		}
	}
}

func (s *scenario) statusText() string {
	nhc, err := s.nhc.RemediationV1alpha1().NodeHealthChecks().Get(context.WithoutCancel(s.t.Context()), s.name, metav1.GetOptions{})
	if err != nil {
		return err.Error()
	}
	text, err := json.MarshalIndent(nhc.Status, "", "  ")
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// eventuallyCounts waits until status has these counts. It is also how a test knows
// that the controller has seen what it did.
func (s *scenario) eventuallyCounts(observed, healthy int32) {
	s.t.Helper()
	s.eventually(fmt.Sprintf("%d nodes observed, %d healthy", observed, healthy), func() bool {
		status := s.status()
		return status.ObservedNodes != nil && *status.ObservedNodes == observed && status.HealthyNodes != nil && *status.HealthyNodes == healthy
	})
}

// eventuallyDisabled waits until condition Disabled is True for this reason, and
// returns its message.
func (s *scenario) eventuallyDisabled(reason string) string {
	s.t.Helper()
	var message string
	s.eventually("Disabled with reason "+reason, func() bool {
		condition := meta.FindStatusCondition(s.status().Conditions, v1alpha1.ConditionDisabled)
		if condition == nil || condition.Status != metav1.ConditionTrue || condition.Reason != reason {
			return false
		}
		message = condition.Message
		return true
	})
	return message
}

func (s *scenario) eventuallyEnabled() {
	s.t.Helper()
	s.eventually("not Disabled", func() bool {
		return meta.IsStatusConditionFalse(s.status().Conditions, v1alpha1.ConditionDisabled)
	})
}

// node returns the full name of a node of the scenario.
func (s *scenario) node(name string) string { return s.name + "-" + name }

// createNodes creates nodes that are Ready.
func (s *scenario) createNodes(names ...string) {
	s.t.Helper()
	for _, name := range names {
		node := &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: s.node(name), Labels: map[string]string{scenarioLabel: s.name}},
			Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{readyCondition(corev1.ConditionTrue, time.Now().Add(-time.Hour))}},
		}
		_, err := s.kube.CoreV1().Nodes().Create(s.t.Context(), node, metav1.CreateOptions{})
		require.NoError(s.t, err)
	}
}

func readyCondition(status corev1.ConditionStatus, since time.Time) corev1.NodeCondition {
	return corev1.NodeCondition{Type: corev1.NodeReady, Status: status, LastTransitionTime: metav1.NewTime(since), LastHeartbeatTime: metav1.Now(), Reason: "Test"}
}

// setCondition sets a condition of a node, with a transition at the given time.
func (s *scenario) setCondition(name string, conditionType corev1.NodeConditionType, status corev1.ConditionStatus, since time.Time) {
	s.t.Helper()
	condition := readyCondition(status, since)
	condition.Type = conditionType
	s.setNodeCondition(s.t, s.node(name), condition)
}

func (c *cluster) setNodeCondition(t *testing.T, node string, condition corev1.NodeCondition) {
	t.Helper()
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": []corev1.NodeCondition{condition}}})
	require.NoError(t, err)
	_, err = c.kube.CoreV1().Nodes().Patch(t.Context(), node, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	require.NoError(t, err)
}

// fail makes a node Ready=Unknown, and heal Ready=True, both from now on.
func (s *scenario) fail(name string) {
	s.t.Helper()
	s.setCondition(name, corev1.NodeReady, corev1.ConditionUnknown, time.Now())
}

func (s *scenario) heal(name string) {
	s.t.Helper()
	s.setCondition(name, corev1.NodeReady, corev1.ConditionTrue, time.Now())
}

func (s *scenario) crClient() dynamic.ResourceInterface {
	return s.resource(s.kind.remediations)
}

// cr returns the CR with the name of a node, or nil.
func (s *scenario) cr(name string) *unstructured.Unstructured {
	s.t.Helper()
	cr, err := s.crClient().Get(s.t.Context(), s.node(name), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	require.NoError(s.t, err)
	return cr
}

func (s *scenario) crs() []unstructured.Unstructured {
	s.t.Helper()
	list, err := s.crClient().List(s.t.Context(), metav1.ListOptions{})
	require.NoError(s.t, err)
	return list.Items
}

// eventuallyCR waits until a CR for the node exists and status shows that very one.
func (s *scenario) eventuallyCR(name string) *unstructured.Unstructured {
	s.t.Helper()
	var cr *unstructured.Unstructured
	s.eventually("a CR for node "+name+", in status too", func() bool {
		cr = s.cr(name)
		if cr == nil {
			return false
		}
		entry := s.entry(name)
		return entry != nil && slices.ContainsFunc(entry.Remediations, func(r v1alpha1.Remediation) bool { return r.Resource.UID == cr.GetUID() })
	})
	return cr
}

func (s *scenario) eventuallyNoCR(name string) {
	s.t.Helper()
	s.eventually("no CR for node "+name, func() bool { return s.cr(name) == nil })
}

// entry returns the entry of a node in status.unhealthyNodes, or nil.
func (s *scenario) entry(name string) *v1alpha1.UnhealthyNode {
	s.t.Helper()
	nodes := s.status().UnhealthyNodes
	for i := range nodes {
		if nodes[i].Name == s.node(name) {
			return &nodes[i]
		}
	}
	return nil
}

// patchMetadata merges a patch into the metadata of an object, and ignores errors.
func (s *scenario) patchMetadata(ctx context.Context, client dynamic.ResourceInterface, name string, metadata map[string]any) {
	patch, err := json.Marshal(map[string]any{"metadata": metadata})
	require.NoError(s.t, err)
	_, _ = client.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
}

// setFinalizers replaces the finalizers of the CR of a node, as a remediator would.
func (s *scenario) setFinalizers(name string, finalizers ...string) {
	s.t.Helper()
	s.setFinalizersOf(s.node(name), finalizers...)
}

// events returns the notes of all events with this reason about the NodeHealthCheck.
func (s *scenario) events(reason string) []string {
	s.t.Helper()
	return s.eventsAbout(v1alpha1.Kind, s.name, reason)
}

// eventsAbout returns the notes of all events with this reason about an object, each
// as often as it occurred.
func (s *scenario) eventsAbout(kind, name, reason string) []string {
	s.t.Helper()
	notes := s.eventNotes(s.t, metav1.NamespaceDefault, "NodeHealthCheck", kind, name, reason)
	for i := range notes {
		notes[i] = strings.TrimPrefix(notes[i], "[remediation] ")
	}
	return notes
}

// eventNotes returns the notes of all events of a reporter with this reason about an object, each as often as it occurred.
func (c *cluster) eventNotes(t *testing.T, namespace, reporter, kind, name, reason string) (notes []string) {
	t.Helper()
	about := fields.Set{"regarding.kind": kind, "regarding.name": name, "reason": reason}
	list, err := c.kube.EventsV1().Events(namespace).List(t.Context(), metav1.ListOptions{FieldSelector: about.String()})
	require.NoError(t, err)
	for _, event := range list.Items {
		if event.ReportingController == reporter {
			for range occurrences(&event) {
				notes = append(notes, event.Note)
			}
		}
	}
	return notes
}

func occurrences(event *eventsv1.Event) int32 {
	if event.Series == nil {
		return 1
	}
	return event.Series.Count
}

// eventuallyEvent waits until an event with this reason and note is there.
func (s *scenario) eventuallyEvent(reason, note string) {
	s.t.Helper()
	s.eventually(fmt.Sprintf("event %s: %s", reason, note), func() bool { return slices.Contains(s.events(reason), note) })
}
