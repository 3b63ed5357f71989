// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// Node is what counts of a Node.
type Node struct {
	Name        string
	UID         types.UID
	Created     time.Time
	Labels      labels.Set
	Annotations map[string]string
	Conditions  []corev1.NodeCondition
	// begun is since when they may have had their status.
	begun map[corev1.NodeConditionType]span
}

// ControlPlane reports whether it is a control plane node (spec 12.1).
func (n *Node) ControlPlane() bool {
	return n.Labels.Has("node-role.kubernetes.io/control-plane") || n.Labels.Has("node-role.kubernetes.io/controlplane") ||
		n.Labels.Has("node-role.kubernetes.io/master") || n.Labels.Has("node-role.kubernetes.io/arbiter") || n.Etcd() || n.Labels.Get(v1alpha1.LabelEtcd) == "true"
}

// Etcd reports whether it is one of etcd where roles are split (spec 12.5).
func (n *Node) Etcd() bool { return n.Labels.Has("node-role.kubernetes.io/etcd") }

// Updates reports whether its machine configuration is being changed (spec 10.2).
func (n *Node) Updates() bool {
	desired := n.Annotations["machineconfiguration.openshift.io/desiredConfig"]
	return desired != "" && desired != n.Annotations["machineconfiguration.openshift.io/currentConfig"]
}

// Ready reports whether condition Ready is True.
func (n *Node) Ready() bool {
	return slices.ContainsFunc(n.Conditions, func(condition corev1.NodeCondition) bool {
		return condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue
	})
}

// NHC is a NodeHealthCheck with its selector.
type NHC struct {
	*v1alpha1.NodeHealthCheck
	selector labels.Selector
	// foreign means that the status was written by another client than the controller.
	foreign bool
}

// NewNHC returns a NodeHealthCheck that is ready to be asked.
func NewNHC(object *v1alpha1.NodeHealthCheck) *NHC {
	nhc := &NHC{NodeHealthCheck: object, selector: labels.Nothing()}
	if selector, err := metav1.LabelSelectorAsSelector(&object.Spec.Selector); err == nil {
		nhc.selector = selector
	}
	return nhc
}

// Selects reports whether the node is a selected one.
func (n *NHC) Selects(node *Node) bool { return n.selector.Matches(node.Labels) }

// CR is what counts of a remediation CR.
type CR struct {
	APIVersion, Kind, Namespace, Name string
	UID                               types.UID
	// Node is the node of the CR, and Template the template it names (spec 1.4).
	Node, Template string
	NamesTemplate  bool
	// Named means that it says so itself.
	Named bool
	// Owners are the NodeHealthChecks that own it, and Checks the MachineHealthChecks.
	Owners, Checks []string
	// OwnerUIDs are the uids of the NodeHealthChecks that own it, by name.
	OwnerUIDs map[string]types.UID
	// FormerChecks are the MachineHealthChecks that owned it until garbage collection removed their references.
	FormerChecks []string
	// Machine is the Machine of one that MachineHealthChecks own, or owned.
	Machine string
	// ByController reports whether the controller has created it.
	ByController bool
	// Process is the one that has.
	Process string
	// ControlPlane reports whether it has the label of those for control plane nodes.
	ControlPlane bool
	Created      time.Time
	// Deleting reports whether it is being deleted, and DeletedAt since when.
	Deleting  bool
	DeletedAt time.Time
	// TimedOut is the annotation nhc-timed-out; Marked reports whether it is there.
	TimedOut string
	Marked   bool
	// Succeeded and Permanent are conditions Succeeded and PermanentNodeDeletionExpected.
	Succeeded, Permanent string
}

// OwnedBy reports whether the NodeHealthCheck of this name owns it.
func (c *CR) OwnedBy(nhc string) bool { return slices.Contains(c.Owners, nhc) }

// CheckedBy reports whether the MachineHealthCheck of this key owns it.
func (c *CR) CheckedBy(mhc string) bool { return slices.Contains(c.Checks, mhc) }

// olderThan reports whether this is the CR of a step, and not the other one (spec 11.8). Of two of the
// same second that is the one whose uid comes first: some order has to be.
func (c *CR) olderThan(other *CR) bool {
	return cmp.Or(c.Created.Compare(other.Created), cmp.Compare(c.UID, other.UID)) < 0
}

// String names the CR.
func (c *CR) String() string { return fmt.Sprintf("%s %s/%s", c.Kind, c.Namespace, c.Name) }

// ParseCR reads a CR leniently (spec 11.7).
func ParseCR(object *unstructured.Unstructured) *CR {
	annotations := object.GetAnnotations()
	cr := &CR{
		APIVersion: object.GetAPIVersion(), Kind: object.GetKind(), Namespace: object.GetNamespace(), Name: object.GetName(),
		UID: object.GetUID(), Node: object.GetName(), Created: object.GetCreationTimestamp().Time,
	}
	if deleted := object.GetDeletionTimestamp(); deleted != nil {
		cr.Deleting, cr.DeletedAt = true, deleted.Time
	}
	if node, says := annotations[v1alpha1.AnnotationNodeName]; says {
		cr.Node, cr.Named = node, true
	}
	cr.Template, cr.NamesTemplate = annotations[v1alpha1.AnnotationTemplateName]
	cr.TimedOut, cr.Marked = annotations[v1alpha1.AnnotationTimedOut]
	_, cr.ControlPlane = object.GetLabels()[v1alpha1.LabelControlPlane]
	for _, owner := range object.GetOwnerReferences() {
		if owner.APIVersion == v1alpha1.SchemeGroupVersion.String() && owner.Kind == v1alpha1.Kind {
			if cr.OwnerUIDs == nil {
				cr.OwnerUIDs = map[string]types.UID{}
			}
			cr.Owners, cr.OwnerUIDs[owner.Name] = append(cr.Owners, owner.Name), owner.UID
		}
		if owner.APIVersion == v1beta1.SchemeGroupVersion.String() && owner.Kind == v1beta1.Kind {
			cr.Checks = append(cr.Checks, key(cr.Namespace, owner.Name))
			cr.Machine = key(cr.Namespace, cr.Name)
		}
	}
	cr.Succeeded = conditionOf(object, v1alpha1.RemediationSucceeded)
	cr.Permanent = conditionOf(object, v1alpha1.RemediationPermanentNodeDeletionExpected)
	return cr
}

// conditionOf returns the status of a condition, empty if there is none that can be
// read.
func conditionOf(object *unstructured.Unstructured, conditionType string) string {
	status, ok := object.Object["status"].(map[string]any)
	if !ok {
		return ""
	}
	conditions, ok := status["conditions"].([]any)
	if !ok {
		return ""
	}
	for _, entry := range conditions {
		condition, ok := entry.(map[string]any)
		if ok && condition["type"] == conditionType {
			value, _ := condition["status"].(string)
			return value
		}
	}
	return ""
}

func parseNode(object *unstructured.Unstructured) (*Node, error) {
	var status struct {
		Status struct {
			Conditions []corev1.NodeCondition `json:"conditions"`
		} `json:"status"`
	}
	conditions, _, err := unstructured.NestedFieldNoCopy(object.Object, "status", "conditions")
	if err != nil {
		return nil, err
	}
	part := map[string]any{"status": map[string]any{"conditions": conditions}}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(part, &status); err != nil {
		return nil, err
	}
	return &Node{
		Name: object.GetName(), UID: object.GetUID(), Created: object.GetCreationTimestamp().Time,
		Labels: object.GetLabels(), Annotations: object.GetAnnotations(), Conditions: status.Status.Conditions,
	}, nil
}

func parseNHC(object *unstructured.Unstructured) (*NHC, error) {
	nhc := &v1alpha1.NodeHealthCheck{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, nhc); err != nil {
		return nil, err
	}
	return NewNHC(nhc), nil
}

func parseLease(object *unstructured.Unstructured) (*coordinationv1.Lease, error) {
	lease := &coordinationv1.Lease{}
	return lease, runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, lease)
}
