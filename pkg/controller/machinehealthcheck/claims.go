// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/nhc-controller/nhc-controller/pkg/machinehealth"
	"github.com/nhc-controller/nhc-controller/pkg/watches"
)

// ClaimOf returns why NodeHealthChecks leave a Node alone, empty if they do not: see [machinehealth.Claim]. A
// MachineHealthCheck claims no Node if it only replaces terminating Machines, or if another controller looks
// after it (spec M15.2, 6.9). Running remediations go on (spec M4.2). While the Machines of a
// MachineHealthCheck have never been read, any Node may belong to it (spec P5).
func (c *Controller) ClaimOf(node string) string {
	var claims []string
	for _, machine := range c.machinesOf(node) {
		var names []string
		if c.Active() {
			names = c.claiming(machine)
		}
		if claim := machinehealth.Claim(machine, names, c.NodeCache.Get(node)); claim != "" {
			claims = append(claims, claim)
		}
	}
	if len(claims) == 0 {
		return c.unreadClaim()
	}
	return slices.Min(claims) // Not the next one by chance.
}

// unreadClaim returns which Machines may claim Nodes and have not been read, empty if there are none. Machines
// that are not served, or that the controller may not read, claim no Node: it can do nothing about them.
func (c *Controller) unreadClaim() string {
	if !c.Active() {
		return ""
	}
	var names []string
	for api, kind := range machineKinds {
		if _, read := c.machines.LastCache(kind); read {
			continue
		}
		if _, err := c.machines.Cache(kind); !watches.Unread(err) {
			continue
		}
		checks, _ := c.checks.List(labels.Everything()) // A cache in memory has no errors.
		for _, check := range checks {
			if criteria := c.criteriaOf(check); criteria.API == api && !criteria.OnlyTermination() {
				names = append(names, check.Namespace+"/"+check.Name)
			}
		}
	}
	if len(names) == 0 {
		return ""
	}
	return "The Machines that MachineHealthCheck " + slices.Min(names) + " looks after cannot be read yet"
}

// claiming returns the MachineHealthChecks that claim the Node of a Machine.
func (c *Controller) claiming(machine *machinehealth.Machine) (names []string) {
	for _, check := range c.selecting(machine) {
		if !c.criteriaOf(check).OnlyTermination() {
			names = append(names, keyOf(check).String())
		}
	}
	return names
}
