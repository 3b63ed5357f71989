// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealth

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
)

// TestAgainstOpenShift: in random clusters, this controller finds and begins exactly what OpenShift's
// does by its recorded rules. With all listed deviations there is no difference, and each deviation
// makes a difference somewhere (spec M21).
func TestAgainstOpenShift(t *testing.T) {
	t.Parallel()
	all := newOpenShift(deviations...)
	matters, same := map[deviation]int{}, 0
	for seed := range uint64(20_000) {
		random := rand.New(rand.NewPCG(21, seed))
		check, machines := randomCheck(random), randomMachines(random)
		ours := findOurs(&check, machines)
		require.Equal(t, all.find(&check, machines), ours, "M21: seed %d: %+v %+v", seed, check, machines)
		if theirs := newOpenShift().find(&check, machines); fmt.Sprint(theirs) == fmt.Sprint(ours) {
			same++
		}
		for _, d := range deviations {
			others := slices.DeleteFunc(slices.Clone(deviations), func(other deviation) bool { return other == d })
			if fmt.Sprint(newOpenShift(others...).find(&check, machines)) != fmt.Sprint(ours) {
				matters[d]++
			}
		}
	}
	require.Greater(t, same, 2000, "the test itself: most clusters are ordinary")
	for _, d := range deviations {
		t.Logf("%5d clusters: %s", matters[d], d)
		require.NotZero(t, matters[d], "%s", d)
	}
}

func pick[T any](random *rand.Rand, values ...T) T { return values[random.IntN(len(values))] }

// rarely is true once in so many times.
func rarely(random *rand.Rand, n int) bool { return random.IntN(n) == 0 }

func randomCheck(random *rand.Rand) simpleCheck {
	c := simpleCheck{
		maxUnhealthy: pick(random, "100%", "100%", "40%", "1", "2", "60%", "-1", "0"),
		startup:      pick(random, 0, 10*time.Minute, 10*time.Minute, time.Minute),
		template:     rarely(random, 4), strategy: pick(random, "", "", "", "external-baremetal"),
		paused: rarely(random, 15), upgrading: rarely(random, 15),
	}
	if rarely(random, 30) {
		c.strategy = "other"
	}
	for _, rule := range []simpleRule{{"Ready", "Unknown", "5m"}, {"Ready", "False", "10m"}, {"DiskPressure", "True", "0s"}} {
		if rarely(random, 20) {
			rule.timeout = pick(random, "", "x")
		}
		if random.IntN(3) > 0 {
			c.rules = append(c.rules, rule)
		}
	}
	return c
}

func randomMachines(random *rand.Rand) (machines []simpleMachine) {
	// No age is that of a timeout: what holds at that very moment is of no interest.
	age := func() time.Duration { return time.Duration(random.IntN(120))*time.Minute + 7*time.Second }
	for i := range random.IntN(6) {
		m := simpleMachine{
			name: fmt.Sprintf("m%d", i), failed: rarely(random, 6), deleting: rarely(random, 8), owned: !rarely(random, 6), firstKey: rarely(random, 8),
			created: age(), lastUpdated: -1, named: !rarely(random, 4), exists: true, cached: true,
			remediated: rarely(random, 6), rounds: rarely(random, 3), leased: rarely(random, 8), withheld: rarely(random, 10), other: rarely(random, 10),
			paused: rarely(random, 15), excluded: rarely(random, 15), ambiguous: rarely(random, 15),
		}
		if !rarely(random, 4) {
			m.lastUpdated = min(m.created, age())
		}
		if rarely(random, 8) {
			m.cached = false
			m.exists = rarely(random, 2)
		}
		// Nothing is older than the Machine: OpenShift would count that, too (M21).
		younger := func() time.Duration { return min(age(), m.created) }
		m.conditions = append(m.conditions, simpleCondition{"Ready", pick(random, "True", "True", "Unknown", "False"), younger()})
		if rarely(random, 4) {
			m.conditions = append(m.conditions, simpleCondition{"DiskPressure", pick(random, "True", "False"), younger()})
		}
		machines = append(machines, m)
	}
	return machines
}

// findOurs is what this package makes of it.
func findOurs(simple *simpleCheck, machines []simpleMachine) findings {
	now := epoch.Add(24 * time.Hour)
	stored := check(func(c *v1beta1.MachineHealthCheck) {
		limit := v1beta1.IntOrString(intstr.Parse(simple.maxUnhealthy))
		c.Spec.MaxUnhealthy, c.Spec.NodeStartupTimeout = &limit, new(simple.startup.String())
		for _, rule := range simple.rules {
			c.Spec.UnhealthyConditions = append(c.Spec.UnhealthyConditions, v1beta1.UnhealthyCondition{
				Type: corev1.NodeConditionType(rule.kind), Status: corev1.ConditionStatus(rule.status), Timeout: rule.timeout,
			})
		}
		if simple.template {
			c.Spec.RemediationTemplate = &corev1.ObjectReference{APIVersion: "test/v1", Kind: "RebootTemplate", Name: "reboot"}
		}
		if simple.strategy != "" {
			annotatedCheck(v1beta1.AnnotationRemediationStrategy, simple.strategy)(c)
		}
		if simple.paused {
			annotatedCheck(v1beta1.AnnotationPaused, "")(c)
		}
	})
	criteria := NewCriteria(stored)
	p := policy(func(p *Policy) { p.Criteria, p.Upgrading = &criteria, simple.upgrading })
	if simple.template {
		strategy := p.Criteria.Strategy
		byTemplate(p)
		p.Criteria.Strategy = strategy
	}
	in := &Input{Seen: func(*corev1.Node) []health.Sighting { return nil }, Lease: func(string) *coordinationv1.Lease { return nil }}
	byName := map[string]*simpleMachine{}
	for i := range machines {
		in.Observed = append(in.Observed, machines[i].observed(now))
		byName[machines[i].name] = &machines[i]
	}
	targets := p.Evaluate(in, now)
	for i := range targets {
		byName[targets[i].Machine.Name].hinder(&targets[i], now)
	}
	f := findings{expected: p.Summary.Expected, healthy: p.Summary.Healthy, allowed: p.Summary.Allowed()}
	plans := NewPlans(p, targets, now)
	for i := range plans {
		plan := &plans[i]
		if plan.Creates() && byName[plan.Target.Machine.Name].withheld {
			p.Withhold(plan, &remediation.Withholding{Reason: v1alpha1.DecidedControlPlaneBusy}, now)
		}
		for _, action := range plan.Actions {
			switch action.(type) {
			case remediation.DeleteMachine:
				f.begins = append(f.begins, "delete "+plan.Target.Machine.Name)
			case remediation.RequestExternal:
				f.begins = append(f.begins, "annotate "+plan.Target.Machine.Name)
			case remediation.Create:
				f.begins = append(f.begins, "create "+plan.Target.Machine.Name)
			}
		}
	}
	slices.Sort(f.begins)
	return f
}

// observed returns the Machine as a sync reads it.
func (m *simpleMachine) observed(now time.Time) Observed {
	at := func(age time.Duration) string { return now.Add(-age).Format(time.RFC3339) }
	object := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"creationTimestamp": at(m.created)}, "status": map[string]any{"phase": "Running"}}}
	object.SetAPIVersion("machine.openshift.io/v1beta1")
	object.SetKind("Machine")
	object.SetNamespace(testNamespace)
	object.SetName(m.name)
	object.SetUID(types.UID(m.name + "-uid"))
	status := object.Object["status"].(map[string]any)
	annotations := map[string]string{}
	for key, set := range map[string]bool{v1beta1.AnnotationExternalRemediation: m.firstKey, v1beta1.AnnotationPaused: m.paused, v1beta1.AnnotationSkipRemediation: m.excluded} {
		if set {
			annotations[key] = ""
		}
	}
	object.SetAnnotations(annotations)
	if m.failed {
		status["phase"] = "Failed"
	}
	if m.deleting {
		object.SetDeletionTimestamp(new(metav1.NewTime(now.Add(-time.Second))))
	}
	if m.owned {
		object.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "machine.openshift.io/v1beta1", Kind: "MachineSet", Name: m.name, UID: "set-uid", Controller: new(true)}})
	}
	if m.lastUpdated >= 0 {
		status["lastUpdated"] = at(m.lastUpdated)
	}
	if m.named {
		status["nodeRef"] = map[string]any{"name": m.name + "-node"}
	}
	o := Observed{Machine: ParseMachine(object)}
	switch {
	case m.named && m.cached:
		o.NodeState = NodeExists
		o.Node = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: m.name + "-node", UID: types.UID(m.name + "-node-uid")}}
		for _, c := range m.conditions {
			o.Node.Status.Conditions = append(o.Node.Status.Conditions, corev1.NodeCondition{
				Type: corev1.NodeConditionType(c.kind), Status: corev1.ConditionStatus(c.status), LastTransitionTime: metav1.NewTime(now.Add(-c.age)),
			})
		}
	case m.named && !m.exists:
		o.NodeState = NodeMissing
	}
	if m.remediated {
		o.Own = append(o.Own, cr(m.name))
	}
	return o
}

// hinder adds what keeps the Machine from being remediated.
func (m *simpleMachine) hinder(t *Target, now time.Time) {
	if m.ambiguous {
		t.Obstacles.AmbiguousNode = "machines/other"
	}
	if m.other {
		t.Obstacles.OtherCheck = "machines/other"
	}
	if m.leased {
		t.Lease = nodeLease("another", now, 600)
	}
	if m.rounds {
		t.Rounds = Rounds{30, now.Add(-m.created - time.Minute)}
	}
}
