// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"cmp"
	"slices"
	"strings"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// maxUnhealthyNodes is the number of entries that the API accepts.
const maxUnhealthyNodes = 5000

// limitEntries sorts the entries by name and keeps at most limit of them, and no
// more than an object can hold, those with remediations first (spec 18.6).
func limitEntries(entries []v1alpha1.UnhealthyNode, limit int) []v1alpha1.UnhealthyNode {
	byName := func(a, b v1alpha1.UnhealthyNode) int { return strings.Compare(a.Name, b.Name) }
	if len(entries) > limit || entriesSize(entries) > maxEntriesSize {
		slices.SortFunc(entries, func(a, b v1alpha1.UnhealthyNode) int {
			return cmp.Or(min(len(b.Remediations), 1)-min(len(a.Remediations), 1), byName(a, b))
		})
		entries = entries[:min(len(entries), limit)]
		size := 0
		for i := range entries {
			if size += entrySize(&entries[i]); size > maxEntriesSize {
				entries = entries[:i]
				break
			}
		}
	}
	slices.SortFunc(entries, byName)
	return entries
}

// maxEntriesSize is how many bytes the entries may take in the stored object, of the
// 1.5 MiB that etcd accepts by default.
const maxEntriesSize = 1_200_000

func entriesSize(entries []v1alpha1.UnhealthyNode) int {
	size := 0
	for i := range entries {
		size += entrySize(&entries[i])
	}
	return size
}

// entrySize returns about how many bytes an entry takes, rather too many than too
// few: its JSON, and its part of the managed fields, which repeat the name.
func entrySize(entry *v1alpha1.UnhealthyNode) int {
	const fields, timestamps, remediationFields = 120, 80, 210
	size := fields + 2*len(entry.Name)
	if entry.ConditionsHealthyTimestamp != nil {
		size += timestamps
	}
	for i := range entry.Remediations {
		cr := &entry.Remediations[i]
		size += remediationFields + len(cr.TemplateName) +
			len(cr.Resource.APIVersion) + len(cr.Resource.Kind) + len(cr.Resource.Namespace) + len(cr.Resource.Name) + len(cr.Resource.UID)
	}
	return size
}
