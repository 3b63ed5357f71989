// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
)

// Shared is a property that failing nodes have and others do not.
type Shared struct {
	// What is a condition or a label with its value.
	What string `json:"what"`
	// Failing is how many of the failing nodes have it, and Others how many of the others.
	Failing    int `json:"failing"`
	AllFailing int `json:"allFailing"`
	Others     int `json:"others"`
	AllOthers  int `json:"allOthers"`
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
// the others.
func common(nodes []*corev1.Node, failing sets.Set[string]) []Shared {
	counts := map[string]*Shared{}
	all, others := 0, 0
	for _, node := range nodes {
		fails := failing.Has(node.Name)
		if fails {
			all++
		} else {
			others++
		}
		for _, what := range properties(node) {
			count := counts[what]
			if count == nil {
				count = &Shared{What: what}
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
		return cmp.Or(cmp.Compare(b.Failing, a.Failing), cmp.Compare(a.Others, b.Others), cmp.Compare(a.What, b.What))
	})
	return shared[:min(len(shared), mostShared)]
}

// properties are what a node may have in common with others.
func properties(node *corev1.Node) []string {
	var all []string
	for _, condition := range node.Status.Conditions {
		all = append(all, string(condition.Type)+"="+string(condition.Status))
	}
	for key, value := range node.Labels {
		if key != corev1.LabelHostname {
			all = append(all, key+"="+value)
		}
	}
	info := &node.Status.NodeInfo
	for what, version := range map[string]string{"kernel": info.KernelVersion, "kubelet": info.KubeletVersion, "image": info.OSImage} {
		if version != "" {
			all = append(all, what+" "+version)
		}
	}
	return all
}

// failingNodes are the nodes that a health check reports, without those that are healthy again.
func (o *Overview) failingNodes() sets.Set[string] {
	names := sets.New[string]()
	for i := range o.NodeHealthChecks {
		for _, node := range o.NodeHealthChecks[i].Nodes {
			if node.HealthySince == nil {
				names.Insert(node.Name)
			}
		}
	}
	for _, mhc := range o.MachineHealthChecks {
		for i := range mhc.Status.UnhealthyMachines {
			names.Insert(mhc.Status.UnhealthyMachines[i].Node)
		}
	}
	return names
}
