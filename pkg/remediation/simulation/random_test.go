// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
)

var (
	simulationSeed  = flag.Uint64("simulation.seed", 0, "simulate only this seed, and show all of its timeline with -v")
	simulationSeeds = flag.Uint64("simulation.seeds", defaultSeeds, "simulate this many seeds")
)

// defaultSeeds are enough to reach all that checkCoverage asks for.
const defaultSeeds = 400

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
		checkCoverage(t, *simulationSeeds, total)
	})
}

// simulate plays the game of a seed.
func simulate(t *testing.T, seed uint64) *world {
	t.Helper()
	w := newWorld(seed)
	defer func() {
		if r := recover(); r != nil {
			panic(fmt.Sprintf("seed %d: %v", seed, r))
		}
	}()
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
		require.Nil(t, first.play(), "seed %d", seed)
		require.Nil(t, second.play(), "seed %d", seed)
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
		delete(w.tempests, stormKey(clone))
	case n < 98:
		w.changeRandomly(nhc)
	}
}

// changeRandomly changes a spec, as far as admission permits (spec 4.4).
func (w *world) changeRandomly(name string) {
	running := slices.ContainsFunc(w.nhc(name).Status.UnhealthyNodes, func(entry v1alpha1.UnhealthyNode) bool { return len(entry.Remediations) > 0 })
	w.changeSpec(name, func(spec *v1alpha1.NodeHealthCheckSpec) {
		switch w.random.IntN(8) {
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
		case 5, 6:
			w.randomStorm(spec)
		case 7:
			if !running {
				w.randomSteps(spec)
				w.randomGate(spec)
			}
		}
	})
	w.log("", "%s", w.describeSpec(name, &w.nhc(name).Spec))
}
