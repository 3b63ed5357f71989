// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/controller/machinehealthcheck"
)

var (
	seeds   = flag.Int("simulation.seeds", usualSeeds, "simulate this many seeds")
	first   = flag.Int("simulation.first", 1, "the first seed")
	steps   = flag.Int("simulation.steps", 120, "the number of random steps of a seed")
	twins   = flag.Int("simulation.twins", 0, "compare the leader with so many twins in the walk of a seed")
	verbose = flag.Bool("simulation.verbose", false, "show all that happens")
	goOn    = flag.Bool("simulation.continue", false, "continue with the next seed after a failure")
)

func TestMain(m *testing.M) {
	// The default handler sleeps, by a clock that all simulations share.
	utilruntime.ErrorHandlers = utilruntime.ErrorHandlers[:1] //nolint:reassign // It is there to be changed.
	// A simulation needs little memory, but much of it for a moment only: a third less CPU.
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}

// TestSimulation runs the controller in a cluster in which everything happens by chance,
// and checks the rules after every step. Then nothing goes wrong any more, and all that is
// due has to be done: first with the nodes as they are, then with all nodes healthy.
func TestSimulation(t *testing.T) {
	var taken atomic.Int64 // How many of them workers have taken.
	var mu sync.Mutex
	total := map[string]int{}
	t.Run("seeds", func(all *testing.T) {
		for worker := range runtime.GOMAXPROCS(0) {
			all.Run(fmt.Sprintf("worker %d", worker), func(t *testing.T) {
				t.Parallel()
				for *goOn || !all.Failed() {
					next := int(taken.Add(1)) - 1
					if next >= *seeds {
						return
					}
					seed := *first + next
					t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
						seen := simulate(t, uint64(seed))
						mu.Lock()
						defer mu.Unlock()
						for what, n := range seen {
							total[what] += n
						}
					})
				}
			})
		}
	})
	for _, what := range sorted(total) {
		t.Logf("%-50s %8d", what, total[what])
	}
	if !t.Failed() {
		checkCoverage(t, *seeds, total)
	}
}

// simulate simulates one seed, and returns how often each event has happened.
func simulate(t *testing.T, seed uint64) (seen map[string]int) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(loggingContext(t), t, seed)
		defer c.shutDown()
		defer c.reportBroken()
		c.simulate()
		seen = c.figures()
	})
	return seen
}

// loggingContext returns the context of a simulation.
func loggingContext(t *testing.T) context.Context {
	t.Helper()
	if *verbose {
		return klog.NewContext(t.Context(), textlogger.NewLogger(textlogger.NewConfig(textlogger.Verbosity(4), textlogger.Output(t.Output()))))
	}
	return klog.NewContext(t.Context(), klog.Logger{})
}

// reportBroken reports with what a simulation has ended, if it has not ended by itself. It is deferred.
func (c *cluster) reportBroken() {
	switch r := recover().(type) {
	case nil:
	case broken:
		c.t.Errorf("seed %d, at %s: %d rules are broken\nagain: go test ./test/simulation -cpu %d -simulation.first=%d -simulation.seeds=1 -simulation.verbose\n%s",
			c.seed, clockOf(time.Now()), len(r), runtime.GOMAXPROCS(0), c.seed, tell(r))
	default:
		c.t.Errorf("seed %d: panic: %v\n%s", c.seed, r, debug.Stack())
	}
}

// tell describes the first broken rules.
func tell(found broken) string {
	var text strings.Builder
	for _, violation := range found[:min(3, len(found))] {
		text.WriteString(violation.String() + "\n")
	}
	return text.String()
}

// simulate is the course of one simulation.
func (c *cluster) simulate() {
	c.workers = oneOf(c, 1, 1, 3)
	if c.chance(50) {
		c.boot()
	}
	c.elect()
	walk, rest := *steps, 4*time.Hour
	if c.machines != nil { // It costs more: there are more kinds, and who else leads is looked at every second.
		walk, rest = walk*3/4, 2*time.Hour
	}
	c.walk(walk)
	c.calm()
	turns := c.budgeted && c.chance(50)
	if turns {
		c.failInTurn()
	}
	c.log("=== calm: the remediators do nothing")
	c.settle(rest)
	c.compareTwin("at rest", lifetime)
	if c.chance(10) {
		c.log("=== two days later")
		c.idle(v1alpha1.OldRemediationAge)
	}
	if turns {
		c.recoverInTurn()
	}
	c.log("=== all nodes are healthy")
	c.cure()
	c.settle(rest / 2)
	c.compareTwin("all is cured", lifetime)
	c.checkEmpty()
}

// figures returns the numbers of events.
func (c *cluster) figures() map[string]int {
	seen := map[string]int{"seeds": 1, "requests": c.audited, "changes": c.judged}
	for rule, n := range c.judge.Checked() {
		seen["rule "+rule] += n
	}
	for what, n := range c.happened {
		seen["fault: "+what] += n
	}
	for _, event := range c.server.List(events) {
		reason, _, _ := unstructured.NestedString(event.Object, "reason")
		if reporter, _, _ := unstructured.NestedString(event.Object, "reportingController"); reporter == machinehealthcheck.ReportingController {
			reason = "about Machines: " + reason
		}
		seen["event "+reason]++
	}
	figures := c.judge.Figures()
	seen["CRs created"], seen["CRs deleted"], seen["CRs marked"] = figures.Creations, figures.Deletions, figures.Marks
	seen["Machines deleted"], seen["Machines annotated"], seen["CRs for Machines"] = figures.MachineDeletions, figures.ExternalRequests, figures.MachineCRs
	for what, n := range c.seen {
		seen[what] += n
	}
	return seen
}
