// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/execute"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/kinds"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
	"github.com/nhc-controller/nhc-controller/pkg/watches"
)

func selecting(name string, selector metav1.LabelSelector) *v1alpha1.NodeHealthCheck {
	return &v1alpha1.NodeHealthCheck{ObjectMeta: metav1.ObjectMeta{Name: name, Generation: 1}, Spec: v1alpha1.NodeHealthCheckSpec{Selector: selector}}
}

func byRole(role string) metav1.LabelSelector {
	return metav1.LabelSelector{MatchLabels: map[string]string{"role": role}}
}

// listener is a controller that has only its handlers. Nothing takes from its queue.
func listener(t *testing.T) *Controller {
	t.Helper()
	c := queueingController()
	c.templates = watches.NewSet[schema.GroupVersionKind](watches.Config{})
	c.Remediations = &kinds.Kinds{Set: watches.NewSet[schema.GroupKind](watches.Config{})}
	c.platform = watches.NewSet[schema.GroupVersionKind](watches.Config{})
	t.Cleanup(c.Queue.ShutDown)
	for _, nhc := range []*v1alpha1.NodeHealthCheck{selecting("workers", byRole("worker")), selecting("infra", byRole("infra"))} {
		nhc.Spec.RemediationTemplate = &corev1.ObjectReference{APIVersion: "example.com/v1", Kind: "RebootTemplate", Namespace: "ns", Name: nhc.Name}
		require.NoError(t, c.Checks.Store.Add(nhc))
		c.index.SetCheck(checkOf(nhc))
	}
	return c
}

// woken returns and forgets the NodeHealthChecks in the queue.
func woken(c *Controller) []string {
	var names []string
	for c.Queue.Len() > 0 {
		key, _ := c.Queue.Get()
		names = append(names, key.Name)
		c.Queue.Done(key)
	}
	slices.Sort(names)
	return names
}

// TestConfirmedNodeIsWoken: the manual confirmation is removed by a NodeHealthCheck that
// selects the node, when the last CR of others is gone (spec 16.6, P2).
func TestConfirmedNodeIsWoken(t *testing.T) {
	t.Parallel()
	c := listener(t)
	plan := remediation.NodePlan{Node: &remediation.Node{Name: "n", ConfirmedHealthy: true, OthersRemediate: true}}
	c.waiters.set("workers", waits(remediation.NodeResult{Plan: &plan, Outcome: &remediation.Outcome{}}))
	c.remediationChanged(testCR("n", "1"), nil)
	require.Equal(t, []string{"workers"}, woken(c))
	c.leaseChanged(nil, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "node-n"}})
	require.Equal(t, []string{"workers"}, woken(c), "its lease tells who may have a CR")
}

func TestNHCChanged(t *testing.T) {
	t.Parallel()
	version := func(v string) func(*v1alpha1.NodeHealthCheck) {
		return func(n *v1alpha1.NodeHealthCheck) { n.ResourceVersion = v }
	}
	statusSays := func(reason string) func(*v1alpha1.NodeHealthCheck) {
		return func(n *v1alpha1.NodeHealthCheck) { n.Status.Reason = reason }
	}
	tests := map[string]struct {
		old   *v1alpha1.NodeHealthCheck
		now   []func(*v1alpha1.NodeHealthCheck)
		woken bool
	}{
		"21.1 created":                      {woken: true},
		"21.1 a resync is no change":        {old: testCheck()},
		"21.1 spec changed":                 {old: testCheck(), now: []func(*v1alpha1.NodeHealthCheck){version("11"), func(n *v1alpha1.NodeHealthCheck) { n.Generation++ }}, woken: true},
		"21.1 annotations changed":          {old: testCheck(), now: []func(*v1alpha1.NodeHealthCheck){version("11"), func(n *v1alpha1.NodeHealthCheck) { n.Annotations = map[string]string{"a": "b"} }}, woken: true},
		"4.8 being deleted":                 {old: testCheck(), now: []func(*v1alpha1.NodeHealthCheck){version("11"), func(n *v1alpha1.NodeHealthCheck) { n.DeletionTimestamp = new(metav1.NewTime(epoch)) }}, woken: true},
		"17.1 deleted and created again":    {old: testCheck(), now: []func(*v1alpha1.NodeHealthCheck){version("11"), func(n *v1alpha1.NodeHealthCheck) { n.UID = "another" }}, woken: true},
		"21.1 labels do not matter":         {old: testCheck(), now: []func(*v1alpha1.NodeHealthCheck){version("11"), func(n *v1alpha1.NodeHealthCheck) { n.Labels = map[string]string{"a": "b"} }}},
		"21.1 its own status write":         {old: testCheck(), now: []func(*v1alpha1.NodeHealthCheck){version("12"), statusSays("ours")}},
		"P2 18.2 of another client":         {old: testCheck(), now: []func(*v1alpha1.NodeHealthCheck){version("11"), statusSays("theirs")}, woken: true},
		"P2 spec changed along with status": {old: testCheck(), now: []func(*v1alpha1.NodeHealthCheck){version("12"), statusSays("ours"), func(n *v1alpha1.NodeHealthCheck) { n.Generation++ }}, woken: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := listener(t)
			c.Writes.Wrote("workers", nhcResource, "12", epoch)
			c.nhcChanged(tc.old, testCheck(tc.now...))
			if tc.woken {
				require.Equal(t, []string{"workers"}, woken(c))
			} else {
				require.Empty(t, woken(c))
			}
		})
	}
	c := listener(t)
	c.nhcDeleted("workers")
	require.Equal(t, []string{"workers"}, woken(c), "21.1")
	require.Equal(t, []string{"infra"}, c.index.Names())
}

func TestNodeChanged(t *testing.T) {
	t.Parallel()
	worker := func(changes ...func(*corev1.Node)) *corev1.Node {
		return testNode("n", append([]func(*corev1.Node){labelled("role", "worker")}, changes...)...)
	}
	sick := conditions(testCondition("Ready", "False", epoch))
	tests := map[string]struct {
		old, node *corev1.Node
		want      []string
	}{
		"21.1 created":            {node: worker(), want: []string{"workers"}},
		"21.1 deleted":            {old: worker(), want: []string{"workers"}},
		"21.1 condition":          {old: worker(), node: worker(sick), want: []string{"workers"}},
		"21.1 other labels":       {old: worker(), node: worker(labelled("x", "y"))},
		"21.1 nothing":            {old: worker(), node: worker()},
		"21.1 label of selectors": {old: worker(), node: testNode("n", labelled("role", "infra")), want: []string{"infra", "workers"}},
		"21.1 selected by none":   {old: testNode("n"), node: testNode("n", sick)},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newHandlerCluster(t)
			f.check("workers", byRole("worker"))
			f.check("infra", byRole("infra"))
			f.check("broken", broken)
			if tc.old != nil {
				f.put(tc.old)
			}
			woken(f.Controller)
			if tc.node != nil {
				f.put(tc.node)
			} else {
				f.drop("n")
			}
			require.Equal(t, tc.want, woken(f.Controller))
		})
	}
}

func TestControlPlanePlaceWakes(t *testing.T) {
	t.Parallel()
	c := listener(t)
	c.waiters.set("masters", true)
	c.remediationChanged(nil, testCR("n", "1"))
	require.Equal(t, []string{"masters"}, woken(c), "12.4: within 2 s of the slot becoming free")
	c.nodeDeleted("m")
	require.Equal(t, []string{"masters"}, woken(c), "12.2: a CR that is being deleted keeps the slot as long as its Node exists")
	c.nodeChanged(testNode("m"), testNode("m", labelled("node-role.kubernetes.io/control-plane", "")))
	require.Equal(t, []string{"masters"}, woken(c), "12.1")
}

func TestCRChanged(t *testing.T) {
	t.Parallel()
	owned := func(cr *object.CR) {
		cr.OwnerReferences = []metav1.OwnerReference{{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: v1alpha1.Kind, Name: "workers"}}
	}
	c := listener(t)
	handler := watches.Handler(c.remediationChanged)
	handler.OnAdd(testCR("n", "1", owned), true)
	require.Equal(t, []string{"workers"}, woken(c), "21.1: owners")
	handler.OnUpdate(testCR("n", "1", owned), testCR("n", "1", owned, func(cr *object.CR) { cr.ResourceVersion = "99" }))
	require.Empty(t, woken(c), "11.2: a write that says nothing new")
	handler.OnUpdate(testCR("n", "1", owned), testCR("n", "1"))
	require.Equal(t, []string{"workers"}, woken(c), "P2: judged by its old state")
	handler.OnDelete(testCR("n", "1", owned))
	require.Equal(t, []string{"workers"}, woken(c))
	handler.OnDelete(cache.DeletedFinalStateUnknown{Key: "remediators/n", Obj: testCR("n", "1", owned)})
	require.Equal(t, []string{"workers"}, woken(c))
	handler.OnDelete(cache.DeletedFinalStateUnknown{Key: "remediators/n"})
	require.Empty(t, woken(c), "nothing is known, and nothing breaks")

	c.waiters.set("infra", true)
	handler.OnUpdate(testCR("n", "1"), testCR("n", "1", crDeleting))
	require.Equal(t, []string{"infra"}, woken(c), "21.1: those that wait for it, foreign ones too")
}

func TestTemplateChanged(t *testing.T) {
	t.Parallel()
	template := func(name, strategy string) *object.Template {
		return &object.Template{
			TypeMeta: metav1.TypeMeta{APIVersion: "example.com/v1", Kind: "RebootTemplate"}, ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name},
			Spec: map[string]any{"strategy": strategy},
		}
	}
	c := listener(t)
	handler := c.templateHandler()
	handler.OnAdd(template("workers", "a"), false)
	require.Equal(t, []string{"workers"}, woken(c), "21.1: those that refer to it")
	handler.OnUpdate(template("workers", "a"), template("workers", "a"))
	require.Empty(t, woken(c), "21.1: not its status")
	handler.OnUpdate(template("workers", "a"), template("workers", "b"))
	require.Equal(t, []string{"workers"}, woken(c))
	handler.OnDelete(cache.DeletedFinalStateUnknown{Obj: template("infra", "a")})
	require.Equal(t, []string{"infra"}, woken(c))
	handler.OnAdd(template("other", "a"), false)
	require.Empty(t, woken(c))
}

func TestLeaseChanged(t *testing.T) {
	t.Parallel()
	lease := func(holder, version string) *coordinationv1.Lease {
		l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "node-n", ResourceVersion: version}}
		if holder != "" {
			l.Spec.HolderIdentity = &holder
		}
		return l
	}
	const workers, infra = "NodeHealthCheck-workers", "NodeHealthCheck-infra"
	tests := map[string]struct {
		old, lease *coordinationv1.Lease
		want       []string
	}{
		"21.1 created by others":      {lease: lease("other", "1"), want: []string{"waiter"}},
		"21.1 created without holder": {lease: lease("", "1"), want: []string{"waiter"}},
		"14.9 found after a restart":  {lease: lease(workers, "1"), want: []string{"waiter", "workers"}},
		"P3 our own write":            {old: lease(workers, "1"), lease: lease(workers, "9"), want: []string{"waiter"}},
		"P2 taken over from us":       {old: lease(workers, "1"), lease: lease(infra, "2"), want: []string{"infra", "waiter", "workers"}},
		"21.1 a resync is no change":  {old: lease(workers, "1"), lease: lease(workers, "1")},
		"P2 taken over by us":         {old: lease(infra, "1"), lease: lease(workers, "9"), want: []string{"infra", "waiter"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := listener(t)
			c.waiters.set("waiter", true)
			c.Writes.Wrote("workers", execute.LeaseResource, "9", epoch)
			c.leaseChanged(tc.old, tc.lease)
			require.Equal(t, tc.want, woken(c))
		})
	}
}

func TestReferring(t *testing.T) {
	t.Parallel()
	reference := func(apiVersion, kind, namespace, name string) corev1.ObjectReference {
		return corev1.ObjectReference{APIVersion: apiVersion, Kind: kind, Namespace: namespace, Name: name}
	}
	c := listener(t)
	classic := selecting("classic", byRole("worker"))
	classic.Spec.RemediationTemplate = new(reference("example.com/v1", "RebootTemplate", "ns", "reboot"))
	require.NoError(t, c.Checks.Store.Add(classic))
	escalating := selecting("escalating", byRole("worker"))
	escalating.Spec.EscalatingRemediations = []v1alpha1.EscalatingRemediation{
		{Order: 2, RemediationTemplate: reference("example.com/v1", "FenceTemplate", "ns", "fence")},
		{Order: 1, RemediationTemplate: reference("example.com/v1", "RebootTemplate", "ns", "reboot")},
		{Order: 3, RemediationTemplate: reference("example.com/v1", "GlobalTemplate", "ignored", "global")},
	}
	require.NoError(t, c.Checks.Store.Add(escalating))
	kind := func(kind string) schema.GroupVersionKind {
		return schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: kind}
	}
	tests := map[string]struct {
		kind            schema.GroupVersionKind
		namespace, name string
		want            []string
	}{
		"21.1 those that refer to it":     {kind: kind("RebootTemplate"), namespace: "ns", name: "reboot", want: []string{"classic", "escalating"}},
		"P7 any step":                     {kind: kind("FenceTemplate"), namespace: "ns", name: "fence", want: []string{"escalating"}},
		"21.1 a cluster-scoped template":  {kind: kind("GlobalTemplate"), name: "global", want: []string{"escalating"}},
		"P9 the same name, another kind":  {kind: kind("FenceTemplate"), namespace: "ns", name: "reboot"},
		"P9 another namespace":            {kind: kind("RebootTemplate"), namespace: "other", name: "reboot"},
		"P9 another name":                 {kind: kind("RebootTemplate"), namespace: "ns", name: "other"},
		"P9 the same kind, another group": {kind: schema.GroupVersionKind{Group: "example.org", Version: "v1", Kind: "RebootTemplate"}, namespace: "ns", name: "reboot"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			apiVersion, kind := tc.kind.ToAPIVersionAndKind()
			got := c.referringTo(&object.Template{
				TypeMeta: metav1.TypeMeta{APIVersion: apiVersion, Kind: kind}, ObjectMeta: metav1.ObjectMeta{Namespace: tc.namespace, Name: tc.name},
			})
			slices.Sort(got)
			require.Equal(t, tc.want, got)
		})
	}
}

func TestWantedKinds(t *testing.T) {
	t.Parallel()
	nhc := testCheck()
	template := func(kind, name string) corev1.ObjectReference {
		return corev1.ObjectReference{APIVersion: "example.com/v1", Kind: kind, Namespace: "ns", Name: name}
	}
	nhc.Spec.EscalatingRemediations = []v1alpha1.EscalatingRemediation{
		{Order: 2, RemediationTemplate: template("RebootTemplate", "hard")}, {Order: 1, RemediationTemplate: template("RebootTemplate", "soft")},
		{Order: 3, RemediationTemplate: template("NoSuffix", "x")},
		{Order: 4, RemediationTemplate: corev1.ObjectReference{APIVersion: "example.com/v2", Kind: "RebootTemplate", Namespace: "ns", Name: "newer"}},
	}
	nhc.Status.UnhealthyNodes = []v1alpha1.UnhealthyNode{{Name: "a", Remediations: []v1alpha1.Remediation{
		{Resource: corev1.ObjectReference{APIVersion: "example.com/v1", Kind: "Former"}}, {Resource: corev1.ObjectReference{APIVersion: "example.com/v3", Kind: "Former"}}, {Resource: corev1.ObjectReference{APIVersion: "example.com/v1", Kind: "Reboot"}},
	}}}
	templates, crs, _ := wantedKinds(nhc)
	require.Equal(t, sets.New(
		schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "RebootTemplate"},
		schema.GroupVersionKind{Group: "example.com", Version: "v2", Kind: "RebootTemplate"},
	), templates, "6.1: what cannot be a template kind is not looked for")
	require.Equal(t, sets.New(schema.GroupKind{Group: "example.com", Kind: "Reboot"}, schema.GroupKind{Group: "example.com", Kind: "Former"}),
		crs, "6.8: and where status points to, whatever the version")
}
