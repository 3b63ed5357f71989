// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package lint finds probable mistakes in a NodeHealthCheck, a MachineHealthCheck or a RemediationBudget
// that admission accepts: a limit that lets nothing begin, a selector of no node, a template that is
// missing. It is pure: it gets its knowledge of a cluster as Facts, and it judges with the packages of the
// controller.
package lint

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/kubectl/view"
	"github.com/nhc-controller/nhc-controller/pkg/machinehealth"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
)

// Severity separates errors, which the API server refuses, from advice.
type Severity string

const (
	// Error means that the API server, or kubectl, refuses the object.
	Error Severity = "error"
	// Advice means that the object is accepted, and probably not what was meant.
	Advice Severity = "advice"
)

// Finding is one thing that is wrong with an object.
type Finding struct {
	Severity Severity `json:"severity"`
	// Field is the path of the field, empty if it is the object as a whole.
	Field string `json:"field,omitempty"`
	// Line is the line of the field in the file, 0 if it is not known.
	Line int `json:"line,omitempty"`
	// Also are further fields with the same finding.
	Also []string `json:"also,omitempty"`
	// What is wrong, and what to Do about it.
	What string `json:"what"`
	Do   string `json:"do,omitempty"`
}

// Facts are the known facts about a cluster.
type Facts struct {
	// Snapshot has the Nodes and the health checks of the cluster. Objects that are to be applied replace the
	// existing ones.
	view.Snapshot
	// NodesKnown means that the Nodes were read, also if there are none.
	NodesKnown bool
	// Machines are those of the APIs in MachinesKnown.
	Machines      []*machinehealth.Machine
	MachinesKnown map[string]bool
	// Templates are the known templates.
	Templates map[corev1.ObjectReference]Template
}

// Template has the known facts about a template.
type Template struct {
	// Problem says why the controller cannot use it: it is missing, or its kind is. It is empty if no
	// problem is known.
	Problem string
	// Others are templates of its kind that exist, if it is missing, as namespace/name.
	Others []string
	// Object is the template, nil if it was not read.
	Object *object.Template
}

// findings collects advice about one object.
type findings []Finding

// advise adds advice: what is wrong with a field, and what to do about it.
func (f *findings) advise(field, do, what string, args ...any) {
	*f = append(*f, Finding{Severity: Advice, Field: field, What: fmt.Sprintf(what, args...), Do: do})
}

// largest is the largest number of nodes that a percentage is tried with. With a hundred nodes,
// each percentage shows whether it ever allows more than none, or fewer than all.
const largest = 200

// Durations that a healthy machine needs. A shorter duration treats a reboot as a failure.
const (
	// usualReboot is how long a virtual machine takes to reboot; hardware takes several times as long.
	usualReboot = 2 * time.Minute
	// usualStart is how long a kubelet may report that it is not ready when it starts.
	usualStart = time.Minute
	// usualProvisioning is how long a provider takes until a new Machine has a Node.
	usualProvisioning = 5 * time.Minute
)

// conditions judges the conditions that make a node unhealthy. The last part of the path of their
// durations has a name of its own for each kind, and so has what happens then.
func (f *findings) conditions(conditions []v1alpha1.UnhealthyCondition, duration, happens string, nodes []*corev1.Node) {
	for i, c := range conditions {
		path := fmt.Sprintf("spec.unhealthyConditions[%d]", i)
		f.duration(path+"."+duration, happens, &c)
		switch {
		case !slices.Contains([]corev1.ConditionStatus{corev1.ConditionTrue, corev1.ConditionFalse, corev1.ConditionUnknown}, c.Status):
			f.advise(path+".status", `use "True", "False" or Unknown`, "A condition never has the status %q: this one never matches", c.Status)
		case c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue:
			f.advise(path+".status", `use "False" and Unknown`, "Healthy nodes have Ready=True: all of them would be remediated")
		}
		if c.Type != terminating {
			f.unknownType(path+".type", c.Type, nodes)
		}
	}
}

// terminating is the type of a condition that nodes have only when a cloud takes them away.
const terminating = "Terminating"

// duration judges how long a node may be not ready, or have another condition.
func (f *findings) duration(path, happens string, c *v1alpha1.UnhealthyCondition) {
	switch {
	case c.Duration.Duration == 0 && c.Type != terminating:
		f.advise(path, "give it minutes; the usual value is 300s", "%s at the first blip: as soon as its Node has %s=%s once", happens, c.Type, c.Status)
		return
	case c.Type != corev1.NodeReady:
		return
	}
	least := usualReboot
	if c.Status == corev1.ConditionFalse {
		least = usualStart
	}
	if c.Duration.Duration < least {
		f.advise(path, "give it at least the time of a reboot; the default is 300s", "A node that only reboots is not ready for longer than %s", c.Duration.Duration)
	}
}

// unknownType judges whether some of the nodes has a condition of a type.
func (f *findings) unknownType(path string, kind corev1.NodeConditionType, nodes []*corev1.Node) {
	similar := ""
	for _, node := range nodes {
		for _, condition := range node.Status.Conditions {
			if condition.Type == kind {
				return
			}
			if strings.EqualFold(string(condition.Type), string(kind)) {
				similar = string(condition.Type)
			}
		}
	}
	switch {
	case len(nodes) == 0:
	case similar != "":
		f.advise(path, "use "+similar, "No selected node has a condition %s, but %s", kind, similar)
	default:
		f.advise(path, "check the name, and whether what sets it runs", "No selected node has a condition %s", kind)
	}
}

// sorted returns errors by field, because the API server names them in any order, and then advice in the order in which it was
// found. Equal findings about several fields become one.
func sorted(all []Finding) []Finding {
	once := []Finding{}
	for _, finding := range all {
		same := func(other Finding) bool {
			return finding.Severity == Advice && other.What == finding.What && other.Do == finding.Do
		}
		if at := slices.IndexFunc(once, same); at >= 0 {
			once[at].Also = append(once[at].Also, finding.Field)
			continue
		}
		once = append(once, finding)
	}
	slices.SortStableFunc(once, func(a, b Finding) int {
		if a.Severity == Error && b.Severity == Error {
			return cmp.Compare(a.Field, b.Field)
		}
		return -cmp.Compare(a.Severity, b.Severity)
	})
	return once
}
