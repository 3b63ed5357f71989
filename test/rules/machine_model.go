// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
)

// Machine is what counts of a Machine.
type Machine struct {
	// API is the group of its kind.
	API             string
	Namespace, Name string
	UID             types.UID
	Created         time.Time
	Deleting        bool
	// DeletionRequested is when, zero if it was not.
	DeletionRequested time.Time
	// Phase and Node are those of its status.
	Phase, Node string
	// Updated is when its status says that it was written last, or, for Cluster API, that its infrastructure became
	// ready.
	Updated     time.Time
	Labels      labels.Set
	Annotations map[string]string
	// Owner is its controller, empty if it has none.
	Owner types.UID
}

// Key is the namespace and the name.
func (m *Machine) Key() string { return key(m.Namespace, m.Name) }

// Has reports whether the Machine has an annotation.
func (m *Machine) Has(annotation string) bool {
	_, has := m.Annotations[annotation]
	return has
}

// deletedBefore reports whether the Machine was being deleted already when its Node appeared.
func (m *Machine) deletedBefore(node *Node) bool {
	return m.Deleting && node != nil && !node.Created.Before(m.DeletionRequested)
}

// Failed reports whether its provider has given it up.
func (m *Machine) Failed() bool { return m.Phase == "Failed" }

// ControlPlane reports whether its labels make it one of the control plane (spec M2).
func (m *Machine) ControlPlane() bool {
	return m.Labels["machine.openshift.io/cluster-api-machine-role"] == "master" || m.Labels.Has("cluster.x-k8s.io/control-plane")
}

// paused reports whether nothing may be done about the Machine (spec M9.2).
func (m *Machine) paused() bool { return m.Has(v1beta1.AnnotationPaused) }

// parseMachine reads a Machine leniently (spec M5.1).
func parseMachine(object *unstructured.Unstructured) *Machine {
	field := func(path ...string) string {
		value, _, _ := unstructured.NestedString(object.Object, path...) // Anything else is not set.
		return value
	}
	m := &Machine{
		API: object.GroupVersionKind().Group, Namespace: object.GetNamespace(), Name: object.GetName(), UID: object.GetUID(), Created: object.GetCreationTimestamp().Time,
		Phase: field("status", "phase"), Node: field("status", "nodeRef", "name"),
		Labels: object.GetLabels(), Annotations: object.GetAnnotations(),
	}
	if deletion := object.GetDeletionTimestamp(); deletion != nil {
		m.Deleting, m.DeletionRequested = true, deletion.Time
	}
	m.Updated = infrastructureReady(object)
	if updated, err := time.Parse(time.RFC3339, field("status", "lastUpdated")); err == nil && m.API != v1beta1.MachineAPICluster {
		m.Updated = updated
	}
	if owner := metav1.GetControllerOf(object); owner != nil {
		m.Owner = owner.UID
	}
	return m
}

// infrastructureReady returns since when the infrastructure of a Machine of Cluster API has been ready, zero if it is not.
func infrastructureReady(object *unstructured.Unstructured) (since time.Time) {
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, item := range conditions {
		condition, _ := item.(map[string]any)
		if at, _ := condition["lastTransitionTime"].(string); condition["type"] == "InfrastructureReady" && condition["status"] == "True" {
			since, _ = time.Parse(time.RFC3339, at)
		}
	}
	return since
}

// machineHistory has the observations of Machines, and of the objects that decide about them. It is
// empty if no Machines are followed.
type machineHistory struct {
	followed bool
	machines map[string]track[Machine]
	// standing are the keys of the Machines that have ever stood for a name: that of their Node, or their
	// own. They are sorted.
	standing map[string][]string
	mhcs     map[string]track[MHC]
	// rounds are the deletions that count for the back-off, by the owner.
	rounds map[types.UID][]round
	// activity are the times at which the controller has to look after MachineHealthChecks, and
	// at which it must not.
	activity activity
	// deletedByUs are the Machines whose deletion the controller has requested, and annotatedByUs
	// those whose external remediation it has requested at any time.
	deletedByUs, annotatedByUs sets.Set[types.UID]
	// deletedByOthers are those that somebody else has deleted for certain.
	deletedByOthers sets.Set[types.UID]
	// deletions are those that the controller has requested, in order.
	deletions []deletion
	// leasesDeleted is when another client has deleted a lease of a MachineHealthCheck, by Node.
	leasesDeleted map[string][]time.Time
	backOff       BackOff
	// statusWrites are the last writes of the status of each MachineHealthCheck.
	statusWrites map[string][]time.Time
}

func newMachineHistory() machineHistory {
	return machineHistory{machines: map[string]track[Machine]{}, standing: map[string][]string{}, mhcs: map[string]track[MHC]{}, rounds: map[types.UID][]round{}, deletedByUs: sets.New[types.UID](), annotatedByUs: sets.New[types.UID](), deletedByOthers: sets.New[types.UID](), leasesDeleted: map[string][]time.Time{}}
}

// addMachine adds a version of a Machine, nil if it is gone.
func (h *history) addMachine(key string, rv uint64, seen time.Time, machine *Machine) {
	add(h.machines, key, rv, seen, machine)
	if machine == nil {
		return
	}
	name := slotName(machine)
	if i, known := slices.BinarySearch(h.standing[name], key); !known {
		h.standing[name] = slices.Insert(h.standing[name], i, key)
	}
}

// machinesNaming returns the keys of Machines that may have named a Node in a window.
func (h *history) machinesNaming(node string, since time.Time, until uint64) (keys []string) {
	for key, versions := range h.machines {
		if some(versions.during(since, until), func(m *Machine) bool { return m != nil && m.Node == node }) {
			keys = append(keys, key)
		}
	}
	return keys
}

// machineName and mhcName are how violations and timelines name them.
func machineName(key string) string { return "Machine " + key }
func mhcName(key string) string     { return "MachineHealthCheck " + key }
