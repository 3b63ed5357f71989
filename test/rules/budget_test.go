// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	nhcv1alpha1 "github.com/nhc-controller/nhc-controller/pkg/apis/nhc/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// newBudget returns budget "b" of all nodes.
func newBudget(change ...func(*nhcv1alpha1.RemediationBudget)) *Budget {
	object := &nhcv1alpha1.RemediationBudget{ObjectMeta: metav1.ObjectMeta{Name: "b", UID: "uid of b", Generation: 1}}
	object.Spec.NodeSelector = &metav1.LabelSelector{}
	object.Status.ObservedGeneration = 1
	for _, c := range change {
		c(object)
	}
	return NewBudget(object, true)
}

func byZone(b *nhcv1alpha1.RemediationBudget) { b.Spec.TopologyKey = "zone" }

func maxConcurrent(value string) func(*nhcv1alpha1.RemediationBudget) {
	return func(b *nhcv1alpha1.RemediationBudget) { b.Spec.MaxConcurrent = new(intstr.Parse(value)) }
}

func maxNotHealthy(value string) func(*nhcv1alpha1.RemediationBudget) {
	return func(b *nhcv1alpha1.RemediationBudget) { b.Spec.MaxUnhealthy = new(intstr.Parse(value)) }
}

func every(interval time.Duration) func(*nhcv1alpha1.RemediationBudget) {
	return func(b *nhcv1alpha1.RemediationBudget) { b.Spec.MinInterval = &metav1.Duration{Duration: interval} }
}

// scheduled has the budget apply for a minute from each of these moments.
func scheduled(cron, zone string) func(*nhcv1alpha1.RemediationBudget) {
	return func(b *nhcv1alpha1.RemediationBudget) {
		b.Spec.ActiveDuring = []nhcv1alpha1.BudgetSchedule{{Cron: cron, TimeZone: zone, Duration: metav1.Duration{Duration: time.Minute}}}
	}
}

func cooldown(d time.Duration) func(*nhcv1alpha1.RemediationBudget) {
	return func(b *nhcv1alpha1.RemediationBudget) { b.Spec.Cooldown = &metav1.Duration{Duration: d} }
}

// lastStarted is what the status says of group "".
func lastStarted(seconds float64) func(*nhcv1alpha1.RemediationBudget) {
	return func(b *nhcv1alpha1.RemediationBudget) {
		b.Status.Groups = []nhcv1alpha1.BudgetGroup{{LastStarted: new(metav1.NewTime(at(seconds)))}}
	}
}

func (s *fixture) budget(seen time.Time, budget *Budget) {
	add(s.budgets, "b", s.next(), seen, budget)
}

// ofOldKind has a CR be of a kind that no NodeHealthCheck names.
func ofOldKind(cr *CR) { cr.Kind = "Former" }

// TestBudgetBeginnings begins the remediation of node "n" at second 100, by what is known since
// second 99.
func TestBudgetBeginnings(t *testing.T) {
	t.Parallel()
	with := func(change ...func(*nhcv1alpha1.RemediationBudget)) func(*fixture) {
		return func(s *fixture) { s.budget(past, newBudget(change...)) }
	}
	other := func(change ...func(*CR)) func(*fixture) {
		return func(s *fixture) { s.cr(past, newCR("m", "Reboot", "one", change...)) }
	}
	fresh := func(process string) func(*fixture) {
		return func(s *fixture) {
			s.cr(at(99.9), newCR("m", "Reboot", "one", func(cr *CR) { cr.Process, cr.Created = process, at(99) }))
		}
	}
	before := func(seconds float64, process string) func(*fixture) {
		return func(s *fixture) {
			s.begun = append(s.begun, begun{at: at(seconds), answered: at(seconds), rv: s.rv, name: "x", identity: s.identityOf("x", window{known: at(99), rv: s.rv}), process: process})
		}
	}
	recovers := func(seconds float64) func(*fixture) {
		return func(s *fixture) { s.node(at(seconds), healthyNode("m", labelled("zone", "a"))) }
	}
	outageOf := func(zone string) func(*fixture) {
		return func(s *fixture) {
			for _, name := range []string{"x", "y"} {
				s.node(past, failedNode(name, labelled("zone", zone)))
				s.node(at(90), healthyNode(name, labelled("zone", zone)))
			}
		}
	}
	tests := map[string]struct {
		setup []func(*fixture)
		want  []string
	}{
		"no budget":                              {nil, nil},
		"B3.2 none":                              {[]func(*fixture){with(maxConcurrent("0"))}, []string{"B3.2"}},
		"B3.2 one is free":                       {[]func(*fixture){with(maxConcurrent("1"))}, nil},
		"B3.2 one is taken":                      {[]func(*fixture){with(maxConcurrent("1")), other()}, []string{"B3.2"}},
		"B3.2 also while it is being deleted":    {[]func(*fixture){with(maxConcurrent("1")), other(deleting)}, []string{"B3.2"}},
		"B3.2 one of two is taken":               {[]func(*fixture){with(maxConcurrent("2")), other()}, nil},
		"B3.2 a percentage is rounded up":        {[]func(*fixture){with(maxConcurrent("26%")), other()}, nil},
		"B3.2 a percentage":                      {[]func(*fixture){with(maxConcurrent("25%")), other()}, []string{"B3.2"}},
		"B3.2 of another group":                  {[]func(*fixture){with(maxConcurrent("1"), byZone), func(s *fixture) { s.cr(past, newCR("x", "Reboot", "one")) }}, nil},
		"B3.2 of its group":                      {[]func(*fixture){with(maxConcurrent("1"), byZone), other()}, []string{"B3.2"}},
		"B3.2 until just now":                    {[]func(*fixture){with(maxConcurrent("1")), other(), func(s *fixture) { s.noCR(at(99.5), newCR("m", "Reboot", "one")) }}, nil},
		"B3.2 just begun by another process":     {[]func(*fixture){with(maxConcurrent("1")), fresh("other/1")}, nil},
		"B3.2 just begun by the same process":    {[]func(*fixture){with(maxConcurrent("1")), fresh("test/1")}, []string{"B3.2"}},
		"B3.2 without an owner":                  {[]func(*fixture){with(maxConcurrent("1")), other(func(cr *CR) { cr.Owners = nil })}, nil},
		"B3.2 of a kind no spec names any more":  {[]func(*fixture){with(maxConcurrent("1")), other(ofOldKind)}, []string{"B3.2"}},
		"B3.2 of such a kind, made by somebody":  {[]func(*fixture){with(maxConcurrent("1")), other(ofOldKind, func(cr *CR) { cr.ByController = false })}, nil},
		"B3.3 the other one is not Ready":        {[]func(*fixture){with(maxNotHealthy("1"))}, []string{"B3.3"}},
		"B3.3 two may be":                        {[]func(*fixture){with(maxNotHealthy("2"))}, nil},
		"B3.3 a percentage":                      {[]func(*fixture){with(maxNotHealthy("25%"))}, []string{"B3.3"}},
		"B3.3 a percentage is rounded up":        {[]func(*fixture){with(maxNotHealthy("26%"))}, nil},
		"B3.3 it has recovered just now":         {[]func(*fixture){with(maxNotHealthy("1")), func(s *fixture) { s.node(at(99.5), healthyNode("m", labelled("zone", "a"))) }}, nil},
		"B3.3 of another group":                  {[]func(*fixture){with(maxNotHealthy("1"), byZone), func(s *fixture) { s.node(past, failedNode("m", labelled("zone", "b"))) }}, nil},
		"B3.4 too early":                         {[]func(*fixture){with(every(time.Minute)), before(41, "test/1")}, []string{"B3.4"}},
		"B3.4 in time":                           {[]func(*fixture){with(every(time.Minute)), before(40, "test/1")}, nil},
		"B3.4 of another group":                  {[]func(*fixture){with(every(time.Minute), byZone), before(41, "test/1")}, nil},
		"B3.4 another process did not know":      {[]func(*fixture){with(every(time.Minute)), before(41, "other/1")}, nil},
		"B3.4 the status says so":                {[]func(*fixture){with(every(time.Minute), lastStarted(41))}, []string{"B3.4"}},
		"B3.4 the status says so since now":      {[]func(*fixture){with(every(time.Minute)), func(s *fixture) { s.budget(at(99.5), newBudget(every(time.Minute), lastStarted(41))) }}, nil},
		"B3.4 a CR says so":                      {[]func(*fixture){with(every(time.Minute)), other(func(cr *CR) { cr.Created = at(50) })}, []string{"B3.4"}},
		"B3.4 a CR of a kind no spec names":      {[]func(*fixture){with(every(time.Minute)), other(ofOldKind, func(cr *CR) { cr.Created = at(50) })}, []string{"B3.4"}},
		"B3.6 exceeded 10 s ago":                 {[]func(*fixture){with(maxNotHealthy("1"), cooldown(20*time.Second)), recovers(90)}, []string{"B3.6"}},
		"B3.6 exceeded 30 s ago":                 {[]func(*fixture){with(maxNotHealthy("1"), cooldown(20*time.Second)), recovers(70)}, nil},
		"B3.6 never exceeded":                    {[]func(*fixture){with(maxNotHealthy("2"), cooldown(20*time.Second)), recovers(90)}, nil},
		"B3.6 of another group":                  {[]func(*fixture){with(maxNotHealthy("1"), cooldown(20*time.Second), byZone), func(s *fixture) { s.node(past, healthyNode("m", labelled("zone", "a"))) }, outageOf("b")}, nil},
		"B3.6 another one has led then":          {[]func(*fixture){with(maxNotHealthy("1"), cooldown(20*time.Second)), recovers(90), func(s *fixture) { s.Led(at(95)) }}, nil},
		"B2.2 it cannot be evaluated":            {[]func(*fixture){with(maxConcurrent("9"), scheduled("0 0 * * *", "Mars/Olympus"))}, []string{"B2.2"}},
		"B2.2 it did not select the node":        {[]func(*fixture){with(scheduled("0 0 * * *", "Mars/Olympus"), selecting("zone", "b"))}, nil},
		"B4.2 written just now":                  {[]func(*fixture){func(s *fixture) { s.budget(at(98.5), newBudget(maxConcurrent("0"))) }}, nil},
		"B4.2 written two seconds ago":           {[]func(*fixture){func(s *fixture) { s.budget(at(97.9), newBudget(maxConcurrent("0"))) }}, []string{"B3.2"}},
		"B4.2 tightened just now":                {[]func(*fixture){with(maxConcurrent("9")), func(s *fixture) { s.budget(at(98.5), newBudget(maxConcurrent("0"))) }}, nil},
		"B4.2 deleted just now":                  {[]func(*fixture){with(maxConcurrent("0")), func(s *fixture) { s.budget(at(99.9), nil) }}, nil},
		"B2 the node has been selected just now": {[]func(*fixture){with(maxConcurrent("0"), selecting("zone", "z")), func(s *fixture) { s.node(at(99.5), failedNode("n", labelled("zone", "z"))) }}, nil},
		"B2 its window is open":                  {[]func(*fixture){with(maxConcurrent("0"), scheduled("1 * * * *", ""))}, []string{"B3.2"}},
		"B2 its window is open in that place":    {[]func(*fixture){with(maxConcurrent("0"), scheduled("46 5 * * *", "Asia/Kathmandu"))}, []string{"B3.2"}},
		"B2 its window is closed":                {[]func(*fixture){with(maxConcurrent("0"), scheduled("0 * * * *", ""))}, nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newFixture()
			for name, zone := range map[string]string{"n": "a", "m": "a", "o": "a", "x": "b"} {
				node := healthyNode(name, labelled("zone", zone))
				if name == "n" || name == "m" {
					node = failedNode(name, labelled("zone", zone))
				}
				s.node(past, node)
			}
			s.nhc(past, healthCheck())
			for _, setup := range tt.setup {
				setup(s)
			}
			w := window{nhc: "nhc", node: "n", known: at(99), nodeKnown: at(99), rv: s.next(), at: at(100), first: true}
			require.Equal(t, tt.want, broke(s.budgetsAllow(w, asker{"n", s.identityOf("n", w)}, request(100), false)))
			require.Equal(t, "n", s.begun[len(s.begun)-1].name, "it counts for what follows")
		})
	}
}

func selecting(key, value string) func(*nhcv1alpha1.RemediationBudget) {
	return func(b *nhcv1alpha1.RemediationBudget) {
		b.Spec.NodeSelector = &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}
	}
}

// TestBudgetStatus compares the status of a budget with a cluster in which "n" waits for "m".
func TestBudgetStatus(t *testing.T) {
	t.Parallel()
	truth := func(b *nhcv1alpha1.RemediationBudget) {
		b.Spec.MaxConcurrent, b.Spec.TopologyKey = new(intstr.FromInt32(1)), "zone"
		b.Status = nhcv1alpha1.RemediationBudgetStatus{
			ObservedGeneration: 1, ObservedNodes: new(int32(4)), NotHealthyNodes: new(int32(2)), RemediatingNodes: new(int32(1)), RemediationsAllowed: new(int32(0)),
			Groups: []nhcv1alpha1.BudgetGroup{
				{Name: "a", ObservedNodes: 3, NotHealthyNodes: 2, RemediatingNodes: 1, RemediationsAllowed: new(int32(0))},
				{Name: "b", ObservedNodes: 1, RemediationsAllowed: new(int32(1))},
			},
			Conditions: []metav1.Condition{{Type: "Valid", Status: "True"}, {Type: "Exhausted", Status: "True", Message: "1 node waits: n"}},
		}
	}
	status := func(change func(*nhcv1alpha1.RemediationBudgetStatus)) func(*nhcv1alpha1.RemediationBudget) {
		return func(b *nhcv1alpha1.RemediationBudget) { change(&b.Status) }
	}
	tests := map[string]struct {
		change func(*nhcv1alpha1.RemediationBudget)
		want   []string
	}{
		"true":                    {func(*nhcv1alpha1.RemediationBudget) {}, nil},
		"B5.2 old":                {func(b *nhcv1alpha1.RemediationBudget) { b.Generation = 2 }, []string{"B5.2"}},
		"B5.2 observed":           {status(func(s *nhcv1alpha1.RemediationBudgetStatus) { *s.ObservedNodes = 3 }), []string{"B5.2"}},
		"B5.2 not healthy":        {status(func(s *nhcv1alpha1.RemediationBudgetStatus) { s.NotHealthyNodes = nil }), []string{"B5.2"}},
		"B5.2 under remediation":  {status(func(s *nhcv1alpha1.RemediationBudgetStatus) { *s.RemediatingNodes = 0 }), []string{"B5.2"}},
		"B5.2 allowed":            {status(func(s *nhcv1alpha1.RemediationBudgetStatus) { s.RemediationsAllowed = nil }), []string{"B5.2"}},
		"B5.2 a group":            {status(func(s *nhcv1alpha1.RemediationBudgetStatus) { s.Groups[0].NotHealthyNodes = 1 }), []string{"B5.2"}},
		"B5.2 allowed of a group": {status(func(s *nhcv1alpha1.RemediationBudgetStatus) { *s.Groups[1].RemediationsAllowed = 0 }), []string{"B5.2"}},
		"B5.2 a group is missing": {status(func(s *nhcv1alpha1.RemediationBudgetStatus) { s.Groups = s.Groups[:1] }), []string{"B5.2"}},
		"B5.2 no node waits":      {status(func(s *nhcv1alpha1.RemediationBudgetStatus) { s.Conditions[1].Status = "False" }), []string{"B5.2"}},
		"B5.2 somebody else":      {status(func(s *nhcv1alpha1.RemediationBudgetStatus) { s.Conditions[1].Message = "1 node waits: o" }), []string{"B5.2"}},
		"B5.2 not exhausted":      {status(func(s *nhcv1alpha1.RemediationBudgetStatus) { s.Conditions = s.Conditions[:1] }), []string{"B5.2"}},
		"B2.2 it is valid":        {status(func(s *nhcv1alpha1.RemediationBudgetStatus) { s.Conditions[0].Status = "False" }), []string{"B2.2"}},
		"B3.4 a beginning is forgotten": {func(b *nhcv1alpha1.RemediationBudget) {
			b.Spec.MinInterval = &metav1.Duration{Duration: time.Hour}
		}, []string{"B3.4"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := waitingFixture(newBudget(truth, tt.change))
			var rules []string
			for _, v := range s.snapshotAt(at(100)).unsettledBudgets() {
				rules = append(rules, v.Rule)
			}
			require.Equal(t, tt.want, rules)
		})
	}
}

// waitingFixture has "m" under remediation since second 10, and "n" wait for a budget.
func waitingFixture(budget *Budget) *fixture {
	s := newFixture()
	for name, zone := range map[string]string{"n": "a", "m": "a", "o": "a", "x": "b"} {
		node := healthyNode(name, labelled("zone", zone))
		if name == "n" || name == "m" {
			node = failedNode(name, labelled("zone", zone))
		}
		s.node(past, node)
	}
	s.nhc(past, healthCheck(func(nhc *v1alpha1.NodeHealthCheck) {
		nhc.Status.UnhealthyNodes = []v1alpha1.UnhealthyNode{{Name: "n", Decision: &v1alpha1.Decision{
			Type: v1alpha1.DecisionHeld, Reason: v1alpha1.DecidedBudgetExhausted, Message: "b", Since: metav1.NewTime(at(20)),
		}}}
	}))
	s.cr(past, newCR("m", "Reboot", "one"))
	s.budget(past, budget)
	s.begun = append(s.begun, begun{at: at(10), answered: at(10), rv: 1, name: "m", identity: s.identityOf("m", window{known: at(99), rv: s.rv})})
	return s
}

// TestBudgetRefuses: a remediation that waits for a budget need not begin. It has to begin when no
// budget refuses it any more.
func TestBudgetRefuses(t *testing.T) {
	t.Parallel()
	busy, free := newBudget(maxConcurrent("1")), newBudget(maxConcurrent("2"))
	s := waitingFixture(busy)
	check := newSettledCheck(s.snapshotAt(at(100)), s.nhcs["nhc"].at(s.rv))
	require.Equal(t, v1alpha1.DecidedBudgetExhausted, check.refusal("n", true))
	require.Empty(t, check.refusal("n", false), "B1.2")
	require.True(t, check.isTrue("n", v1alpha1.DecidedBudgetExhausted))

	s.budget(past, free)
	check = newSettledCheck(s.snapshotAt(at(100)), s.nhcs["nhc"].at(s.rv))
	require.Empty(t, check.refusal("n", true))
	require.False(t, check.isTrue("n", v1alpha1.DecidedBudgetExhausted))

	s.cr(past, newCR("n", "Reboot", "one"))
	check = newSettledCheck(s.snapshotAt(at(100)), s.nhcs["nhc"].at(s.rv))
	check.checkDecision("n", s.nhcs["nhc"].at(s.rv).Status.UnhealthyNodes[0].Decision)
	var rules []string
	for _, v := range check.left {
		rules = append(rules, v.Rule)
	}
	require.Contains(t, rules, "B1.2")
}

// TestBudgetWrites: what the controller writes to a budget, and how often.
func TestBudgetWrites(t *testing.T) {
	t.Parallel()
	stored := func(change ...func(*nhcv1alpha1.RemediationBudget)) *unstructured.Unstructured {
		raw, err := runtime.DefaultUnstructuredConverter.ToUnstructured(newBudget(change...).RemediationBudget)
		require.NoError(t, err)
		return &unstructured.Unstructured{Object: raw}
	}
	require.Equal(t, finding{rule: "B5.2"}, onlyBudgetStatus(stored(), stored(lastStarted(1))))
	require.NotEmpty(t, onlyBudgetStatus(stored(), stored(maxConcurrent("2"))).text)
	j := newFixture()
	j.config.Tolerance.LiveRead = 100 * time.Millisecond
	for _, tt := range []struct {
		at   float64
		soon bool
	}{{1, false}, {2, false}, {2.5, true}, {3.5, false}, {4.45, false}} {
		require.Equal(t, tt.soon, j.notTooSoon(Change{Key: "b"}, request(tt.at)).text != "", tt.at)
	}
}

// TestLapsed: the controller forgets a beginning if the group had no nodes when the interval was over, also
// if that becomes longer later (spec B3.4).
func TestLapsed(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		seen   time.Time
		change func(*nhcv1alpha1.RemediationBudget)
		want   bool
	}{
		"no nodes, and it is over":     {seen: at(20), change: every(10 * time.Second), want: true},
		"no nodes, and it is not over": {seen: at(19), change: every(10 * time.Second)},
		"it has nodes":                 {seen: at(20), change: func(b *nhcv1alpha1.RemediationBudget) { every(10 * time.Second)(b); lastStarted(10)(b) }},
		"the status is old":            {seen: at(20), change: func(b *nhcv1alpha1.RemediationBudget) { every(10 * time.Second)(b); b.Generation = 2 }},
	} {
		versions := track[Budget]{{rv: 1, seen: tc.seen, object: newBudget(tc.change)}, {rv: 2, seen: at(30), object: newBudget(every(time.Hour))}}
		require.Equal(t, tc.want, lapsed(versions, "", at(10), 2), name)
	}
}
