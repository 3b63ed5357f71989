// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
)

// Resources of OpenShift and of Cluster API. They are optional: each is used where it is
// served, and read as unstructured. An empty version means the version that the API
// server prefers.
var (
	MachineHealthCheckKind = schema.GroupVersionKind{Group: "machine.openshift.io", Version: "v1beta1", Kind: "MachineHealthCheck"}
	OpenShiftMachineKind   = schema.GroupVersionKind{Group: "machine.openshift.io", Version: "v1beta1", Kind: "Machine"}
	ClusterVersionKind     = schema.GroupVersionKind{Group: "config.openshift.io", Version: "v1", Kind: "ClusterVersion"}
	ClusterAPIMachineKind  = schema.GroupVersionKind{Group: "cluster.x-k8s.io", Kind: "Machine"}
)

// Annotations of Nodes that these platforms set.
const (
	AnnotationOpenShiftMachine    = "machine.openshift.io/machine"
	AnnotationClusterAPIMachine   = "cluster.x-k8s.io/machine"
	AnnotationClusterAPINamespace = "cluster.x-k8s.io/cluster-namespace"
	AnnotationClusterAPIName      = "cluster.x-k8s.io/cluster-name"
	AnnotationCurrentConfig       = "machineconfiguration.openshift.io/currentConfig"
	AnnotationDesiredConfig       = "machineconfiguration.openshift.io/desiredConfig"
)

const (
	// EtcdNamespace is where OpenShift runs etcd.
	EtcdNamespace = "openshift-etcd"

	infrastructureGroup   = "infrastructure.cluster.x-k8s.io"
	metal3TemplateKind    = "Metal3RemediationTemplate"
	openShiftMachineSpace = "openshift-machine-api"
	terminatingCondition  = "Terminating"
)

// MachineNames returns the Machines that the annotations of a Node name: that of
// OpenShift and that of Cluster API, each zero if there is none.
func MachineNames(annotations map[string]string) (openShift, clusterAPI types.NamespacedName) {
	if namespace, name, ok := strings.Cut(annotations[AnnotationOpenShiftMachine], "/"); ok && namespace != "" && name != "" && !strings.Contains(name, "/") {
		openShift = types.NamespacedName{Namespace: namespace, Name: name}
	}
	if namespace, name := annotations[AnnotationClusterAPINamespace], annotations[AnnotationClusterAPIMachine]; namespace != "" && name != "" {
		clusterAPI = types.NamespacedName{Namespace: namespace, Name: name}
	}
	return openShift, clusterAPI
}

// Machines are the Machines of a node that were found.
type Machines struct {
	// OpenShift and ClusterAPI are nil where there is none.
	OpenShift, ClusterAPI *unstructured.Unstructured
	// UnreadOpenShift and UnreadClusterAPI are the namespaces of Machines that the Node
	// names and that cannot be read for now, empty if there are none.
	UnreadOpenShift, UnreadClusterAPI string
	// Deadline is until when a CR waits for a Machine that cannot be read: a CR gets its owners
	// when it is created, and never again.
	Deadline time.Time
}

// Unread reports whether a Machine cannot be read for now.
func (m *Machines) Unread() bool {
	return m != nil && (m.UnreadOpenShift != "" || m.UnreadClusterAPI != "")
}

// mayOwn reports whether a Machine that cannot be read for now would own a CR from the
// template.
func (m *Machines) mayOwn(template *object.Template) bool {
	if m == nil || template.Namespace == "" || (m.OpenShift != nil && m.OpenShift.GetNamespace() == template.Namespace) {
		return false
	}
	return m.UnreadOpenShift == template.Namespace ||
		(m.UnreadClusterAPI == template.Namespace && template.GroupVersionKind().Group == infrastructureGroup)
}

// owner returns the Machine that owns a CR as its second owner, or nil (spec 11.3).
func (m *Machines) owner(template *object.Template) *metav1.OwnerReference {
	if m == nil {
		return nil
	}
	machine := m.OpenShift
	if machine == nil || machine.GetNamespace() != template.Namespace {
		machine = m.ClusterAPI
		if machine == nil || machine.GetNamespace() != template.Namespace || template.GroupVersionKind().Group != infrastructureGroup {
			return nil
		}
	}
	return &metav1.OwnerReference{
		APIVersion: machine.GetAPIVersion(), Kind: machine.GetKind(), Name: machine.GetName(), UID: machine.GetUID(), Controller: new(false),
	}
}

// Conflicts reports whether MachineHealthChecks look after the same machines (spec 6.9).
// Two or more do. A single one does if it acts on other than terminating nodes.
func Conflicts(machineHealthChecks []*unstructured.Unstructured) bool {
	switch len(machineHealthChecks) {
	case 0:
		return false
	case 1:
		conditions, _, _ := unstructured.NestedFieldNoCopy(machineHealthChecks[0].Object, "spec", "unhealthyConditions")
		list, _ := conditions.([]any)
		if len(list) != 1 {
			return true
		}
		condition, _ := list[0].(map[string]any)
		return condition["type"] != terminatingCondition
	default:
		return true
	}
}

// Conflict is the problem that MachineHealthChecks look after the same machines.
func Conflict() *Problem {
	return &Problem{
		Reason:  v1alpha1.ReasonConflict,
		Message: "Custom MachineHealthCheck(s) detected, disabling NodeHealthCheck to avoid conflicts",
	}
}

// Terminating reports whether the node has the condition of one that is about to go
// (spec 7.7).
func Terminating(conditions []corev1.NodeCondition) bool {
	for i := range conditions {
		if conditions[i].Type == terminatingCondition {
			return true
		}
	}
	return false
}

// Progressing reports whether some ClusterVersion says that the cluster is being upgraded
// (spec 10.2). A ClusterVersion that cannot be understood counts as no.
func Progressing(clusterVersions []*unstructured.Unstructured) bool {
	for _, version := range clusterVersions {
		conditions, _, _ := unstructured.NestedFieldNoCopy(version.Object, "status", "conditions")
		list, _ := conditions.([]any)
		for _, item := range list {
			condition, _ := item.(map[string]any)
			if condition["type"] == "Progressing" && condition["status"] == string(corev1.ConditionTrue) {
				return true
			}
		}
	}
	return false
}

// Reconfiguring reports whether the machine configuration of a Node with these
// annotations is being changed (spec 10.2).
func Reconfiguring(annotations map[string]string) bool {
	desired := annotations[AnnotationDesiredConfig]
	return desired != "" && desired != annotations[AnnotationCurrentConfig]
}

// maxUpdate is how long an update of the machine configuration of a node holds its remediation. A node that does not
// come back from that reboot is what health checks are for (spec 10.2, M9.1).
const maxUpdate = 30 * time.Minute

// UpdateEnds returns until when an update of the machine configuration holds the remediation of a node with these
// annotations, which has been unhealthy since this instant. It is zero if the annotations show no update, or if it is over.
func UpdateEnds(annotations map[string]string, unhealthySince, now time.Time) time.Time {
	end := unhealthySince.Add(maxUpdate)
	if !Reconfiguring(annotations) || !now.Before(end) {
		return time.Time{}
	}
	return end
}

// CheckMetal3 judges the namespace of a Metal3 template where OpenShift's Machines
// are served (spec 6.1).
func CheckMetal3(step Step) *Problem {
	if step.Reference.Kind != metal3TemplateKind || step.Reference.Namespace == openShiftMachineSpace {
		return nil
	}
	return &Problem{
		Reason:  v1alpha1.ReasonTemplateInvalid,
		Message: "Metal3RemediationTemplate must be in the openshift-machine-api namespace. It is configured to be in namespace: " + step.Reference.Namespace,
	}
}

// roleEtcd marks the nodes that run etcd where roles are split, as distributions such as RKE2 and K3s can.
const roleEtcd = "node-role.kubernetes.io/etcd"

// ControlPlaneLabels are those that make a Node one of the control plane, with any value (spec 12.1).
var ControlPlaneLabels = []string{
	"node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/controlplane", "node-role.kubernetes.io/master",
	"node-role.kubernetes.io/arbiter", roleEtcd,
}

// IsControlPlane reports whether a Node with these labels is one of the control plane (spec 12.1).
func IsControlPlane(labels map[string]string) bool {
	return labels[v1alpha1.LabelEtcd] == "true" || slices.ContainsFunc(ControlPlaneLabels, func(label string) bool {
		_, labelled := labels[label]
		return labelled
	})
}

// EtcdLabel is what the labels of a Node say about etcd (spec 12.5).
type EtcdLabel string

// Values of EtcdLabel. It is empty where they say nothing.
const (
	EtcdByRole EtcdLabel = "role" // The node has the role of etcd, where roles are split.
	EtcdHere   EtcdLabel = "true" // Values of v1alpha1.LabelEtcd.
	EtcdNot    EtcdLabel = "false"
)

// EtcdLabelOf returns what these labels of a Node say about etcd.
func EtcdLabelOf(labels map[string]string) EtcdLabel {
	if said := EtcdLabel(labels[v1alpha1.LabelEtcd]); said == EtcdHere || said == EtcdNot {
		return said
	}
	if _, labelled := labels[roleEtcd]; labelled {
		return EtcdByRole
	}
	return ""
}

// QuorumWithout reports whether etcd surely has a quorum without the member on a node, by the conditions of
// the control plane nodes (spec 12.5). A majority of all members has to be Ready without it, whether the node is Ready
// or not: only its kubelet may have failed. A single member has nothing to lose once its node is not Ready.
func QuorumWithout(controlPlane []*corev1.Node, node string) bool {
	i := slices.IndexFunc(controlPlane, func(member *corev1.Node) bool { return member.Name == node })
	if i < 0 {
		return false
	}
	members := etcdMembers(controlPlane)
	switch {
	case !slices.Contains(members, controlPlane[i]):
		return true
	case len(members) == 1:
		return !Ready(controlPlane[i])
	}
	others := 0
	for _, member := range members {
		if member.Name != node && Ready(member) {
			others++
		}
	}
	return others >= len(members)/2+1
}

// etcdMembers returns the nodes that run etcd: by their own label, else by the role of etcd, and if no node has
// that role, all control plane nodes.
func etcdMembers(controlPlane []*corev1.Node) []*corev1.Node {
	split := slices.ContainsFunc(controlPlane, func(node *corev1.Node) bool { return EtcdLabelOf(node.Labels) == EtcdByRole })
	return slices.DeleteFunc(slices.Clone(controlPlane), func(node *corev1.Node) bool {
		said := EtcdLabelOf(node.Labels)
		return said == EtcdNot || (said == "" && split)
	})
}

// Ready reports whether a Node has condition Ready=True.
func Ready(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(condition corev1.NodeCondition) bool {
		return condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue
	})
}

// EtcdAllows reports whether etcd can do without the member on a node: its budget permits
// a disruption, or the member there does not work anyway (spec 12.3). Without exactly one
// budget, or with an invalid selector, it returns false.
func EtcdAllows(budgets []policyv1.PodDisruptionBudget, pods []corev1.Pod, node string) bool {
	if len(budgets) != 1 {
		return false
	}
	if budgets[0].Status.DisruptionsAllowed >= 1 {
		return true
	}
	selector, err := metav1.LabelSelectorAsSelector(budgets[0].Spec.Selector)
	if err != nil {
		return false
	}
	for i := range pods {
		pod := &pods[i]
		if pod.Spec.NodeName != node || !selector.Matches(labels.Set(pod.Labels)) {
			continue
		}
		for _, condition := range pod.Status.Conditions {
			if condition.Type == corev1.PodReady && condition.Status != corev1.ConditionFalse {
				return false
			}
		}
	}
	return true
}
