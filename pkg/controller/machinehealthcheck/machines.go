// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"errors"
	"fmt"
	"slices"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/machinehealth"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/kinds"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
	"github.com/nhc-controller/nhc-controller/pkg/watches"
)

// watchKinds sets up the watches of the kinds that are not always served.
func (c *Controller) watchKinds() {
	readOnly := watches.ReadOnly(c.Kube, c.Dynamic, c.CRDs, c.Freshness)
	machines := readOnly
	machines.Name, machines.Indexers = "machines", machineIndexers
	machines.Parse, machines.Handler, machines.Changed = parseMachineKind, c.machineHandler(), func([]string) { c.readabilityChanged() }
	c.machines = watches.NewSet[schema.GroupVersionKind](machines)
	c.wantMachines()

	templates := readOnly
	templates.Name = "machine-templates"
	templates.Parse = func(u *unstructured.Unstructured) runtime.Object { return object.ParseTemplate(u) }
	templates.Handler, templates.Changed = c.templateHandler(), c.enqueueNamespacesOf // A MachineHealthCheck without its template keeps no other from a Machine.
	c.templates = watches.NewSet[schema.GroupVersionKind](templates)

	c.Mapping, c.Written = c.locate, append(c.Written, c.machines, c.Remediations)
	c.Remediations.Use(kinds.User{Indexers: crIndexers, Changed: c.remediationChanged, KindsChanged: func() { c.SyncAll(); c.enqueueLeft() }})
}

// readabilityChanged is called when a kind can be read, or cannot any more.
func (c *Controller) readabilityChanged() {
	c.Budgets.NodesChanged()
	c.SyncAll()
	c.enqueueLeft()              // Whether what they hold is needed may be known now.
	c.nodeHealthChecks.SyncAll() // They may wait for a budget that counts Machines, or for the Machines themselves.
}

// machineOwner wants the kinds of Machines: the controller itself.
const machineOwner = Name

// wantMachines has the Machines of OpenShift watched. It has those of Cluster API watched if a MachineHealthCheck is
// about them, or while remediations go on: then NodeHealthChecks must still leave their Nodes alone (spec M15.2).
// Handlers of several kinds call it. Each call reads the caches, so the last one has the latest state.
func (c *Controller) wantMachines() {
	c.wantsMu.Lock()
	defer c.wantsMu.Unlock()
	wanted := sets.New(remediation.OpenShiftMachineKind, remediation.ClusterVersionKind, featureGateKind)
	checks, _ := c.checks.List(labels.Everything()) // A cache in memory has no errors.
	if slices.ContainsFunc(checks, func(check *v1beta1.MachineHealthCheck) bool {
		return check.Annotations[v1beta1.AnnotationMachineAPI] == v1beta1.MachineAPICluster
	}) || c.clusterAPIRemediating() {
		wanted.Insert(remediation.ClusterAPIMachineKind, clusterKind, clusterAPIHealthCheckKind)
	}
	c.machines.Want(machineOwner, wanted)
}

// clusterAPIRemediating reports whether a Machine of Cluster API is being remediated, or may be because a held lease
// may be for its Node. A new process knows leases before it has read Machines.
func (c *Controller) clusterAPIRemediating() bool {
	if indexer, read := c.machines.LastCache(remediation.ClusterAPIMachineKind); read {
		if slices.ContainsFunc(indexer.List(), func(obj any) bool { return isRemediating(obj.(*machinehealth.Machine)) }) {
			return true
		}
	}
	if !c.machineHealthChecks.Informer().HasSynced() {
		return false
	}
	for _, holder := range c.LeaseHolders() {
		_, exists, _ := c.Checks.Store.GetByKey(holder)
		if slices.ContainsFunc(c.LeasesOf(holder), func(lease *coordinationv1.Lease) bool { return c.mayBeOfClusterAPI(lease, !exists) }) {
			return true
		}
	}
	return false
}

// mayBeOfClusterAPI reports whether a lease may be for the Node of a Machine of Cluster API. If the Node is gone, the
// answer is unknown only for the lease of a MachineHealthCheck that is gone, too. Others know their Machines.
func (c *Controller) mayBeOfClusterAPI(lease *coordinationv1.Lease, checkGone bool) bool {
	name, ok := object.NodeOfLease(lease)
	if node := c.NodeCache.Get(name); node != nil {
		return clusterOf(node).Name != ""
	}
	return ok && checkGone
}

// isRemediating reports whether the Machine itself shows that it is being remediated.
func isRemediating(machine *machinehealth.Machine) bool {
	return machine.Deleting() || machine.Has(v1beta1.AnnotationExternalRemediation)
}

// machinesKnown reports whether all watched Machines have been read. An API that is not served has none.
func (c *Controller) machinesKnown() bool {
	return c.eachMachines(func(kind schema.GroupVersionKind) error {
		if _, read := c.machines.LastCache(kind); read {
			return nil
		}
		_, err := c.machines.Cache(kind)
		return err
	}) == nil
}

// eachMachines asks about the kinds of Machines that are watched, and returns the first error. An API that is not
// served has no Machines.
func (c *Controller) eachMachines(ask func(schema.GroupVersionKind) error) error {
	wanted := c.machines.Kinds()
	for _, kind := range machineKinds {
		if !wanted.Has(kind) {
			continue
		}
		if err := ask(kind); err != nil && !meta.IsNoMatchError(err) {
			return err
		}
	}
	return nil
}

// keptContent are the paths of the fields that decisions read, for optional kinds by kind
// and group.
var keptContent = map[schema.GroupKind][]string{
	remediation.ClusterVersionKind.GroupKind(): {"status", "conditions"},
	featureGateKind.GroupKind():                {"status", "featureGates"},
	clusterKind.GroupKind():                    {"spec", "paused"},
	clusterAPIHealthCheckKind.GroupKind():      {"status", "targets"},
}

// parseMachineKind keeps the fields of a Machine that decisions read, and the identity, annotations
// and keptContent of the other kinds.
func parseMachineKind(u *unstructured.Unstructured) runtime.Object {
	path, other := keptContent[u.GroupVersionKind().GroupKind()]
	if !other {
		return machinehealth.ParseMachine(u)
	}
	trimmed := watches.Trim(u, path...)
	if _, paused := u.GetAnnotations()[v1beta1.AnnotationPaused]; paused {
		trimmed.SetAnnotations(map[string]string{v1beta1.AnnotationPaused: ""})
	}
	return trimmed
}

// machineKinds are the kinds of Machines, by the API that they are of.
var machineKinds = map[string]schema.GroupVersionKind{
	v1beta1.MachineAPIOpenShift: remediation.OpenShiftMachineKind,
	v1beta1.MachineAPICluster:   remediation.ClusterAPIMachineKind,
}

// unavailableError says why Machines cannot be read, as a condition shows it.
type unavailableError struct {
	error
	condition *v1beta1.Condition
}

// Unwrap returns the cause.
func (e *unavailableError) Unwrap() error { return e.error }

// readable returns why the objects that decisions about the Machines of an API depend on cannot be read,
// nil if they can. A kind that is not served is no obstacle. If ClusterVersions cannot be read, the
// cluster counts as not upgrading (spec 10.2).
func (c *Controller) readable(api string) error {
	kinds := []schema.GroupVersionKind{machineKinds[api]}
	if api == v1beta1.MachineAPICluster {
		kinds = append(kinds, clusterKind, clusterAPIHealthCheckKind)
	}
	for _, kind := range kinds {
		_, err := c.machines.Cache(kind)
		unread := fmt.Errorf("reading objects of kind %s: %w", kind.GroupKind(), err)
		switch forbidden, denied := errors.AsType[*watches.ForbiddenError](err); {
		case err == nil || meta.IsNoMatchError(err):
		case errors.Is(err, watches.ErrPending):
			return unread
		case denied:
			return &unavailableError{unread, machinehealth.MachinesForbidden(forbidden.Verb, forbidden.Resource)}
		default:
			return &unavailableError{unread, machinehealth.MachinesUnreadable(kind.GroupKind(), err)}
		}
	}
	if _, err := c.machines.Cache(remediation.ClusterVersionKind); errors.Is(err, watches.ErrPending) {
		return fmt.Errorf("reading ClusterVersions: %w", err)
	}
	return nil
}

// served reports whether the Machines of an API are served, as far as that is known.
func (c *Controller) served(api string) bool {
	_, err := c.machines.Mapping(machineKinds[api])
	return !meta.IsNoMatchError(err)
}

// machinesIn returns the Machines of an API in a namespace; none if the API is not served.
func (c *Controller) machinesIn(namespace, api string) ([]*machinehealth.Machine, error) {
	indexer, err := c.machines.Cache(machineKinds[api])
	if meta.IsNoMatchError(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading Machines of %s: %w", api, err)
	}
	return watches.Indexed[*machinehealth.Machine](indexer, cache.NamespaceIndex, namespace), nil
}

// machineCaches yields the caches of Machines of both APIs, as they were read last.
func (c *Controller) machineCaches(yield func(cache.Indexer) bool) {
	for _, kind := range machineKinds {
		if indexer, read := c.machines.LastCache(kind); read && !yield(indexer) {
			return
		}
	}
}

// cachedMachine returns the Machine of either API with this name, as it was read last, nil if there is
// none.
func (c *Controller) cachedMachine(namespace, name string) *machinehealth.Machine {
	for indexer := range c.machineCaches {
		if machine := watches.Cached[*machinehealth.Machine](indexer, cache.NewObjectName(namespace, name).String()); machine != nil {
			return machine
		}
	}
	return nil
}

// machinesOf returns the Machines of this cluster that name a Node, as they were read last. The name may
// also stand for a Machine without a Node.
func (c *Controller) machinesOf(node string) (machines []*machinehealth.Machine) {
	for indexer := range c.machineCaches {
		for _, machine := range watches.Indexed[*machinehealth.Machine](indexer, machinesByNode, node) {
			if c.ofThisCluster(machine) {
				machines = append(machines, machine)
			}
		}
	}
	return machines
}

// ofThisCluster reports whether the Nodes of a Machine are here. Those of Cluster API may belong to
// another cluster (spec M5.3).
func (c *Controller) ofThisCluster(machine *machinehealth.Machine) bool {
	if machine.API() != v1beta1.MachineAPICluster {
		return true
	}
	nodes, err := c.NodeCache.IndexKeys(nodesByCluster, machine.Namespace+"/"+machine.Cluster)
	return err == nil && machine.Cluster != "" && len(nodes) > 0
}
