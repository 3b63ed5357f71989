// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// stated has a NodeHealthCheck list nodes.
func stated(entries ...v1alpha1.UnhealthyNode) func(*v1alpha1.NodeHealthCheck) {
	return func(nhc *v1alpha1.NodeHealthCheck) {
		nhc.Status.UnhealthyNodes = entries
		nhc.Status.Conditions = append(nhc.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionRemediationAllowed, Status: metav1.ConditionTrue})
	}
}

func entry(node string, crs ...*CR) v1alpha1.UnhealthyNode {
	e := v1alpha1.UnhealthyNode{Name: node}
	for _, cr := range crs {
		remediation := v1alpha1.Remediation{
			Resource:     corev1.ObjectReference{APIVersion: cr.APIVersion, Kind: cr.Kind, Namespace: cr.Namespace, Name: cr.Name, UID: cr.UID},
			Started:      metav1.NewTime(cr.Created),
			TemplateName: cr.Template,
		}
		if cr.Marked {
			remediation.TimedOut = new(metav1.NewTime(epoch))
		}
		e.Remediations = append(e.Remediations, remediation)
	}
	return e
}

// sinceHealthy has a node of status be healthy since an instant.
func sinceHealthy(e v1alpha1.UnhealthyNode, second float64) v1alpha1.UnhealthyNode {
	e.ConditionsHealthyTimestamp = new(metav1.NewTime(at(second)))
	return e
}

// row is a cluster that changes no more, and the rules that it breaks.
type row struct {
	setup func(s *fixture)
	nhc   *NHC
	want  []string
}

func (r *row) run(t *testing.T) {
	t.Helper()
	s := newFixture()
	r.setup(s)
	s.nhc(past, r.nhc)
	found := s.snapshotAt(at(100)).unsettled()
	require.Equal(t, r.want, brokenRules(found), "%v", found)
}

func runRows(t *testing.T, rows map[string]row) {
	t.Helper()
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			row.run(t)
		})
	}
}

// The nodes of the rows.
func healthy(s *fixture)    { s.node(past, healthyNode("n")) }
func notHealthy(s *fixture) { s.node(past, failedNode("n")) }

// remediated has a node that is not healthy, with these CRs.
func remediated(crs ...*CR) func(s *fixture) {
	return func(s *fixture) {
		notHealthy(s)
		for _, cr := range crs {
			s.cr(past, cr)
		}
	}
}

// recovered has a healthy node, with these CRs.
func recovered(crs ...*CR) func(s *fixture) {
	return func(s *fixture) {
		healthy(s)
		for _, cr := range crs {
			s.cr(past, cr)
		}
	}
}

// gone has CRs of a node that is gone.
func gone(crs ...*CR) func(s *fixture) {
	return func(s *fixture) {
		s.noNode(past, "n")
		for _, cr := range crs {
			s.cr(past, cr)
		}
	}
}

// TestSettledRemediation judges the due actions.
func TestSettledRemediation(t *testing.T) {
	t.Parallel()
	cr := newCR("n", "Reboot", "one")
	over := newCR("n", "Reboot", "one", marked)
	failed := newCR("n", "Reboot", "one", func(cr *CR) { cr.Succeeded = "False" })
	atWork := newCR("n", "Reboot", "one", func(cr *CR) { cr.Created = at(50) })
	leased := func(setup func(*fixture), renewed float64) func(*fixture) {
		return func(s *fixture) {
			setup(s)
			s.lease(past, newLease("n", "NodeHealthCheck-nhc", at(renewed), 2*time.Minute))
		}
	}
	runRows(t, map[string]row{
		"P12 nothing is done":     {notHealthy, healthCheck(stated(entry("n"))), []string{"P12"}},
		"14.4 lease not valid":    {func(s *fixture) { notHealthy(s); s.lease(past, newLease("n", "other", at(9), time.Minute)) }, healthCheck(stated(entry("n"))), []string{"P12"}},
		"13.3 a step is due":      {remediated(over), healthCheck(escalating, stated(entry("n", over))), []string{"13.3"}},
		"13.3 not told":           {remediated(failed), healthCheck(escalating, stated(entry("n", failed))), []string{"13.3", "13.3"}},
		"13.3 time is up":         {remediated(cr), healthCheck(escalating, stated(entry("n", cr))), []string{"13.3", "13.3"}},
		"14.5 not renewed":        {leased(remediated(atWork), 30), healthCheck(escalating, stated(entry("n", atWork))), []string{"14.5"}},
		"14.7 overdue":            {leased(remediated(atWork), -1800), healthCheck(stated(entry("n", atWork))), []string{"14.7", "14.5"}},
		"14.9 a lease without CR": {leased(healthy, 99), healthCheck(stated()), []string{"14.9"}},
		"17.2 the Node is gone":   {gone(cr), healthCheck(stated(sinceHealthy(entry("n", cr), 1))), []string{"17.2"}},
	})
}

// TestSettledRecovery judges healthy nodes with CRs.
func TestSettledRecovery(t *testing.T) {
	t.Parallel()
	cr := newCR("n", "Reboot", "one")
	since := func(second float64) v1alpha1.UnhealthyNode { return sinceHealthy(entry("n", cr), second) }
	confirmed := func(s *fixture) {
		s.node(past, healthyNode("n", annotated(v1alpha1.AnnotationManuallyConfirmedHealthy)))
	}
	runRows(t, map[string]row{
		"16.1 recovered":         {recovered(cr), healthCheck(stated(since(50))), []string{"16.1"}},
		"16.4 the delay is over": {recovered(cr), healthCheck(healthyDelay(time.Minute), stated(since(30))), []string{"16.4"}},
		"16.6 confirmed":         {func(s *fixture) { confirmed(s); s.cr(past, cr) }, healthCheck(healthyDelay(-1), stated(since(50))), []string{"16.1"}},
		"16.6 a confirmation":    {confirmed, healthCheck(stated()), []string{"16.6"}},
	})
}

// TestSettledStorm judges storms that are configured.
func TestSettledStorm(t *testing.T) {
	t.Parallel()
	cooling := storm(0, 50*time.Second, true)
	runRows(t, map[string]row{
		"9.6 storm":              {notHealthy, healthCheck(storm(0, 0, true)), nil},
		"9.5 the storm is over":  {healthy, healthCheck(storm(0, 0, true)), []string{"9.5"}},
		"9.5 it cools down":      {healthy, healthCheck(cooling, calmSince(at(60))), nil},
		"9.5 it has cooled down": {healthy, healthCheck(cooling, calmSince(at(40))), []string{"9.5"}},
		"9.2 a storm is due":     {notHealthy, healthCheck(storm(0, 0, false), minHealthy("1")), []string{"9.2"}},
	})
}
