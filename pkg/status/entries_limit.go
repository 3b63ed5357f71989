// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"slices"
	"strings"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
)

// MaxEntries is the number of entries that the API accepts in a status (spec 18.6).
const MaxEntries = 5000

// fewEntries fit into an object, whatever their content is.
const fewEntries = 500

// maxEntriesSize is how many bytes the entries may take in the stored object. etcd
// accepts 1.5 MiB by default; with the history and the rest it stays below 1 MiB.
const maxEntriesSize = 780_000

// LimitEntries returns the entries by name, at most limit of them and no more than an
// object can hold. Entries with remediations come first (spec 18.6). Before it leaves out
// a node, it leaves out texts that are the same for thousands of nodes.
func LimitEntries(all []v1alpha1.UnhealthyNode, limit int) []v1alpha1.UnhealthyNode {
	if sorted := slices.IsSortedFunc(all, ByName); !sorted {
		all = slices.SortedFunc(slices.Values(all), ByName)
	}
	if len(all) <= limit && fit(all) {
		return all
	}
	entries := make([]v1alpha1.UnhealthyNode, 0, min(len(all), limit))
	for _, remediated := range []bool{true, false} {
		for i := range all {
			if len(entries) < limit && (len(all[i].Remediations) > 0) == remediated {
				entries = append(entries, all[i])
			}
		}
	}
	for _, leaveOut := range dispensable {
		if fit(entries) {
			break
		}
		for i := range entries {
			leaveOut(&entries[i])
		}
	}
	entries = entries[:object.Fitting(entries, maxEntriesSize)]
	slices.SortFunc(entries, ByName)
	return entries
}

// fit reports whether an object can hold the entries.
func fit(entries []v1alpha1.UnhealthyNode) bool {
	return len(entries) <= fewEntries || object.Fitting(entries, maxEntriesSize) == len(entries)
}

// ByName orders entries by the names of their nodes, as LimitEntries does (spec 18.4).
func ByName(a, b v1alpha1.UnhealthyNode) int { return strings.Compare(a.Name, b.Name) }

// dispensable are functions that leave out parts of entries, one after the other, if
// there are too many entries. They do not change memory that is shared with other copies.
var dispensable = []func(*v1alpha1.UnhealthyNode){
	func(entry *v1alpha1.UnhealthyNode) {
		if entry.Decision != nil && entry.Decision.Message != "" {
			short := *entry.Decision
			short.Message = ""
			entry.Decision = &short
		}
	},
	func(entry *v1alpha1.UnhealthyNode) { entry.Trigger, entry.Detected = nil, nil },
	func(entry *v1alpha1.UnhealthyNode) { entry.Decision = nil },
}
