// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/machinehealth"
	"github.com/nhc-controller/nhc-controller/test/memapi"
	"github.com/nhc-controller/nhc-controller/test/rules"
)

// The resources of a cluster with Machines.
var (
	mhcs  = rules.MachineHealthChecks
	gates = rules.FeatureGates
)

// machineNamespace has the Machines, the MachineHealthChecks and their templates.
const machineNamespace = templateNamespace

// machineAPI is what a cluster with Machines has besides: owners that replace Machines, a provider
// of their instances, a consumer of requests by annotation, and users. All of them act when the walk
// lets time pass.
type machineAPI struct {
	*cluster
	api  *apiOfMachines
	sets []*machineSet
	// made is the number of Machines so far, and fates what becomes of each.
	made  int
	fates map[types.UID]*fate
	// gated means that the platform has feature gates.
	gated bool
	// reliable means that nothing new goes wrong, and idle that the consumer does nothing.
	reliable, idle bool
}

// machineSet keeps a number of Machines that are not being deleted.
type machineSet struct {
	name     string
	uid      types.UID
	replicas int
	role     string
	// afterwards means that it replaces a Machine when that is gone, not when it is being deleted.
	afterwards bool
	// gone means that it replaces nothing any more.
	gone bool
}

// fate is what becomes of a Machine. Zero times mean never.
type fate struct {
	node         string
	joins, fails time.Time
	lingers      time.Duration
	deletedSince time.Time
}

// newMachineAPI returns the Machines of a cluster. A third of the clusters have some.
func newMachineAPI(c *cluster, api *apiOfMachines) *machineAPI {
	return &machineAPI{cluster: c, api: api, fates: map[types.UID]*fate{}, gated: c.chance(50)}
}

// serve makes the API server serve what there is, and returns how it is judged.
func (m *machineAPI) serve() *rules.MachineConfig {
	for _, api := range machineAPIs { // There may be both, as on OpenShift, but only some of one.
		m.server.Install("admin", memapi.Resource{GroupVersionResource: api.machines, Kind: "Machine", Namespaced: true})
	}
	m.server.Install("admin", memapi.Resource{GroupVersionResource: mhcs, Kind: v1beta1.Kind, Namespaced: true})
	if m.gated {
		m.server.Install("admin", memapi.Resource{GroupVersionResource: gates, Kind: "FeatureGate"})
	}
	return &rules.MachineConfig{BackOff: rules.BackOff(backOff), FeatureGates: m.gated}
}

// backOff are the delays of deletions.
var backOff = machinehealth.BackOff{Base: machinehealth.DefaultBackOffBase, Cap: machinehealth.DefaultBackOffCap}

func machineKey(name string) memapi.Key { return memapi.Key{Namespace: machineNamespace, Name: name} }

// createHome creates a Node that no Machine names. By its annotations, Machines of Cluster API belong to this cluster.
func (m *machineAPI) createHome() {
	m.createNode(homeNode, corev1.ConditionTrue)
	m.changeNode(homeNode, func(node *unstructured.Unstructured) { node.SetAnnotations(m.api.nodeAnnotations("none")) })
}

// createStanding creates a MachineHealthCheck that selects nothing and to which nothing happens. While there is one about
// Machines of Cluster API, the controller reads them, and the judge takes it that it does: what happens without, scenarios
// test.
func (m *machineAPI) createStanding() {
	standing := &v1beta1.MachineHealthCheck{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1beta1.SchemeGroupVersion.String(), Kind: v1beta1.Kind},
		ObjectMeta: metav1.ObjectMeta{Namespace: "elsewhere", Name: "standing", Annotations: m.api.annotations},
		Spec:       v1beta1.MachineHealthCheckSpec{UnhealthyConditions: []v1beta1.UnhealthyCondition{{Type: "Terminating", Status: corev1.ConditionTrue, Timeout: "0s"}}},
	}
	if _, err := m.server.Create("admin", mhcs, from(standing)); err != nil {
		panic(err)
	}
}

// populate makes Machines for the existing Nodes, and MachineHealthChecks.
func (m *machineAPI) populate() {
	m.enableGate()
	if m.api == ofClusterAPI {
		m.createStanding()
	}
	workers, masters := m.newSet("workers", "worker"), m.newSet("masters", "master")
	masters.afterwards = m.seed%2 == 0
	for _, node := range m.nodeNames() {
		set := workers
		if node[:6] == "master" {
			set = masters
		}
		set.replicas++
		name := m.createMachine(set)
		m.fates[m.machine(name).GetUID()].node = node
		m.join(name, node)
	}
	for _, name := range []string{"east", "north", "west"}[:m.random.IntN(4)] {
		m.createMHC(name)
	}
}

func (m *machineAPI) newSet(name, role string) *machineSet {
	set := &machineSet{name: name, role: role, uid: types.UID("uid-of-" + name)}
	m.sets = append(m.sets, set)
	return set
}

func (m *machineAPI) machine(name string) *unstructured.Unstructured {
	return m.server.Get(m.gvr(), machineKey(name))
}

func (m *machineAPI) machineNames() []string { return namesOf(m.server.List(m.gvr())) }

// anyMachine returns the name of a Machine, empty if there is none.
func (m *machineAPI) anyMachine() string {
	if names := m.machineNames(); len(names) > 0 {
		return oneOf(m.cluster, names...)
	}
	return ""
}

func (m *machineAPI) changeMachine(user, name string, change func(*unstructured.Unstructured)) {
	m.server.Modify(user, m.gvr(), machineKey(name), change)
}

// createMachine creates a Machine of a set, and decides what becomes of it.
func (m *machineAPI) createMachine(set *machineSet) string {
	m.made++
	name := fmt.Sprintf("machine-%d", m.made)
	machine := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": m.gvr().GroupVersion().String(), "kind": "Machine", "metadata": map[string]any{}, "spec": map[string]any{"clusterName": clusterName},
	}}
	machine.SetNamespace(machineNamespace)
	machine.SetName(name)
	labels := map[string]string{"pool": oneOf(m.cluster, "a", "a", "b"), "role": set.role}
	if set.role == "master" {
		maps.Copy(labels, m.api.controlPlane)
	}
	machine.SetLabels(labels)
	machine.SetFinalizers([]string{"machine.example.com/instance"})
	machine.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: m.gvr().GroupVersion().String(), Kind: "MachineSet", Name: set.name, UID: set.uid, Controller: new(true)}})
	created, err := m.server.Create("machine-set", m.gvr(), machine)
	if err != nil {
		panic(err)
	}
	m.fates[created.GetUID()] = m.randomFate(fmt.Sprintf("%s-%d", set.role, m.made))
	return name
}

// randomFate decides what becomes of a Machine.
func (m *machineAPI) randomFate(node string) *fate {
	now := time.Now()
	f := &fate{node: node, joins: now.Add(oneOf(m.cluster, time.Second, 30*time.Second, 3*time.Minute)), lingers: oneOf(m.cluster, 0, 0, time.Minute, 15*time.Minute)}
	if m.reliable {
		return f
	}
	switch n := m.random.IntN(10); {
	case n < 1:
		f.fails, f.joins = now.Add(oneOf(m.cluster, 0, 20*time.Second)), time.Time{}
	case n < 2:
		f.fails, f.joins = now.Add(2*time.Minute), time.Time{}
	case n < 3:
		f.joins = time.Time{}
	case n < 4:
		f.joins = now.Add(14 * time.Minute)
	}
	return f
}

// setStatus changes the status of a Machine as its provider does.
func (m *machineAPI) setStatus(name string, change func(status map[string]any)) {
	m.changeMachine("provider", name, func(machine *unstructured.Unstructured) {
		status, _, _ := unstructured.NestedMap(machine.Object, "status")
		if status == nil {
			status = map[string]any{}
		}
		change(status)
		m.api.written(status, time.Now().UTC().Format(time.RFC3339))
		_ = unstructured.SetNestedMap(machine.Object, status, "status")
	})
}

// join gives a Machine its Node.
func (m *machineAPI) join(name, node string) {
	m.createNode(node, corev1.ConditionTrue)
	m.changeNode(node, func(object *unstructured.Unstructured) {
		for key, value := range m.api.nodeAnnotations(name) {
			setEntry(object, "annotations", key, value)
		}
	})
	m.setStatus(name, func(status map[string]any) {
		status["phase"], status["nodeRef"] = "Running", map[string]any{"kind": "Node", "name": node}
	})
}

func phaseOf(machine *unstructured.Unstructured) string {
	phase, _, _ := unstructured.NestedString(machine.Object, "status", "phase")
	return phase
}

func nodeOf(machine *unstructured.Unstructured) string {
	node, _, _ := unstructured.NestedString(machine.Object, "status", "nodeRef", "name")
	return node
}

// reconcile has the owners, the provider and the consumer act.
func (m *machineAPI) reconcile() {
	for _, machine := range m.server.List(m.gvr()) {
		m.provide(machine)
	}
	for _, machine := range m.server.List(m.gvr()) {
		if machine.GetDeletionTimestamp() == nil {
			m.consume(machine)
		}
	}
	for _, set := range m.sets {
		living := 0
		for _, machine := range m.server.List(m.gvr()) {
			if owner := metav1.GetControllerOf(machine); owner != nil && owner.UID == set.uid && (set.afterwards || machine.GetDeletionTimestamp() == nil) {
				living++
			}
		}
		for ; !set.gone && living < set.replicas; living++ {
			m.createMachine(set)
		}
	}
}

// provide has the provider make the next step with one Machine.
func (m *machineAPI) provide(machine *unstructured.Unstructured) {
	name, f, now := machine.GetName(), m.fates[machine.GetUID()], time.Now()
	switch {
	case machine.GetDeletionTimestamp() != nil:
		if f.deletedSince.IsZero() {
			f.deletedSince = now
		}
		if now.Before(f.deletedSince.Add(f.lingers)) {
			return
		}
		if node := nodeOf(machine); node != "" && len(m.naming(node)) == 1 {
			m.deleteNode(node)
		}
		m.changeMachine("provider", name, func(object *unstructured.Unstructured) { object.SetFinalizers(nil) })
	case phaseOf(machine) == "Failed":
	case !f.fails.IsZero() && !now.Before(f.fails):
		f.fails = time.Time{}
		m.log("Machine %s fails", name)
		m.setStatus(name, func(status map[string]any) { status["phase"] = "Failed" })
	case nodeOf(machine) == "" && !f.joins.IsZero() && !now.Before(f.joins):
		m.join(name, f.node)
	case phaseOf(machine) == "":
		m.setStatus(name, func(status map[string]any) { status["phase"] = "Provisioning" })
	}
}

// naming returns the Machines that name a Node.
func (m *machineAPI) naming(node string) []*unstructured.Unstructured {
	return slices.DeleteFunc(m.server.List(m.gvr()), func(machine *unstructured.Unstructured) bool { return nodeOf(machine) != node })
}

// consume has the consumer of requests by annotation make the next step with one Machine: it powers
// the host off, deletes the Node, powers the host on, and removes the key.
func (m *machineAPI) consume(machine *unstructured.Unstructured) {
	keys := machine.GetAnnotations()
	if _, asked := keys[v1beta1.AnnotationExternalRemediation]; !asked || m.idle || !m.chance(20) {
		return
	}
	set := func(change func(keys map[string]string)) {
		m.changeMachine("consumer", machine.GetName(), func(object *unstructured.Unstructured) {
			keys := object.GetAnnotations()
			change(keys)
			object.SetAnnotations(keys)
		})
	}
	node := nodeOf(machine)
	_, off := keys[v1beta1.AnnotationPoweredOff]
	switch {
	case !off && node != "" && m.node(node) != nil:
		set(func(keys map[string]string) { keys[v1beta1.AnnotationPoweredOff] = "" })
	case off && m.node(node) != nil:
		m.deleteNode(node)
	case off:
		ready := corev1.ConditionTrue
		if !m.reliable {
			ready = oneOf(m.cluster, corev1.ConditionTrue, corev1.ConditionTrue, corev1.ConditionUnknown)
		}
		m.createNode(node, ready)
		set(func(keys map[string]string) { delete(keys, v1beta1.AnnotationPoweredOff) })
		set(func(keys map[string]string) { delete(keys, v1beta1.AnnotationExternalRemediation) })
	default:
		set(func(keys map[string]string) { delete(keys, v1beta1.AnnotationExternalRemediation) })
	}
}
