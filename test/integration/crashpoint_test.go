// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/test/deploy"
	"github.com/nhc-controller/nhc-controller/test/faultproxy"
	"github.com/nhc-controller/nhc-controller/test/localkube"
)

var (
	killAll  = flag.Bool("kill.all", false, "kill the controller before and after each of its writes, not at a sample of them")
	killSeed = flag.Uint64("kill.seed", 0, "the seed of the sample, 0 for another one in each run")
)

// killSample is how many kill points a run tries without -kill.all.
const killSample = 5

// killPoint is when the controller is killed.
type killPoint struct {
	write      int
	carriedOut bool // The API server has carried out the request, but the answer is lost.
}

// TestKilledAtEachWrite runs one escalation again and again, and kills the
// controller at its n-th write: before the API server gets the request, and when it has
// carried it out but the answer is lost. The end is always the same, nothing is created
// twice and no step is skipped (P8). Each run tries a sample of all n.
func TestKilledAtEachWrite(t *testing.T) {
	t.Parallel()
	c := exclusiveCluster(t)
	m := &killedController{t: t, cluster: c}
	m.startProxy()
	m.start()

	writes := m.escalation("alive", killPoint{})
	require.Greater(t, writes, 8, "lease, CR, mark, lease, CR, status in between, two deletions, lease")
	// Status is written less often if that is slow, so the last writes may not come.
	certain := 0
	for _, point := range killPoints(t, writes) {
		m.escalation(fmt.Sprintf("write %d of %d, carried out: %t", point.write, writes, point.carriedOut), point)
		if point.write <= writes-2 {
			certain++
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	require.GreaterOrEqual(t, m.kills, certain, "how often the controller was killed")
	require.GreaterOrEqual(t, m.starts, m.kills, "it was started again")
}

// killPoints returns all kill points, or a sample of them.
func killPoints(t *testing.T, writes int) []killPoint {
	t.Helper()
	var points []killPoint
	for n := 1; n <= writes; n++ {
		points = append(points, killPoint{n, false}, killPoint{n, true})
	}
	if *killAll {
		return points
	}
	seed := *killSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("the same sample again: -kill.seed=%d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	random.Shuffle(len(points), func(i, j int) { points[i], points[j] = points[j], points[i] })
	return points[:killSample]
}

// killedController is a controller that is killed at a certain write, and started again.
type killedController struct {
	t       *testing.T
	cluster *cluster
	proxy   *faultproxy.Proxy

	mu      sync.Mutex
	process *localkube.Process
	starts  int
	kills   int
	writes  int
	next    killPoint // The zero value means never.
}

func (m *killedController) startProxy() {
	var err error
	m.proxy, err = faultproxy.Start(m.cluster.AdminConfig(), faultproxy.Hooks{
		Before: func(r *http.Request) bool { return !isStateWrite(r) || !m.dies(false) },
		After:  func(r *http.Request, _ *http.Response) bool { return !isStateWrite(r) || !m.dies(true) },
	})
	require.NoError(m.t, err)
	m.t.Cleanup(func() { require.NoError(m.t, m.proxy.Stop()) })
}

// isStateWrite reports whether a request is meant to change what counts: reviews ask,
// and events only tell.
func isStateWrite(r *http.Request) bool {
	return r.Method != http.MethodGet && !strings.Contains(r.URL.Path, "accessreviews") && !strings.Contains(r.URL.Path, "/events")
}

// dies counts a write, before or after the API server has carried it out, and kills
// the controller if it is the one.
func (m *killedController) dies(carriedOut bool) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !carriedOut {
		m.writes++
	}
	if m.next.write == 0 || m.next != (killPoint{m.writes, carriedOut}) {
		return false
	}
	m.next = killPoint{}
	m.kills++
	if err := m.process.Kill(); err != nil {
		m.t.Errorf("killing the controller: %v", err)
	}
	return true
}

// start starts the controller, and again whenever it has been killed.
func (m *killedController) start() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.starts++
	process, err := deploy.Start(m.t.Context(), m.cluster.ControlPlane, deploy.Controller{
		Name: fmt.Sprintf("life-%03d", m.starts), Args: []string{"-v=4", "--leader-elect=false"}, Through: m.proxy.Config,
	})
	if err != nil {
		m.t.Errorf("starting the controller: %v", err)
		return
	}
	m.process = process
	go func() {
		select {
		case <-m.t.Context().Done():
			return
		case <-process.Exited():
		}
		if m.t.Context().Err() == nil {
			m.start()
		}
	}()
}

// escalation makes a node fail, its first step fail, and the node healed by the
// second, and returns the number of writes.
func (m *killedController) escalation(name string, next killPoint) (writes int) {
	m.t.Run(name, func(t *testing.T) {
		s := newEmptyScenario(t, m.cluster, t.Name(), powerCycle)
		s.createTemplate(usualTemplate(), v1alpha1.AnnotationMultipleTemplates)
		second := s.createStepTemplate(s.name + "-second")
		s.createNodes("a", "b")
		s.createNHC(func(spec *v1alpha1.NodeHealthCheckSpec) {
			spec.RemediationTemplate = nil
			spec.EscalatingRemediations = []v1alpha1.EscalatingRemediation{
				{Order: 2, RemediationTemplate: *second, Timeout: metav1.Duration{Duration: time.Hour}},
				{Order: 1, RemediationTemplate: *s.templateReference(), Timeout: metav1.Duration{Duration: time.Hour}},
			}
		})
		s.eventuallyCounts(2, 2)
		m.mu.Lock()
		m.writes, m.next = 0, next
		m.mu.Unlock()

		s.fail("a")
		first := s.eventuallyStep(s.name)
		s.patch(s.crClient(), first.GetName(), map[string]any{"status": map[string]any{"conditions": []any{
			map[string]any{"type": v1alpha1.RemediationSucceeded, "status": "False"},
		}}}, "status")
		s.eventuallyStep(second.Name)
		s.eventually("status has both steps, the first one as over", func() bool {
			entry := s.entry("a")
			return entry != nil && len(entry.Remediations) == 2 && entry.Remediations[0].TemplateName == s.name && entry.Remediations[0].TimedOut != nil &&
				entry.Remediations[1].TemplateName == second.Name && entry.Remediations[1].TimedOut == nil
		})
		for _, cr := range s.crs() {
			_, marked := cr.GetAnnotations()[v1alpha1.AnnotationTimedOut]
			require.Equal(t, cr.GetUID() == first.GetUID(), marked, "13.3, 13.8: the first step is marked, and no other")
		}
		s.heal("a")
		s.eventuallyCounts(2, 2)
		require.Empty(t, s.crs())
		s.eventuallyNoneListed()
		s.eventually("the lease is released", func() bool {
			leases, err := s.kube.CoordinationV1().Leases("medik8s-leases").List(t.Context(), metav1.ListOptions{})
			require.NoError(t, err)
			return len(leases.Items) == 0
		})
		created := s.requests(func(r localkube.Request) bool {
			return r.Verb == "create" && r.Resource == s.kind.remediations.Resource && r.Namespace == s.name && r.Code == http.StatusCreated
		})
		require.Len(t, created, 2, "no CR is created twice")
		m.mu.Lock()
		defer m.mu.Unlock()
		// Status is written less often if that is slow: then the last write may not come.
		require.True(t, m.next.write == 0 || m.writes < m.next.write, "the controller was killed at write %d of %d", m.next.write, m.writes)
		require.Empty(t, deploy.LogFaults(m.process))
		writes = m.writes
	})
	return writes
}

// createStepTemplate creates another template like that of the scenario.
func (s *scenario) createStepTemplate(name string) *corev1.ObjectReference {
	s.t.Helper()
	template := &unstructured.Unstructured{Object: map[string]any{"spec": usualTemplate()}}
	template.SetGroupVersionKind(s.kind.templates.GroupVersion().WithKind(s.kind.templateName()))
	template.SetName(name)
	template.SetAnnotations(map[string]string{v1alpha1.AnnotationMultipleTemplates: ""})
	_, err := s.resource(s.kind.templates).Create(s.t.Context(), template, metav1.CreateOptions{})
	require.NoError(s.t, err)
	reference := s.templateReference()
	reference.Name = name
	return reference
}

// eventuallyStep waits until there is a CR from a template.
func (s *scenario) eventuallyStep(template string) *unstructured.Unstructured {
	s.t.Helper()
	var found *unstructured.Unstructured
	s.eventually("a CR from template "+template, func() bool {
		crs := s.crs()
		if i := slices.IndexFunc(crs, func(cr unstructured.Unstructured) bool {
			return cr.GetAnnotations()[v1alpha1.AnnotationTemplateName] == template
		}); i >= 0 {
			found = &crs[i]
		}
		return found != nil
	})
	return found
}
