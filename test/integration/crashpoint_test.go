// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
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

// TestKilledAtEachWrite runs one escalation again and again, and kills the
// controller at its n-th write, for each n: before the API server gets the request,
// and when it has carried it out but the answer is lost. The end is always the same,
// nothing is created twice and no step is skipped (P8).
func TestKilledAtEachWrite(t *testing.T) {
	t.Parallel()
	c := newCluster(t, localkube.Options{AuditUsers: []string{deploy.User}})
	m := &mortal{t: t, cluster: c}
	m.startProxy()
	m.start()

	writes := m.escalation("alive", 0, false)
	require.Greater(t, writes, 8, "lease, CR, mark, lease, CR, status in between, two deletions, lease")
	for n := 1; n <= writes; n++ {
		for _, carriedOut := range []bool{false, true} {
			m.escalation(fmt.Sprintf("write %d of %d, carried out: %t", n, writes, carriedOut), n, carriedOut)
		}
	}
}

// mortal is a controller that is killed at a certain write, and started again.
type mortal struct {
	t       *testing.T
	cluster *cluster
	proxy   *faultproxy.Proxy

	mu         sync.Mutex
	process    *localkube.Process
	lives      int
	writes     int
	killAt     int // Zero for never.
	carriedOut bool
}

func (m *mortal) startProxy() {
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
func (m *mortal) dies(carriedOut bool) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !carriedOut {
		m.writes++
	}
	if m.killAt == 0 || m.writes != m.killAt || carriedOut != m.carriedOut {
		return false
	}
	m.killAt = 0
	if err := m.process.Kill(); err != nil {
		m.t.Errorf("killing the controller: %v", err)
	}
	return true
}

// start starts the controller, and again whenever it has been killed.
func (m *mortal) start() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lives++
	process, err := deploy.Start(m.t.Context(), m.cluster.ControlPlane, deploy.Controller{
		Name: fmt.Sprintf("life-%03d", m.lives), Args: []string{"-v=4", "--leader-elect=false"}, Through: m.proxy.Config,
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

// escalation has a node fail, its first step fail, and the node healed by the
// second, and returns the number of writes.
func (m *mortal) escalation(name string, killAt int, carriedOut bool) (writes int) {
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
		m.writes, m.killAt, m.carriedOut = 0, killAt, carriedOut
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
		s.eventuallyNobodyListed()
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
		require.True(t, m.killAt == 0 || m.writes < m.killAt, "the controller was killed at write %d of %d", m.killAt, m.writes)
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
