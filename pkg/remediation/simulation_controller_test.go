// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
)

// process is all that is lost when the controller stops: its caches, what it remembers
// between syncs, and its timers. What it does is what package controller does, which
// cannot be imported here.
type process struct {
	world               *world
	nodes, leases, nhcs *informer
	remediations        map[string]*informer
	// written is the newest version that a sync wrote, by NodeHealthCheck and table.
	written map[string]map[*table]int
	// requested holds the CRs whose deletion was requested, by NodeHealthCheck.
	requested map[string]map[types.UID]bool
	retries   map[retryID]*retry
	place     placeHolder
	// wake is when time alone starts the next sync, and dirty who is to be synced now.
	wake  map[string]time.Time
	dirty map[string]bool
	// busy are the syncs under way.
	busy map[string]bool
}

type retryID struct {
	nhc, node string
	state     health.State
	deleted   bool
}

type retry struct {
	failures int
	due      time.Time
}

type placeHolder struct {
	nhc, node string
	table     *table
	version   int
	until     time.Time
}

// informer is a cache of one table that has got as far as position.
type informer struct {
	table             *table
	position, version int
	// listed is what had happened when the process started.
	listed int
	items  map[string]*item
}

func newInformer(t *table, position int) *informer {
	i := &informer{table: t, listed: len(t.changes), items: map[string]*item{}}
	i.advance(position)
	return i
}

// advance takes in up to n more changes, and tells whether there were any.
func (i *informer) advance(n int) bool {
	end := min(i.position+n, len(i.table.changes))
	for _, change := range i.table.changes[i.position:end] {
		if change.item == nil {
			delete(i.items, change.key)
		} else {
			i.items[change.key] = change.item
		}
		i.version = change.version
	}
	changed := end > i.position
	i.position = end
	return changed
}

func (i *informer) current() bool { return i.position == len(i.table.changes) }

// boot starts the process. What its first lists return may be a little old.
func (w *world) boot(age int) {
	list := func(t *table) *informer { return newInformer(t, max(0, len(t.changes)-age)) }
	p := &process{
		world: w,
		nodes: list(w.nodes), leases: list(w.leases), nhcs: newInformer(w.nhcs, len(w.nhcs.changes)), remediations: map[string]*informer{},
		written: map[string]map[*table]int{}, requested: map[string]map[types.UID]bool{}, retries: map[retryID]*retry{},
		wake: map[string]time.Time{}, dirty: map[string]bool{}, busy: map[string]bool{},
	}
	for kind, t := range w.remediations {
		p.remediations[kind] = list(t)
	}
	w.process = p
	p.soil()
}

// soil makes everybody look again.
func (p *process) soil() {
	for name := range p.nhcs.items {
		p.dirty[name] = true
	}
}

func (p *process) informers() []*informer {
	all := []*informer{p.nodes, p.leases, p.nhcs}
	for _, kind := range sorted(p.remediations) {
		all = append(all, p.remediations[kind])
	}
	return all
}

// catchUp takes in all that has happened.
func (p *process) catchUp() {
	for _, i := range p.informers() {
		if i.advance(len(i.table.changes)) {
			p.soil()
		}
	}
}

func (p *process) current() bool {
	return !slices.ContainsFunc(p.informers(), func(i *informer) bool { return !i.current() })
}

// behind tells whether a cache does not show yet what a sync of nhc has written.
func (p *process) behind(nhc string) bool {
	for _, i := range p.informers() {
		if p.written[nhc][i.table] > i.version {
			return true
		}
	}
	delete(p.written, nhc)
	return false
}

func (p *process) wrote(nhc string, t *table, version string) {
	if p.written[nhc] == nil {
		p.written[nhc] = map[*table]int{}
	}
	number, _ := strconv.Atoi(version)
	p.written[nhc][t] = max(p.written[nhc][t], number)
}

// view is what a sync looks at: the caches, or the world itself.
type view struct {
	nodes, leases, nhcs map[string]*item
	remediations        map[string]map[string]*item
}

func (p *process) cached() *view {
	v := &view{nodes: p.nodes.items, leases: p.leases.items, nhcs: p.nhcs.items, remediations: map[string]map[string]*item{}}
	for kind, i := range p.remediations {
		v.remediations[kind] = i.items
	}
	return v
}

func (w *world) truth() *view {
	v := &view{nodes: w.nodes.live, leases: w.leases.live, nhcs: w.nhcs.live, remediations: map[string]map[string]*item{}}
	for kind, t := range w.remediations {
		v.remediations[kind] = t.live
	}
	return v
}

// sight is what one sync observed.
type sight struct {
	nhc    *v1alpha1.NodeHealthCheck
	now    time.Time
	script *Script
	gate   health.Gate
	fleet  health.Fleet
	nodes  []Node
	// objects are the Nodes behind nodes.
	objects map[string]*corev1.Node
	leaving time.Time
	// moves are those of the world when the caches were up to date; -1 if they were not.
	moves int
	// version is that of the world at that time.
	version int
	// aged means that some cache is older than the process.
	aged bool
}

func selects(nhc *v1alpha1.NodeHealthCheck, node *corev1.Node) bool {
	selector, err := metav1.LabelSelectorAsSelector(&nhc.Spec.Selector)
	return err == nil && selector.Matches(labels.Set(node.Labels))
}

// observe builds the nodes from a view as controller.observe does.
func (p *process) observe(v *view, nhc *v1alpha1.NodeHealthCheck, now time.Time) *sight {
	w := p.world
	s := &sight{nhc: nhc, now: now, objects: map[string]*corev1.Node{}, moves: -1, version: w.version, script: &Script{NHC: nhc, Steps: Steps(&nhc.Spec)}}
	restraints := Circumstances{
		InvalidSpec: SpecProblem(&nhc.Spec) != "",
		Terminating: nhc.DeletionTimestamp != nil,
		Paused:      len(nhc.Spec.PauseRequests) > 0,
	}
	kinds := map[string]bool{}
	for _, step := range s.script.Steps {
		template := w.templates[step.Reference.Name]
		kind, _ := step.RemediationKind()
		kinds[kind.Kind] = true
		if w.brokenTemplates[step.Reference.Name] {
			template = nil
		}
		if template == nil || w.unreadable[kind.Kind] {
			restraints.TemplatesUnusable = true
		}
		s.script.Templates = append(s.script.Templates, template)
	}

	own, unreadable := map[string][]*CR{}, map[string][]v1alpha1.Remediation{}
	for i := range nhc.Status.UnhealthyNodes {
		entry := &nhc.Status.UnhealthyNodes[i]
		for _, recorded := range entry.Remediations {
			kinds[recorded.Resource.Kind] = true
			if w.unreadable[recorded.Resource.Kind] {
				unreadable[entry.Name] = append(unreadable[entry.Name], recorded)
			}
		}
	}
	requested := map[types.UID]bool{}
	for _, kind := range sorted(kinds) {
		if w.unreadable[kind] {
			continue
		}
		for _, key := range sorted(v.remediations[kind]) {
			if cr := v.remediations[kind][key].cr; cr.OwnedBy(nhc.Name) {
				own[cr.Node()] = append(own[cr.Node()], cr)
				if p.requested[nhc.Name][cr.UID] {
					requested[cr.UID] = true
				}
			}
		}
	}
	p.requested[nhc.Name] = requested
	for _, crs := range own {
		Sort(s.script.Steps, crs)
	}
	remediated := func(node string) bool { return len(own[node]) > 0 || len(unreadable[node]) > 0 }
	judge := func(node *corev1.Node) health.Verdict {
		return health.Judge(nhc.Spec.UnhealthyConditions, node.Status.Conditions, now)
	}

	var selected []*corev1.Node
	names := map[string]bool{}
	for _, name := range sorted(v.nodes) {
		node := v.nodes[name].node
		if !selects(nhc, node) {
			continue
		}
		selected = append(selected, node)
		names[name] = judge(node).State != health.Healthy || hasConfirmation(node)
	}
	s.fleet = health.Evaluate(judge, selected, remediated)
	s.gate = health.EvaluateGate(nhc.Spec.MinHealthy, nhc.Spec.MaxUnhealthy, s.fleet.Observed, s.fleet.Healthy)
	restraints.GateClosed = !s.gate.Open

	for _, name := range sorted(v.leases) {
		if lease := v.leases[name].lease; leaseHolder(lease) == LeaseHolder(nhc.Name) {
			if node, ok := NodeOfLease(lease); ok {
				names[node] = true
			}
		}
	}
	recorded := map[string]*v1alpha1.UnhealthyNode{}
	for i := range nhc.Status.UnhealthyNodes {
		recorded[nhc.Status.UnhealthyNodes[i].Name] = &nhc.Status.UnhealthyNodes[i]
		names[nhc.Status.UnhealthyNodes[i].Name] = true
	}
	for name := range own {
		names[name] = true
	}
	for _, name := range sorted(names) {
		if !names[name] {
			continue
		}
		node := Node{Name: name, Circumstances: restraints, Own: own[name], Unreadable: unreadable[name], DeletionRequested: requested}
		if i := v.nodes[name]; i != nil {
			s.objects[name] = i.node
			node.UID, node.Verdict = i.node.UID, judge(i.node)
			node.ControlPlane = controlPlane(i.node)
			node.ConfirmedHealthy = hasConfirmation(i.node)
			node.Circumstances.Excluded = i.node.Labels[v1alpha1.LabelExclude] == "true"
			node.Circumstances.Unselected = !selects(nhc, i.node)
			if node.Circumstances.Unselected && node.Verdict.State == health.SoonUnhealthy && remediated(name) {
				s.leaving = health.Earliest(s.leaving, node.Verdict.Deadline)
			}
		} else {
			node.Circumstances.NodeDeleted = true
		}
		if !restraints.TemplatesUnusable && node.Verdict.State == health.Unhealthy {
			node.Foreign = foreignCRs(v, s.script, nhc.Name, name)
		}
		if retry := p.retries[retryOf(nhc.Name, &node)]; retry != nil {
			node.RetryAt = retry.due
		}
		if i := v.leases[LeaseName(name)]; i != nil {
			node.Lease = i.lease
		}
		if entry := recorded[name]; entry != nil {
			node.Recorded = entry.Remediations
			if entry.ConditionsHealthyTimestamp != nil {
				node.HealthySince = entry.ConditionsHealthyTimestamp.Time
			}
		}
		node.OthersRemediate = len(node.Own) == 0 && anyCR(v, name)
		s.nodes = append(s.nodes, node)
	}
	return s
}

func foreignCRs(v *view, script *Script, nhc, node string) []*CR {
	var foreign []*CR
	for i, step := range script.Steps {
		kind, _ := step.RemediationKind()
		for _, key := range sorted(v.remediations[kind.Kind]) {
			cr := v.remediations[kind.Kind][key].cr
			needed := cr.Namespace == script.Templates[i].Namespace && cr.Name == Name(node, script.Templates[i])
			if (needed || cr.Node() == node) && (!cr.OwnedBy(nhc) || cr.Node() != node) {
				foreign = append(foreign, cr)
			}
		}
	}
	return foreign
}

// anyCR tells whether some NodeHealthCheck has a CR for the node, of a kind that is
// watched.
func anyCR(v *view, node string) bool {
	watched := map[string]bool{}
	for _, i := range v.nhcs {
		for _, step := range Steps(&i.nhc.Spec) {
			watched[strings.TrimSuffix(step.Reference.Kind, "Template")] = true
		}
		for _, entry := range i.nhc.Status.UnhealthyNodes {
			for _, recorded := range entry.Remediations {
				watched[recorded.Resource.Kind] = true
			}
		}
	}
	for kind := range watched {
		for _, i := range v.remediations[kind] {
			if i.cr.Node() == node && len(i.cr.Owners()) > 0 {
				return true
			}
		}
	}
	return false
}

func controlPlane(node *corev1.Node) bool {
	_, yes := node.Labels["node-role.kubernetes.io/control-plane"]
	return yes
}

func retryOf(nhc string, node *Node) retryID {
	return retryID{nhc: nhc, node: node.Name, state: node.Verdict.State, deleted: node.Circumstances.NodeDeleted}
}

// takePlace is controller.takePlace: the first node by name that may begin gets the
// place.
func (p *process) takePlace(v *view, s *sight, reserve bool) {
	for i := range s.nodes {
		node := &s.nodes[i]
		if !node.ControlPlane || node.Verdict.State != health.Unhealthy || len(node.Own) > 0 || node.Circumstances.Refusal() != "" {
			continue
		}
		holder := &p.place
		if holder.table != nil && !slices.ContainsFunc(p.informers(), func(i *informer) bool { return i.table == holder.table && i.version < holder.version }) {
			*holder = placeHolder{}
		}
		if !holder.until.IsZero() && !s.now.Before(holder.until) {
			*holder = placeHolder{}
		}
		node.PlaceTaken = (holder.node != "" && holder.node != node.Name) || p.placeTaken(v, node.Name)
		if reserve && !node.PlaceTaken && holder.node == "" && begins(s.script.Plan(*node, s.now)) {
			*holder = placeHolder{nhc: s.nhc.Name, node: node.Name}
		}
	}
}

func (p *process) placeTaken(v *view, node string) bool {
	for _, kind := range sorted(v.remediations) {
		if p.world.unreadable[kind] {
			for _, nhc := range v.nhcs {
				for _, entry := range nhc.nhc.Status.UnhealthyNodes {
					other := v.nodes[entry.Name]
					if entry.Name != node && other != nil && controlPlane(other.node) && slices.ContainsFunc(entry.Remediations, func(r v1alpha1.Remediation) bool { return r.Resource.Kind == kind }) {
						return true
					}
				}
			}
			continue
		}
		for _, i := range v.remediations[kind] {
			other := v.nodes[i.cr.Node()]
			_, labelled := i.cr.Labels[v1alpha1.LabelControlPlane]
			if i.cr.Node() != node && (labelled || (other != nil && controlPlane(other.node))) && (other != nil || !i.cr.Deleting()) {
				return true
			}
		}
	}
	return false
}

// settlePlace is controller.settlePlace.
func (p *process) settlePlace(s *sight, plans []NodePlan, outcomes []Outcome) {
	holder := &p.place
	if holder.nhc != s.nhc.Name || holder.node == "" {
		return
	}
	for i := range plans {
		if plans[i].Node.Name != holder.node {
			continue
		}
		if created := outcomes[i].Created; created != nil {
			holder.table = p.world.remediations[created.Kind]
			holder.version, _ = strconv.Atoi(created.ResourceVersion)
			holder.until = time.Time{}
			return
		}
		if outcomes[i].Err != nil && holder.table == nil {
			holder.until = s.now.Add(time.Minute)
			return
		}
	}
	if holder.table == nil && holder.until.IsZero() {
		*holder = placeHolder{}
		p.soil()
	}
}

// doing is the plan that is being carried out, and what it was made from.
type doing struct {
	sight *sight
	plan  *NodePlan
}

// sync is one sync of a NodeHealthCheck. It returns false if the process died in it.
func (p *process) sync(name string) (alive bool) {
	w := p.world
	outer := w.doing
	defer func() {
		w.doing = outer
		switch r := recover().(type) {
		case nil:
		case crash:
			alive = false
			if outer != nil {
				panic(r) // All of the process dies.
			}
			w.boot(w.random.IntN(3))
		default:
			panic(r)
		}
	}()
	if p.busy[name] {
		return true
	}
	if p.behind(name) {
		p.dirty[name] = true
		return true
	}
	p.busy[name] = true
	defer delete(p.busy, name)
	delete(p.dirty, name)
	delete(p.wake, name)

	nhc, v := p.nhcs.items[name].nhc, p.cached()
	s := p.observe(v, nhc, w.now)
	if p.current() {
		s.moves = w.moves
	}
	s.aged = slices.ContainsFunc(p.informers(), func(i *informer) bool { return i.position < i.listed })
	p.takePlace(v, s, true)
	plans := make([]NodePlan, 0, len(s.nodes))
	for _, node := range s.nodes {
		plan := s.script.Plan(node, s.now)
		w.logPlan(name, &plan)
		w.checkPlan(s, &plan)
		plans = append(plans, plan)
	}
	outcomes := p.act(s, plans)
	p.settlePlace(s, plans, outcomes)
	p.remember(s, plans, outcomes)
	w.checkOutcomes(s, plans, outcomes)

	status := p.status(s, plans, outcomes)
	if err := p.writeStatus(nhc, status); err != nil {
		p.dirty[name] = true
		return true
	}
	w.noteUnwell(s)
	w.checkFixedPoint(s, plans, outcomes, status)
	p.wake[name] = health.Earliest(p.wake[name], p.recheck(s, plans))
	return true
}

// logPlan notes what is worth telling.
func (w *world) logPlan(nhc string, plan *NodePlan) {
	var lines []string
	for _, action := range plan.Actions {
		switch action := action.(type) {
		case Create:
			lines = append(lines, "create "+action.Object.GetKind()+" "+action.Object.GetName())
		case Delete:
			lines = append(lines, "delete "+action.CR.Kind+" "+action.CR.Name)
		case MarkTimedOut:
			verb := "tell to stop "
			if action.EndsStep {
				verb = "end "
			}
			lines = append(lines, verb+action.CR.Kind+" "+action.CR.Name)
		case WriteLease:
			lines = append(lines, "write lease")
		case ReleaseLease:
			lines = append(lines, "release lease")
		case RemoveConfirmation:
			lines = append(lines, "remove confirmation")
		}
	}
	if plan.Refusal != "" {
		lines = append(lines, "refused: "+string(plan.Refusal))
	}
	if plan.Exhausted {
		lines = append(lines, "no template left")
	}
	if plan.Delayed {
		lines = append(lines, "delayed")
	}
	state := plan.Node.Verdict.State.String()
	if plan.Node.Circumstances.NodeDeleted {
		state = "Deleted"
	}
	text := fmt.Sprintf("%s plans for %s (%s): %s", nhc, plan.Node.Name, state, strings.Join(lines, ", "))
	if len(plan.Actions) > 0 || (len(lines) > 0 && w.planned[nhc+"/"+plan.Node.Name] != text) {
		w.log(plan.Node.Name, "%s", text)
	}
	w.planned[nhc+"/"+plan.Node.Name] = text
}

// act is controller.act, one node after the other in any order.
func (p *process) act(s *sight, plans []NodePlan) []Outcome {
	w := p.world
	outcomes := make([]Outcome, len(plans))
	executor := &Executor{
		Client: dynamicClient{world: w}, Mapping: w.mapping, Kube: kubeClient{world: w}, LeaseNamespace: "leases",
		StillUnhealthy: func(_ context.Context, name string) (unhealthy bool, err error) {
			err = w.request(name, "last look at node "+name, func() error {
				node := w.node(name)
				known := s.objects[name]
				unhealthy = node != nil && known != nil && node.UID == known.UID && selects(s.nhc, node) && node.Labels[v1alpha1.LabelExclude] != "true" &&
					health.Judge(s.nhc.Spec.UnhealthyConditions, node.Status.Conditions, w.now).State == health.Unhealthy
				return nil
			})
			return unhealthy && err == nil, err
		},
		OnWrite: func(resource schema.GroupResource, version string) {
			for _, i := range p.informers() {
				if i.table.resource == resource || (resource == LeaseResource && i.table == w.leases) {
					p.wrote(s.nhc.Name, i.table, version)
				}
			}
		},
	}
	for _, beginning := range []bool{false, true} {
		for _, i := range w.random.Perm(len(plans)) {
			if len(plans[i].Actions) == 0 || begins(plans[i]) != beginning {
				continue
			}
			w.doing = &doing{sight: s, plan: &plans[i]}
			outcomes[i] = executor.Execute(context.Background(), s.nhc.Name, plans[i])
			w.doing = nil
		}
	}
	return outcomes
}

func (p *process) remember(s *sight, plans []NodePlan, outcomes []Outcome) {
	planned := map[retryID]bool{}
	for i := range plans {
		id := retryOf(s.nhc.Name, &plans[i].Node)
		planned[id] = true
		for _, cr := range outcomes[i].Deleted {
			p.requested[s.nhc.Name][cr.UID] = true
		}
		switch {
		case outcomes[i].Err != nil:
			if p.retries[id] == nil {
				p.retries[id] = &retry{}
			}
			p.retries[id].due = p.world.now.Add(min(time.Minute, 100*time.Millisecond<<min(p.retries[id].failures, 16)))
			p.retries[id].failures++
		case len(plans[i].Actions) > 0:
			delete(p.retries, id)
		}
	}
	for id := range p.retries {
		if id.nhc == s.nhc.Name && !planned[id] {
			delete(p.retries, id)
		}
	}
}

// recheck is when time alone may change what a sync does.
func (p *process) recheck(s *sight, plans []NodePlan) time.Time {
	next := health.Earliest(s.fleet.Recheck, s.leaving)
	for i := range plans {
		next = health.Earliest(next, plans[i].Recheck)
		for _, cr := range plans[i].Node.Own {
			if old := cr.CreationTimestamp.Add(v1alpha1.OldRemediationAge); old.After(s.now) {
				next = health.Earliest(next, old)
			}
		}
	}
	for id, retry := range p.retries {
		if id.nhc == s.nhc.Name && retry.due.After(s.now) {
			next = health.Earliest(next, retry.due)
		}
	}
	return next
}

// status is controller.newStatus, as far as plans depend on it.
func (p *process) status(s *sight, plans []NodePlan, outcomes []Outcome) *v1alpha1.NodeHealthCheckStatus {
	status := &v1alpha1.NodeHealthCheckStatus{ObservedNodes: new(int32(s.fleet.Observed)), HealthyNodes: new(int32(s.fleet.Healthy))}
	old := map[string]*v1alpha1.UnhealthyNode{}
	for i := range s.nhc.Status.UnhealthyNodes {
		old[s.nhc.Status.UnhealthyNodes[i].Name] = &s.nhc.Status.UnhealthyNodes[i]
	}
	for i := range plans {
		node := &plans[i].Node
		entry := v1alpha1.UnhealthyNode{Name: node.Name, Remediations: p.entries(node, &outcomes[i])}
		unhealthy := node.Verdict.State == health.Unhealthy && !node.Circumstances.Unselected
		lingering := node.Verdict.State == health.SoonUnhealthy && !node.Circumstances.Unselected && old[node.Name] != nil
		if len(entry.Remediations) == 0 && !unhealthy && !lingering {
			continue
		}
		if node.Verdict.State == health.Healthy && !node.Circumstances.NodeDeleted {
			entry.ConditionsHealthyTimestamp = new(metav1.NewTime(s.now.Truncate(time.Second)))
			if known := old[node.Name]; known != nil && known.ConditionsHealthyTimestamp != nil {
				entry.ConditionsHealthyTimestamp = known.ConditionsHealthyTimestamp
			}
			if plans[i].Delayed {
				entry.HealthyDelayed = new(true)
			}
		}
		status.UnhealthyNodes = append(status.UnhealthyNodes, entry)
	}
	slices.SortFunc(status.UnhealthyNodes, func(a, b v1alpha1.UnhealthyNode) int { return cmp.Compare(a.Name, b.Name) })
	return status
}

func (p *process) entries(node *Node, outcome *Outcome) []v1alpha1.Remediation {
	record := func(cr *CR, timedOut *metav1.Time) v1alpha1.Remediation {
		entry := v1alpha1.Remediation{Resource: cr.Reference(), Started: cr.CreationTimestamp, TimedOut: timedOut}
		entry.TemplateName, _ = cr.Template()
		return entry
	}
	has := func(crs []*CR, cr *CR) bool {
		return slices.ContainsFunc(crs, func(other *CR) bool { return other.UID == cr.UID })
	}
	var entries []v1alpha1.Remediation
	for _, cr := range node.Own {
		if has(outcome.Gone, cr) || (node.Circumstances.NodeDeleted && (node.deleting(cr) || has(outcome.Deleted, cr))) {
			continue
		}
		at := (*metav1.Time)(nil)
		if recorded := node.recordedTimeout(cr); recorded != nil {
			at = new(metav1.NewTime(*recorded))
		} else if ended, ok := outcome.TimedOut[cr.UID]; ok {
			at = new(metav1.NewTime(ended.Truncate(time.Second)))
		} else if marked, ok := cr.TimedOutAt(); ok && !cr.Deleting() {
			at = new(metav1.NewTime(marked))
		}
		entries = append(entries, record(cr, at))
	}
	entries = append(entries, node.Unreadable...)
	if outcome.Created != nil {
		entries = append(entries, record(outcome.Created, nil))
	}
	return entries
}

// writeStatus writes what differs, bound to what it was computed from.
func (p *process) writeStatus(nhc *v1alpha1.NodeHealthCheck, status *v1alpha1.NodeHealthCheckStatus) error {
	w := p.world
	if equality.Semantic.DeepEqual(&nhc.Status, status) {
		return nil
	}
	version := ""
	err := w.request("", "status of "+nhc.Name+": "+w.summary(status), func() error {
		live := w.nhc(nhc.Name)
		if live.ResourceVersion != nhc.ResourceVersion {
			return apierrors.NewConflict(w.nhcs.resource, nhc.Name, errors.New("stale"))
		}
		clone := live.DeepCopy()
		clone.Status = *status
		w.putNHC(clone)
		version = clone.ResourceVersion
		return nil
	})
	if err == nil {
		p.wrote(nhc.Name, w.nhcs, version)
	}
	return err
}

func (w *world) summary(status *v1alpha1.NodeHealthCheckStatus) string {
	lines := []string{fmt.Sprintf("%d of %d healthy", *status.HealthyNodes, *status.ObservedNodes)}
	for _, entry := range status.UnhealthyNodes {
		line := entry.Name
		if entry.ConditionsHealthyTimestamp != nil {
			line += " healthy since " + w.clock(entry.ConditionsHealthyTimestamp.Time)
		}
		if entry.HealthyDelayed != nil {
			line += " (delayed)"
		}
		for _, remediation := range entry.Remediations {
			line += fmt.Sprintf(" %s/%s started %s", remediation.Resource.Kind, remediation.Resource.Name, w.clock(remediation.Started.Time))
			if remediation.TimedOut != nil {
				line += " timed out " + w.clock(remediation.TimedOut.Time)
			}
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "; ")
}
