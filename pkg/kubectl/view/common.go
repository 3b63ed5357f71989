// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
)

// Shared is a property that failing nodes have and others do not.
type Shared struct {
	// What is a label, a taint or a condition with its value, or a version.
	What string `json:"what"`
	// Failing is how many of the failing nodes have it, and Others how many of the others.
	Failing    int `json:"failing"`
	AllFailing int `json:"allFailing"`
	Others     int `json:"others"`
	AllOthers  int `json:"allOthers"`
	// rank is higher for conditions: a label tells more.
	rank int
}

const (
	// fewFailing is how many nodes have to fail at least: two have something in common by chance.
	fewFailing = 3
	// mostShared is how many common properties are shown.
	mostShared = 3
	// shareOfFailing and shareOfOthers bound, in percent, who has it.
	shareOfFailing, shareOfOthers = 75, 50
)

// common returns the properties that at least three quarters of the failing nodes have, and at most half of
// the others. What most of the failing nodes have and no other comes first.
func common(nodes []*corev1.Node, failing sets.Set[string], triggers sets.Set[string]) []Shared {
	counts := map[string]*Shared{}
	all, others := 0, 0
	for _, node := range nodes {
		fails := failing.Has(node.Name)
		if fails {
			all++
		} else {
			others++
		}
		for what, rank := range properties(node) {
			if triggers.Has(what) {
				continue
			}
			count := counts[what]
			if count == nil {
				count = &Shared{What: what, rank: rank}
				counts[what] = count
			}
			if fails {
				count.Failing++
			} else {
				count.Others++
			}
		}
	}
	var shared []Shared
	for _, count := range counts {
		count.AllFailing, count.AllOthers = all, others
		if all >= fewFailing && others > 0 && count.Failing*100 >= shareOfFailing*all && count.Others*100 <= shareOfOthers*others {
			shared = append(shared, *count)
		}
	}
	slices.SortFunc(shared, func(a, b Shared) int {
		return cmp.Or(cmp.Compare(b.Failing, a.Failing), cmp.Compare(a.Others, b.Others), cmp.Compare(a.rank, b.rank), cmp.Compare(a.What, b.What))
	})
	return shared[:min(len(shared), mostShared)]
}

// properties are what a node may have in common with others, by their ranks. It leaves out what
// follows from a failure: conditions that are Unknown, and the taints of conditions and remediators.
func properties(node *corev1.Node) map[string]int {
	all := map[string]int{}
	for _, condition := range node.Status.Conditions {
		if condition.Status != corev1.ConditionUnknown {
			all[string(condition.Type)+"="+string(condition.Status)] = 1
		}
	}
	for i := range node.Spec.Taints {
		if taint := &node.Spec.Taints[i]; !strings.HasPrefix(taint.Key, "node.kubernetes.io/") && !leftBehind(taint) {
			all["taint "+taint.ToString()] = 0
		}
	}
	for key, value := range node.Labels {
		if key != corev1.LabelHostname {
			all[key+"="+value] = 0
		}
	}
	info := &node.Status.NodeInfo
	for what, version := range map[string]string{"kernel": info.KernelVersion, "kubelet": info.KubeletVersion, "image": info.OSImage} {
		if version != "" {
			all[what+" "+version] = 0
		}
	}
	return all
}

// failingNodes are the nodes that a health check reports, without those that are healthy again, and the conditions
// that are why.
func (o *Overview) failingNodes() (names, triggers sets.Set[string]) {
	names, triggers = sets.New[string](), sets.New[string]()
	for i := range o.NodeHealthChecks {
		for _, node := range o.NodeHealthChecks[i].Nodes {
			if node.ConditionsHealthyTimestamp == nil {
				names.Insert(node.Name)
				triggers.Insert(triggerText(node.Trigger))
			}
		}
	}
	for _, mhc := range o.MachineHealthChecks {
		for i := range mhc.Status.UnhealthyMachines {
			machine := newMachineTarget(&mhc.Status.UnhealthyMachines[i])
			names.Insert(machine.Node)
			triggers.Insert(triggerText(machine.Trigger))
		}
	}
	return names, triggers
}
