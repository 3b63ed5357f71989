// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/pkg/watches"
)

func TestMain(m *testing.M) {
	// The default handlers slow down repeated errors by a clock that all tests
	// share; in a bubble, where time starts anew, that would be for decades.
	utilruntime.ErrorHandlers = nil //nolint:reassign // before any test
	os.Exit(m.Run())
}

// platformObject returns an object as the API server has it.
func platformObject(text string) *unstructured.Unstructured {
	var content map[string]any
	if err := json.Unmarshal([]byte(text), &content); err != nil {
		return nil
	}
	return &unstructured.Unstructured{Object: content}
}

const identity = `"metadata": {"namespace": "ns", "name": "n", "uid": "u", "resourceVersion": "7"}`

// waste is what must not be kept.
var waste = `"labels": {"waste": "waste"}, "annotations": {"waste": "` + strings.Repeat("waste", 1000) + `"}, "managedFields": [{"manager": "waste"}], "finalizers": ["waste"]`

func TestParsePlatform(t *testing.T) {
	t.Parallel()
	metadata := strings.TrimSuffix(identity, "}") + ", " + waste + "}"
	tests := map[string]struct{ object, want string }{
		"6.9 a MachineHealthCheck": {
			object: `{"apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineHealthCheck", ` + metadata + `,
				"spec": {"waste": 1, "unhealthyConditions": [{"type": "Terminating", "status": "True"}]}, "status": {"conditions": ["waste"]}}`,
			want: `{"apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineHealthCheck", ` + identity + `,
				"spec": {"unhealthyConditions": [{"type": "Terminating", "status": "True"}]}}`,
		},
		"10.2 a ClusterVersion": {
			object: `{"apiVersion": "config.openshift.io/v1", "kind": "ClusterVersion", ` + metadata + `,
				"spec": {"unhealthyConditions": ["waste"]}, "status": {"history": ["waste"], "conditions": [{"type": "Progressing", "status": "True"}]}}`,
			want: `{"apiVersion": "config.openshift.io/v1", "kind": "ClusterVersion", ` + identity + `,
				"status": {"conditions": [{"type": "Progressing", "status": "True"}]}}`,
		},
		"11.3 a Machine": {
			object: `{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", ` + metadata + `,
				"spec": {"unhealthyConditions": ["waste"]}, "status": {"conditions": ["waste"]}}`,
			want: `{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", ` + identity + `}`,
		},
		"6.9 one without conditions": {
			object: `{"apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineHealthCheck", ` + identity + `, "spec": {}}`,
			want:   `{"apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineHealthCheck", ` + identity + `}`,
		},
		"10.2 a malformed one": {
			object: `{"apiVersion": "config.openshift.io/v1", "kind": "ClusterVersion", ` + identity + `, "status": "waste"}`,
			want:   `{"apiVersion": "config.openshift.io/v1", "kind": "ClusterVersion", ` + identity + `}`,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			object := platformObject(tc.object)
			require.NotNil(t, object)
			before := object.DeepCopy()
			parsed := parsePlatform(object).(*unstructured.Unstructured)
			require.Equal(t, before, object, "reading changes nothing")
			require.Equal(t, platformObject(tc.want), parsed)
			require.Equal(t, parsed, parsePlatform(parsed), "what a cache gives back is parsed again")
		})
	}
}

func TestParsePlatformSharesNothing(t *testing.T) {
	t.Parallel()
	object := platformObject(`{"kind": "MachineHealthCheck", "spec": {"unhealthyConditions": [{"type": "Terminating"}]}}`)
	parsed := parsePlatform(object).(*unstructured.Unstructured)
	conditions, _, err := unstructured.NestedFieldNoCopy(object.Object, "spec", "unhealthyConditions")
	require.NoError(t, err)
	conditions.([]any)[0].(map[string]any)["type"] = "Ready"
	require.False(t, remediation.Conflicts([]*unstructured.Unstructured{parsed}))
}

// FuzzParsePlatform: any object can be read, and what is kept of it says the same as
// all of it.
func FuzzParsePlatform(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"kind": "MachineHealthCheck"}`,
		`{"kind": 5, "apiVersion": [], "metadata": "x"}`,
		`{"kind": "ClusterVersion", "metadata": {"name": {}, "uid": 7}, "status": {"conditions": {}}}`,
		`{"kind": "MachineHealthCheck", "spec": {"unhealthyConditions": [{"type": "Terminating"}]}}`,
		`{"kind": "MachineHealthCheck", "spec": {"unhealthyConditions": [null]}}`,
		`{"kind": "MachineHealthCheck", "spec": {"unhealthyConditions": [{"type": {}}, 1.5, [[]]]}}`,
		`{"kind": "MachineHealthCheck", "spec": []}`, `{"kind": "MachineHealthCheck", "spec": null}`,
		`{"kind": "ClusterVersion", "status": {"conditions": [{"type": "Progressing", "status": "True"}]}}`,
		`{"kind": "ClusterVersion", "status": {"conditions": [{"type": "Progressing", "status": true}, null, 3, "x", {"type": []}]}}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		object := platformObject(text)
		if object == nil {
			return
		}
		before := object.DeepCopy()
		parsed := parsePlatform(object).(*unstructured.Unstructured)
		require.Equal(t, before, object, "reading changes nothing")
		require.Equal(t, parsed, parsePlatform(parsed))
		whole, kept := []*unstructured.Unstructured{object}, []*unstructured.Unstructured{parsed}
		switch object.GetKind() {
		case "MachineHealthCheck":
			require.Equal(t, remediation.Conflicts(whole), remediation.Conflicts(kept), "6.9")
		case "ClusterVersion":
			require.Equal(t, remediation.Progressing(whole), remediation.Progressing(kept), "10.2")
		}
	})
}

// newPlatformController returns a controller that knows two NodeHealthChecks, and
// can do no more than to put them into its queue.
func newPlatformController() *Controller {
	c := &Controller{queue: workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[cache.ObjectName]())}
	for _, name := range []string{"one", "two"} {
		c.selectors.set(&v1alpha1.NodeHealthCheck{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	return c
}

func TestPlatformHandler(t *testing.T) {
	t.Parallel()
	check := func(version, condition string) *unstructured.Unstructured {
		return platformObject(`{"kind": "MachineHealthCheck", "metadata": {"name": "n", "resourceVersion": "` + version + `"}, "spec": {"unhealthyConditions": [{"type": "` + condition + `"}]}}`)
	}
	version := func(version, status string) *unstructured.Unstructured {
		return platformObject(`{"kind": "ClusterVersion", "metadata": {"name": "n", "resourceVersion": "` + version + `"}, "status": {"conditions": [{"type": "Progressing", "status": "` + status + `"}]}}`)
	}
	machine := platformObject(`{"kind": "Machine", "metadata": {"name": "n"}}`)
	tests := map[string]struct {
		event func(cache.ResourceEventHandler)
		all   bool
	}{
		"21.1 a MachineHealthCheck comes":        {func(h cache.ResourceEventHandler) { h.OnAdd(check("1", "Ready"), true) }, true},
		"21.1 a MachineHealthCheck changes":      {func(h cache.ResourceEventHandler) { h.OnUpdate(check("1", "Ready"), check("2", "Terminating")) }, true},
		"P3 a MachineHealthCheck hardly changes": {func(h cache.ResourceEventHandler) { h.OnUpdate(check("1", "Ready"), check("2", "Ready")) }, false},
		"21.1 a MachineHealthCheck goes":         {func(h cache.ResourceEventHandler) { h.OnDelete(check("1", "Ready")) }, true},
		"P2 a MachineHealthCheck has gone unseen": {func(h cache.ResourceEventHandler) {
			h.OnDelete(cache.DeletedFinalStateUnknown{Obj: check("1", "Ready")})
		}, true},
		"21.1 a ClusterVersion comes":        {func(h cache.ResourceEventHandler) { h.OnAdd(version("1", "True"), false) }, true},
		"21.1 a ClusterVersion changes":      {func(h cache.ResourceEventHandler) { h.OnUpdate(version("1", "True"), version("2", "False")) }, true},
		"P3 a ClusterVersion hardly changes": {func(h cache.ResourceEventHandler) { h.OnUpdate(version("1", "True"), version("2", "True")) }, false},
		"21.1 a ClusterVersion goes":         {func(h cache.ResourceEventHandler) { h.OnDelete(version("1", "True")) }, true},
		"21.1 Machines concern nobody": {func(h cache.ResourceEventHandler) {
			h.OnAdd(machine, false)
			h.OnUpdate(machine, machine)
			h.OnDelete(machine)
		}, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newPlatformController()
			defer c.queue.ShutDown()
			tc.event(c.platformHandler())
			if tc.all {
				require.Equal(t, 2, c.queue.Len())
			} else {
				require.Zero(t, c.queue.Len())
			}
		})
	}
}

// platformWorld is an API server that serves optional kinds, or not.
type platformWorld struct {
	authorizationclient.SelfSubjectAccessReviewInterface
	client *dynamicfake.FakeDynamicClient

	mu sync.Mutex
	// served are the kinds that discovery knows, hanging the resources of which no
	// permission can be found out.
	served  map[schema.GroupVersionKind]string
	hanging map[schema.GroupResource]bool
	denied  map[schema.GroupResource]bool
}

func (w *platformWorld) ServerGroupsWithContext(context.Context) (*metav1.APIGroupList, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	list := &metav1.APIGroupList{}
	for gvk := range w.served {
		list.Groups = append(list.Groups, metav1.APIGroup{Name: gvk.Group, PreferredVersion: metav1.GroupVersionForDiscovery{Version: gvk.Version}})
	}
	return list, nil
}

func (w *platformWorld) ServerResourcesForGroupVersionWithContext(_ context.Context, groupVersion string) (*metav1.APIResourceList, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	list := &metav1.APIResourceList{GroupVersion: groupVersion}
	for gvk, resource := range w.served {
		if gvk.GroupVersion().String() == groupVersion {
			list.APIResources = append(list.APIResources, metav1.APIResource{Name: resource, Kind: gvk.Kind, Namespaced: true})
		}
	}
	if len(list.APIResources) == 0 {
		return nil, apierrors.NewNotFound(schema.GroupResource{}, "")
	}
	return list, nil
}

func (w *platformWorld) Create(ctx context.Context, review *authorizationv1.SelfSubjectAccessReview, _ metav1.CreateOptions) (*authorizationv1.SelfSubjectAccessReview, error) {
	attributes := review.Spec.ResourceAttributes
	resource := schema.GroupResource{Group: attributes.Group, Resource: attributes.Resource}
	w.mu.Lock()
	hangs, denied := w.hanging[resource], w.denied[resource]
	w.mu.Unlock()
	if hangs {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	review = review.DeepCopy()
	review.Status.Allowed = !denied
	return review, nil
}

var platformResources = map[schema.GroupVersionKind]string{
	{Group: "machine.openshift.io", Version: "v1beta1", Kind: "MachineHealthCheck"}: "machinehealthchecks",
	{Group: "machine.openshift.io", Version: "v1beta1", Kind: "Machine"}:            "machines",
	{Group: "config.openshift.io", Version: "v1", Kind: "ClusterVersion"}:           "clusterversions",
	{Group: "cluster.x-k8s.io", Version: "v1beta2", Kind: "Machine"}:                "machines",
}

// inPlatform runs a test with a controller that looks at such an API server. Time
// does not pass but in the test.
func inPlatform(t *testing.T, prepare func(*platformWorld), test func(t *testing.T, w *platformWorld, c *Controller)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		listKinds := map[schema.GroupVersionResource]string{}
		served := map[schema.GroupVersionKind]string{}
		for gvk, resource := range platformResources {
			listKinds[gvk.GroupVersion().WithResource(resource)] = gvk.Kind + "List"
			served[gvk] = resource
		}
		w := &platformWorld{
			client: dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), listKinds),
			served: served, hanging: map[schema.GroupResource]bool{}, denied: map[schema.GroupResource]bool{},
		}
		prepare(w)
		c := newPlatformController()
		defer c.queue.ShutDown()
		c.platform = watches.NewSet(watches.Config{
			Name: "platform", Client: w.client, Discovery: w, Access: w, Verbs: []string{"get", "list", "watch"}, Optional: true,
			Interval: pollInterval, Parse: parsePlatform, Handler: c.platformHandler(), Changed: func([]string) { c.enqueue(c.selectors.names()) },
		})
		c.platform.Want(platformOwner, platformKinds)
		_, err := c.lookAround()
		require.Equal(t, watches.ErrPending, err, "6.9, 21.2: nothing is known yet")
		ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), klog.Logger{}))
		var wg sync.WaitGroup
		defer wg.Wait()
		defer cancel()
		wg.Go(func() { c.platform.Run(ctx) })
		wait()
		test(t, w, c)
	})
}

// wait returns when everybody else does.
func wait() { synctest.Wait() }

func (w *platformWorld) create(t *testing.T, kind schema.GroupVersionKind, name, content string) {
	t.Helper()
	object := platformObject(content)
	require.NotNil(t, object)
	object.SetGroupVersionKind(kind)
	object.SetNamespace("ns")
	object.SetName(name)
	object.SetUID(types.UID(kind.Group + "-" + name))
	_, err := w.client.Resource(kind.GroupVersion().WithResource(platformResources[kind])).Namespace("ns").Create(t.Context(), object, metav1.CreateOptions{})
	require.NoError(t, err)
	wait()
}

func (w *platformWorld) refuse(resource string, err error) {
	w.client.PrependReactor("list", resource, func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, err })
}

func clusterAPIMachine() schema.GroupVersionKind {
	kind := remediation.ClusterAPIMachineKind
	kind.Version = "v1beta2"
	return kind
}

func TestLookAround(t *testing.T) {
	t.Parallel()
	const ready, terminating = `{"spec": {"unhealthyConditions": [{"type": "Ready"}]}}`, `{"spec": {"unhealthyConditions": [{"type": "Terminating"}]}}`
	progressing := `{"status": {"conditions": [{"type": "Progressing", "status": "True"}]}}`
	machineHealthChecks := schema.GroupResource{Group: "machine.openshift.io", Resource: "machinehealthchecks"}
	openShiftMachines := schema.GroupResource{Group: "machine.openshift.io", Resource: "machines"}
	clusterAPIMachines := schema.GroupResource{Group: "cluster.x-k8s.io", Resource: "machines"}
	clusterVersions := schema.GroupResource{Group: "config.openshift.io", Resource: "clusterversions"}
	tests := map[string]struct {
		prepare func(*platformWorld)
		// objects are created afterwards.
		objects func(t *testing.T, w *platformWorld)
		// pending means that a sync has to wait, and goes on once it is known that
		// there is no answer.
		pending bool
		want    surroundings
	}{
		"1.3 nothing is served": {prepare: func(w *platformWorld) { clear(w.served) }},
		"1.3 nothing exists":    {want: surroundings{openShiftMachines: true}},
		"7.7 a MachineHealthCheck": {
			objects: func(t *testing.T, w *platformWorld) {
				t.Helper()
				w.create(t, remediation.MachineHealthCheckKind, "a", terminating)
			},
			want: surroundings{openShiftMachines: true, machineHealthChecks: true},
		},
		"6.9 a MachineHealthCheck of another type": {
			objects: func(t *testing.T, w *platformWorld) {
				t.Helper()
				w.create(t, remediation.MachineHealthCheckKind, "a", ready)
			},
			want: surroundings{openShiftMachines: true, machineHealthChecks: true, conflict: true},
		},
		"6.9 two MachineHealthChecks": {
			objects: func(t *testing.T, w *platformWorld) {
				t.Helper()
				w.create(t, remediation.MachineHealthCheckKind, "a", terminating)
				w.create(t, remediation.MachineHealthCheckKind, "b", terminating)
			},
			want: surroundings{openShiftMachines: true, machineHealthChecks: true, conflict: true},
		},
		"10.2 an upgrade": {
			objects: func(t *testing.T, w *platformWorld) {
				t.Helper()
				w.create(t, remediation.ClusterVersionKind, "version", progressing)
			},
			want: surroundings{openShiftMachines: true, progressing: true},
		},
		"6.1 forbidden MachineHealthChecks": {
			prepare: func(w *platformWorld) { w.denied[machineHealthChecks] = true },
			want:    surroundings{openShiftMachines: true, problem: remediation.Forbidden("get", machineHealthChecks)},
		},
		"6.9 MachineHealthChecks that cannot be read": {
			prepare: func(w *platformWorld) { w.refuse("machinehealthchecks", errors.New("out of order")) },
			want:    surroundings{openShiftMachines: true, unknown: true},
		},
		"6.9 MachineHealthChecks that are not read yet": {
			prepare: func(w *platformWorld) { w.hanging[machineHealthChecks] = true },
			pending: true,
			want:    surroundings{openShiftMachines: true, unknown: true},
		},
		"10.2 forbidden ClusterVersions": {
			prepare: func(w *platformWorld) { w.denied[clusterVersions] = true },
			want:    surroundings{openShiftMachines: true},
		},
		"10.2 ClusterVersions that cannot be read": {
			prepare: func(w *platformWorld) { w.refuse("clusterversions", errors.New("out of order")) },
			want:    surroundings{openShiftMachines: true},
		},
		"21.2 ClusterVersions that are not read yet": {
			prepare: func(w *platformWorld) { w.hanging[clusterVersions] = true },
			pending: true,
			want:    surroundings{openShiftMachines: true},
		},
		"6.1 forbidden Machines are served": {
			prepare: func(w *platformWorld) { w.denied[openShiftMachines] = true },
			want:    surroundings{openShiftMachines: true},
		},
		"6.1 Machines of Cluster API alone": {
			prepare: func(w *platformWorld) { delete(w.served, remediation.OpenShiftMachineKind) },
		},
		"21.2 Machines that are not read yet": {
			prepare: func(w *platformWorld) { w.hanging[openShiftMachines] = true },
			pending: true,
		},
		"21.2 Machines of Cluster API that are not read yet": {
			prepare: func(w *platformWorld) { w.hanging[clusterAPIMachines] = true },
			pending: true,
			want:    surroundings{openShiftMachines: true},
		},
		"P1 Machines that cannot be read": {
			prepare: func(w *platformWorld) { w.refuse("machines", errors.New("out of order")) },
			want:    surroundings{openShiftMachines: true},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tc.prepare == nil {
				tc.prepare = func(*platformWorld) {}
			}
			inPlatform(t, tc.prepare, func(t *testing.T, w *platformWorld, c *Controller) {
				t.Helper()
				if tc.objects != nil {
					tc.objects(t, w)
				}
				if tc.pending {
					_, err := c.lookAround()
					require.Equal(t, watches.ErrPending, err)
					for c.queue.Len() > 0 {
						key, _ := c.queue.Get()
						c.queue.Done(key)
					}
					time.Sleep(20 * time.Second) // Longer than anybody waits for an answer.
					wait()
					require.Equal(t, 2, c.queue.Len(), "21.2: a kind that cannot be read delays nobody else")
				}
				got, err := c.lookAround()
				require.NoError(t, err)
				require.Equal(t, tc.want, got)
			})
		})
	}
}

func TestMachinesOf(t *testing.T) {
	t.Parallel()
	node := func(annotations map[string]string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node", Annotations: annotations}}
	}
	both := map[string]string{"machine.openshift.io/machine": "ns/m", "cluster.x-k8s.io/machine": "m", "cluster.x-k8s.io/cluster-namespace": "ns"}
	uids := func(machines remediation.Machines) []types.UID {
		var all []types.UID
		for _, machine := range []*unstructured.Unstructured{machines.OpenShift, machines.ClusterAPI} {
			if machine == nil {
				all = append(all, "")
				continue
			}
			all = append(all, machine.GetUID())
		}
		return all
	}
	inPlatform(t, func(*platformWorld) {}, func(t *testing.T, w *platformWorld, c *Controller) {
		t.Helper()
		require.Equal(t, remediation.Machines{}, c.machinesOf(node(both)), "11.3: they do not exist")
		w.create(t, remediation.OpenShiftMachineKind, "m", `{}`)
		w.create(t, clusterAPIMachine(), "m", `{}`)
		require.Equal(t, []types.UID{"machine.openshift.io-m", "cluster.x-k8s.io-m"}, uids(c.machinesOf(node(both))), "11.3")
		require.Equal(t, remediation.Machines{}, c.machinesOf(node(nil)), "11.3")
		require.Equal(t, remediation.Machines{}, c.machinesOf(node(map[string]string{
			"machine.openshift.io/machine": "other/m", "cluster.x-k8s.io/machine": "m", "cluster.x-k8s.io/cluster-namespace": "other",
		})), "11.3: in another namespace")
	})
}

func TestUpgradingCountsUnhealthyNodesOnly(t *testing.T) {
	t.Parallel()
	changing := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{remediation.AnnotationDesiredConfig: "b", remediation.AnnotationCurrentConfig: "a"}}}
	for state, want := range map[health.State]bool{health.Healthy: false, health.SoonUnhealthy: false, health.Unhealthy: true} {
		w := &world{fleet: health.Fleet{Patients: []health.Patient{
			{Node: &corev1.Node{}, Verdict: health.Verdict{State: health.Unhealthy}}, {Node: changing, Verdict: health.Verdict{State: state}},
		}}}
		require.Equal(t, want, w.upgrading(), "10.2: %s", state)
	}
	require.True(t, (&world{surroundings: surroundings{progressing: true}}).upgrading(), "10.2")
}

// The annotations that decide must outlive the trimming of Nodes.
func TestTrimNodeKeepsWhatThePlatformSays(t *testing.T) {
	t.Parallel()
	annotations := map[string]string{
		"machine.openshift.io/machine": "a/b", "cluster.x-k8s.io/machine": "c", "cluster.x-k8s.io/cluster-namespace": "d",
		"machineconfiguration.openshift.io/currentConfig": "e", "machineconfiguration.openshift.io/desiredConfig": "f",
	}
	trimmed, err := TrimNode(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: annotations}})
	require.NoError(t, err)
	require.Equal(t, annotations, trimmed.(*corev1.Node).Annotations)
}

// While MachineHealthChecks cannot be read, a conflict that was known lasts: no
// answer never leads to a deletion (P5, spec 5.2, 6.7).
func TestConflictLastsWithoutAnswer(t *testing.T) {
	t.Parallel()
	disabled := func(status metav1.ConditionStatus, reason string) *v1alpha1.NodeHealthCheck {
		return &v1alpha1.NodeHealthCheck{Status: v1alpha1.NodeHealthCheckStatus{Conditions: []metav1.Condition{{Type: v1alpha1.ConditionDisabled, Status: status, Reason: reason}}}}
	}
	tests := map[string]struct {
		nhc      *v1alpha1.NodeHealthCheck
		world    world
		conflict bool
	}{
		"6.7 a conflict":                       {disabled(metav1.ConditionFalse, v1alpha1.ReasonEnabled), world{surroundings: surroundings{conflict: true}}, true},
		"6.7 no conflict any more":             {disabled(metav1.ConditionTrue, v1alpha1.ReasonConflict), world{}, false},
		"P5 no answer after a conflict":        {disabled(metav1.ConditionTrue, v1alpha1.ReasonConflict), world{surroundings: surroundings{unknown: true}}, true},
		"P5 no answer after another problem":   {disabled(metav1.ConditionTrue, v1alpha1.ReasonTemplateNotFound), world{surroundings: surroundings{unknown: true}}, false},
		"P5 no answer after none":              {disabled(metav1.ConditionFalse, v1alpha1.ReasonEnabled), world{surroundings: surroundings{unknown: true}}, false},
		"P5 no answer before anything is said": {&v1alpha1.NodeHealthCheck{}, world{surroundings: surroundings{unknown: true}}, false},
		"P5 no answer about a template":        {disabled(metav1.ConditionTrue, v1alpha1.ReasonConflict), world{findings: findings{unknown: true}}, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.conflict, tc.world.restraints(tc.nhc).Conflict)
		})
	}
}
