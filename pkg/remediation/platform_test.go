// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
)

func TestMachineNames(t *testing.T) {
	t.Parallel()
	none := types.NamespacedName{}
	tests := map[string]struct {
		annotations           map[string]string
		openShift, clusterAPI types.NamespacedName
	}{
		"11.3 none":                    {},
		"11.3 OpenShift":               {annotations: map[string]string{"machine.openshift.io/machine": "ns/m"}, openShift: types.NamespacedName{Namespace: "ns", Name: "m"}},
		"11.3 Cluster API":             {annotations: map[string]string{"cluster.x-k8s.io/machine": "m", "cluster.x-k8s.io/cluster-namespace": "ns"}, clusterAPI: types.NamespacedName{Namespace: "ns", Name: "m"}},
		"11.3 without a namespace":     {annotations: map[string]string{"machine.openshift.io/machine": "m", "cluster.x-k8s.io/machine": "m"}},
		"11.3 an empty namespace":      {annotations: map[string]string{"machine.openshift.io/machine": "/m", "cluster.x-k8s.io/cluster-namespace": "", "cluster.x-k8s.io/machine": "m"}},
		"11.3 an empty name":           {annotations: map[string]string{"machine.openshift.io/machine": "ns/", "cluster.x-k8s.io/cluster-namespace": "ns", "cluster.x-k8s.io/machine": ""}},
		"11.3 more than one separator": {annotations: map[string]string{"machine.openshift.io/machine": "a/b/c"}, openShift: none},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			openShift, clusterAPI := MachineNames(tc.annotations)
			require.Equal(t, tc.openShift, openShift)
			require.Equal(t, tc.clusterAPI, clusterAPI)
		})
	}
}

func machine(apiVersion, namespace, name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetAPIVersion(apiVersion)
	u.SetKind("Machine")
	u.SetNamespace(namespace)
	u.SetName(name)
	u.SetUID(types.UID(name + "-uid"))
	return u
}

// TestUnreadMachines: which Machine that cannot be read for now may be the second owner of a CR (spec 11.3).
func TestUnreadMachines(t *testing.T) {
	t.Parallel()
	infrastructure := func(t *object.Template) { t.APIVersion = "infrastructure.cluster.x-k8s.io/v1beta1" }
	for name, tc := range map[string]struct {
		machines       *Machines
		template       *object.Template
		unread, mayOwn bool
	}{
		"no Machine":                          {template: reboot()},
		"all are read":                        {machines: &Machines{}, template: reboot()},
		"OpenShift":                           {machines: &Machines{UnreadOpenShift: testNamespace}, template: reboot(), unread: true, mayOwn: true},
		"OpenShift, in another namespace":     {machines: &Machines{UnreadOpenShift: "other"}, template: reboot(), unread: true},
		"Cluster API, infrastructure":         {machines: &Machines{UnreadClusterAPI: testNamespace}, template: reboot(infrastructure), unread: true, mayOwn: true},
		"Cluster API, another group":          {machines: &Machines{UnreadClusterAPI: testNamespace}, template: reboot(), unread: true},
		"one that was read comes first":       {machines: &Machines{OpenShift: machine("machine.openshift.io/v1beta1", testNamespace, "ocp"), UnreadClusterAPI: testNamespace}, template: reboot(infrastructure), unread: true},
		"one that was read, but is elsewhere": {machines: &Machines{OpenShift: machine("machine.openshift.io/v1beta1", "other", "ocp"), UnreadClusterAPI: testNamespace}, template: reboot(infrastructure), unread: true, mayOwn: true},
		"a template that is in no namespace":  {machines: &Machines{UnreadOpenShift: testNamespace}, template: reboot(func(t *object.Template) { t.Namespace = "" }), unread: true},
	} {
		require.Equal(t, tc.unread, tc.machines.Unread(), name)
		require.Equal(t, tc.mayOwn, tc.machines.mayOwn(tc.template), name)
	}
}

func TestSecondOwner(t *testing.T) {
	t.Parallel()
	openShift := func(namespace string) *unstructured.Unstructured {
		return machine("machine.openshift.io/v1beta1", namespace, "ocp")
	}
	clusterAPI := func(namespace string) *unstructured.Unstructured {
		return machine("cluster.x-k8s.io/v1beta2", namespace, "capi")
	}
	infrastructure := func(t *object.Template) { t.APIVersion = "infrastructure.cluster.x-k8s.io/v1beta1" }
	tests := map[string]struct {
		machines Machines
		template *object.Template
		want     string
	}{
		"11.3 none": {template: reboot()},
		"11.3 OpenShift, in the namespace of the template":    {machines: Machines{OpenShift: openShift(testNamespace)}, template: reboot(), want: "machine.openshift.io/v1beta1 ocp"},
		"11.3 OpenShift, in another namespace":                {machines: Machines{OpenShift: openShift("other")}, template: reboot()},
		"11.3 Cluster API, infrastructure":                    {machines: Machines{ClusterAPI: clusterAPI(testNamespace)}, template: reboot(infrastructure), want: "cluster.x-k8s.io/v1beta2 capi"},
		"11.3 Cluster API, another group":                     {machines: Machines{ClusterAPI: clusterAPI(testNamespace)}, template: reboot()},
		"11.3 Cluster API, in another namespace":              {machines: Machines{ClusterAPI: clusterAPI("other")}, template: reboot(infrastructure)},
		"11.3 at most one: OpenShift first":                   {machines: Machines{OpenShift: openShift(testNamespace), ClusterAPI: clusterAPI(testNamespace)}, template: reboot(infrastructure), want: "machine.openshift.io/v1beta1 ocp"},
		"11.3 the other one where the first does not qualify": {machines: Machines{OpenShift: openShift("other"), ClusterAPI: clusterAPI(testNamespace)}, template: reboot(infrastructure), want: "cluster.x-k8s.io/v1beta2 capi"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			owners := rendered(sick("n", func(n *Node) { n.Machines = &tc.machines }), tc.template).GetOwnerReferences()
			require.Equal(t, "NodeHealthCheck", owners[0].Kind, "11.3: the first owner")
			if tc.want == "" {
				require.Len(t, owners, 1)
				return
			}
			require.Len(t, owners, 2)
			require.Equal(t, tc.want, owners[1].APIVersion+" "+owners[1].Name)
			require.Equal(t, types.UID(owners[1].Name+"-uid"), owners[1].UID)
			require.Equal(t, new(false), owners[1].Controller, "11.1")
			require.Nil(t, owners[1].BlockOwnerDeletion, "11.1")
		})
	}
}

func TestConflicts(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		checks   []string
		conflict bool
	}{
		"6.9 none":                      {},
		"6.9 exactly one, terminating":  {checks: []string{`{"spec": {"unhealthyConditions": [{"type": "Terminating", "status": "True"}]}}`}},
		"6.9 exactly one, another type": {checks: []string{`{"spec": {"unhealthyConditions": [{"type": "Ready"}]}}`}, conflict: true},
		"6.9 more than one entry":       {checks: []string{`{"spec": {"unhealthyConditions": [{"type": "Terminating"}, {"type": "Terminating"}]}}`}, conflict: true},
		"6.9 no entry":                  {checks: []string{`{"spec": {"unhealthyConditions": []}}`}, conflict: true},
		"6.9 no list":                   {checks: []string{`{"spec": {"unhealthyConditions": "Terminating"}}`}, conflict: true},
		"6.9 nothing at all":            {checks: []string{`{}`}, conflict: true},
		"6.9 a malformed entry":         {checks: []string{`{"spec": {"unhealthyConditions": [{"type": {}}]}}`}, conflict: true},
		"6.9 two, both terminating": {checks: []string{
			`{"spec": {"unhealthyConditions": [{"type": "Terminating"}]}}`, `{"spec": {"unhealthyConditions": [{"type": "Terminating"}]}}`,
		}, conflict: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var checks []*unstructured.Unstructured
			for _, text := range tc.checks {
				checks = append(checks, fuzzed(text))
			}
			require.Equal(t, tc.conflict, Conflicts(checks))
		})
	}
	require.Equal(t, &Problem{
		Reason: "ConflictingMachineHealthCheckDetected", Message: "Custom MachineHealthCheck(s) detected, disabling NodeHealthCheck to avoid conflicts",
	}, Conflict(), "6.1")
}

func TestTerminating(t *testing.T) {
	t.Parallel()
	require.False(t, Terminating([]corev1.NodeCondition{{Type: "Ready", Status: "True"}}))
	for _, status := range []corev1.ConditionStatus{"True", "False", "Unknown", ""} {
		require.True(t, Terminating([]corev1.NodeCondition{{Type: "Ready"}, {Type: "Terminating", Status: status}}), "7.7: any status")
	}
}

// TestUpdateEnds: the update of the machine configuration of a Node holds its node and Machine, for 30 min from when it
// became unhealthy (spec 10.2, M9.1).
func TestUpdateEnds(t *testing.T) {
	t.Parallel()
	annotations := func(current, desired string) map[string]string {
		return map[string]string{AnnotationCurrentConfig: current, AnnotationDesiredConfig: desired}
	}
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	end := began.Add(30 * time.Minute)
	for name, tc := range map[string]struct {
		annotations map[string]string
		now, want   time.Time
	}{
		"M9.1 no annotations":                    {now: began},
		"M9.1 the Node is up to date":            {annotations: annotations("rendered-1", "rendered-1"), now: began},
		"M9.1 F4 the Node reboots for an update": {annotations: annotations("rendered-1", "rendered-2"), now: began, want: end},
		"M9.1 it may be back in time":            {annotations: annotations("rendered-1", "rendered-2"), now: end.Add(-1), want: end},
		"M9.1 it does not come back":             {annotations: annotations("rendered-1", "rendered-2"), now: end},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, UpdateEnds(tc.annotations, began, tc.now))
		})
	}
}

func TestUpgrading(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		versions []string
		want     bool
	}{
		"10.2 none":         {},
		"10.2 progressing":  {versions: []string{`{"status": {"conditions": [{"type": "Available", "status": "True"}, {"type": "Progressing", "status": "True"}]}}`}, want: true},
		"10.2 any of them":  {versions: []string{`{}`, `{"status": {"conditions": [{"type": "Progressing", "status": "True"}]}}`}, want: true},
		"10.2 not any more": {versions: []string{`{"status": {"conditions": [{"type": "Progressing", "status": "False"}]}}`}},
		"10.2 malformed":    {versions: []string{`{"status": {"conditions": [{"type": "Progressing", "status": true}, 5, null, {"type": []}]}}`, `{"status": {"conditions": {}}}`, `{"status": 1}`}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var versions []*unstructured.Unstructured
			for _, text := range tc.versions {
				versions = append(versions, fuzzed(text))
			}
			require.Equal(t, tc.want, Progressing(versions))
		})
	}
	const current, desired = "machineconfiguration.openshift.io/currentConfig", "machineconfiguration.openshift.io/desiredConfig"
	require.True(t, Reconfiguring(map[string]string{current: "a", desired: "b"}), "10.2")
	require.True(t, Reconfiguring(map[string]string{desired: "b"}), "10.2")
	require.False(t, Reconfiguring(map[string]string{current: "a", desired: "a"}), "10.2")
	require.False(t, Reconfiguring(map[string]string{current: "a", desired: ""}), "10.2: empty")
	require.False(t, Reconfiguring(map[string]string{current: "a"}), "10.2: missing")
	require.False(t, Reconfiguring(nil), "10.2")
}

func TestCheckMetal3(t *testing.T) {
	t.Parallel()
	require.Nil(t, CheckMetal3(rebootStep()), "6.1: another kind")
	require.Nil(t, CheckMetal3(step("Metal3RemediationTemplate", "openshift-machine-api", "x")), "6.1")
	require.Equal(t, &Problem{
		Reason:  "RemediationTemplateInvalid",
		Message: "Metal3RemediationTemplate must be in the openshift-machine-api namespace. It is configured to be in namespace: metal",
	}, CheckMetal3(step("Metal3RemediationTemplate", "metal", "x")), "6.1")
}

func TestEtcdAllows(t *testing.T) {
	t.Parallel()
	etcd := map[string]string{"app": "etcd"}
	budget := func(allowed int32) policyv1.PodDisruptionBudget {
		return policyv1.PodDisruptionBudget{
			Spec:   policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: etcd}},
			Status: policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: allowed},
		}
	}
	pod := func(node string, labels map[string]string, ready corev1.ConditionStatus) corev1.Pod {
		p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{NodeName: node}}
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}}
		if ready != "" {
			p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: ready})
		}
		return p
	}
	broken := budget(0)
	broken.Spec.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Near"}}}
	tests := map[string]struct {
		budgets []policyv1.PodDisruptionBudget
		pods    []corev1.Pod
		want    bool
	}{
		"12.3 no budget":                       {},
		"12.3 two budgets":                     {budgets: []policyv1.PodDisruptionBudget{budget(1), budget(1)}},
		"12.3 a disruption is allowed":         {budgets: []policyv1.PodDisruptionBudget{budget(1)}, pods: []corev1.Pod{pod("n", etcd, "True")}, want: true},
		"12.3 the member is ready":             {budgets: []policyv1.PodDisruptionBudget{budget(0)}, pods: []corev1.Pod{pod("n", etcd, "True")}},
		"12.3 the member may be ready":         {budgets: []policyv1.PodDisruptionBudget{budget(0)}, pods: []corev1.Pod{pod("n", etcd, "Unknown")}},
		"12.3 the member is not ready":         {budgets: []policyv1.PodDisruptionBudget{budget(0)}, pods: []corev1.Pod{pod("n", etcd, "False"), pod("m", etcd, "True")}, want: true},
		"12.3 the condition is missing":        {budgets: []policyv1.PodDisruptionBudget{budget(0)}, pods: []corev1.Pod{pod("n", etcd, "")}, want: true},
		"12.3 no such pod":                     {budgets: []policyv1.PodDisruptionBudget{budget(0)}, pods: []corev1.Pod{pod("n", map[string]string{"app": "etcd-guard"}, "True")}, want: true},
		"12.3 one of two on the node is ready": {budgets: []policyv1.PodDisruptionBudget{budget(0)}, pods: []corev1.Pod{pod("n", etcd, "False"), pod("n", etcd, "True")}},
		"12.3 P5 a selector that is none":      {budgets: []policyv1.PodDisruptionBudget{broken}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, EtcdAllows(tc.budgets, tc.pods, "n"))
		})
	}
}

// TestEtcdLabels: nodes with the label of etcd are of the control plane, and where there are any, they alone
// make the quorum (spec 12.1, 12.5).
func TestEtcdLabels(t *testing.T) {
	t.Parallel()
	for label, want := range map[string]bool{
		"node-role.kubernetes.io/control-plane": true, "node-role.kubernetes.io/master": true, "node-role.kubernetes.io/etcd": true,
		"node-role.kubernetes.io/controlplane": true, "node-role.kubernetes.io/arbiter": true, v1alpha1.LabelEtcd: true, "node-role.kubernetes.io/worker": false, "etcd": false,
	} {
		require.Equal(t, want, IsControlPlane(map[string]string{label: "true"}), label)
	}
	etcd, plain := map[string]string{"node-role.kubernetes.io/etcd": "true"}, map[string]string{"node-role.kubernetes.io/control-plane": ""}
	type members = map[string]corev1.ConditionStatus
	for name, tc := range map[string]struct {
		etcd, others members
		want         bool
	}{
		"12.5 two other members of three":                       {etcd: members{"n": "True", "e2": "True", "e3": "True"}, want: true},
		"12.5 one other member, and many of the control plane":  {etcd: members{"n": "True", "e2": "True", "e3": "Unknown"}, others: members{"c1": "True", "c2": "True", "c3": "True"}},
		"12.5 two other members, and none of the control plane": {etcd: members{"n": "True", "e2": "True", "e3": "True"}, others: members{"c1": "False", "c2": "False", "c3": "False"}, want: true},
		"12.5 it runs no member":                                {etcd: members{"e1": "False", "e2": "True"}, others: members{"n": "True"}, want: true},
		"P5 it is not known":                                    {etcd: members{"e1": "True", "e2": "True", "e3": "True"}},
	} {
		var nodes []*corev1.Node
		add := func(from members, labels map[string]string) {
			for name, status := range from {
				nodes = append(nodes, &corev1.Node{
					ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
					Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status}}},
				})
			}
		}
		add(tc.etcd, etcd)
		add(tc.others, plain)
		require.Equal(t, tc.want, QuorumWithout(nodes, "n"), name)
	}
}

// TestLabelEtcd: the label of etcd wins over the roles (spec 12.5).
func TestLabelEtcd(t *testing.T) {
	t.Parallel()
	member := func(name string, ready corev1.ConditionStatus, label string) *corev1.Node {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1alpha1.LabelEtcd: label}}}
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}
		return node
	}
	arbiter := member("arbiter", "True", "true")
	require.False(t, QuorumWithout([]*corev1.Node{member("n", "False", ""), member("m", "Unknown", ""), arbiter}, "n"), "12.5 S3: two nodes and an arbiter, and one of them is off")
	require.True(t, QuorumWithout([]*corev1.Node{member("n", "False", ""), member("m", "True", ""), arbiter}, "n"), "12.5 S3")
	require.True(t, QuorumWithout([]*corev1.Node{member("n", "False", "false"), member("m", "False", "false")}, "n"), "12.5 S2: etcd runs elsewhere")
	require.True(t, QuorumWithout([]*corev1.Node{member("n", "False", "false"), member("m", "False", ""), arbiter}, "n"), "12.5: it is no member")
}

// TestQuorumWithout: without OpenShift's API the control plane nodes report whether etcd can
// do without one of them (spec 12.5).
func TestQuorumWithout(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		// ready are the statuses of the nodes; that of the first one is asked about.
		ready []corev1.ConditionStatus
		want  bool
	}{
		"12.5 S2 its kubelet alone may have failed": {ready: []corev1.ConditionStatus{"Unknown", "True", "False"}},
		"12.5 it alone of three is not Ready":       {ready: []corev1.ConditionStatus{"False", "True", "True"}, want: true},
		"12.5 one of two is not Ready":              {ready: []corev1.ConditionStatus{"False", "True"}},
		"12.5 it is not known to be Ready":          {ready: []corev1.ConditionStatus{"Unknown"}, want: true},
		"12.5 it says nothing":                      {ready: []corev1.ConditionStatus{""}, want: true},
		"12.5 never with one":                       {ready: []corev1.ConditionStatus{"True"}},
		"12.5 never with two":                       {ready: []corev1.ConditionStatus{"True", "True"}},
		"12.5 both others of three":                 {ready: []corev1.ConditionStatus{"True", "True", "True"}, want: true},
		"12.5 one other of three":                   {ready: []corev1.ConditionStatus{"True", "True", "False"}},
		"12.5 three others of four":                 {ready: []corev1.ConditionStatus{"True", "True", "True", "True"}, want: true},
		"12.5 two others of four":                   {ready: []corev1.ConditionStatus{"True", "True", "True", "Unknown"}},
		"12.5 three others of five suffice":         {ready: []corev1.ConditionStatus{"True", "True", "True", "True", "False"}, want: true},
		"12.5 two others of five do not":            {ready: []corev1.ConditionStatus{"True", "True", "True", "False", "False"}},
		"P5 it is not among those known yet":        {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var nodes []*corev1.Node
			for i, status := range tc.ready {
				node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("cp-", i)}}
				if status != "" {
					node.Status.Conditions = []corev1.NodeCondition{{Type: "Disk", Status: "True"}, {Type: corev1.NodeReady, Status: status}}
				}
				nodes = append(nodes, node)
			}
			require.Equal(t, tc.want, QuorumWithout(nodes, "cp-0"))
		})
	}
}
