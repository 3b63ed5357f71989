// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/machinehealth"
	"github.com/nhc-controller/nhc-controller/pkg/slot"
	"github.com/nhc-controller/nhc-controller/pkg/watches"
)

// ListControlPlaneSlotHolders returns what ControlPlaneSlotHolders does, from live reads. The caches of a
// new leader may not show what the old one has begun, or that a Node is gone. A read without an answer is an
// error (spec P5).
func (c *Controller) ListControlPlaneSlotHolders(ctx context.Context, subject slot.Member) ([]string, error) {
	if !c.HasSynced() {
		return nil, errors.New("it is not known yet whether MachineHealthChecks are looked after")
	}
	if !c.Active() {
		return nil, nil
	}
	machines, err := c.listMachines(ctx)
	if err != nil {
		return nil, err
	}
	found, err := c.slotHolders(machines, func(node string) (bool, error) { return c.missingLive(ctx, node) })
	if err != nil {
		return nil, err
	}
	return namesOf(others(found, nil, subject)), nil
}

// listMachines returns the Machines of both APIs from a live list.
func (c *Controller) listMachines(ctx context.Context) (machines []*machinehealth.Machine, _ error) {
	for _, kind := range machineKinds {
		mapping, err := c.machines.Mapping(kind)
		if mapping == nil {
			if err == nil || meta.IsNoMatchError(err) || kind.Group == v1beta1.MachineAPICluster {
				continue // Not served, or no MachineHealthCheck wants it.
			}
			return nil, err
		}
		err = watches.ListAll(ctx, c.Dynamic, mapping.Resource, func(item *unstructured.Unstructured) {
			machines = append(machines, machinehealth.ParseMachine(item))
		})
		if err != nil {
			return nil, err
		}
	}
	return machines, nil
}

// missingLive reports whether a live read does not find a Node.
func (c *Controller) missingLive(ctx context.Context, name string) (bool, error) {
	cached := c.NodeCache.Get(name)
	_, state, err := c.liveNode(ctx, name)
	if state == machinehealth.NodeMissing {
		c.nodeMissing(name, cached)
	}
	return state == machinehealth.NodeMissing, err
}
