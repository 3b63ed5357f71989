// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	machinev1beta1 "github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	nhcv1alpha1 "github.com/nhc-controller/nhc-controller/pkg/apis/nhc/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/machinehealth"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
)

// parse reads YAML into a map as the API server has it.
func parse(t *testing.T, text string) map[string]any {
	t.Helper()
	content, err := yaml.YAMLToJSON([]byte(text))
	require.NoError(t, err)
	var fields map[string]any
	require.NoError(t, json.Unmarshal(content, &fields))
	return fields
}

// accepted returns an object with a name and a spec.
func accepted(t *testing.T, kind, name, spec string) any {
	t.Helper()
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": apiVersions[kind], "kind": kind, "spec": parse(t, spec)}}
	u.SetName(name)
	if kind == machinev1beta1.Kind {
		u.SetNamespace("machines")
	}
	result, err := NewAccepted(u)
	require.NoError(t, err)
	return result
}

func nhcNamed(t *testing.T, name, spec string) *v1alpha1.NodeHealthCheck {
	t.Helper()
	return accepted(t, v1alpha1.Kind, name, "{"+spec+"}").(*v1alpha1.NodeHealthCheck)
}

func mhcNamed(t *testing.T, name, spec string) *machinev1beta1.MachineHealthCheck {
	t.Helper()
	if !strings.Contains(spec, "unhealthyConditions") {
		spec = `unhealthyConditions: [{type: Ready, status: Unknown, timeout: 300s}], ` + spec
	}
	return accepted(t, machinev1beta1.Kind, name, "{"+spec+"}").(*machinev1beta1.MachineHealthCheck)
}

// nodes returns a number of Ready nodes with labels, named after the first label.
func nodes(n int, name string, labels ...string) (list []*corev1.Node) {
	for i := range n {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", name, i), Labels: map[string]string{}}}
		for _, label := range labels {
			key, value, _ := strings.Cut(label, "=")
			node.Labels[key] = value
		}
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		list = append(list, node)
	}
	return list
}

// machines returns so many Machines of workers, each with the node of that number.
func machines(n int, labels ...string) (list []*machinehealth.Machine) {
	for i, node := range nodes(n, "node", labels...) {
		machine := &machinehealth.Machine{Node: node.Name}
		machine.APIVersion, machine.Kind = "machine.openshift.io/v1beta1", "Machine"
		machine.Namespace, machine.Name, machine.Labels = "machines", fmt.Sprintf("machine-%d", i), node.Labels
		list = append(list, machine)
	}
	return list
}

// aCluster returns facts about a cluster with these nodes.
func aCluster(list ...[]*corev1.Node) *Facts {
	facts := &Facts{NodesKnown: true}
	for _, some := range list {
		facts.Nodes = append(facts.Nodes, some...)
	}
	return facts
}

// lines are findings as text.
func lines(found []Finding) (text []string) {
	for _, finding := range found {
		text = append(text, finding.Field+": "+finding.What)
	}
	return text
}

const (
	controlPlane = "node-role.kubernetes.io/control-plane"
	workers      = `selector: {matchLabels: {pool: a}}, stormCooldownDuration: 5m, `
	template     = `, remediationTemplate: {apiVersion: a/v1, kind: ATemplate, namespace: b, name: c}`
	conditionsOf = `, unhealthyConditions: `
)

// TestNodeHealthCheck: each kind of advice, with what provokes it, and with what does not.
func TestNodeHealthCheck(t *testing.T) {
	t.Parallel()
	pool := func(n int) *Facts { return aCluster(nodes(n, "node", "pool=a")) }
	never := func(limit string) string {
		return "With " + limit + ", no remediation ever begins, however many nodes there are"
	}
	without := func(labels ...string) string {
		var requirements []string
		for _, label := range labels {
			requirements = append(requirements, `{key: `+label+`, operator: DoesNotExist}`)
		}
		return `selector: {matchExpressions: [` + strings.Join(requirements, ", ") + `]}, stormCooldownDuration: 5m, maxUnhealthy: 10%`
	}
	always := func(limit string) string { return "With " + limit + ", all nodes may be remediated at once" }
	for name, tc := range map[string]struct {
		spec  string
		facts *Facts
		want  []string
	}{
		"nothing is known":                   {spec: workers + `minHealthy: 51%`},
		"all is well":                        {spec: workers + `minHealthy: 51%`, facts: pool(3)},
		"all have to be healthy":             {spec: workers + `minHealthy: 100%`, want: []string{"spec.minHealthy: " + never("100%")}},
		"none may be unhealthy":              {spec: workers + `maxUnhealthy: 0`, want: []string{"spec.maxUnhealthy: " + never("0")}},
		"none in percent":                    {spec: workers + `maxUnhealthy: 0%`, facts: pool(3), want: []string{"spec.maxUnhealthy: " + never("0%")}},
		"99 percent of many":                 {spec: workers + `minHealthy: 99%`},
		"99 percent of few":                  {spec: workers + `minHealthy: 99%`, facts: pool(99), want: []string{"spec.minHealthy: It selects 99 nodes, and 99 of them must be healthy: no remediation ever begins"}},
		"half of two":                        {spec: workers + `minHealthy: 51%`, facts: pool(2), want: []string{"spec.minHealthy: It selects 2 nodes, and 2 of them must be healthy: no remediation ever begins"}},
		"a number as large as that":          {spec: workers + `minHealthy: 3`, facts: pool(3), want: []string{"spec.minHealthy: It selects 3 nodes, and 3 of them must be healthy: no remediation ever begins"}},
		"a number that is not reached":       {spec: workers + `minHealthy: "5000"`, facts: pool(3), want: []string{"spec.minHealthy: It selects 3 nodes, and 5000 of them must be healthy: no remediation ever begins"}},
		"a large number":                     {spec: workers + `minHealthy: 5000`, want: []string{"spec.minHealthy: With 5000, all but 5000 may be remediated at once, however many nodes there are"}},
		"none has to be healthy":             {spec: workers + `minHealthy: 0`, facts: pool(3), want: []string{"spec.minHealthy: " + always("0")}},
		"FR-426 the first blip":              {spec: workers + `maxUnhealthy: 1` + template + conditionsOf + `[{type: Disk, status: "True", duration: 0s}]`, want: []string{"spec.unhealthyConditions[0].duration: A node is remediated at the first blip: as soon as its Node has Disk=True once"}},
		"FR-414 virtual nodes":               {spec: workers + `maxUnhealthy: 1`, facts: aCluster(nodes(3, "node", "pool=a"), nodes(1, "vk", "pool=a", "type=virtual-kubelet")), want: []string{"spec.selector: It selects virtual nodes, which no remediation repairs"}},
		"all may be unhealthy":               {spec: workers + `maxUnhealthy: 100%`, want: []string{"spec.maxUnhealthy: " + always("100%")}},
		"more may be than there are":         {spec: workers + `maxUnhealthy: 3`, facts: pool(3), want: []string{"spec.maxUnhealthy: It selects 3 nodes, and all of them may be remediated at once"}},
		"fewer may be than there are":        {spec: workers + `maxUnhealthy: 2`, facts: pool(4)},
		"all but a number at once (FR-308)":  {spec: workers + `minHealthy: 2`, want: []string{"spec.minHealthy: With 2, all but 2 may be remediated at once, however many nodes there are"}},
		"most of six nodes at once (FR-308)": {spec: workers + `minHealthy: 2`, facts: pool(6), want: []string{"spec.minHealthy: It selects 6 nodes, and 4 of them may be remediated at once"}},
		"most of three nodes at once":        {spec: workers + `maxUnhealthy: 2`, facts: pool(3), want: []string{"spec.maxUnhealthy: It selects 3 nodes, and 2 of them may be remediated at once"}},
		"most of six, with a budget (FR-308)": {spec: workers + `minHealthy: 2`, facts: func() *Facts {
			facts := pool(6)
			facts.Budgets = []*nhcv1alpha1.RemediationBudget{accepted(t, nhcv1alpha1.BudgetKind, "b", `{nodeSelector: {matchLabels: {pool: a}}, maxConcurrent: 1}`).(*nhcv1alpha1.RemediationBudget)}
			return facts
		}()},
		"workers that are masters (FR-301)": {
			spec: `selector: {matchLabels: {node-role.kubernetes.io/worker: ""}, matchExpressions: [{key: node-role.kubernetes.io/master, operator: Exists}]}, stormCooldownDuration: 5m, maxUnhealthy: 1`,
			want: []string{"spec.selector: All of matchLabels and matchExpressions have to hold: it selects only nodes with both labels, node-role.kubernetes.io/master and node-role.kubernetes.io/worker"},
		},
		"two names of the control plane": {
			spec: `selector: {matchExpressions: [{key: node-role.kubernetes.io/control-plane, operator: Exists}, {key: node-role.kubernetes.io/master, operator: Exists}, {key: node-role.kubernetes.io/worker, operator: DoesNotExist}]}, stormCooldownDuration: 5m, maxUnhealthy: 1`,
		},
		"one of one": {spec: workers + `maxUnhealthy: 1`, facts: pool(1)},

		"no node":   {spec: workers + `minHealthy: 51%`, facts: aCluster(nodes(3, "node", "pool=b")), want: []string{"spec.selector: No node has these labels"}},
		"a mixture": {spec: workers + `minHealthy: 51%`, facts: aCluster(nodes(3, "master", "pool=a", controlPlane+"="), nodes(1, "worker", "pool=a")), want: []string{"spec.selector: It selects 3 nodes of the control plane and 1 other node: one limit for both fits neither"}},
		"only the control plane": {
			spec: workers + `minHealthy: 51%`, facts: aCluster(nodes(3, "master", "pool=a", controlPlane+"=")),
		},
		"members of etcd": {
			spec: without(controlPlane), want: []string{"spec.selector: It may select members of etcd: distributions run them on nodes with the label node-role.kubernetes.io/control-plane or node-role.kubernetes.io/etcd"},
		},
		"the control plane":                {spec: without("node-role.kubernetes.io/etcd"), want: []string{"spec.selector: It may select members of etcd: distributions run them on nodes with the label node-role.kubernetes.io/control-plane or node-role.kubernetes.io/etcd"}},
		"neither":                          {spec: without(controlPlane, "node-role.kubernetes.io/etcd")},
		"those that the selector asks for": {spec: `selector: {matchExpressions: [{key: node-role.kubernetes.io/master, operator: DoesNotExist}, {key: pool, operator: In, values: [a]}]}, stormCooldownDuration: 5m, maxUnhealthy: 10%`},
		"an arbiter": {
			spec: without(controlPlane, "node-role.kubernetes.io/etcd"), facts: aCluster(nodes(1, "a", "node-role.kubernetes.io/arbiter="), nodes(4, "node", "pool=a")),
			want: []string{
				"spec.selector: It selects 1 node of the control plane and 4 other nodes: one limit for both fits neither",
				"spec.selector: It may select members of etcd: distributions run them on nodes with the label node-role.kubernetes.io/control-plane or node-role.kubernetes.io/etcd or node-role.kubernetes.io/arbiter",
			},
		},
		"there are no members of etcd": {spec: without(controlPlane), facts: pool(3)},
		"members of etcd, of those that are": {
			spec: without(controlPlane), facts: aCluster(nodes(3, "e", "node-role.kubernetes.io/etcd=true"), nodes(4, "node", "pool=a")),
			want: []string{
				"spec.selector: It selects 3 nodes of the control plane and 4 other nodes: one limit for both fits neither",
				"spec.selector: It may select members of etcd: distributions run them on nodes with the label node-role.kubernetes.io/control-plane or node-role.kubernetes.io/etcd",
			},
		},
		"no storm recovery": {
			spec: `selector: {matchLabels: {pool: a}}, maxUnhealthy: 10%`,
			want: []string{"spec.stormCooldownDuration: There is no storm recovery: when the last nodes still boot after an outage, they are remediated as soon as enough others are healthy"},
		},
		"storm recovery by a threshold": {spec: `selector: {matchLabels: {pool: a}}, maxUnhealthy: 10, stormRecoveryThreshold: 2`},
		"overlaps": {
			spec: workers + `minHealthy: 51%`,
			facts: func() *Facts {
				facts := aCluster(nodes(5, "node", "pool=a"), nodes(2, "gpu", "pool=b"))
				facts.NodeHealthChecks = []*v1alpha1.NodeHealthCheck{
					nhcNamed(t, "all", `selector: {matchExpressions: [{key: pool, operator: Exists}]}`), nhcNamed(t, "gpu", `selector: {matchLabels: {pool: b}}`), nhcNamed(t, "workers", workers+`maxUnhealthy: 1`),
				}
				return facts
			}(),
			want: []string{"spec.selector: NodeHealthCheck all selects 5 nodes of these, too (node-0, node-1, node-2 and 2 more): whichever begins first remediates, with its own limits"},
		},

		"shorter than a reboot": {
			spec: workers + `minHealthy: 51%` + conditionsOf + `[{type: Ready, status: Unknown, duration: 119s}, {type: Ready, status: "False", duration: 59s}, {type: Disk, status: "True", duration: 1s}]`,
			want: []string{"spec.unhealthyConditions[0].duration: A node that only reboots is not ready for longer than 1m59s", "spec.unhealthyConditions[1].duration: A node that only reboots is not ready for longer than 59s"},
		},
		"long enough":        {spec: workers + `minHealthy: 51%` + conditionsOf + `[{type: Ready, status: Unknown, duration: 2m}, {type: Ready, status: "False", duration: 1m}]`},
		"no status":          {spec: workers + `minHealthy: 51%` + conditionsOf + `[{type: Disk, status: unknown, duration: 5m}]`, want: []string{`spec.unhealthyConditions[0].status: A condition never has the status "unknown": this one never matches`}},
		"healthy nodes":      {spec: workers + `minHealthy: 51%` + conditionsOf + `[{type: Ready, status: "True", duration: 5m}]`, want: []string{"spec.unhealthyConditions[0].status: Healthy nodes have Ready=True: all of them would be remediated"}},
		"no such condition":  {spec: workers + `minHealthy: 51%` + conditionsOf + `[{type: KernelDeadlock, status: "True", duration: 5m}]`, facts: pool(3), want: []string{"spec.unhealthyConditions[0].type: No selected node has a condition KernelDeadlock"}},
		"another spelling":   {spec: workers + `minHealthy: 51%` + conditionsOf + `[{type: ready, status: "False", duration: 5m}]`, facts: pool(3), want: []string{"spec.unhealthyConditions[0].type: No selected node has a condition ready, but Ready"}},
		"only while it ends": {spec: workers + `minHealthy: 51%` + conditionsOf + `[{type: Terminating, status: "True", duration: 5m}]`, facts: pool(3)},
	} {
		facts := tc.facts
		if facts == nil {
			facts = &Facts{}
		}
		require.Equal(t, tc.want, lines(NodeHealthCheck(nhcNamed(t, "workers", tc.spec+template), facts)), name)
	}
}

// TestTemplates: findings about templates, in the words of the controller.
func TestTemplates(t *testing.T) {
	t.Parallel()
	const first, second = `{apiVersion: a/v1, kind: ATemplate, namespace: b, name: c}`, `{apiVersion: a/v1, kind: ATemplate, namespace: b, name: d}`
	reference := func(name string) corev1.ObjectReference {
		return corev1.ObjectReference{APIVersion: "a/v1", Kind: "ATemplate", Namespace: "b", Name: name}
	}
	usual := func(spec string) *object.Template {
		read := object.ParseTemplate(&unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"template": map[string]any{"spec": parse(t, spec)}}}})
		read.Namespace, read.Name = "b", "c"
		return read
	}
	one := `remediationTemplate: ` + first
	two := `escalatingRemediations: [{order: 5, timeout: 90s, remediationTemplate: ` + first + `}, {order: 2, timeout: 10m, remediationTemplate: ` + second + `}]`
	for name, tc := range map[string]struct {
		spec string
		c, d Template
		want []string
	}{
		"nothing is known": {spec: one},
		"all is well":      {spec: one, c: Template{Object: usual(`{}`)}},
		"missing":          {spec: one, c: Template{Problem: "It is missing"}, want: []string{"spec.remediationTemplate: It is missing"}},
		"no spec":          {spec: one, c: Template{Object: &object.Template{ObjectMeta: metav1.ObjectMeta{Namespace: "b", Name: "c"}}}, want: []string{`spec.remediationTemplate: Remediation template is invalid: "invalid template b/c, didn't find spec.template.spec"`}},
		"no template":      {spec: `remediationTemplate: {apiVersion: a/v1, kind: A, namespace: b, name: c}`, want: []string{`spec.remediationTemplate.kind: Remediation template is invalid: "kind A of template b/c lacks the suffix Template"`}},
		"steps": {
			spec: two, d: Template{Problem: "It is missing"},
			want: []string{"spec.escalatingRemediations[0].timeout: Within 1m30s, hardly any remediation repairs a node", "spec.escalatingRemediations[1].remediationTemplate: It is missing"},
		},
		"two of one kind": {
			spec: two, c: Template{Object: usual(`{}`)},
			want: []string{
				`spec.escalatingRemediations[0].remediationTemplate: Remediation template is invalid: "Using multiple templates of same kind is not supported for this template: ATemplate"`,
				"spec.escalatingRemediations[0].timeout: Within 1m30s, hardly any remediation repairs a node",
			},
		},
		"longer than the step": {
			spec: strings.Replace(two, "90s", "5m", 1), c: Template{Problem: "x", Object: usual(`{timeout: 6m}`)}, d: Template{Problem: "y", Object: usual(`{strategy: {timeout: 11m0s}}`)},
			want: []string{
				"spec.escalatingRemediations[0].remediationTemplate: x", "spec.escalatingRemediations[0].timeout: The template gives the remediator 6m0s, and the step ends after 5m0s",
				"spec.escalatingRemediations[1].remediationTemplate: y", "spec.escalatingRemediations[1].timeout: The template gives the remediator 11m0s, and the step ends after 10m0s",
			},
		},
	} {
		facts := &Facts{Templates: map[corev1.ObjectReference]Template{reference("c"): tc.c, reference("d"): tc.d}}
		require.Equal(t, tc.want, lines(NodeHealthCheck(nhcNamed(t, "workers", workers+"maxUnhealthy: 1, "+tc.spec), facts)), name)
	}
}

// TestMachineHealthCheck: each kind of advice about Machines.
func TestMachineHealthCheck(t *testing.T) {
	t.Parallel()
	cluster := func(list ...[]*machinehealth.Machine) *Facts {
		facts := aCluster(nodes(3, "node", "pool=a"))
		facts.MachinesKnown = map[string]bool{machinev1beta1.MachineAPIOpenShift: true}
		for _, some := range list {
			facts.Machines = append(facts.Machines, some...)
		}
		return facts
	}
	pool := func(n int) *Facts { return cluster(machines(n, "pool=a")) }
	const never = "spec.maxUnhealthy: With 0%, no remediation ever begins"
	const limited = workers + `maxUnhealthy: 1, `
	const ready = `unhealthyConditions: [{type: Ready, status: Unknown, timeout: 300s}]`
	for name, tc := range map[string]struct {
		spec  string
		facts *Facts
		want  []string
	}{
		"nothing is known":         {spec: limited + ready},
		"all is well":              {spec: workers + `maxUnhealthy: 40%, ` + ready, facts: pool(3)},
		"none":                     {spec: workers + `maxUnhealthy: 0%`, want: []string{never}},
		"rounded down":             {spec: workers + `maxUnhealthy: 40%`, facts: pool(2), want: []string{"spec.maxUnhealthy: It selects 2 Machines. 40% of them, rounded down, is 0: no remediation ever begins"}},
		"all of them":              {spec: workers + `maxUnhealthy: 5`, facts: pool(3), want: []string{"spec.maxUnhealthy: It selects 3 Machines, and all of them may be remediated at once"}},
		"FR-426 all in percent":    {spec: workers + `maxUnhealthy: 100%`, facts: pool(3), want: []string{"spec.maxUnhealthy: With 100%, which is the default, all Machines may be remediated at once"}},
		"FR-426 no limit":          {spec: workers + ready, want: []string{"spec.maxUnhealthy: With 100%, which is the default, all Machines may be remediated at once"}},
		"no Machine":               {spec: limited, facts: cluster(machines(3, "pool=b")), want: []string{"spec.selector: No Machine of namespace machines has these labels"}},
		"all Machines":             {spec: `maxUnhealthy: 40%`, want: []string{"spec.selector: An empty selector selects all Machines of the namespace, those of the control plane, too"}},
		"spot instances":           {spec: `unhealthyConditions: [{type: Terminating, status: "True", timeout: 0s}]`},
		"a mixture":                {spec: limited, facts: cluster(machines(2, "pool=a"), machines(1, "pool=a", "machine.openshift.io/cluster-api-machine-role=master")), want: []string{"spec.selector: It selects 1 Machine of the control plane and 2 other Machines: one limit for both fits neither"}},
		"startup":                  {spec: limited + `nodeStartupTimeout: 4m`, want: []string{"spec.nodeStartupTimeout: A Machine that is still being provisioned has no Node after 4m0s"}},
		"no startup":               {spec: limited + `nodeStartupTimeout: "0"`},
		"a reboot":                 {spec: limited + `unhealthyConditions: [{type: Ready, status: Unknown, timeout: 10s}]`, want: []string{"spec.unhealthyConditions[0].timeout: A node that only reboots is not ready for longer than 10s"}},
		"no such condition":        {spec: limited + `unhealthyConditions: [{type: Disk, status: "True", timeout: 10s}]`, facts: pool(3), want: []string{"spec.unhealthyConditions[0].type: No selected node has a condition Disk"}},
		"FR-307 the first blip":    {spec: limited + `unhealthyConditions: [{type: Ready, status: Unknown, timeout: 0s}]`, want: []string{"spec.unhealthyConditions[0].timeout: A Machine is deleted at the first blip: as soon as its Node has Ready=Unknown once"}},
		"a blip that is repaired":  {spec: limited + `nodeStartupTimeout: "0", unhealthyConditions: [{type: Disk, status: "True", timeout: 0s}], remediationTemplate: {apiVersion: a/v1, kind: ATemplate, name: good}`, want: []string{"spec.unhealthyConditions[0].timeout: A Machine is remediated at the first blip: as soon as its Node has Disk=True once"}},
		"FR-327 a repair in place": {spec: limited + `remediationTemplate: {apiVersion: a/v1, kind: ATemplate, name: good}`, want: []string{"spec.remediationTemplate: A repair in place seldom helps a Machine that never joined, nor one that failed or lost its Node"}},
		"a template that deletes":  {spec: limited + `remediationTemplate: {apiVersion: a/v1, kind: MachineDeletionRemediationTemplate, name: good}`},
		"no conditions":            {spec: limited + `unhealthyConditions: []`, want: []string{"spec.unhealthyConditions: There are none: a Machine whose node is silent is never remediated, only one without Node"}},
		"template":                 {spec: limited + `nodeStartupTimeout: "0", remediationTemplate: {apiVersion: a/v1, kind: ATemplate, namespace: elsewhere, name: c}`, want: []string{"spec.remediationTemplate: It is missing"}},
		"overlap": {
			spec: limited,
			facts: func() *Facts {
				facts := pool(1)
				facts.MachineHealthChecks = []*machinev1beta1.MachineHealthCheck{
					mhcNamed(t, "all", ``), mhcNamed(t, "spot", `unhealthyConditions: [{type: Terminating, status: "True", timeout: 0s}]`), mhcNamed(t, "workers", ``), mhcNamed(t, "others", `selector: {matchLabels: {pool: b}}`),
				}
				return facts
			}(),
			want: []string{"spec.selector: MachineHealthCheck all selects 1 Machine of these, too (machine-0): nothing begins that one of the limits forbids"},
		},
	} {
		facts := tc.facts
		if facts == nil {
			facts = &Facts{}
		}
		facts.Templates = map[corev1.ObjectReference]Template{{APIVersion: "a/v1", Kind: "ATemplate", Namespace: "machines", Name: "c"}: {Problem: "It is missing"}}
		require.Equal(t, tc.want, lines(MachineHealthCheck(mhcNamed(t, "workers", tc.spec), facts)), name)
	}
}

// TestRemediationBudget: each kind of advice about budgets.
func TestRemediationBudget(t *testing.T) {
	t.Parallel()
	zones := aCluster(nodes(2, "a", "zone=a"), nodes(1, "b", "zone=b"))
	const nothing = "spec: It bounds nothing: it allows all nodes of each group at the same time"
	for name, tc := range map[string]struct {
		spec  string
		facts *Facts
		want  []string
	}{
		"one at a time":              {spec: `nodeSelector: {}, maxConcurrent: 1`, facts: zones},
		"per zone":                   {spec: `nodeSelector: {}, topologyKey: zone, maxConcurrent: 1`, facts: zones},
		"everything":                 {spec: `nodeSelector: {}, maxConcurrent: 100%, maxUnhealthy: 100%`, want: []string{nothing}},
		"everything, but slowly":     {spec: `nodeSelector: {}, maxConcurrent: 100%, minInterval: 5m`, facts: zones},
		"more than there are":        {spec: `nodeSelector: {}, maxConcurrent: 3`, facts: zones, want: []string{nothing}},
		"more than zones have":       {spec: `nodeSelector: {}, topologyKey: zone, maxUnhealthy: 2`, facts: zones, want: []string{nothing}},
		"an unknown number of nodes": {spec: `nodeSelector: {}, maxUnhealthy: 2000`},
		"Machines":                   {spec: `machineSelector: {namespace: a, selector: {}}, maxUnhealthy: 2`, facts: zones},
		"no node":                    {spec: `nodeSelector: {matchLabels: {pool: a}}, maxUnhealthy: 1`, facts: zones, want: []string{"spec.nodeSelector: No node has these labels: the budget bounds nothing"}},
		"no such label":              {spec: `nodeSelector: {}, topologyKey: rack, maxUnhealthy: 1`, facts: zones, want: []string{"spec.topologyKey: No selected node has the label rack: all of them are one group"}},
		"no unhealthy one":           {spec: `nodeSelector: {}, maxUnhealthy: 0%`, want: []string{"spec.maxUnhealthy: The node to be remediated is not healthy, and counts: with 0%, nothing ever begins"}},
		"stop everything":            {spec: `nodeSelector: {}, maxConcurrent: 0`, want: []string{"spec.maxConcurrent: With 0, nothing begins as long as the budget exists"}},
		"stop for a reason":          {spec: `nodeSelector: {}, maxConcurrent: 0, reason: incident 4711`},
		"stop for some hours":        {spec: `nodeSelector: {}, maxConcurrent: 0, activeDuring: [{cron: "0 8 * * *", duration: 10h}]`},
		"one at a time by night":     {spec: `nodeSelector: {}, maxConcurrent: 1, activeDuring: [{cron: "0 22 * * *", duration: 8h}]`, want: []string{"spec.activeDuring: At all other times this budget limits nothing: remediation is unlimited then, not forbidden"}},
		"a day that never comes":     {spec: `nodeSelector: {}, maxConcurrent: 0, activeDuring: [{cron: "0 8 * * *", duration: 10h}, {cron: "0 8 31 2 *", duration: 10h}]`, want: []string{`spec.activeDuring[1]: The controller cannot evaluate it, and lets nothing begin: cron "0 8 31 2 *" names no moment`}},
		"a zone on another planet":   {spec: `nodeSelector: {}, maxConcurrent: 0, activeDuring: [{cron: "0 8 * * *", timeZone: Mars/Olympus, duration: 10h}]`, want: []string{"spec.activeDuring[0]: The controller cannot evaluate it, and lets nothing begin: unknown time zone Mars/Olympus"}},
	} {
		facts := tc.facts
		if facts == nil {
			facts = &Facts{}
		}
		require.Equal(t, tc.want, lines(RemediationBudget(accepted(t, nhcv1alpha1.BudgetKind, "a", "{"+tc.spec+"}").(*nhcv1alpha1.RemediationBudget), facts)), name)
	}
}

// TestDenial: what the policy about MachineHealthChecks denies. That it is the same is tested with an API server: see
// TestAdmission in test/integration.
func TestDenial(t *testing.T) {
	t.Parallel()
	for want, mhc := range map[string]machinev1beta1.MachineHealthCheck{
		"":                                      {},
		"maxUnhealthy must not be negative: -1": {Spec: machinev1beta1.MachineHealthCheckSpec{MaxUnhealthy: new(machinev1beta1.IntOrString(intstr.FromInt32(-1)))}},
		"nodeStartupTimeout must be 0 or a duration: soon": {Spec: machinev1beta1.MachineHealthCheckSpec{NodeStartupTimeout: new("soon")}},
		"annotation machine.openshift.io/remediation-strategy and remediationTemplate are mutually exclusive": {
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{machinev1beta1.AnnotationRemediationStrategy: machinev1beta1.StrategyExternalBaremetal}},
			Spec:       machinev1beta1.MachineHealthCheckSpec{RemediationTemplate: &corev1.ObjectReference{APIVersion: "a/v1", Kind: "ATemplate", Name: "a"}},
		},
	} {
		require.Equal(t, want, Denial(&mhc))
	}
}
