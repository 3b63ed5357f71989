// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealth

import (
	"maps"
	"reflect"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
)

// Machine is what the controller reads of a Machine of either API. A missing or malformed field
// counts as not set (spec M5.1). It is immutable: it lives in caches and is shared.
type Machine struct {
	metav1.TypeMeta
	// ObjectMeta is cut down to what is read: its identity, labels, owners, times, and those of
	// keptAnnotations.
	metav1.ObjectMeta
	// Phase is status.phase, and Node the name in status.nodeRef.
	Phase, Node string
	// Started is when the startup time of the Machine began by its status. It is zero if status
	// does not say (spec M6.3).
	Started time.Time
	// Cluster is the Cluster that a Machine of Cluster API belongs to.
	Cluster string
	// Unmanaged means that the controllers of its API do nothing, because another API is
	// authoritative (spec M9.2).
	Unmanaged bool
}

var _ runtime.Object = &Machine{}

// keptAnnotations are those that a decision depends on.
var keptAnnotations = []string{
	v1beta1.AnnotationPaused, v1beta1.AnnotationSkipRemediation, v1beta1.AnnotationExternalRemediation,
	v1beta1.AnnotationRemediationStrategy, v1beta1.AnnotationPoweredOff,
}

// phaseFailed is the phase of a Machine that its provider has given up on.
const phaseFailed = "Failed"

// ParseMachine reads a Machine. Later changes of object do not affect the result.
func ParseMachine(object *unstructured.Unstructured) *Machine {
	m := &Machine{
		TypeMeta: metav1.TypeMeta{APIVersion: object.GetAPIVersion(), Kind: object.GetKind()},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: object.GetNamespace(), Name: object.GetName(), UID: object.GetUID(), ResourceVersion: object.GetResourceVersion(),
			CreationTimestamp: object.GetCreationTimestamp(), DeletionTimestamp: object.GetDeletionTimestamp(),
			Labels: object.GetLabels(), OwnerReferences: object.GetOwnerReferences(),
		},
		Phase:   text(object, "status", "phase"),
		Node:    text(object, "status", "nodeRef", "name"),
		Cluster: text(object, "spec", "clusterName"),
	}
	for _, key := range keptAnnotations {
		if value, present := object.GetAnnotations()[key]; present {
			metav1.SetMetaDataAnnotation(&m.ObjectMeta, key, value)
		}
	}
	if m.API() == v1beta1.MachineAPICluster {
		delete(m.Annotations, v1beta1.AnnotationRemediationStrategy) // It means something to OpenShift only (spec M11.2).
		m.Started = transition(object, "InfrastructureReady")
	} else {
		m.Started = instant(text(object, "status", "lastUpdated"))
		authority := text(object, "status", "authoritativeAPI")
		m.Unmanaged = authority != "" && authority != "MachineAPI"
	}
	return m
}

// text returns a string field, and nothing where there is none.
func text(object *unstructured.Unstructured, path ...string) string {
	value, _, _ := unstructured.NestedString(object.Object, path...)
	return value
}

// instant returns a time as the API writes it, and zero for anything else.
func instant(value string) time.Time {
	at, err := time.Parse(time.RFC3339, value)
	if year := at.UTC().Year(); err != nil || year < 1 || year > 9999 {
		return time.Time{}
	}
	return at
}

// transition returns since when a condition of the Machine is True, and zero if it is not.
func transition(object *unstructured.Unstructured, conditionType string) time.Time {
	conditions, _, _ := unstructured.NestedFieldNoCopy(object.Object, "status", "conditions")
	list, _ := conditions.([]any)
	for _, item := range list {
		condition, _ := item.(map[string]any)
		if condition["type"] != conditionType || condition["status"] != "True" {
			continue
		}
		since, _ := condition["lastTransitionTime"].(string)
		return instant(since)
	}
	return time.Time{}
}

// API returns the API group of the Machine.
func (m *Machine) API() string { return m.GroupVersionKind().Group }

// Failed reports whether the provider has given up on the Machine.
func (m *Machine) Failed() bool { return m.Phase == phaseFailed }

// Deleting reports whether the deletion of the Machine was requested.
func (m *Machine) Deleting() bool { return m.DeletionTimestamp != nil }

// Has reports whether the Machine has an annotation, whatever its value is.
func (m *Machine) Has(annotation string) bool {
	_, present := m.Annotations[annotation]
	return present
}

// SlotName returns the name under which the Machine takes the control plane slot, and counts for RemediationBudgets: that
// of its Node, as NodeHealthChecks know it, or its own.
func (m *Machine) SlotName() string {
	if m.Node != "" {
		return m.Node
	}
	return SlotName(m.Namespace, m.Name)
}

// SlotName returns the name that stands for a Machine without a Node. No Node has such a name.
func SlotName(namespace, name string) string { return "Machine " + namespace + "/" + name }

// Owner returns the controller of the Machine, which replaces it, nil if there is none.
func (m *Machine) Owner() *metav1.OwnerReference { return metav1.GetControllerOfNoCopy(m) }

// ControlPlane reports whether the labels of the Machine make it one of the control plane.
func (m *Machine) ControlPlane() bool {
	_, labelled := m.Labels[v1beta1.LabelControlPlane]
	return labelled || m.Labels[v1beta1.LabelRole] == v1beta1.RoleMaster
}

// SameAs reports whether both lead to the same decisions. The start time only matters without a
// Node, because the status of a Machine changes all the time.
func (m *Machine) SameAs(other *Machine) bool {
	return m.UID == other.UID && m.Phase == other.Phase && m.Node == other.Node && m.Cluster == other.Cluster && m.Unmanaged == other.Unmanaged &&
		(m.Node != "" || m.Started.Equal(other.Started)) && m.DeletionTimestamp.Equal(other.DeletionTimestamp) &&
		maps.Equal(m.Labels, other.Labels) && maps.Equal(m.Annotations, other.Annotations) &&
		reflect.DeepEqual(m.OwnerReferences, other.OwnerReferences)
}

// DeepCopyObject implements [runtime.Object].
func (m *Machine) DeepCopyObject() runtime.Object {
	clone := *m
	clone.ObjectMeta = *m.ObjectMeta.DeepCopy()
	return &clone
}

// GetObjectKind implements [runtime.Object].
func (m *Machine) GetObjectKind() schema.ObjectKind { return &m.TypeMeta }
