// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealth

import (
	"cmp"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
)

// maxRemediationAge is how long an entry of the history waits for a replacement (spec M16.2).
const maxRemediationAge = 24 * time.Hour

// maxAhead is how far our clock may be ahead of that of the API server. A deleted Machine may be gone before the
// caches have shown the deletionTimestamp (spec M16.2).
const maxAhead = 30 * time.Second

// History has the remediations of a MachineHealthCheck, and the results of a sync. It drops
// entries that end before they have started, so that waiting Machines evict no remediation.
type History struct {
	// Before are the entries so far.
	Before []v1beta1.Remediation
	// Results are those of the sync. Entries are its decisions.
	Results []TargetResult
	Entries Entries
	// Machines are all Machines of the API in the namespace.
	Machines Machines
	// Known reports whether a Machine existed at the last sync of this process. A Machine that existed before
	// is no replacement, although times with whole seconds may not tell. First means that there was no such
	// sync.
	Known func(name string) bool
	First bool
	// Unsure are the Machines whose deletion may have been requested: the answer was lost.
	Unsure sets.Set[string]
	// Healthy reports whether a Machine is a target that is healthy.
	Healthy func(name string) bool
	// NodeExists reports whether a Node does.
	NodeExists func(name string) bool
	Now        time.Time
}

// Update returns the present entries, newest first, also those without room in status. It also returns the
// next instant at which time alone changes an entry.
func (h *History) Update() (entries []v1beta1.Remediation, recheck time.Time) {
	entries = make([]v1beta1.Remediation, 0, len(h.Before))
	results := h.resultsOfOpen()
	open := map[string]bool{}
	for i := range h.Before {
		entry := *h.Before[i].DeepCopy()
		if ended(&entry) {
			h.fenceDeleted(&entry) // The replacement may be healthy before the Machine is gone.
		} else {
			result, observed := results[entry.Machine]
			h.observe(&entry, result, observed)
			if entry.Started == nil && (!observed || !unhealthy(result)) {
				continue
			}
			open[entry.Machine] = open[entry.Machine] || !ended(&entry)
		}
		entries = append(entries, entry)
	}
	for _, result := range h.Results {
		if name := result.Plan.Target.Machine.Name; unhealthy(result) && !open[name] {
			entry := h.detect(result)
			h.observe(&entry, result, true)
			entries = append(entries, entry)
		}
	}
	h.pairReplacements(entries)
	for i := range entries {
		if entry := &entries[i]; !ended(entry) && entry.Started != nil {
			if result, observed := results[entry.Machine]; observed && h.running(entry, result) {
				continue
			}
			end := entry.Started.Add(maxRemediationAge)
			if h.Now.Before(end) {
				recheck = health.Earliest(recheck, end)
				continue
			}
			entry.Closed = new(whole(h.Now))
		}
	}
	return h.remembered(entries), recheck
}

// resultsOfOpen returns the results for Machines with an open entry, by Machine. These are few among
// thousands of Machines.
func (h *History) resultsOfOpen() map[string]TargetResult {
	open, results := map[string]bool{}, map[string]TargetResult{}
	for i := range h.Before {
		if !ended(&h.Before[i]) {
			open[h.Before[i].Machine] = true
		}
	}
	if len(open) == 0 {
		return results
	}
	for _, result := range h.Results {
		if name := result.Plan.Target.Machine.Name; open[name] {
			results[name] = result
		}
	}
	return results
}

// running reports whether an external remediation goes on. Its entry does not end by age: otherwise the
// next sync would begin another entry with the same start.
func (h *History) running(entry *v1beta1.Remediation, result TargetResult) bool {
	return entry.RemediationType == v1beta1.RemediationExternal && (unhealthy(result) || result.Plan.Target.Remediated())
}

// ended reports whether only the end of its Machine can still change an entry.
func ended(entry *v1beta1.Remediation) bool { return entry.Finished != nil || entry.Closed != nil }

func unhealthy(result TargetResult) bool {
	t := result.Plan.Target
	return t.Verdict.State == Unhealthy && !t.Unselected && !t.deleting()
}

// detect returns a new entry.
func (h *History) detect(result TargetResult) v1beta1.Remediation {
	t := result.Plan.Target
	entry := v1beta1.Remediation{TargetKind: "Machine", TargetName: t.Machine.Name, Machine: t.Machine.Name, Node: t.Machine.Node, Detected: whole(h.Now)}
	if t.Verdict.Trigger == v1beta1.TriggerUnhealthyCondition {
		entry.TargetKind, entry.TargetName = "Node", t.Machine.Node
		entry.ConditionType, entry.ConditionStatus = t.Verdict.Type, t.Verdict.Status
	} else {
		entry.Reason = t.Verdict.Trigger
	}
	if recorded := h.Entries[t.Machine.Name]; recorded != nil && recorded.Detected != nil {
		entry.Detected = *recorded.Detected
	}
	return entry
}

// observe adds to an open entry the facts that its Machine shows.
func (h *History) observe(entry *v1beta1.Remediation, result TargetResult, observed bool) {
	machine := h.Machines.Named(entry.Machine)
	if machine != nil {
		entry.Node = cmp.Or(machine.Node, entry.Node)
	}
	switch deletion := entry.RemediationType == v1beta1.RemediationMachineDeletion; {
	case entry.Started == nil && observed:
		h.start(entry, result)
	case !deletion || machine == nil || entry.Fenced != nil:
	case machine.Deleting():
		begin(entry, machine.DeletionTimestamp.Time) // Until then, only our own clock said when.
	case !h.Unsure.Has(machine.Name) && (!observed || !result.Outcome.Begun() && !result.Plan.Target.deleting()):
		entry.Started, entry.RemediationType, entry.Owner = nil, "", "" // It was announced, and not requested.
	}
	if entry.Started == nil {
		return
	}
	h.fence(entry, result, observed)
	switch {
	case entry.RemediationType == v1beta1.RemediationMachineDeletion:
	case observed && result.Outcome.Begun() && result.Plan.Type == v1beta1.RemediationMachineDeletion:
		entry.Closed = new(whole(h.Now)) // It has failed meanwhile, and is deleted: that is another remediation.
	case !observed && machine == nil:
		entry.Closed = new(whole(h.Now)) // The Machine is gone: something else has replaced it.
	case observed && result.Plan.Target.Verdict.State == Healthy:
		entry.Finished = new(whole(h.Now))
	}
}

// start notes that the remediation has begun, by this sync or by a sync whose report was lost.
func (h *History) start(entry *v1beta1.Remediation, result TargetResult) {
	t := result.Plan.Target
	begin := func(at time.Time, kind v1beta1.RemediationType) {
		begin(entry, at)
		entry.RemediationType = kind
		if owner := t.Machine.Owner(); owner != nil && kind == v1beta1.RemediationMachineDeletion {
			entry.Owner = string(owner.UID)
		}
	}
	switch {
	case result.Outcome.Begun(), h.Unsure.Has(entry.Machine):
		begin(h.Now, result.Plan.Type)
	case t.Machine.Deleting(): // By others: that is no remediation (spec M16.2).
	case t.deleting():
		begin(h.Now, v1beta1.RemediationMachineDeletion)
	case len(t.Own) > 0:
		begin(t.Own[0].CreationTimestamp.Time, v1beta1.RemediationExternal)
	case t.externallyRemediated():
		begin(h.Now, v1beta1.RemediationExternal)
	}
}

// begin notes when a remediation began. Its detection is not later, also if our own clock says so.
func begin(entry *v1beta1.Remediation, at time.Time) {
	started := whole(at)
	if entry.Started = &started; started.Before(&entry.Detected) {
		entry.Detected = started
	}
}

// fence notes the first sign that the Node is down for certain.
func (h *History) fence(entry *v1beta1.Remediation, result TargetResult, observed bool) {
	if entry.Fenced != nil {
		return
	}
	if h.fenceDeleted(entry); !observed || entry.RemediationType == v1beta1.RemediationMachineDeletion {
		return
	}
	t := result.Plan.Target
	for _, cr := range t.Own {
		if at, fenced := cr.FencedAt(h.Now); fenced {
			entry.Fenced = new(whole(at))
			return
		}
	}
	// A Node that was missing from the beginning is no sign that the remediation has fenced it.
	nodeGone := t.Machine.Node != "" && entry.Reason != v1beta1.TriggerNodeMissing && !h.NodeExists(t.Machine.Node)
	if t.Machine.Has(v1beta1.AnnotationPoweredOff) || nodeGone {
		entry.Fenced = new(whole(h.Now))
	}
}

// fenceDeleted notes that a Machine that was deleted is gone.
func (h *History) fenceDeleted(entry *v1beta1.Remediation) {
	if entry.Fenced == nil && entry.RemediationType == v1beta1.RemediationMachineDeletion && h.Machines.Named(entry.Machine) == nil {
		entry.Fenced = new(whole(h.Now))
	}
}

// pairReplacements finds the replacements of deleted Machines, the oldest entry first. It ends entries
// that have nothing to wait for any more.
func (h *History) pairReplacements(entries []v1beta1.Remediation) {
	named, deleted := map[string]bool{}, map[string]bool{}
	var waiting []*v1beta1.Remediation
	for i := range entries {
		entry := &entries[i]
		named[entry.Replacement] = true
		if entry.Started == nil || entry.RemediationType != v1beta1.RemediationMachineDeletion {
			continue
		}
		if deleted[entry.Machine] = true; !ended(entry) {
			waiting = append(waiting, entry)
		}
	}
	slices.SortStableFunc(waiting, func(a, b *v1beta1.Remediation) int { return a.Started.Compare(b.Started.Time) })
	candidates := h.candidates(waiting)
	for _, entry := range waiting {
		if entry.Replacement == "" {
			entry.Replacement = h.replacementOf(entry, candidates[types.UID(entry.Owner)], named)
			named[entry.Replacement] = true
		}
		if entry.Replacement == "" {
			continue
		}
		switch {
		case h.Machines.Named(entry.Replacement) == nil, deleted[entry.Replacement]:
			entry.Closed = new(whole(h.Now))
		case h.Healthy(entry.Replacement):
			entry.Finished = new(whole(h.Now))
		}
	}
}

// candidates returns the Machines of owners for which entries wait for a replacement, by owner, the
// oldest first.
func (h *History) candidates(waiting []*v1beta1.Remediation) map[types.UID][]*Machine {
	owned := map[types.UID][]*Machine{}
	for _, entry := range waiting {
		if entry.Replacement == "" {
			owned[types.UID(entry.Owner)] = nil
		}
	}
	if len(owned) == 0 {
		return nil
	}
	for _, machine := range h.Machines {
		owner := machine.Owner()
		if owner == nil {
			continue
		}
		if machines, wanted := owned[owner.UID]; wanted {
			owned[owner.UID] = append(machines, machine)
		}
	}
	for _, machines := range owned {
		slices.SortFunc(machines, func(a, b *Machine) int {
			return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
		})
	}
	return owned
}

// replacementOf returns the first Machine of the owner that was created since the entry started and
// is no replacement of another one.
func (h *History) replacementOf(entry *v1beta1.Remediation, machines []*Machine, named map[string]bool) string {
	for _, machine := range machines {
		since := machine.CreationTimestamp.Sub(entry.Started.Time)
		appeared := !h.Known(machine.Name) && (since == 0 || !h.First && since > -maxAhead)
		if (since > 0 || appeared) && !named[machine.Name] && machine.Name != entry.Machine {
			return machine.Name
		}
	}
	return ""
}

// Listed returns the entries that status has room for, newest first. Of the ended ones it keeps the latest.
// Of the open ones it keeps those that have started, so that waiting Machines evict no remediation.
func Listed(entries []v1beta1.Remediation) []v1beta1.Remediation {
	return limited(entries, func(*v1beta1.Remediation) bool { return false })
}

// remembered returns the entries that the process keeps: those that status lists, all running remediations, and
// all deletions of Machines that still exist.
func (h *History) remembered(entries []v1beta1.Remediation) []v1beta1.Remediation {
	return limited(entries, func(entry *v1beta1.Remediation) bool {
		if !ended(entry) {
			return entry.Started != nil
		}
		return entry.RemediationType == v1beta1.RemediationMachineDeletion && h.Machines.Named(entry.Machine) != nil
	})
}

// limited returns the entries that status has room for, and those to keep, newest first.
func limited(entries []v1beta1.Remediation, keep func(*v1beta1.Remediation) bool) (kept []v1beta1.Remediation) {
	open, closed := byEnd(entries)
	add := func(list []v1beta1.Remediation, room int) {
		for i := range list {
			if i < room || keep(&list[i]) {
				kept = append(kept, list[i])
			}
		}
	}
	add(open, v1beta1.MaxOpenRemediations)
	add(closed, v1beta1.MaxClosedRemediations)
	slices.SortStableFunc(kept, newestFirst)
	return kept
}

// byEnd returns the open entries, started ones first, and the ended entries, the latest end first.
func byEnd(entries []v1beta1.Remediation) (open, closed []v1beta1.Remediation) {
	for i := range entries {
		if ended(&entries[i]) {
			closed = append(closed, entries[i])
		} else {
			open = append(open, entries[i])
		}
	}
	slices.SortStableFunc(open, func(a, b v1beta1.Remediation) int {
		return cmp.Or(cmp.Compare(waits(&a), waits(&b)), newestFirst(a, b))
	})
	slices.SortStableFunc(closed, func(a, b v1beta1.Remediation) int {
		return cmp.Or(endOf(&b).Compare(endOf(&a).Time), newestFirst(a, b))
	})
	return open, closed
}

func newestFirst(a, b v1beta1.Remediation) int {
	return cmp.Or(b.Detected.Compare(a.Detected.Time), cmp.Compare(a.Machine, b.Machine))
}

// waits is 1 for an entry that has not started, else 0.
func waits(entry *v1beta1.Remediation) int {
	if entry.Started == nil {
		return 1
	}
	return 0
}

func endOf(entry *v1beta1.Remediation) metav1.Time {
	if entry.Finished != nil {
		return *entry.Finished
	}
	return *entry.Closed
}
