// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"cmp"
	"context"
	"maps"
	"slices"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	coordinationinformers "k8s.io/client-go/informers/coordination/v1"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	machineinformers "github.com/nhc-controller/nhc-controller/pkg/generated/informers/externalversions/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/machinehealth"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/execute"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
	"github.com/nhc-controller/nhc-controller/pkg/watches"
)

// registerHandlers maps events to the MachineHealthChecks that they concern (spec M19).
func (c *Controller) registerHandlers(ctx context.Context) error {
	s := watches.NewSubscription(ctx)
	watches.Subscribe(s, "MachineHealthChecks", c.machineHealthChecks.TypedInformer(), c.checkChanged,
		func(deleted machineinformers.DeletedMachineHealthCheck) { c.checkDeleted(deleted.GetObjectName()) })
	watches.Subscribe(s, "Nodes", c.Nodes.TypedInformer(), c.nodeChanged, func(deleted coreinformers.DeletedNode) {
		c.nodeDeleted(deleted.GetObjectName().Name)
		c.clusterChanged(deleted.OptionalObj, nil)
	})
	watches.Subscribe(s, "Leases", c.Leases.TypedInformer(), c.leaseChanged, func(deleted coordinationinformers.DeletedLease) {
		if lease := deleted.OptionalObj; lease != nil {
			c.leaseChanged(nil, lease)
		}
	})
	s.SubscribeCRDs(c.CRDs, c.crdChanged)
	s.Synced = append(s.Synced, c.otherLeaders.HasSyncedChecker()) // checkActive looks for other leaders every second.
	c.Synced = s.Synced
	return s.Err
}

// checkChanged handles a MachineHealthCheck that was created (old is nil) or updated. It concerns
// those that may share Machines with it, too.
func (c *Controller) checkChanged(old, check *v1beta1.MachineHealthCheck) {
	if old != nil && old.UID == check.UID && old.Generation == check.Generation && maps.Equal(old.Annotations, check.Annotations) &&
		old.DeletionTimestamp.Equal(check.DeletionTimestamp) {
		own := c.Writes.IsLast(keyOf(check).String(), checkResource, check.ResourceVersion)
		if !own && !equality.Semantic.DeepEqual(old.Status, check.Status) {
			c.Enqueue(keyOf(check))
		}
		return
	}
	c.concern(check)
	c.Budgets.NodesChanged()
	c.wantMachines()
	c.wantKinds(keyOf(check))
	c.enqueueNamespace(check.Namespace)
	c.claimsChanged()
}

// concern tells which conditions of Nodes a MachineHealthCheck judges by.
func (c *Controller) concern(check *v1beta1.MachineHealthCheck) {
	types := make([]corev1.NodeConditionType, 0, len(check.Spec.UnhealthyConditions))
	for i := range check.Spec.UnhealthyConditions {
		types = append(types, check.Spec.UnhealthyConditions[i].Type)
	}
	c.Sightings.Concern(keyOf(check).String(), types)
}

func (c *Controller) checkDeleted(key cache.ObjectName) {
	c.Sightings.Concern(key.String(), nil)
	c.Budgets.NodesChanged()
	c.wantMachines()
	c.enqueueNamespace(key.Namespace)
	c.Enqueue(key)
	c.claimsChanged()
}

// claimsChanged makes the NodeHealthChecks check again which Nodes belong to MachineHealthChecks or to their
// remediations. Once the caches are filled, checkActive wakes them all.
func (c *Controller) claimsChanged() {
	if c.HasSynced() {
		c.nodeHealthChecks.SyncAll()
	}
}

// enqueueNamespace adds all MachineHealthChecks of a namespace to the queue.
func (c *Controller) enqueueNamespace(namespace string) {
	checks, _ := c.checks.MachineHealthChecks(namespace).List(labels.Everything()) // A cache in memory has no errors.
	for _, check := range checks {
		c.Enqueue(keyOf(check))
	}
}

// enqueueNamespacesOf adds MachineHealthChecks by their keys, and those that may share Machines with them.
func (c *Controller) enqueueNamespacesOf(keys []string) {
	c.Wake(keys) // Also those that are gone.
	namespaces := sets.New[string]()
	for _, key := range keys {
		if name, err := cache.ParseObjectName(key); err == nil {
			namespaces.Insert(name.Namespace)
		}
	}
	for namespace := range namespaces {
		c.enqueueNamespace(namespace)
	}
}

// selecting returns the MachineHealthChecks that select a Machine.
func (c *Controller) selecting(machine *machinehealth.Machine) []*v1beta1.MachineHealthCheck {
	checks, _ := c.checks.MachineHealthChecks(machine.Namespace).List(labels.Everything()) // A cache in memory has no errors.
	return slices.DeleteFunc(checks, func(check *v1beta1.MachineHealthCheck) bool { return !c.criteriaOf(check).Selects(machine) })
}

// enqueueSelecting adds the MachineHealthChecks that select a Machine to the queue.
func (c *Controller) enqueueSelecting(machine *machinehealth.Machine) {
	for _, check := range c.selecting(machine) {
		c.Enqueue(keyOf(check))
	}
}

// machineHandler handles Machines, and the kinds that say how they may be treated.
func (c *Controller) machineHandler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { c.machineKindChanged(nil, obj) },
		UpdateFunc: c.machineKindChanged,
		DeleteFunc: func(obj any) { c.machineKindChanged(nil, watches.LastKnown(obj)) },
	}
}

func (c *Controller) machineKindChanged(before, obj any) {
	switch current := obj.(type) {
	case *machinehealth.Machine:
		old, _ := before.(*machinehealth.Machine)
		c.machineChanged(old, current)
	case *unstructured.Unstructured:
		if watches.SameContent(before, current) {
			return
		}
		c.SyncAll()
	}
}

// machineChanged handles a Machine that was created or deleted (old is nil), or updated.
func (c *Controller) machineChanged(old, machine *machinehealth.Machine) {
	if old != nil && old.SameAs(machine) {
		return
	}
	concerned := []*machinehealth.Machine{machine}
	if old != nil {
		concerned = append(concerned, old)
	}
	for _, one := range concerned {
		c.Budgets.NodeChanged(one.SlotName())
		c.enqueueHolder(one.Node) // It keeps the lease until the remediation has ended.
		c.enqueueSelecting(one)
		c.forgetMissing(one.Node)
	}
	if old == nil || old.Node != machine.Node || old.Deleting() != machine.Deleting() {
		for _, m := range concerned {
			c.enqueueForNode(m.Node) // Others may name the same Node, under another selector (spec M5.4).
		}
	}
	for _, cr := range c.cachedCRs(machine.Namespace, machine.Name) {
		c.Enqueue(c.checksOf(cr)...) // They need not select it any more.
		c.Budgets.NodeChanged(crName(cr))
	}
	if machine.API() == v1beta1.MachineAPICluster && slices.ContainsFunc(concerned, isRemediating) {
		c.wantMachines() // It may have been the last reason to watch them.
	}
	if old == nil || old.Node != machine.Node || !maps.Equal(old.Labels, machine.Labels) ||
		old.Has(v1beta1.AnnotationExternalRemediation) != machine.Has(v1beta1.AnnotationExternalRemediation) {
		c.claimsChanged()
	}
	if c.Active() && (machine.ControlPlane() || c.NodeCache.HasControlPlane(machine.Node)) {
		c.nodeHealthChecks.ControlPlaneChanged()
	}
}

// nodeChanged handles a Node that was created (old is nil) or updated, except for heartbeats.
func (c *Controller) nodeChanged(old, node *corev1.Node) {
	c.Sightings.Observe(old, node)
	c.clusterChanged(old, node)
	if old != nil && old.UID == node.UID && health.SameConditions(old.Status.Conditions, node.Status.Conditions) &&
		old.Labels[v1alpha1.LabelExclude] == node.Labels[v1alpha1.LabelExclude] &&
		remediation.IsControlPlane(old.Labels) == remediation.IsControlPlane(node.Labels) && remediation.EtcdLabelOf(old.Labels) == remediation.EtcdLabelOf(node.Labels) &&
		remediation.Reconfiguring(old.Annotations) == remediation.Reconfiguring(node.Annotations) {
		return
	}
	if _, was := c.missing.LoadAndDelete(node.Name); was && c.Active() {
		c.nodeHealthChecks.ControlPlaneChanged() // Its Machine may have taken the slot.
	}
	c.enqueueForNode(node.Name)
}

// clusterChanged handles the annotations of a Node that tell which Machines of Cluster API belong to this cluster.
// All Machines of a Cluster begin or cease to belong here with one Node (spec M5.3). The Node is nil before it was
// created, and when it is gone.
func (c *Controller) clusterChanged(old, node *corev1.Node) {
	before, after := clusterOf(old), clusterOf(node)
	if before == after {
		return
	}
	for _, cluster := range []cache.ObjectName{before, after} {
		if others, _ := c.NodeCache.IndexKeys(nodesByCluster, cluster.String()); cluster.Name == "" || len(others) > 1 {
			continue // Other Nodes have it belong here. The index exists: nodeIndexers has it.
		}
		c.enqueueNamespace(cluster.Namespace)
		c.Budgets.NodesChanged()
		c.claimsChanged()
	}
}

func (c *Controller) nodeDeleted(name string) {
	c.Sightings.Forget(name, c.NodeCache.Get(name) != nil)
	c.enqueueForNode(name)
}

// enqueueForNode adds the MachineHealthChecks that a Machine naming a Node concerns, and the one that holds
// the lease of the Node.
func (c *Controller) enqueueForNode(name string) {
	c.enqueueHolder(name)
	for _, machine := range c.machinesOf(name) {
		c.enqueueSelecting(machine)
		for _, cr := range c.cachedCRs(machine.Namespace, machine.Name) {
			c.Enqueue(c.checksOf(cr)...) // They need not select it any more.
		}
	}
}

// enqueueHolder adds the MachineHealthCheck that holds the lease of a Node, also if it is gone.
func (c *Controller) enqueueHolder(node string) {
	if holder, held := object.MachineHealthCheckOfHolder(remediation.LeaseHolder(c.LeaseFor(node))); held {
		c.Wake([]string{holder})
	}
}

// leaseChanged handles a lease that was created or deleted (old is nil) or updated. It concerns its
// old holder, its new holder, and the checks that wait for it.
func (c *Controller) leaseChanged(old, lease *coordinationv1.Lease) {
	holder, held := object.MachineHealthCheckOfHolder(remediation.LeaseHolder(lease))
	before, heldBefore := object.MachineHealthCheckOfHolder(remediation.LeaseHolder(old))
	if held || heldBefore {
		c.wantMachines()
	}
	if held && c.Writes.IsLast(holder, execute.LeaseResource, lease.ResourceVersion) {
		return // Our own write.
	}
	if held {
		c.Wake([]string{holder})
	}
	if heldBefore && before != holder {
		c.Wake([]string{before})
	}
	if node, ok := object.NodeOfLease(lease); ok {
		c.enqueueForNode(node)
	}
}

// crdChanged handles any event of a CustomResourceDefinition.
func (c *Controller) crdChanged(name string) {
	if name == checkResource.String() {
		c.dropped.Store(false)
		c.SyncAll()
	}
	c.machines.Refresh(name)
	c.templates.Refresh(name)
}

// templateHandler handles templates of all watched kinds.
func (c *Controller) templateHandler() cache.ResourceEventHandler {
	return watches.Handler(func(old, template *object.Template) { c.enqueueNamespace(cmp.Or(template, old).Namespace) })
}

// remediationChanged handles a CR of any kind. It concerns all MachineHealthChecks of its namespace, because a CR of
// another owner may be in the way.
func (c *Controller) remediationChanged(old, current *object.CR) {
	cr := cmp.Or(current, old)
	c.countCR(cr)
	c.enqueueNamespace(cr.Namespace)
	c.Enqueue(c.checksOf(cr)...) // A MachineHealthCheck that is gone is forgotten with its last CR.
	if old != nil {
		c.Enqueue(c.checksOf(old)...) // Garbage collection removes the reference to one that is gone.
	}
}
