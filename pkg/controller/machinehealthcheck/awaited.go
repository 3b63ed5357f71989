// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/machinehealth"
)

// awaited are the control plane Machines that are being deleted, or are gone and not replaced yet, as
// the histories of the MachineHealthChecks have them (spec M13.4). The zero value is ready to use, from
// any goroutine.
type awaited struct {
	mu      sync.Mutex
	byCheck map[cache.ObjectName][]v1beta1.Remediation
	// waiting are the Machines that are gone, as of the last sync.
	waiting map[cache.ObjectName][]string
}

// awaitedEntry is an entry of the history of a MachineHealthCheck in a namespace.
type awaitedEntry struct {
	namespace string
	v1beta1.Remediation
}

// set takes over the history of a MachineHealthCheck, and which of its Machines are waited for. It
// reports whether these are others now, or the entries are. An entry that ends may have kept the slot although
// no sync saw it: its Machine went, and was replaced, while another controller led.
func (a *awaited) set(check cache.ObjectName, history []v1beta1.Remediation, waiting []string) (changed bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	before := a.byCheck[check]
	if a.byCheck == nil {
		a.byCheck, a.waiting = map[cache.ObjectName][]v1beta1.Remediation{}, map[cache.ObjectName][]string{}
	}
	delete(a.byCheck, check)
	for i := range history {
		if machinehealth.MayAwaitReplacement(&history[i]) {
			a.byCheck[check] = append(a.byCheck[check], history[i])
		}
	}
	sameMachine := func(old, entry v1beta1.Remediation) bool { return old.Machine == entry.Machine }
	changed = !slices.Equal(a.waiting[check], waiting) || !slices.EqualFunc(before, a.byCheck[check], sameMachine)
	delete(a.waiting, check)
	if len(waiting) > 0 {
		a.waiting[check] = waiting
	}
	return changed
}

// entries returns all of them.
func (a *awaited) entries() (entries []awaitedEntry) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for check, history := range a.byCheck {
		for i := range history {
			entries = append(entries, awaitedEntry{check.Namespace, history[i]})
		}
	}
	return entries
}

// concernedBy returns the MachineHealthChecks that wait for a Machine, whether or not they select it: it
// was deleted, or may be the replacement of one that was.
func (a *awaited) concernedBy(machine *machinehealth.Machine) (checks []cache.ObjectName) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for check, history := range a.byCheck {
		owner := machine.Owner()
		if check.Namespace == machine.Namespace && slices.ContainsFunc(history, func(entry v1beta1.Remediation) bool {
			return entry.Machine == machine.Name || entry.Replacement == machine.Name || (owner != nil && types.UID(entry.Owner) == owner.UID)
		}) {
			checks = append(checks, check)
		}
	}
	return checks
}

// setAwaited brings up to date which replacements the slot is kept for by a MachineHealthCheck, and wakes
// who waits for the slot. Without Machines it is not known which of them are gone.
func (c *Controller) setAwaited(check cache.ObjectName, history []v1beta1.Remediation, machines map[string]*machinehealth.Machine) {
	var waiting []string
	for i := range history {
		if _, awaits := machinehealth.AwaitsReplacement(&history[i], machines, c.joined, c.Clock.Now()); awaits && machines != nil {
			waiting = append(waiting, history[i].Machine)
		}
	}
	if c.awaited.set(check, history, waiting) && c.Active() {
		c.nodeHealthChecks.ControlPlaneChanged()
	}
}

// joined reports whether a Machine has a Node, as far as that is known.
func (c *Controller) joined(machine *machinehealth.Machine) bool {
	return machine.Node != "" && !c.missing.has(machine.Node)
}

// awaitedOccupants returns which of the entries keep the slot for a replacement. The replacement itself
// takes it, once it is known, so that it may be remediated if it fails.
func (c *Controller) awaitedOccupants(entries []awaitedEntry, machines []*machinehealth.Machine, now time.Time) (found []occupant) {
	if len(entries) == 0 {
		return nil
	}
	byNamespace := map[string]map[string]*machinehealth.Machine{}
	for _, machine := range machines {
		if byNamespace[machine.Namespace] == nil {
			byNamespace[machine.Namespace] = map[string]*machinehealth.Machine{}
		}
		byNamespace[machine.Namespace][machine.Name] = machine
	}
	for i := range entries {
		entry := &entries[i]
		until, awaits := machinehealth.AwaitsReplacement(&entry.Remediation, byNamespace[entry.namespace], c.joined, now)
		if !awaits {
			continue
		}
		name := machineName(entry.namespace, entry.Machine)
		if replacement := byNamespace[entry.namespace][entry.Replacement]; replacement != nil {
			name = slotName(replacement)
		}
		found = append(found, occupant{name: name, cause: "Machine " + entry.namespace + "/" + entry.Machine + " was deleted, and its replacement has not joined yet", until: until})
	}
	return found
}

// listAwaited returns the entries that the MachineHealthChecks have in a live list, and those that only
// this process knows: OpenShift's CRD has no history.
func (c *Controller) listAwaited(ctx context.Context) ([]awaitedEntry, error) {
	entries := c.awaited.entries()
	options := metav1.ListOptions{Limit: slotPageSize}
	for {
		page, err := c.Client.MachineV1beta1().MachineHealthChecks(metav1.NamespaceAll).List(ctx, options)
		if err != nil {
			return nil, fmt.Errorf("listing MachineHealthChecks: %w", err)
		}
		for i := range page.Items {
			check := &page.Items[i]
			for j := range check.Status.RemediationHistory {
				entries = append(entries, awaitedEntry{check.Namespace, check.Status.RemediationHistory[j]})
			}
		}
		if options.Continue = page.Continue; options.Continue == "" {
			return entries, nil
		}
	}
}
