// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sort" //nolint:depguard // A search of package slices copies the nodes that it compares.
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/evaluation"
	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
	"github.com/nhc-controller/nhc-controller/pkg/slot"
	"github.com/nhc-controller/nhc-controller/pkg/staleness"
	"github.com/nhc-controller/nhc-controller/pkg/watches"
)

// snapshot is what one sync observes of a NodeHealthCheck, from the caches and the memory of
// the process. It holds no verdicts.
type snapshot struct {
	nhc       *v1alpha1.NodeHealthCheck
	state     *nhcState
	selector  labels.Selector
	templates evaluation.Templates
	platform  platformState
	// clockUntrusted means that nothing may begin by the clock.
	clockUntrusted bool
	// dryRun means that the process only reports, whatever the mode of the spec is.
	dryRun bool
	// stop names the RemediationBudget that stops everything, if any does.
	stop string
	// claim returns why a Node is left to the health check of its Machine, empty if it is not.
	claim func(node string) string
	// seen returns what was seen of the conditions of a Node.
	seen func(*corev1.Node) []health.Sighting
	// specProblem is the rule of admission that the stored spec breaks, if any.
	specProblem string
	// observed is the number of selected nodes.
	observed int
	// nodes are the nodes that may need a decision, by name. observeNodes says which. Until
	// evaluate completes them they lack a verdict and the constraints of all nodes.
	nodes []remediation.Node
	// objects are the Nodes behind nodes, at the same indexes; nil for a deleted one.
	objects []*corev1.Node
	// sightings are the sightings of the conditions of nodes with CRs, by name.
	sightings map[string][]health.Sighting
	// listed are their entries in status, at the same indexes; nil where there is none.
	listed []*v1alpha1.UnhealthyNode
	// gone are own CRs, as they were seen last, that no cache shows any more.
	gone []*object.CR
	// lost are the CRs whose deletion was requested and that cannot be read any more.
	lost []types.UID
	// overlaps are the numbers of nodes shared with other NodeHealthChecks, by their names.
	overlaps     map[string]int
	controlPlane slot.ControlPlane
	// budgetRevision is the revision of the RemediationBudgets that admitted the candidates. reserved are the names of
	// those that have a reservation.
	budgetRevision int64
	reserved       []string
}

// snapshot observes a NodeHealthCheck. The error is watches.ErrPending if the decision depends on something that has
// not been read yet.
func (c *Controller) snapshot(nhc *v1alpha1.NodeHealthCheck, now time.Time) (_ *snapshot, err error) {
	if err := c.Budgets.Ready(); err != nil {
		return nil, err
	}
	s := &snapshot{
		nhc: nhc, state: c.states.of(nhc), selector: selectorOf(nhc), clockUntrusted: c.ClockUntrusted(), dryRun: c.DryRun, stop: c.Budgets.Stop(), claim: c.machineHealthChecks.ClaimOf, seen: c.Sightings.Of,
		specProblem: remediation.SpecProblem(&nhc.Spec), overlaps: c.index.Overlaps(nhc.Name),
	}
	if s.platform, err = c.observePlatform(nhc, s.state); err != nil {
		return nil, err
	}
	if s.templates, err = c.observeTemplates(nhc, s.platform); err != nil {
		return nil, err
	}
	if err := c.observeNodes(s, now); err != nil {
		return nil, err
	}
	c.observeControlPlane(s)
	return s, nil
}

// errIndexBehind ends a sync if the index of nodes does not have its spec yet. The handler that
// sets it wakes the NodeHealthCheck.
var errIndexBehind = fmt.Errorf("%w: the index of nodes does not have the spec", watches.ErrPending)

// observeNodes adds the nodes that may need a decision: nodes that may not be healthy, that
// were unhealthy before, or that a user has confirmed to be healthy; nodes with CRs, also if
// they are healthy, no longer selected or gone; and nodes whose lease is held and may have to
// be released.
func (c *Controller) observeNodes(s *snapshot, now time.Time) error {
	needing, err := c.observeNeedingLook(s)
	if err != nil {
		return err
	}
	crs, err := c.findCRs(s.nhc, s.state)
	if err != nil {
		return err
	}
	c.Own(s.nhc, slices.Concat(slices.Collect(maps.Values(crs.read))...)...)
	s.gone, s.lost = crs.gone, crs.lost
	if crs.unread != nil {
		s.templates.Unread = cmp.Or(s.templates.Unread, crs.unread.Error())
	}
	nodes := c.addFurtherNodes(needing, s, crs)
	s.nodes, s.objects = make([]remediation.Node, 0, len(nodes)), make([]*corev1.Node, 0, len(nodes))
	for _, node := range nodes {
		s.nodes, s.objects = append(s.nodes, c.observeNode(s, node, crs)), append(s.objects, node.object)
	}
	if err := c.countSelected(s); err != nil {
		return err
	}
	c.observeLeases(s)
	if err := s.observeStatus(now); err != nil {
		return err
	}
	return c.findForeign(s)
}

// nodeObject is a Node by its name, nil if there is none.
type nodeObject struct {
	name   string
	object *corev1.Node
	// selected means that the selector is known to match it.
	selected bool
}

// observeNeedingLook returns the selected nodes that may not be healthy, in order of name.
func (c *Controller) observeNeedingLook(s *snapshot) ([]nodeObject, error) {
	names, known := c.index.NeedingLook(versionOf(s.nhc))
	if !known {
		return nil, errIndexBehind
	}
	needing := make([]nodeObject, 0, len(names))
	for _, name := range names {
		if node := c.NodeCache.Get(name); node != nil && s.selector.Matches(labelSet(node)) {
			needing = append(needing, nodeObject{name: name, object: node, selected: true})
		}
	}
	return needing, nil
}

// countSelected counts the selected nodes. Observed nodes count as they are in the cache, others by the
// index. The index does not know the latest changes yet.
func (c *Controller) countSelected(s *snapshot) error {
	others, known := c.index.CountOthers(versionOf(s.nhc), func(yield func(string) bool) {
		for i := range s.nodes {
			if !yield(s.nodes[i].Name) {
				return
			}
		}
	})
	if !known {
		return errIndexBehind
	}
	s.observed = others
	for i := range s.nodes {
		if s.objects[i] != nil && !s.nodes[i].Constraints.Unselected {
			s.observed++
		}
	}
	return nil
}

// observeNode returns what is known of a node.
func (c *Controller) observeNode(s *snapshot, observed nodeObject, crs *ownCRs) remediation.Node {
	name, obj := observed.name, observed.object
	node := evaluation.NewNode(name, obj, observed.selected || s.selects(obj), s.claim(name))
	node.Own, node.Unreadable, node.Incomplete = crs.read[name], crs.unreadable[name], crs.incomplete
	if obj == nil {
		return node
	}
	node.Machines = c.machinesOf(obj)
	if node.ConfirmedHealthy && len(node.Own) == 0 {
		node.OthersRemediate = c.othersRemediate(name)
	}
	return node
}

// addFurtherNodes returns these nodes and the other nodes that matter, in order of name.
func (c *Controller) addFurtherNodes(needing []nodeObject, s *snapshot, crs *ownCRs) []nodeObject {
	nodes, next := needing, 0
	add := func(name string) {
		if next < len(needing) && needing[next].name == name { // Most come in order.
			next++
			return
		}
		i, known := slices.BinarySearchFunc(needing, name, func(node nodeObject, name string) int { return strings.Compare(node.name, name) })
		if next = i; !known {
			nodes = append(nodes, nodeObject{name: name, object: c.NodeCache.Get(name)})
		}
	}
	for _, name := range crs.nodes() {
		add(name)
	}
	open := 0
	for i := range needing {
		if s.state.ledger.Episode(needing[i].name) != nil {
			open++
		}
	}
	if open < s.state.ledger.Len() { // Otherwise needing has them all, and a search for each costs more.
		for name := range s.state.ledger.Nodes() {
			add(name)
		}
	}
	for name := range s.state.releasing {
		add(name)
	}
	for _, lease := range c.LeasesOf(s.nhc.Name) {
		if name, ok := object.NodeOfLease(lease); ok {
			add(name)
		}
	}
	for i := range s.nhc.Status.UnhealthyNodes {
		add(s.nhc.Status.UnhealthyNodes[i].Name)
	}
	for _, cr := range s.gone {
		add(cr.Node())
	}
	for _, node := range watches.Indexed[*corev1.Node](c.NodeCache.Indexer, nodesConfirmedHealthy, confirmedHealthy) {
		if s.selector.Matches(labelSet(node)) {
			add(node.Name)
		}
	}
	slices.SortFunc(nodes, func(a, b nodeObject) int { return strings.Compare(a.name, b.name) })
	return slices.CompactFunc(nodes, func(a, b nodeObject) bool { return a.name == b.name })
}

// observeLeases adds the leases of the nodes.
func (c *Controller) observeLeases(s *snapshot) {
	leases := map[string]*coordinationv1.Lease{}
	for _, obj := range c.LeaseCache.List() {
		lease := obj.(*coordinationv1.Lease)
		leases[lease.Name] = lease
	}
	if len(leases) == 0 {
		return
	}
	for i := range s.nodes {
		s.nodes[i].Lease = leases[object.LeaseName(s.nodes[i].Name)]
	}
}

// errSightingsBehind ends a sync that sees a version of a Node before the handler of Nodes has recorded it. The
// handler then wakes the NodeHealthCheck.
var errSightingsBehind = fmt.Errorf("%w: the sightings do not have the version of a Node", watches.ErrPending)

// observeStatus adds what status and the process know of the nodes.
func (s *snapshot) observeStatus(now time.Time) error {
	s.observeEntries()
	s.sightings = map[string][]health.Sighting{}
	machineUnread := map[string]time.Time{}
	for i := range s.nodes {
		node := &s.nodes[i]
		node.DeletionRequested = s.state.deletionRequested
		node.ReleasingLease = s.state.releasing.Has(node.Name)
		node.Vanished = s.state.ledger.Vanished(node.Name)
		seen := s.state.healthy[node.Name]
		if node.HealthySince.IsZero() || node.HealthySince.Equal(seen.stored) { // Status may not have been written since.
			node.HealthySince = seen.since
		}
		if len(node.Own) > 0 || !node.HealthySince.IsZero() {
			s.sightings[node.Name] = s.sightingsOf(s.objects[i])
		}
		if !node.HealthySince.IsZero() {
			evidence := health.EvidenceOf(s.objects[i], s.sightings[node.Name])
			if !evidence.UpToDate() {
				return errSightingsBehind
			}
			node.HealthySince = health.HealthySince(node.HealthySince, s.nhc.Spec.UnhealthyConditions, seen.sightings, evidence, now)
		}
		if node.Machines.Unread() {
			since, known := s.state.machineUnread[node.Name]
			if !known {
				since = now
			}
			machineUnread[node.Name] = since
			node.Machines.Deadline = since.Add(v1alpha1.MachineReadTimeout)
		}
	}
	s.state.machineUnread = machineUnread
	return nil
}

// observeEntries adds the entries that status has for the nodes. In a sync, it has none for
// other nodes.
func (s *snapshot) observeEntries() {
	s.listed = make([]*v1alpha1.UnhealthyNode, len(s.nodes))
	old := staleness.Newer(s.state.written, s.nhc.ResourceVersion)
	next := 0
	for i := range s.nhc.Status.UnhealthyNodes {
		entry := &s.nhc.Status.UnhealthyNodes[i]
		j, found := next, next < len(s.nodes) && s.nodes[next].Name == entry.Name // Most come in order.
		if !found {
			j, found = s.index(entry.Name)
		}
		if !found {
			continue
		}
		next = j + 1
		s.listed[j], s.nodes[j].Recorded = entry, entry.Remediations
		if healthy := entry.ConditionsHealthyTimestamp; healthy != nil && !old {
			s.nodes[j].HealthySince = healthy.Time
		}
	}
}

// storedHealthy returns since when a node is healthy by status, zero if it does not say.
func (s *snapshot) storedHealthy(i int) time.Time {
	if entry := s.listed[i]; entry != nil && entry.ConditionsHealthyTimestamp != nil {
		return entry.ConditionsHealthyTimestamp.Time
	}
	return time.Time{}
}

// node returns a node by name, nil if the snapshot has none.
func (s *snapshot) node(name string) *remediation.Node {
	if i, found := s.index(name); found {
		return &s.nodes[i]
	}
	return nil
}

func (s *snapshot) index(name string) (i int, found bool) {
	return sort.Find(len(s.nodes), func(i int) int { return strings.Compare(name, s.nodes[i].Name) })
}
