// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
)

var (
	simulationSeed  = flag.Uint64("simulation.seed", 0, "simulate only this seed, and show all of its timeline with -v")
	simulationSeeds = flag.Uint64("simulation.seeds", 400, "simulate this many seeds")
)

// simulationSteps is the number of random steps of a seed.
const simulationSteps = 400

// TestSimulation lets chance play with the world and the controller, then stops it and
// lets the controller find its way: first with all nodes as they are and remediators
// that do nothing, where every unhealthy node must come to the end of its steps, then
// with all nodes healthy, where nothing may be left.
func TestSimulation(t *testing.T) {
	t.Parallel()
	seeds := make([]uint64, 0, *simulationSeeds)
	for seed := range *simulationSeeds {
		seeds = append(seeds, seed+1)
	}
	if *simulationSeed != 0 {
		seeds = []uint64{*simulationSeed}
	}
	const groups = 4
	seen := make([]map[string]int, groups)
	t.Run("seeds", func(t *testing.T) {
		t.Parallel()
		for group := range groups {
			t.Run(fmt.Sprintf("group %d", group), func(t *testing.T) {
				t.Parallel()
				seen[group] = map[string]int{}
				for i, seed := range seeds {
					if i%groups == group {
						w := simulate(t, seed)
						for what, times := range w.seen {
							seen[group][what] += times
						}
					}
				}
			})
		}
	})
	t.Cleanup(func() {
		total := map[string]int{}
		for _, group := range seen {
			for what, times := range group {
				total[what] += times
			}
		}
		t.Log(total)
		if *simulationSeed != 0 || t.Failed() {
			return
		}
		for _, what := range []string{
			"Create", "Create of a next step", "Delete", "MarkTimedOut", "MarkTimedOut ends a step",
			"WriteLease", "WriteLease anew", "WriteLease taken over", "ReleaseLease", "RemoveConfirmation",
			"death before a request", "death after a request", "lost answer", "created earlier",
			"exhausted", "delayed", "unreadable",
			"refused: Disabled", "refused: Paused", "refused: GateClosed", "refused: Excluded", "refused: Unselected",
			"refused: ControlPlaneBusy", "refused: ForeignRemediation", "refused: LeaseTaken", "refused: RetryLater",
		} {
			if total[what] == 0 {
				t.Errorf("the test itself: %q has never happened", what)
			}
		}
	})
}

// simulate plays the game of a seed.
func simulate(t *testing.T, seed uint64) *world {
	t.Helper()
	w := newWorld(seed)
	if found := w.play(); found != nil {
		t.Fatalf("seed %d: node %s: %s\nagain: go test ./pkg/remediation -run TestSimulation -simulation.seed=%d\n%s",
			seed, found.node, found.text, seed, w.tell(found.node))
	}
	if *simulationSeed != 0 {
		t.Log(w.tell(""))
	}
	return w
}

// TestSimulationIsDeterministic: a seed stands for one course of events.
func TestSimulationIsDeterministic(t *testing.T) {
	t.Parallel()
	for seed := range uint64(10) {
		first, second := newWorld(seed), newWorld(seed)
		require.Nil(t, first.play())
		require.Nil(t, second.play())
		require.Equal(t, first.tell(""), second.tell(""), "seed %d", seed)
	}
}

// tell writes down what happened to a node, or to all.
func (w *world) tell(node string) string {
	var text strings.Builder
	for _, line := range w.timeline {
		if node == "" || line.node == "" || line.node == node {
			fmt.Fprintf(&text, "%s  %s\n", w.clock(line.at), line.text)
		}
	}
	return text.String()
}

// play plays the whole game, and returns what was wrong in it.
func (w *world) play() (found *violation) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case violation:
			found = &r
		default:
			w.log("", "panic: %v", r)
			panic(fmt.Sprintf("%v\n%s", r, w.tell("")))
		}
	}()
	w.furnish()
	w.populate()
	w.faults, w.meddling = oneOf(w, 0, 0, 3, 15), oneOf(w, 0, 5, 20)
	age := oneOf(w, 0, 0, 2)
	w.boot(age)
	w.meddle = func() { w.step(true) }
	for range simulationSteps {
		w.step(false)
	}
	w.calm()
	w.log("", "=== calm: the remediators do nothing")
	w.settle(4 * time.Hour)
	w.checkExhausted()
	w.log("", "=== all nodes are healthy")
	w.cure()
	w.settle(4 * time.Hour)
	w.checkEmpty()
	return nil
}

// furnish provides the kinds and the templates.
func (w *world) furnish() {
	for kind := range remediators {
		w.remediations[kind] = newTable(strings.ToLower(kind) + "s")
	}
	template := func(name, kind string, multiple bool) {
		w.templates[name] = &Template{
			TypeMeta:   metav1.TypeMeta{APIVersion: simulatedGroup, Kind: kind + "Template"},
			ObjectMeta: metav1.ObjectMeta{Namespace: "remediators", Name: name, UID: types.UID(name)},
			Spec:       map[string]any{"strategy": name},
		}
		if multiple {
			supportsMultiple(w.templates[name])
		}
	}
	template("delete", "MachineDeletionRemediation", false)
	template("bmc", "FenceAgentsRemediation", true)
	template("pdu", "FenceAgentsRemediation", true)
	template("reboot", "SelfNodeRemediation", true)
	template("script", "CustomizedUserRemediation", true)
	template("storage", "StorageBasedRemediation", false)
	template("metal", "Metal3Remediation", false)
}

// populate provides nodes and NodeHealthChecks.
func (w *world) populate() {
	for i := range 2 + w.random.IntN(3) {
		w.createNode(fmt.Sprintf("worker-%d", i), corev1.ConditionTrue)
	}
	for i := range w.random.IntN(3) {
		w.createNode(fmt.Sprintf("master-%d", i), corev1.ConditionTrue)
	}
	for _, name := range []string{"blue", "green", "red"}[:1+w.random.IntN(3)] {
		nhc := &v1alpha1.NodeHealthCheck{ObjectMeta: metav1.ObjectMeta{Name: name, UID: w.newUID(), Generation: 1}}
		w.randomSteps(&nhc.Spec)
		w.randomGate(&nhc.Spec)
		w.randomDelay(&nhc.Spec)
		if w.chance(30) {
			nhc.Spec.Selector.MatchLabels = map[string]string{"pool": "a"}
		}
		for _, status := range []corev1.ConditionStatus{corev1.ConditionFalse, corev1.ConditionUnknown} {
			nhc.Spec.UnhealthyConditions = append(nhc.Spec.UnhealthyConditions, v1alpha1.UnhealthyCondition{
				Type: corev1.NodeReady, Status: status, Duration: metav1.Duration{Duration: oneOf(w, 0, 30*time.Second, 90*time.Second)},
			})
		}
		w.log("", "%s", w.describeSpec(name, &nhc.Spec))
		w.putNHC(nhc)
	}
}

func (w *world) reference(template string) corev1.ObjectReference {
	t := w.templates[template]
	return corev1.ObjectReference{APIVersion: t.APIVersion, Kind: t.Kind, Namespace: t.Namespace, Name: template}
}

func (w *world) randomSteps(spec *v1alpha1.NodeHealthCheckSpec) {
	spec.RemediationTemplate, spec.EscalatingRemediations = nil, nil
	names := sorted(w.templates)
	w.random.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	if w.chance(30) {
		spec.RemediationTemplate = new(w.reference(names[0]))
		return
	}
	orders := w.random.Perm(5)
	for i := range 1 + w.random.IntN(3) {
		spec.EscalatingRemediations = append(spec.EscalatingRemediations, v1alpha1.EscalatingRemediation{
			RemediationTemplate: w.reference(names[i]), Order: int32(orders[i] - 2),
			Timeout: metav1.Duration{Duration: oneOf(w, time.Minute, time.Minute, 90*time.Second, 5*time.Minute, 20*time.Minute)},
		})
	}
}

func (w *world) randomGate(spec *v1alpha1.NodeHealthCheckSpec) {
	limit := new(intstr.FromInt32(int32(w.random.IntN(4))))
	spec.MinHealthy, spec.MaxUnhealthy = limit, nil
	if w.chance(30) && !slices.ContainsFunc(Steps(spec), func(s Step) bool { return s.Reference.Kind == "MachineDeletionRemediationTemplate" }) {
		spec.MinHealthy, spec.MaxUnhealthy = nil, limit
	}
}

func (w *world) randomDelay(spec *v1alpha1.NodeHealthCheckSpec) {
	spec.HealthyDelay = oneOf(w, nil, nil, &metav1.Duration{}, &metav1.Duration{Duration: 45 * time.Second}, &metav1.Duration{Duration: 5 * time.Minute}, &metav1.Duration{Duration: -1})
}

func (w *world) describeSpec(name string, spec *v1alpha1.NodeHealthCheckSpec) string {
	var steps []string
	for _, step := range Steps(spec) {
		text := strings.TrimSuffix(step.Reference.Kind, "RemediationTemplate") + "/" + step.Reference.Name
		if step.Escalating() {
			text += " for " + step.Timeout.String()
		}
		steps = append(steps, text)
	}
	text := fmt.Sprintf("spec of %s: steps [%s]", name, strings.Join(steps, ", "))
	if spec.MinHealthy != nil {
		text += " minHealthy " + spec.MinHealthy.String()
	}
	if spec.MaxUnhealthy != nil {
		text += " maxUnhealthy " + spec.MaxUnhealthy.String()
	}
	if spec.HealthyDelay != nil {
		text += " healthyDelay " + spec.HealthyDelay.Duration.String()
	}
	if len(spec.PauseRequests) > 0 {
		text += " paused"
	}
	if len(spec.Selector.MatchLabels) > 0 {
		text += fmt.Sprintf(" selector %v", spec.Selector.MatchLabels)
	}
	return text
}

// step makes one random move of the world or of the controller. Between two requests
// of a sync the clock stands still now and then only, and other syncs may run.
func (w *world) step(between bool) {
	p := w.process
	switch n := w.random.IntN(100); {
	case n < 30:
		if between {
			w.moves++
		}
		w.syncSomebody()
	case n < 50 && !between:
		p.catchUp()
	case n < 58:
		if i := oneOf(w, p.informers()...); i.advance(1 + w.random.IntN(3)) {
			p.soil()
		}
	case n < 68:
		w.moves++
		w.pass(between)
	case n < 69 && !between:
		w.moves++
		w.log("", "the process is restarted")
		w.boot(oneOf(w, 0, 0, 2))
	default:
		w.moves++
		w.event()
	}
}

// syncSomebody syncs one of those whose turn it is.
func (w *world) syncSomebody() {
	for name, at := range w.process.wake {
		if !at.IsZero() && !w.now.Before(at) {
			w.process.dirty[name] = true
		}
	}
	if due := sorted(w.process.dirty); len(due) > 0 {
		w.process.sync(oneOf(w, due...))
	}
}

// pass lets time pass.
func (w *world) pass(little bool) {
	if little {
		w.now = w.now.Add(time.Duration(w.random.IntN(3000)) * time.Millisecond)
		return
	}
	var next time.Time
	for _, name := range sorted(w.process.wake) {
		next = health.Earliest(next, w.process.wake[name])
	}
	switch {
	case next.After(w.now) && w.chance(60):
		w.now = next
	default:
		w.now = w.now.Add(oneOf(w, time.Millisecond, time.Second, 20*time.Second, time.Minute, 10*time.Minute) * time.Duration(1+w.random.IntN(3)))
	}
	w.log("", "---")
}

// event is something that others do.
func (w *world) event() {
	nodes := sorted(w.nodes.live)
	node, nhc := "", oneOf(w, sorted(w.nhcs.live)...)
	if len(nodes) > 0 {
		node = oneOf(w, nodes...)
	}
	crs := w.crs()
	switch n := w.random.IntN(100); {
	case n < 35 && len(crs) > 0:
		cr := oneOf(w, crs...)
		remediators[cr.Kind](w, cr)
	case n < 60 && node != "":
		w.setReady(node, oneOf(w, corev1.ConditionTrue, corev1.ConditionFalse, corev1.ConditionUnknown, corev1.ConditionUnknown))
	case n < 63 && node != "":
		w.deleteNode(node)
	case n < 67:
		for _, name := range []string{"master-0", "worker-0", "worker-1", "worker-2"} {
			if w.node(name) == nil {
				w.createNode(name, oneOf(w, corev1.ConditionTrue, corev1.ConditionUnknown))
				return
			}
		}
	case n < 70 && len(crs) > 0:
		cr := oneOf(w, crs...)
		w.log(cr.Node(), "somebody deletes %s %s", cr.Kind, cr.Name)
		w.deleteCR(cr)
	case n < 71 && len(crs) > 0:
		w.letGo(oneOf(w, crs...))
	case n < 72 && node != "":
		w.createForeign(node, nhc)
	case n < 76 && node != "":
		w.maintain(node)
	case n < 78 && node != "":
		w.spoil(node)
	case n < 80:
		w.collect()
	case n < 82 && node != "":
		value := oneOf(w, "true", "true", "", "false")
		w.log(node, "node %s: exclusion label %q", node, value)
		w.changeNode(node, func(n *corev1.Node) { n.Labels[v1alpha1.LabelExclude] = value })
	case n < 84 && node != "":
		pool := oneOf(w, "a", "a", "b")
		w.log(node, "node %s: pool %s", node, pool)
		w.changeNode(node, func(n *corev1.Node) { n.Labels["pool"] = pool })
	case n < 86 && node != "":
		w.log(node, "node %s is confirmed healthy", node)
		w.changeNode(node, func(n *corev1.Node) { n.Annotations[v1alpha1.AnnotationManuallyConfirmedHealthy] = "" })
	case n < 88:
		template := oneOf(w, sorted(w.templates)...)
		w.brokenTemplates[template] = !w.brokenTemplates[template] && w.chance(40)
		w.log("", "template %s is broken: %t", template, w.brokenTemplates[template])
		w.process.soil()
	case n < 89:
		kind := oneOf(w, sorted(w.remediations)...)
		w.unreadable[kind] = !w.unreadable[kind] && w.chance(40)
		w.log("", "%s is unreadable: %t", kind, w.unreadable[kind])
		w.process.soil()
	case n < 90:
		w.denied["FenceAgentsRemediation"] = !w.denied["FenceAgentsRemediation"]
		w.log("", "the webhook of FenceAgentsRemediation denies: %t", w.denied["FenceAgentsRemediation"])
	case n < 91:
		w.log("", "the status of %s is lost", nhc)
		clone := w.nhc(nhc).DeepCopy()
		clone.Status = v1alpha1.NodeHealthCheckStatus{}
		w.putNHC(clone)
	case n < 98:
		w.changeRandomly(nhc)
	}
}

// changeRandomly changes a spec, as far as admission permits (spec 4.4).
func (w *world) changeRandomly(name string) {
	running := slices.ContainsFunc(w.nhc(name).Status.UnhealthyNodes, func(entry v1alpha1.UnhealthyNode) bool { return len(entry.Remediations) > 0 })
	w.changeSpec(name, func(spec *v1alpha1.NodeHealthCheckSpec) {
		switch w.random.IntN(6) {
		case 0, 1:
			spec.PauseRequests = nil
			if w.chance(30) {
				spec.PauseRequests = []string{"maintenance"}
			}
		case 2:
			w.randomDelay(spec)
		case 3:
			spec.UnhealthyConditions[w.random.IntN(2)].Duration.Duration = oneOf(w, 0, 30*time.Second, 90*time.Second)
		case 4:
			w.randomGate(spec)
		case 5:
			if !running {
				w.randomSteps(spec)
				w.randomGate(spec)
			}
		}
	})
	w.log("", "%s", w.describeSpec(name, &w.nhc(name).Spec))
}

// calm takes everything away that blocks a remediation, or goes wrong.
func (w *world) calm() {
	w.moves++
	w.faults, w.meddling = 0, 0
	clear(w.denied)
	clear(w.unreadable)
	clear(w.brokenTemplates)
	for _, name := range sorted(w.nhcs.live) {
		w.changeSpec(name, func(spec *v1alpha1.NodeHealthCheckSpec) {
			spec.PauseRequests = nil
			spec.MinHealthy, spec.MaxUnhealthy = new(intstr.FromInt32(0)), nil
			if spec.HealthyDelay != nil && spec.HealthyDelay.Duration < 0 {
				spec.HealthyDelay = &metav1.Duration{Duration: 5 * time.Minute}
			}
		})
	}
	for _, name := range sorted(w.nodes.live) {
		if w.node(name).Labels[v1alpha1.LabelExclude] != "" {
			w.changeNode(name, func(node *corev1.Node) { delete(node.Labels, v1alpha1.LabelExclude) })
		}
	}
	for _, cr := range w.crs() {
		if len(cr.Owners()) == 0 {
			w.changeCR(cr, func(object *unstructured.Unstructured) {
				object.SetFinalizers(nil)
				object.SetDeletionTimestamp(new(w.seconds()))
			})
		}
	}
	w.process.soil()
}

// release lets remediators give up what is being deleted, and finish what waits for a
// Node that is gone.
func (w *world) release() bool {
	before := w.version
	for _, cr := range w.crs() {
		if cr.Deleting() || (w.node(cr.Node()) == nil && cr.PermanentNodeDeletionExpected == corev1.ConditionTrue && cr.Succeeded == "") {
			remediators[cr.Kind](w, cr)
		}
	}
	w.collect()
	if w.version != before {
		w.moves++
	}
	return w.version != before
}

// settle runs the controller by events and timers alone, for some time.
func (w *world) settle(span time.Duration) {
	end := w.now.Add(span)
	w.settleUntil(end, w.release)
	w.now = end
}

// settleUntil is settle, where others may do something, and tell that they have, when
// the controller is at rest.
func (w *world) settleUntil(end time.Time, others func() bool) {
	for syncs := 0; ; syncs++ {
		if syncs > 5000 {
			w.violate("", "P3", "the controller does not come to rest")
		}
		p := w.process
		p.catchUp()
		w.syncSomebodyByName()
		p = w.process
		if len(p.dirty) > 0 || !p.current() || others() {
			continue
		}
		var next time.Time
		for _, name := range sorted(p.wake) {
			next = health.Earliest(next, p.wake[name])
		}
		if next.IsZero() || next.After(end) {
			return
		}
		w.now = next
		for name, at := range p.wake {
			if !at.IsZero() && !w.now.Before(at) {
				p.dirty[name] = true
			}
		}
	}
}

func (w *world) syncSomebodyByName() {
	if due := sorted(w.process.dirty); len(due) > 0 {
		w.process.sync(due[0])
	}
}

// checkExhausted checks that every unhealthy node has come to the end of what each of
// the NodeHealthChecks can do for it.
func (w *world) checkExhausted() {
	for _, name := range sorted(w.nhcs.live) {
		nhc := w.nhc(name)
		s := w.process.observe(w.truth(), nhc, w.now)
		w.process.takePlace(w.truth(), s, false)
		for _, node := range s.nodes {
			plan := s.script.Plan(node, w.now)
			_, renewal := append(plan.Actions, nil)[0].(WriteLease)
			if len(plan.Actions) > 0 && (!renewal || begins(plan)) {
				w.violate(node.Name, "P2", "nobody woke %s for %T", name, plan.Actions[0])
			}
			if node.Verdict.State == health.SoonUnhealthy {
				w.violate(node.Name, "7.4", "nobody woke %s", name)
			}
			if node.Verdict.State != health.Unhealthy || node.Circumstances.Unselected || node.Circumstances.NodeDeleted {
				continue
			}
			switch {
			case plan.Exhausted:
				w.checkSteps(s, &node)
			case plan.Refusal == RefusedForeignRemediation, plan.Refusal == RefusedControlPlaneBusy:
			case plan.Refusal == RefusedLeaseTaken && w.heldAtWork(node.Lease, node.Name):
			case slices.ContainsFunc(node.Own, func(cr *CR) bool { return stepOf(s.script.Steps, cr) < 0 || node.deleting(cr) }):
			case len(s.script.Steps) == 1 && !s.script.Steps[0].Escalating() && len(node.Own) > 0 && leaseHolder(node.Lease) != LeaseHolder(name):
				// 14.8: a classic CR without its lease goes on for ever.
			default:
				w.violate(node.Name, "P12", "%s neither remediates the node nor has done all it can: %d CRs, refused: %q", name, len(node.Own), plan.Refusal)
			}
		}
	}
}

// heldAtWork tells whether a lease is held by a NodeHealthCheck that has a CR.
func (w *world) heldAtWork(lease *coordinationv1.Lease, node string) bool {
	nhc, ok := NHCOfHolder(leaseHolder(lease))
	return ok && len(w.ownCRs(nhc, node)) > 0
}

// checkSteps checks the CRs of a node for which no step is left.
func (w *world) checkSteps(s *sight, node *Node) {
	for i := range s.script.Steps {
		at := slices.IndexFunc(node.Own, func(cr *CR) bool { return stepOf(s.script.Steps, cr) == i })
		if at < 0 && i+1 == len(s.script.Steps) {
			w.violate(node.Name, "13.6", "the last step has no CR")
		}
	}
	if held := leaseHolder(node.Lease) == LeaseHolder(s.nhc.Name); held && (leaseValidReference(node.Lease, w.now) || !s.script.Steps[0].Escalating()) {
		w.violate(node.Name, "13.6 14.7", "the lease is still held: %s", w.terms(node.Lease))
	}
}

// cure makes all nodes healthy.
func (w *world) cure() {
	w.moves++
	for _, name := range sorted(w.nodes.live) {
		w.setReady(name, corev1.ConditionTrue)
	}
}

// checkEmpty checks that nothing is left.
func (w *world) checkEmpty() {
	hanging := 0
	for _, cr := range w.crs() {
		hangs := cr.Deleting() && w.node(cr.Node()) == nil // Its finalizer is not ours.
		if w.node(cr.Node()) == nil && cr.PermanentNodeDeletionExpected == corev1.ConditionTrue && cr.Succeeded == corev1.ConditionFalse {
			return // 17.3: it waits for a success that will never come.
		}
		if hangs {
			hanging++
		}
		found := slices.ContainsFunc(cr.Owners(), func(nhc string) bool {
			return slices.ContainsFunc(Steps(&w.nhc(nhc).Spec), func(s Step) bool { return s.Reference.Kind == cr.Kind+"Template" })
		})
		if found && !hangs { // Where else nobody looks, see 6.8.
			w.violate(cr.Node(), "P12", "%s %s is left, owned by %v", cr.Kind, cr.Name, cr.Owners())
		}
	}
	for _, name := range sorted(w.leases.live) {
		lease := w.leases.live[name].lease
		if _, held := NHCOfHolder(leaseHolder(lease)); held {
			w.violate("", "P12 14.9", "lease %s is left %s", name, w.terms(lease))
		}
	}
	for _, name := range sorted(w.nodes.live) {
		selected := slices.ContainsFunc(sorted(w.nhcs.live), func(nhc string) bool { return selects(w.nhc(nhc), w.node(name)) })
		free := !slices.ContainsFunc(w.crs(), func(cr *CR) bool { return cr.Node() == name })
		if selected && free && hasConfirmation(w.node(name)) {
			w.violate(name, "16.6", "the confirmation is left")
		}
	}
	for _, name := range sorted(w.nhcs.live) {
		status := w.nhc(name).Status
		if len(status.UnhealthyNodes) > 0 || *status.HealthyNodes != *status.ObservedNodes {
			w.violate("", "P12 P4", "status of %s: %s", name, w.summary(&status))
		}
		if at := w.process.wake[name]; !at.IsZero() && hanging == 0 {
			w.violate("", "P2", "%s is woken at %s for nothing", name, w.clock(at))
		}
	}
	requests := w.requests
	w.process.soil()
	w.settle(time.Hour)
	if w.requests != requests {
		w.violate("", "P3", "something is written though nothing has changed")
	}
}
