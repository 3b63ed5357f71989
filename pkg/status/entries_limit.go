// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// MaxEntries is the number of entries that the API accepts in a status (spec 18.6).
const MaxEntries = 5000

// maxEntriesSize is how many bytes the entries may take in the stored object. etcd
// accepts 1.5 MiB by default; with the history and the rest it stays below 1 MiB.
const maxEntriesSize = 780_000

// LimitEntries returns the entries by name, at most limit of them and no more than an
// object can hold, those with remediations first (spec 18.6). What is left out of the
// entries before a node is left out is what says the same of thousands of nodes.
func LimitEntries(all []v1alpha1.UnhealthyNode, limit int) []v1alpha1.UnhealthyNode {
	if len(all) <= limit && entriesSize(all) <= maxEntriesSize && slices.IsSortedFunc(all, ByName) {
		return all
	}
	if !slices.IsSortedFunc(all, ByName) {
		all = slices.SortedFunc(slices.Values(all), ByName)
	}
	entries := make([]v1alpha1.UnhealthyNode, 0, min(len(all), limit))
	for _, remediated := range []bool{true, false} {
		for i := range all {
			if len(entries) < limit && (len(all[i].Remediations) > 0) == remediated {
				entries = append(entries, all[i])
			}
		}
	}
	size := entriesSize(entries)
	for _, leaveOut := range dispensable {
		if size <= maxEntriesSize {
			break
		}
		for i := range entries {
			leaveOut(&entries[i])
		}
		size = entriesSize(entries)
	}
	if size > maxEntriesSize {
		entries = entries[:fitting(entries, maxEntriesSize)]
	}
	slices.SortFunc(entries, ByName)
	return entries
}

// ByName orders entries by the names of their nodes, as LimitEntries does (spec 18.4).
func ByName(a, b v1alpha1.UnhealthyNode) int { return strings.Compare(a.Name, b.Name) }

// dispensable are the parts of entries that are left out one after the other where
// there are too many of them. They do not change what is shared with other copies.
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

// fitting returns how many of the first entries fit into so many bytes.
func fitting(entries []v1alpha1.UnhealthyNode, limit int) int {
	size := 0
	for i := range entries {
		if size += entrySize(&entries[i]); size > limit {
			return i
		}
	}
	return len(entries)
}

func entriesSize(entries []v1alpha1.UnhealthyNode) int {
	size := 0
	for i := range entries {
		size += entrySize(&entries[i])
	}
	return size
}

// The lengths of the parts of an entry in JSON without their texts, with everything that may
// be there. The list is atomic, so metadata.managedFields does not name its entries.
const (
	entryFields       = len(`{"name":"","remediations":[]},`)
	healthyFields     = len(`"conditionsHealthyTimestamp":"2006-01-02T15:04:05Z","healthyDelayed":true,`)
	decisionFields    = len(`"decision":{"type":"","reason":"","message":"","since":"2006-01-02T15:04:05Z","nextCheckTime":"2006-01-02T15:04:05Z"},`)
	triggerFields     = len(`"trigger":{"type":"","status":"","reason":""},"detected":"2006-01-02T15:04:05Z",`)
	remediationFields = len(`{"resource":{"kind":"","namespace":"","name":"","uid":"","apiVersion":"","resourceVersion":"","fieldPath":""},`) +
		len(`"started":"2006-01-02T15:04:05Z","timedOut":"2006-01-02T15:04:05Z","templateName":""},`)
)

// entrySize estimates the stored size of an entry in bytes, rather too large than too small.
func entrySize(entry *v1alpha1.UnhealthyNode) int {
	size := entryFields + jsonSize(entry.Name)
	if entry.ConditionsHealthyTimestamp != nil {
		size += healthyFields
	}
	if decision := entry.Decision; decision != nil {
		size += decisionFields + jsonSize(string(decision.Type)) + jsonSize(string(decision.Reason)) + jsonSize(decision.Message)
	}
	if trigger := entry.Trigger; trigger != nil {
		size += triggerFields + jsonSize(string(trigger.Type)) + jsonSize(string(trigger.Status)) + jsonSize(trigger.Reason)
	}
	for i := range entry.Remediations {
		cr := &entry.Remediations[i]
		size += remediationFields + jsonSize(cr.TemplateName)
		for _, part := range []string{
			cr.Resource.APIVersion, cr.Resource.Kind, cr.Resource.Namespace, cr.Resource.Name, string(cr.Resource.UID), cr.Resource.ResourceVersion, cr.Resource.FieldPath,
		} {
			size += jsonSize(part)
		}
	}
	return size
}

// jsonSize returns how many bytes a text takes in JSON as the API server stores it,
// without the quotes. It escapes what HTML does, too: a single < takes six bytes.
func jsonSize(text string) int {
	const escaped = len(`\u003c`)
	size := len(text)
	for _, char := range text {
		switch {
		case char == '"' || char == '\\' || char == '\n' || char == '\r' || char == '\t' || char == '\b' || char == '\f':
			size += len(`\n`) - 1
		case char < ' ' || char == '<' || char == '>' || char == '&':
			size += escaped - 1
		case char == '\u2028' || char == '\u2029':
			size += escaped - utf8.RuneLen(char)
		case char == utf8.RuneError: // Or a byte that belongs to no character.
			size += escaped - 1
		}
	}
	return size
}
