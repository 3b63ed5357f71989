// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// stated has a NodeHealthCheck say how many nodes are healthy, and which nodes are not.
// Everything else in its status follows from that and from its spec.
func stated(observed, healthy int32, entries ...v1alpha1.UnhealthyNode) func(*v1alpha1.NodeHealthCheck) {
	return func(nhc *v1alpha1.NodeHealthCheck) {
		status := &nhc.Status
		status.ObservedGeneration = nhc.Generation
		status.ObservedNodes, status.HealthyNodes, status.SoonUnhealthyNodes = &observed, &healthy, new(int32(0))
		status.UnhealthyNodes = entries
		remediating, unhealthy := int32(0), int32(0)
		for _, entry := range entries {
			if len(entry.Remediations) > 0 {
				remediating++
			}
			if entry.ConditionsHealthyTimestamp == nil {
				unhealthy++
			}
		}
		status.RemediatingNodes, status.UnhealthyNodeCount = &remediating, &unhealthy
		required := nhc.Spec.MinHealthy.IntVal
		status.RemediationsAllowed = new(max(0, healthy-required))
		status.Phase, status.Reason = v1alpha1.PhaseEnabled, "NHC is enabled, no ongoing remediation"
		allowed := v1alpha1.ReasonGateOpen
		if remediating > 0 {
			status.Phase, status.Reason = v1alpha1.PhaseRemediating, "NHC is remediating 1 nodes"
		}
		switch {
		case len(nhc.Spec.PauseRequests) > 0:
			status.Phase, status.Reason, allowed = v1alpha1.PhasePaused, "NHC is paused: test", "Paused"
		case observed == 0:
			allowed = "NoNodes"
		case healthy < required:
			allowed = "GateClosed"
		case meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionStormActive):
			allowed = "StormActive"
		}
		status.Conditions = append(status.Conditions,
			metav1.Condition{Type: v1alpha1.ConditionDisabled, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonEnabled, Message: v1alpha1.MessageEnabled},
			metav1.Condition{Type: v1alpha1.ConditionRemediationAllowed, Status: is(allowed == v1alpha1.ReasonGateOpen), Reason: allowed, Message: messages[allowed]},
		)
		if observed == 0 {
			status.Conditions = append(status.Conditions, metav1.Condition{Type: v1alpha1.ConditionStalled, Status: metav1.ConditionTrue, Reason: "NoNodes"})
		}
		for i := range status.Conditions {
			status.Conditions[i].ObservedGeneration = nhc.Generation
		}
	}
}

// messages are those of condition RemediationAllowed that the judge reads, by reason.
var messages = map[string]string{"NoNodes": "the selector selects no node"}

func is(holds bool) metav1.ConditionStatus {
	if holds {
		return metav1.ConditionTrue
	}
	return metav1.ConditionFalse
}

// with changes a status.
func with(change func(*v1alpha1.NodeHealthCheckStatus)) func(*v1alpha1.NodeHealthCheck) {
	return func(nhc *v1alpha1.NodeHealthCheck) { change(&nhc.Status) }
}

// disabledFor has a NodeHealthCheck be Disabled. It comes after stated.
func disabledFor(reason string) func(*v1alpha1.NodeHealthCheck) {
	return func(nhc *v1alpha1.NodeHealthCheck) {
		disabled := meta.FindStatusCondition(nhc.Status.Conditions, v1alpha1.ConditionDisabled)
		disabled.Status, disabled.Reason, disabled.Message = metav1.ConditionTrue, reason, "because"
		allowed := meta.FindStatusCondition(nhc.Status.Conditions, v1alpha1.ConditionRemediationAllowed)
		allowed.Status, allowed.Reason = metav1.ConditionFalse, "Disabled"
		meta.SetStatusCondition(&nhc.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionStalled, Status: metav1.ConditionTrue, Reason: reason, LastTransitionTime: metav1.NewTime(epoch), ObservedGeneration: nhc.Generation})
		nhc.Status.Phase, nhc.Status.Reason = v1alpha1.PhaseDisabled, "NHC is disabled: "+reason+": because"
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

func delayed(e v1alpha1.UnhealthyNode) v1alpha1.UnhealthyNode {
	e.HealthyDelayed = new(true)
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
	found := slices.DeleteFunc(s.snapshotAt(at(100)).unsettled(), func(v Violation) bool {
		return v.Text == undecided // It is the subject of TestSettledDecisions alone.
	})
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
func none(*fixture)         {}
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

// TestSettledStatus compares status with what exists.
func TestSettledStatus(t *testing.T) {
	t.Parallel()
	cr := newCR("n", "Reboot", "one")
	beingDeleted := newCR("n", "Reboot", "one", deleting, marked)
	second := newCR("n", "Reboot", "two", func(cr *CR) { cr.Created = at(50) })
	status := with
	remediation := func(change func(*v1alpha1.Remediation)) func(*v1alpha1.NodeHealthCheck) {
		return with(func(status *v1alpha1.NodeHealthCheckStatus) { change(&status.UnhealthyNodes[0].Remediations[0]) })
	}
	runRows(t, map[string]row{
		"all healthy":              {healthy, healthCheck(stated(1, 1)), nil},
		"7.8 a wrong count":        {healthy, healthCheck(stated(1, 1), status(func(s *v1alpha1.NodeHealthCheckStatus) { s.HealthyNodes = new(int32(0)) })), []string{"7.8"}},
		"7.8 no counts":            {healthy, healthCheck(stated(1, 1), status(func(s *v1alpha1.NodeHealthCheckStatus) { s.HealthyNodes = nil })), []string{"7.8"}},
		"18.6 unhealthyNodeCount":  {healthy, healthCheck(stated(1, 1), status(func(s *v1alpha1.NodeHealthCheckStatus) { s.UnhealthyNodeCount = new(int32(1)) })), []string{"18.6"}},
		"18.5 remediationsAllowed": {healthy, healthCheck(stated(1, 1), status(func(s *v1alpha1.NodeHealthCheckStatus) { s.RemediationsAllowed = nil })), []string{"18.5"}},
		"18.5 an old spec":         {healthy, healthCheck(stated(1, 1), status(func(s *v1alpha1.NodeHealthCheckStatus) { s.ObservedGeneration = 0 })), []string{"18.5"}},
		"18.5 an old condition":    {healthy, healthCheck(stated(1, 1), status(func(s *v1alpha1.NodeHealthCheckStatus) { s.Conditions[0].ObservedGeneration = 0 })), []string{"18.5"}},
		"18.5 a wrong reason":      {healthy, healthCheck(paused, stated(1, 1), status(func(s *v1alpha1.NodeHealthCheckStatus) { s.Conditions[1].Reason = "GateClosed" })), []string{"18.5"}},
		"no node":                  {none, healthCheck(stated(0, 0)), nil},
		"18.5 a gate of no nodes": {none, healthCheck(stated(0, 0), status(func(s *v1alpha1.NodeHealthCheckStatus) {
			s.Conditions[1].Status, s.Conditions[1].Reason = metav1.ConditionTrue, "GateOpen"
		})), []string{"18.5"}},
		"18.1 a wrong phase":    {healthy, healthCheck(stated(1, 1), status(func(s *v1alpha1.NodeHealthCheckStatus) { s.Phase = v1alpha1.PhasePaused })), []string{"18.1"}},
		"6.2 no condition":      {healthy, healthCheck(stated(1, 1), status(func(s *v1alpha1.NodeHealthCheckStatus) { s.Conditions = s.Conditions[1:] })), []string{"6.2"}},
		"18.4 too many entries": {healthy, healthCheck(stated(1, 1, sinceHealthy(entry("m"), 1))), []string{"18.4"}},
		"18.4 not listed": {remediated(cr), healthCheck(stated(1, 0, entry("n", cr)), status(func(s *v1alpha1.NodeHealthCheckStatus) {
			s.UnhealthyNodes, s.Phase, s.Reason = nil, v1alpha1.PhaseEnabled, "NHC is enabled, no ongoing remediation"
		})), []string{"18.4"}},
		"under remediation":             {remediated(cr), healthCheck(stated(1, 0, entry("n", cr))), nil},
		"18.3 another CR":               {remediated(cr), healthCheck(stated(1, 0, entry("n", newCR("n", "Reboot", "x")))), []string{"18.3"}},
		"18.3 the kind":                 {remediated(cr), healthCheck(stated(1, 0, entry("n", cr)), remediation(func(r *v1alpha1.Remediation) { r.Resource.Kind = "x" })), []string{"18.3"}},
		"18.3 started":                  {remediated(cr), healthCheck(stated(1, 0, entry("n", cr)), remediation(func(r *v1alpha1.Remediation) { r.Started = metav1.Now() })), []string{"18.3"}},
		"18.3 templateName":             {remediated(cr), healthCheck(stated(1, 0, entry("n", cr)), remediation(func(r *v1alpha1.Remediation) { r.TemplateName = "" })), []string{"18.3"}},
		"18.3 the order":                {remediated(newCR("n", "Reboot", "one", marked), second), healthCheck(escalating, stated(1, 0, entry("n", second, newCR("n", "Reboot", "one", marked)))), []string{"18.3"}},
		"18.3 timedOut":                 {remediated(newCR("n", "Reboot", "one", marked), second), healthCheck(escalating, stated(1, 0, entry("n", cr, second))), []string{"18.3"}},
		"16.2 its CR is deleted":        {recovered(beingDeleted), healthCheck(stated(1, 0, sinceHealthy(entry("n", beingDeleted), 50))), nil},
		"16.2 no timestamp":             {recovered(beingDeleted), healthCheck(stated(1, 0, entry("n", beingDeleted)), status(func(s *v1alpha1.NodeHealthCheckStatus) { s.UnhealthyNodeCount = new(int32(0)) })), []string{"16.2"}},
		"7.5 soon unhealthy":            {func(s *fixture) { s.node(past, newNode("n", "False", at(1000))) }, healthCheck(stated(1, 0, entry("n")), status(soon)), nil},
		"7.3 soon unhealthy, uncounted": {func(s *fixture) { s.node(past, newNode("n", "False", at(1000))) }, healthCheck(stated(1, 0, entry("n")), status(func(s *v1alpha1.NodeHealthCheckStatus) { s.UnhealthyNodeCount = new(int32(0)) })), []string{"7.3"}},
		"17.4 a leftover, not named":    {gone(beingDeleted), healthCheck(stated(0, 0)), []string{"17.4"}},
		"17.4 a leftover":               {gone(beingDeleted), healthCheck(withLeftover, stated(0, 0)), nil},
		"17.4 no leftover":              {healthy, healthCheck(withLeftover, stated(1, 1)), []string{"17.4"}},
		"13.8 a leftover, not told":     {gone(newCR("n", "Reboot", "one", deleting)), healthCheck(withLeftover, stated(0, 0)), []string{"13.8"}},
	})
}

func soon(s *v1alpha1.NodeHealthCheckStatus) {
	s.SoonUnhealthyNodes, s.UnhealthyNodeCount = new(int32(1)), new(int32(0))
}

func withLeftover(nhc *v1alpha1.NodeHealthCheck) {
	nhc.Status.Conditions = append(nhc.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionLeftoverRemediations, Status: metav1.ConditionTrue})
}

// TestSettledRemediation judges the due actions.
func TestSettledRemediation(t *testing.T) {
	t.Parallel()
	cr := newCR("n", "Reboot", "one")
	over := newCR("n", "Reboot", "one", marked)
	failed := newCR("n", "Reboot", "one", func(cr *CR) { cr.Succeeded = "False" })
	atWork := newCR("n", "Reboot", "one", func(cr *CR) { cr.Created = at(50) })
	second := newCR("n", "Reboot", "two", func(cr *CR) { cr.Created = at(50) })
	namesake := newCR("m", "Reboot", "one", func(cr *CR) { cr.Created, cr.Name = at(50), "n" })
	nameTaken := func(s *fixture) {
		notHealthy(s)
		s.node(past, failedNode("m"))
		s.cr(past, namesake)
	}
	leased := func(setup func(*fixture), renewed float64) func(*fixture) {
		return func(s *fixture) {
			setup(s)
			s.lease(past, newLease("n", "NodeHealthCheck-nhc", at(renewed), 2*time.Minute))
		}
	}
	runRows(t, map[string]row{
		"P12 nothing is done":     {notHealthy, healthCheck(stated(1, 0, entry("n"))), []string{"P12"}},
		"10.1 paused":             {notHealthy, healthCheck(paused, stated(1, 0, entry("n"))), nil},
		"5.6 a dry run":           {notHealthy, healthCheck(dryRun, stated(1, 0, entry("n"))), nil},
		"8.5 gate closed":         {notHealthy, healthCheck(minHealthy("1"), stated(1, 0, entry("n"))), nil},
		"15.1 excluded":           {func(s *fixture) { s.node(past, failedNode("n", labelled(v1alpha1.LabelExclude, "true"))) }, healthCheck(stated(1, 0, entry("n"))), nil},
		"14.3 lease taken":        {func(s *fixture) { notHealthy(s); s.lease(past, newLease("n", "other", at(99), time.Minute)) }, healthCheck(stated(1, 0, entry("n"))), nil},
		"14.4 lease not valid":    {func(s *fixture) { notHealthy(s); s.lease(past, newLease("n", "other", at(9), time.Minute)) }, healthCheck(stated(1, 0, entry("n"))), []string{"P12"}},
		"11.4 a foreign CR":       {remediated(newCR("n", "Reboot", "one", foreign)), healthCheck(stated(1, 0, entry("n"))), nil},
		"11.4 its name is taken":  {nameTaken, healthCheck(stated(2, 0, entry("m", namesake), entry("n"))), nil},
		"12.2 slot taken":         {slotTaken, healthCheck(stated(1, 0, entry("n"))), nil},
		"13.3 at work":            {remediated(atWork), healthCheck(escalating, stated(1, 0, entry("n", atWork))), nil},
		"13.3 a step is due":      {remediated(over), healthCheck(escalating, stated(1, 0, entry("n", over))), []string{"13.3"}},
		"13.3 not told":           {remediated(failed), healthCheck(escalating, stated(1, 0, entry("n", failed))), []string{"13.3", "13.3"}},
		"13.3 time is up":         {remediated(cr), healthCheck(escalating, stated(1, 0, entry("n", cr))), []string{"13.3", "13.3"}},
		"13.3 paused":             {remediated(cr), healthCheck(escalating, paused, stated(1, 0, entry("n", cr))), nil},
		"13.3 the next one works": {remediated(over, second), healthCheck(escalating, stated(1, 0, entry("n", over, second))), nil},
		"13.7 classic, failed":    {remediated(failed), healthCheck(stated(1, 0, entry("n", failed))), nil},
		"14.5 renewed":            {leased(remediated(atWork), 50), healthCheck(escalating, stated(1, 0, entry("n", atWork))), nil},
		"14.5 not renewed":        {leased(remediated(atWork), 30), healthCheck(escalating, stated(1, 0, entry("n", atWork))), []string{"14.5"}},
		"14.7 overdue":            {leased(remediated(atWork), -1800), healthCheck(stated(1, 0, entry("n", atWork))), []string{"14.7", "14.5"}},
		"14.7 not overdue":        {leased(remediated(atWork), 50), healthCheck(stated(1, 0, entry("n", atWork))), nil},
		"14.9 a lease without CR": {leased(healthy, 99), healthCheck(stated(1, 1)), []string{"14.9"}},
		"17.2 the Node is gone":   {gone(cr), healthCheck(stated(0, 0, sinceHealthy(entry("n", cr), 1))), []string{"17.2"}},
		"17.3 it is replaced":     {gone(newCR("n", "Reboot", "one", func(cr *CR) { cr.Permanent = "True" })), healthCheck(stated(0, 0, sinceHealthy(entry("n", cr), 1))), nil},
	})
}

// slotTaken has another control plane node under remediation.
func slotTaken(s *fixture) {
	s.node(past, failedNode("n", controlPlane))
	s.node(past, failedNode("m", controlPlane, labelled("pool", "b")))
	s.cr(past, newCR("m", "Rebuild", "x", foreign))
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
		"16.1 recovered":         {recovered(cr), healthCheck(stated(1, 0, since(50))), []string{"16.1"}},
		"16.4 never":             {recovered(cr), healthCheck(healthyDelay(-1), stated(1, 0, delayed(since(50)))), nil},
		"16.4 not said":          {recovered(cr), healthCheck(healthyDelay(-1), stated(1, 0, since(50))), []string{"16.4"}},
		"16.4 delayed":           {recovered(cr), healthCheck(healthyDelay(time.Minute), stated(1, 0, delayed(since(50)))), nil},
		"16.4 the delay is over": {recovered(cr), healthCheck(healthyDelay(time.Minute), stated(1, 0, delayed(since(30)))), []string{"16.4"}},
		"16.6 confirmed":         {func(s *fixture) { confirmed(s); s.cr(past, cr) }, healthCheck(healthyDelay(-1), stated(1, 0, delayed(since(50)))), []string{"16.1"}},
		"16.6 a confirmation":    {confirmed, healthCheck(stated(1, 1)), []string{"16.6"}},
	})
}

// TestSettledStorm judges storms that are configured.
func TestSettledStorm(t *testing.T) {
	t.Parallel()
	cr := newCR("n", "Reboot", "one")
	limit := func(s *fixture) { remediated(cr)(s); s.node(past, healthyNode("m")) }
	cooling := storm(0, 50*time.Second, true)
	change := with
	runRows(t, map[string]row{
		"9.6 storm":                    {notHealthy, healthCheck(storm(0, 0, true), stated(1, 0, entry("n"))), nil},
		"9.5 the storm is over":        {healthy, healthCheck(storm(0, 0, true), stated(1, 1)), []string{"9.5"}},
		"9.5 it cools down":            {healthy, healthCheck(cooling, calmSince(at(60)), stated(1, 1)), nil},
		"9.5 it has cooled down":       {healthy, healthCheck(cooling, calmSince(at(40)), stated(1, 1)), []string{"9.5"}},
		"9.8 calm, and no cooldown":    {healthy, healthCheck(cooling, stated(1, 1)), []string{"9.8"}},
		"9.8 not calm, and a cooldown": {notHealthy, healthCheck(cooling, calmSince(at(60)), stated(1, 0, entry("n"))), []string{"9.8"}},
		"9.8 another message":          {notHealthy, healthCheck(storm(0, 0, true), change(func(s *v1alpha1.NodeHealthCheckStatus) { s.Conditions[0].Message = "x" }), stated(1, 0, entry("n"))), []string{"9.8"}},
		"9.2 a storm is due":           {notHealthy, healthCheck(storm(0, 0, false), minHealthy("1"), stated(1, 0, entry("n"))), []string{"9.2"}},
		"9.2 the limit is reached":     {limit, healthCheck(storm(0, 0, false), minHealthy("1"), stated(2, 1, entry("n", cr))), []string{"9.2"}},
		"9.2 the limit is not reached": {limit, healthCheck(storm(0, 0, false), stated(2, 1, entry("n", cr))), nil},
		"9.9 no flag":                  {healthy, healthCheck(storm(0, 0, false), stated(1, 1), change(func(s *v1alpha1.NodeHealthCheckStatus) { s.StormRecoveryActive = nil })), []string{"9.9"}},
		"9.9 no start":                 {notHealthy, healthCheck(storm(0, 0, true), stated(1, 0, entry("n")), change(func(s *v1alpha1.NodeHealthCheckStatus) { s.StormRecoveryStartTime = nil })), []string{"9.9"}},
		"9.10 not configured":          {healthy, healthCheck(storm(0, 0, false), stated(1, 1), func(nhc *v1alpha1.NodeHealthCheck) { nhc.Spec.StormRecoveryThreshold = nil }), []string{"9.10"}},
	})
}

// TestSettledDisabled compares condition Disabled with templates, kinds and permissions.
func TestSettledDisabled(t *testing.T) {
	t.Parallel()
	served := func(s *fixture, established bool) {
		for _, kind := range []string{"Reboot", "RebootTemplate"} {
			add(s.kinds, "test/"+kind, s.next(), past, &Kind{Group: "test", Kind: kind, Served: established || kind != "Reboot"})
		}
	}
	role := func(s *fixture, verbs ...string) {
		s.role = append(s.role, version[Role]{rv: s.next(), object: &Role{[]rbacv1.PolicyRule{
			{APIGroups: []string{"test"}, Resources: []string{"rebootremediations", "reboots", "reboottemplates"}, Verbs: verbs},
		}}})
	}
	enabled := healthCheck(stated(1, 1))
	disabled := func(reason string) *NHC { return healthCheck(stated(1, 1), disabledFor(reason)) }
	runRows(t, map[string]row{
		"6.1 no template":             {func(s *fixture) { healthy(s); s.template(past, "Reboot", "one", nil) }, enabled, []string{"6.1"}},
		"6.1 no template, disabled":   {func(s *fixture) { healthy(s); s.template(past, "Reboot", "one", nil) }, disabled(v1alpha1.ReasonTemplateNotFound), nil},
		"6.4 a template again":        {healthy, disabled(v1alpha1.ReasonTemplateNotFound), []string{"6.4"}},
		"6.4 another reason":          {func(s *fixture) { healthy(s); s.template(past, "Reboot", "one", nil) }, disabled(v1alpha1.ReasonTemplateInvalid), []string{"6.4"}},
		"6.1 a template without spec": {func(s *fixture) { healthy(s); s.template(past, "Reboot", "one", &Template{}) }, enabled, []string{"6.1"}},
		"6.1 a kind not served":       {func(s *fixture) { healthy(s); served(s, false) }, enabled, []string{"6.1"}},
		"6.1 a kind served":           {func(s *fixture) { healthy(s); served(s, true) }, enabled, nil},
		"6.6 permitted":               {func(s *fixture) { healthy(s); role(s, "*") }, enabled, nil},
		"6.6 not permitted":           {func(s *fixture) { healthy(s); role(s, "get", "list", "watch", "create", "patch") }, enabled, []string{"6.1"}},
		"6.6 forbidden":               {func(s *fixture) { healthy(s); role(s, "get") }, disabled(v1alpha1.ReasonTemplateForbidden), nil},
		"6.2 another message":         {healthy, healthCheck(stated(1, 1), with(func(s *v1alpha1.NodeHealthCheckStatus) { s.Conditions[0].Message = "x" })), []string{"6.2"}},
		"6.9 not followed":            {healthy, disabled(v1alpha1.ReasonConflict), nil},
	})
}

// TestAgain: an object that was created and deleted before its watch reported it is
// judged in its turn.
func TestAgain(t *testing.T) {
	t.Parallel()
	j := NewJudge(Config{Tolerance: Quiet})
	window := j.BeginFault(at(1), "x", Tolerance{Cache: time.Minute})
	j.violations = []Violation{{Rule: "1"}}
	again := j.Again()
	require.Empty(t, again.violations)
	require.Equal(t, 1, again.figures.Faults)
	require.Equal(t, 1, again.figures.Replays)
	again.EndFault(at(2), window)
	require.Equal(t, Quiet, again.toleranceAt(request(1000)))
}
