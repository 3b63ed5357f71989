// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
)

// The rules of storms in the words of the specification. The world knows of every
// version of a NodeHealthCheck which storm there has to be by it, so that a stale cache,
// a restart and a status that was not written cannot hide what is wrong.

// climate is what a storm is judged by, counted anew (spec 9.1).
type climate struct {
	open bool
	// notHealthy is U, most is M (-1 if the gate is closed with any) and remediated is R.
	notHealthy, most, remediated int
	unhealthy                    int
}

// opens says what the gate should (spec 8.1), for the integers that the simulation uses.
func opens(spec *v1alpha1.NodeHealthCheckSpec, observed, notHealthy int) bool {
	if spec.MinHealthy != nil {
		return observed-notHealthy >= spec.MinHealthy.IntValue()
	}
	return notHealthy <= spec.MaxUnhealthy.IntValue()
}

// climateOf counts the nodes of a view that a sight has been taken of.
func climateOf(v *view, s *sight) climate {
	known := map[string]*remediation.Node{}
	for i := range s.nodes {
		known[s.nodes[i].Name] = &s.nodes[i]
	}
	var c climate
	observed := 0
	for name, i := range v.nodes {
		if !selects(s.nhc, i.node) {
			continue
		}
		observed++
		node := known[name]
		if node == nil {
			continue // It is healthy and has no CR.
		}
		treated := len(node.Own)+len(node.Unreadable) > 0
		if treated {
			c.remediated++
		}
		if treated || node.Verdict.State != health.Healthy {
			c.notHealthy++
		}
		if node.Verdict.State == health.Unhealthy {
			c.unhealthy++
		}
	}
	c.open = opens(&s.nhc.Spec, observed, c.notHealthy)
	for c.most = observed; c.most >= 0 && !opens(&s.nhc.Spec, observed, c.most); c.most-- {
	}
	return c
}

// tempest is the storm that there has to be.
type tempest struct {
	raging bool
	begun  time.Time
	calm   time.Time
}

func (t tempest) equal(other tempest) bool {
	return t.raging == other.raging && t.begun.Equal(other.begun) && t.calm.Equal(other.calm)
}

// restless reports whether one of the rules keeps a storm from being calm (spec 9.2 to 9.4).
func restless(spec *v1alpha1.NodeHealthCheckSpec, c climate) (byThreshold, byGate bool) {
	byThreshold = spec.StormRecoveryThreshold != nil && c.notHealthy > int(*spec.StormRecoveryThreshold)
	byGate = spec.StormCooldownDuration != nil && !c.open
	return byThreshold, byGate
}

// next returns the storm after a look at the climate.
func (t tempest) next(spec *v1alpha1.NodeHealthCheckSpec, c climate, now time.Time) tempest {
	byThreshold, byGate := restless(spec, c)
	cooldown := spec.StormCooldownDuration
	switch {
	case spec.StormRecoveryThreshold == nil && cooldown == nil:
		return tempest{} // 9.10
	case !t.raging:
		full := !c.open || (c.remediated > 0 && c.remediated >= c.most)
		if c.unhealthy > 0 && (byGate || (byThreshold && full)) {
			return tempest{raging: true, begun: now.Truncate(time.Second)}
		}
		return tempest{}
	case byThreshold || byGate:
		t.calm = time.Time{}
		return t
	case cooldown == nil:
		return tempest{}
	}
	if t.calm.IsZero() {
		t.calm = now.Truncate(time.Second)
	}
	if now.Sub(t.calm) >= cooldown.Duration {
		return tempest{}
	}
	return t
}

func stormKey(nhc *v1alpha1.NodeHealthCheck) string { return nhc.Name + "/" + nhc.ResourceVersion }

// foretell finds out which storm there has to be before anything is created.
func (w *world) foretell(s *sight) {
	s.before = w.tempests[stormKey(s.nhc)].next(&s.nhc.Spec, s.climate, s.now)
	w.checkStorm(s, s.before, s.climate)
}

// retell does so after that, as reaching the limit is enough (spec 9.2).
func (w *world) retell(s *sight, plans []remediation.NodePlan, outcomes []remediation.Outcome) {
	s.firsts = firstCRs(plans, outcomes)
	after := s.climate
	after.remediated += s.firsts
	s.after = s.before.next(&s.nhc.Spec, after, s.now)
	w.checkStorm(s, s.after, after)
}

func (w *world) checkStorm(s *sight, want tempest, c climate) {
	got := tempest{raging: s.storm.Active, begun: s.storm.Since, calm: s.storm.CalmSince}
	if !got.equal(want) {
		w.violate("", "9", "storm of %s: %s, it has to be %s, by %+v", s.nhc.Name, w.describeStorm(got), w.describeStorm(want), c)
	}
}

// checkStormStatus checks that the storm can be read back from status after a restart
// (P8), and what else is there to be seen of it (spec 9.8 to 9.10).
func (w *world) checkStormStatus(s *sight, status *v1alpha1.NodeHealthCheckStatus) {
	read := health.StormOf(status)
	if got := (tempest{raging: read.Active, begun: read.Since, calm: read.CalmSince}); !got.equal(s.after) {
		w.violate("", "P8", "status of %s tells of %s, there is %s", s.nhc.Name, w.describeStorm(got), w.describeStorm(s.after))
	}
	spec := &s.nhc.Spec
	if (status.StormRecoveryActive != nil) != (spec.StormRecoveryThreshold != nil) || (status.StormRecoveryStartTime != nil) != s.after.raging {
		w.violate("", "9.9", "fields of %s", s.nhc.Name)
	}
	cooling := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionStormCooldownActive)
	if spec.StormCooldownDuration == nil && cooling != nil {
		w.violate("", "9.10", "%s still has %s", s.nhc.Name, cooling.Type)
	}
}

// noteStorm keeps the storm of a status that was written or found to be right already,
// and checks that calm was not interrupted (P11).
func (w *world) noteStorm(s *sight) {
	name, spec := s.nhc.Name, &s.nhc.Spec
	byThreshold, byGate := restless(spec, s.climate)
	was := w.tempests[stormKey(s.nhc)]
	if cooldown := spec.StormCooldownDuration; was.raging && !s.after.raging && cooldown != nil && s.now.Sub(w.restless[name]) < cooldown.Duration-time.Second {
		w.violate("", "P11", "the storm of %s ends, at %s it was not calm, the cooldown is %s", name, w.clock(w.restless[name]), cooldown.Duration)
	}
	if byThreshold || byGate {
		w.restless[name] = s.now
	}
	w.countStorm(s, was)
}

// countStorm counts what has become of a storm.
func (w *world) countStorm(s *sight, was tempest) {
	spec := &s.nhc.Spec
	byThreshold, byGate := restless(spec, s.climate)
	configured := spec.StormRecoveryThreshold != nil || spec.StormCooldownDuration != nil
	for what, happened := range map[string]bool{
		"storm begun by threshold":           s.after.raging && !was.raging && byThreshold && !byGate,
		"storm begun by gate":                s.after.raging && !was.raging && byGate && !byThreshold,
		"storm begun by what was created":    s.after.raging && !s.before.raging,
		"storm: calm lost":                   s.after.raging && !was.calm.IsZero() && s.after.calm.IsZero(),
		"storm: cooldown passed":             was.raging && !s.after.raging && configured && !was.calm.IsZero(),
		"storm: over without cooldown":       was.raging && !s.after.raging && configured && spec.StormCooldownDuration == nil,
		"storm: fields removed":              was.raging && !configured,
		"storm: first CR when it ends":       was.raging && !s.before.raging && s.firsts > 0,
		"storm with an open gate":            s.before.raging && s.climate.open,
		"storm: cooldown changed as it runs": !was.calm.IsZero() && s.nhc.Generation != w.calmed[s.nhc.Name],
	} {
		if happened {
			w.seen[what]++
		}
	}
	if !s.after.calm.IsZero() {
		w.calmed[s.nhc.Name] = s.nhc.Generation
	}
}

// checkWake checks that the end of a storm wakes without any event, and so does the next
// check time of a decision, unless the caches are about to tell more (P2). The step of a
// CR that was just created began up to a second ago, by its timestamp.
func (p *process) checkWake(s *sight, status *v1alpha1.NodeHealthCheckStatus) {
	w, wake := p.world, p.wake[s.nhc.Name]
	if !s.after.calm.IsZero() {
		end := s.after.calm.Add(s.nhc.Spec.StormCooldownDuration.Duration)
		if wake.IsZero() || wake.After(end) {
			w.violate("", "P2", "the storm of %s ends at %s, the next look is at %s", s.nhc.Name, w.clock(end), w.clock(wake))
		}
	}
	if s.moves < 0 {
		return
	}
	for node, decision := range decisionsIn(status) {
		if at := decision.NextCheckTime; at != nil && (wake.IsZero() || wake.After(at.Add(time.Second))) {
			w.violate(node, "P2", "decision %s is to change at %s, the next look is at %s", decision.Reason, w.clock(at.Time), w.clock(wake))
		}
	}
}

// checkNoStorm checks that no storm is left when all nodes are healthy.
func (w *world) checkNoStorm(nhc *v1alpha1.NodeHealthCheck) {
	if t := w.tempests[stormKey(nhc)]; t.raging || health.StormOf(&nhc.Status).Active {
		w.violate("", "P12 9.5", "%s has %s, all its nodes are healthy", nhc.Name, w.describeStorm(t))
	}
	if active := nhc.Status.StormRecoveryActive; nhc.Status.StormRecoveryStartTime != nil || (active != nil && *active) {
		w.violate("", "P4 9.9", "%s has the fields of a storm", nhc.Name)
	}
}

func (w *world) describeStorm(t tempest) string {
	switch {
	case !t.raging:
		return "no storm"
	case t.calm.IsZero():
		return "storm since " + w.clock(t.begun)
	default:
		return "storm since " + w.clock(t.begun) + ", calm since " + w.clock(t.calm)
	}
}
