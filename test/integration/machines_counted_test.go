// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/test/faultproxy"
	"github.com/nhc-controller/nhc-controller/test/machineset"
)

// disturbance is what happens to the controller in one namespace.
type disturbance struct {
	namespace string
	// refuse has the status write fail that follows the first deletion of a Machine, and die the process end then.
	refuse, die bool
	// ahead is how far our clock is ahead of that of the API server: times of Machines are put back.
	ahead time.Duration
}

// countedMachines is a controller that is disturbed.
type countedMachines struct {
	killedController
	disturbed atomic.Pointer[disturbance]
	deleted   atomic.Bool // A Machine was, since it is disturbed.
	refused   atomic.Int32
}

func (m *countedMachines) startProxy() {
	var err error
	m.proxy, err = faultproxy.Start(m.cluster.AdminConfig(), faultproxy.Hooks{Before: m.before, After: m.after})
	require.NoError(m.t, err)
	m.t.Cleanup(func() { require.NoError(m.t, m.proxy.Stop()) })
}

// restart has the process start again.
func (m *countedMachines) restart() {
	m.mu.Lock()
	defer m.mu.Unlock()
	require.NoError(m.t, m.process.Kill())
}

func (m *countedMachines) before(r *http.Request) bool {
	d := m.disturbed.Load()
	if d == nil || !d.refuse || !m.deleted.Load() || r.Method != http.MethodPut || !strings.Contains(r.URL.Path, "/"+d.namespace+"/machinehealthchecks/") {
		return true
	}
	return m.refused.Add(1) > 1
}

func (m *countedMachines) after(r *http.Request, response *http.Response) bool {
	d := m.disturbed.Load()
	if d == nil {
		return true
	}
	if d.ahead > 0 && (strings.HasSuffix(r.URL.Path, "/machines") || strings.Contains(r.URL.Path, "/machines/")) {
		putBack(response, d.ahead)
	}
	if namespace, _, deletion := machineOf(r); !deletion || namespace != d.namespace || response.StatusCode != http.StatusOK || m.deleted.Swap(true) || !d.die {
		return true
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.kills++
	if err := m.process.Kill(); err != nil {
		m.t.Errorf("killing the controller: %v", err)
	}
	return false
}

var metaTime = regexp.MustCompile(`"(creation|deletion)Timestamp":"([^"]*)"`)

// putBack puts back the times of the objects in an answer, which may be a watch.
func putBack(response *http.Response, by time.Duration) {
	body := response.Body
	reader, writer := io.Pipe()
	go func() {
		defer body.Close()
		lines := bufio.NewReader(body)
		for {
			line, err := lines.ReadBytes('\n')
			line = metaTime.ReplaceAllFunc(line, func(found []byte) []byte {
				parts := metaTime.FindSubmatch(found)
				at, err := time.Parse(time.RFC3339, string(parts[2]))
				if err != nil {
					return found
				}
				return bytes.Replace(found, parts[2], []byte(at.Add(-by).UTC().Format(time.RFC3339)), 1)
			})
			if _, failed := writer.Write(line); failed != nil || err != nil {
				writer.CloseWithError(err)
				return
			}
		}
	}()
	response.Body, response.ContentLength = reader, -1
	response.Header.Del("Content-Length")
}

// countedPool is a MachineSet whose new Machines join when there is room, and the budget for its Machines.
type countedPool struct {
	*machineScenario
	set      *machineset.Set
	full     atomic.Bool
	replicas atomic.Int32
	mu       sync.Mutex
	waiting  []string
}

func newPool(s *machineScenario, replicas, maxConcurrent int) *countedPool {
	p := &countedPool{machineScenario: s}
	p.replicas.Store(int32(replicas))
	p.set = &machineset.Set{
		Machines: s.provided, Provide: p.provide, Name: func(n int) string { return fmt.Sprintf("m%d", n) },
		Replicas: func(context.Context) (int, error) { return int(p.replicas.Load()), nil },
	}
	s.run(p.set)
	budgets := s.nhc.RemediationV1alpha1().RemediationBudgets()
	_, err := budgets.Create(s.t.Context(), &v1alpha1.RemediationBudget{ObjectMeta: metav1.ObjectMeta{Name: s.name}, Spec: v1alpha1.RemediationBudgetSpec{
		MachineSelector: &v1alpha1.BudgetMachineSelector{Namespace: s.name}, MaxConcurrent: new(intstr.FromInt(maxConcurrent)),
	}}, metav1.CreateOptions{})
	require.NoError(s.t, err)
	s.t.Cleanup(func() { _ = budgets.Delete(context.WithoutCancel(s.t.Context()), s.name, metav1.DeleteOptions{}) })
	s.createCheck()
	s.eventuallyCounts(replicas, replicas)
	time.Sleep(time.Second) // A Machine that is older than the failure by the clock stands for no other.
	p.full.Store(true)
	return p
}

// changeBudget merges a patch into the spec of the budget.
func (p *countedPool) changeBudget(spec string) {
	_, err := p.nhc.RemediationV1alpha1().RemediationBudgets().Patch(p.t.Context(), p.name, types.MergePatchType, []byte(`{"spec":`+spec+`}`), metav1.PatchOptions{})
	require.NoError(p.t, err)
}

func (p *countedPool) provide(ctx context.Context, machine string) error {
	if p.full.Load() {
		p.mu.Lock()
		p.waiting = append(p.waiting, machine)
		p.mu.Unlock()
		return nil
	}
	return p.joins(ctx, machine)
}

// makeRoom has all Machines join that wait, and all that follow.
func (p *countedPool) makeRoom() {
	p.full.Store(false)
	p.mu.Lock()
	waiting := p.waiting
	p.waiting = nil
	p.mu.Unlock()
	p.join(waiting...)
}

func (p *countedPool) fail(machines ...string) {
	for _, machine := range machines {
		p.setReady(machine, corev1.ConditionUnknown)
	}
}

// accepted is how many Machines the controller has deleted.
func (p *countedPool) accepted() (n int) {
	for _, request := range p.deleteRequests("") {
		if request.Code == http.StatusOK {
			n++
		}
	}
	return n
}

// eventuallyOnly waits until a number of Machines have been deleted, and then for a while that no further
// one is.
func (p *countedPool) eventuallyOnly(n int) {
	p.t.Helper()
	p.eventually(fmt.Sprintf("%d are deleted", n), func() bool { return p.accepted() >= n })
	for range 20 {
		require.LessOrEqual(p.t, p.accepted(), n, "B3.2: the budget is exceeded")
		time.Sleep(100 * time.Millisecond)
	}
}

// eventuallyFree waits until the budget has all its places.
func (p *countedPool) eventuallyFree() {
	p.t.Helper()
	p.eventually("B3.2: the budget is not left occupied", func() bool {
		found, err := p.nhc.RemediationV1alpha1().RemediationBudgets().Get(p.t.Context(), p.name, metav1.GetOptions{})
		require.NoError(p.t, err)
		return found.Status.RemediatingNodes != nil && *found.Status.RemediatingNodes == 0
	})
}

// TestMachinesCounted: whatever happens, a budget counts the Machines that MachineHealthChecks have under remediation,
// and no others: it is never exceeded, nor left occupied (spec B3.2, M16.2).
func TestMachinesCounted(t *testing.T) {
	t.Parallel()
	c := exclusiveCluster(t)
	c.installMachineAPIs(t)
	c.applyOverlay(t, ownOverlay)
	m := &countedMachines{killedController: killedController{t: t, cluster: c}}
	m.startProxy()
	m.start()
	// oneByOne has two Machines fail. The second one waits until the first one is replaced.
	oneByOne := func(p *countedPool) {
		p.fail("m1", "m2")
		p.eventuallyOnly(1)
		m.disturbed.Store(nil)
		p.makeRoom()
		p.eventually("both are deleted", func() bool { return p.accepted() == 2 })
	}
	for _, tt := range []struct {
		name                    string
		replicas, maxConcurrent int
		disturb                 disturbance
		run                     func(*countedPool)
	}{
		{name: "the status write after a deletion is refused", replicas: 3, maxConcurrent: 1, disturb: disturbance{refuse: true}, run: func(p *countedPool) {
			oneByOne(p)
			require.NotZero(p.t, m.refused.Load(), "the test itself")
		}},
		{name: "the process dies between deletion and report", replicas: 3, maxConcurrent: 1, disturb: disturbance{die: true}, run: oneByOne},
		{name: "a Machine without owner is deleted by hand", replicas: 2, maxConcurrent: 1, run: func(p *countedPool) {
			p.createMachine("own", unowned, finalized)
			p.join("own")
			p.eventuallyCounts(3, 3)
			p.fail("own")
			p.eventuallyDecided("own", "NoController")
			require.NoError(p.t, p.machines().Delete(p.t.Context(), "own", metav1.DeleteOptions{}))
			p.eventuallyCounts(2, 2)
			p.eventuallyGone("own") // The MachineSet takes the finalizer away.
			p.makeRoom()
			p.fail("m1")
			p.eventuallyOnly(1)
		}},
		{name: "a MachineSet is scaled down while its Machines fail", replicas: 3, maxConcurrent: 1, run: func(p *countedPool) {
			p.fail("m1")
			p.eventuallyGone("m1")
			p.fail("m2", "m3")
			p.eventuallyDecided("m3", string(v1alpha1.DecidedBudgetExhausted))
			p.eventually("a replacement", func() bool { return len(p.set.Created()) == 4 })
			p.replicas.Store(1)
			for _, machine := range []string{"m2", "m3"} {
				require.NoError(p.t, p.machines().Delete(p.t.Context(), machine, metav1.DeleteOptions{}))
				p.eventuallyGone(machine)
			}
			p.makeRoom()
			p.eventuallyOnly(1)
		}},
		{name: "more Machines fail than the history has room for", replicas: 70, maxConcurrent: 55, run: func(p *countedPool) {
			p.fail(p.set.Created()...)
			p.eventuallyOnly(55)
			p.makeRoom()
			p.eventually("all are deleted", func() bool { return p.accepted() == 70 })
		}},
		{name: "FR-318 C the last Machines of an outage are still booting", replicas: 10, maxConcurrent: 0, run: func(p *countedPool) {
			p.changeBudget(`{"maxUnhealthy":"30%","cooldown":"1h"}`)
			machines := p.set.Created()
			p.fail(machines...)
			p.eventuallyDecided("m10", string(v1alpha1.DecidedBudgetExhausted))
			p.changeBudget(`{"maxConcurrent":10}`) // Until then, the first ones to fail would have been within maxUnhealthy.
			p.eventually("the next leader can know", func() bool {
				found, err := p.nhc.RemediationV1alpha1().RemediationBudgets().Get(p.t.Context(), p.name, metav1.GetOptions{})
				require.NoError(p.t, err)
				return *found.Status.UnhealthyNodes == 10
			})
			m.restart()
			heal := func(machines []string) {
				for _, machine := range machines {
					p.setReady(machine, corev1.ConditionTrue)
				}
			}
			heal(machines[:7])
			p.eventually("the cooldown is told", func() bool {
				entry := p.entry("m10")
				return entry != nil && strings.Contains(entry.Decision.Message, "cooldown, next begin at")
			})
			heal(machines[7:9])
			p.makeRoom()
			require.Zero(p.t, p.accepted())
			p.changeBudget(`{"cooldown":"5s"}`)
			p.eventuallyOnly(1) // m10 does not come back.
		}},
		{name: "our clock is ahead", replicas: 3, maxConcurrent: 1, disturb: disturbance{ahead: 2 * time.Second}, run: func(p *countedPool) {
			m.restart() // Watches are put back from their beginning.
			p.makeRoom()
			p.fail("m1", "m2")
			p.eventually("both are deleted", func() bool { return p.accepted() == 2 })
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, api := range machineAPIs {
				t.Run(api.name, func(t *testing.T) {
					s := newMachineScenario(t, c, api.machine)
					p := newPool(s, tt.replicas, tt.maxConcurrent)
					tt.disturb.namespace = s.name
					m.deleted.Store(false)
					m.refused.Store(0)
					m.disturbed.Store(&tt.disturb)
					defer m.disturbed.Store(nil)
					tt.run(p)
					p.eventuallyFree()
				})
			}
		})
	}
}
