// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// window is the state that a sync of a NodeHealthCheck may have used when it acted on a
// node.
type window struct {
	nhc, node string
	// Until known, it has surely seen everything. For the Node, that instant is nodeKnown.
	known, nodeKnown time.Time
	// rv is that of its act, made by a request that arrived at the time at.
	rv uint64
	at time.Time
	// first means that the node was not under remediation.
	first bool
	// logged is what the process has logged about it, nil if that is not known.
	logged *LoggedAction
}

// verdict counts a check of a rule, broken or not.
func check(rule string, broken bool, format string, args ...any) finding {
	if !broken {
		return finding{rule: rule}
	}
	return finding{rule: rule, text: fmt.Sprintf(format, args...)}
}

// windowOf returns the window of the sync that has made a request.
func (j *Judge) windowOf(event Change, by *Request, nhc, node string) window {
	tolerance := j.toleranceAt(by)
	known := by.Time.Add(-tolerance.Sync - tolerance.Cache)
	return window{nhc: nhc, node: node, known: known, nodeKnown: known, rv: event.ResourceVersion, at: by.Time, logged: j.loggedAction(by, nhc, node)}
}

// constraints tells what forbade to begin or to end a step (spec 5.2), in every version
// that the sync may have used.
func (h *history) constraints(w window) []finding {
	versions := used(h.nhcs[w.nhc], w.logged, w)
	alive := func(nhc *NHC) bool { return nhc != nil && nhc.DeletionTimestamp == nil }
	working := func(nhc *NHC) bool { return alive(nhc) && len(nhc.Spec.PauseRequests) == 0 }
	enforced := func(nhc *NHC) bool { return alive(nhc) && nhc.Spec.Mode != v1alpha1.ModeDryRun }
	var counts NodeCounts
	open := func(nhc *NHC) bool {
		if nhc == nil {
			return true
		}
		counts = h.countsBy(nhc, w)
		return counts.MayBeOpen(&nhc.Spec)
	}
	findings := []finding{
		check("4.8", !some(versions, alive), "the NodeHealthCheck is deleted"),
		check("10.1", some(versions, alive) && !some(versions, working), "the NodeHealthCheck is paused"),
	}
	findings = append(findings, check("10.2", h.updates(w, versions), "the machine configuration of the node is being changed"))
	findings = append(findings, check("5.6", some(versions, alive) && !some(versions, enforced), "it is a dry run"))
	closed := !some(versions, open)
	findings = append(findings, check("8.5", closed, "the gate is closed: %+v", counts))
	findings = append(findings, h.nodeConstraints(w, versions)...)
	findings = append(findings, h.templateMissing(w, versions))
	if w.first {
		findings = append(findings, check("9.6", h.stormRages(versions, w), "a storm is active: %+v", counts))
	}
	return findings
}

// updates reports whether the machine configuration of the node was being changed all the time, and the node cannot
// have been unhealthy for longer than that may take (spec 10.2).
func (h *history) updates(w window, versions []*NHC) bool {
	return all(h.nodes[w.node].during(w.known, w.rv), func(node *Node) bool {
		return node != nil && node.Updates() && all(versions, func(nhc *NHC) bool {
			if nhc == nil {
				return false
			}
			first, _ := deadline(nhc.Spec.UnhealthyConditions, node)
			return w.at.Before(first.earliest.Add(longestUpdate))
		})
	})
}

// nodeConstraints judges the versions of the Node. Where the Node alone forbids, one
// reason is told.
func (h *history) nodeConstraints(w window, versions []*NHC) []finding {
	seen := h.nodes[w.node].during(w.nodeKnown, w.rv)
	exists := func(node *Node) bool { return node != nil }
	eligible := func(node *Node) bool { return exists(node) && node.Labels[v1alpha1.LabelExclude] != "true" }
	selected := func(node *Node) bool {
		return eligible(node) && some(versions, func(nhc *NHC) bool { return nhc != nil && nhc.Selects(node) })
	}
	unhealthy := func(node *Node) bool {
		return selected(node) && some(versions, func(nhc *NHC) bool {
			return nhc != nil && nhc.Selects(node) && mayBeUnhealthy(nhc.Spec.UnhealthyConditions, node, w.at)
		})
	}
	gone := all(versions, func(nhc *NHC) bool { return nhc == nil })
	return []finding{
		check("17.1", !some(seen, exists), "the Node is gone"),
		check("15.1", some(seen, exists) && !some(seen, eligible), "the node is excluded"),
		check("17.5", !gone && some(seen, eligible) && !some(seen, selected), "the node is not selected"),
		check("7.3", !gone && some(seen, selected) && !some(seen, unhealthy), "the node is not unhealthy"),
	}
}

// templateMissing reports whether some template was missing (spec 6.7), as far as
// templates are followed.
func (h *history) templateMissing(w window, versions []*NHC) finding {
	missing := ""
	usable := func(nhc *NHC) bool {
		return nhc == nil || !slices.ContainsFunc(stepsOf(nhc), func(s step) bool {
			track, known := h.templates[s.templateKey()]
			gone := known && all(track.during(w.known, w.rv), func(template *Template) bool { return template == nil })
			if gone {
				missing = s.templateKey()
			}
			return gone
		})
	}
	return check("6.7", !some(versions, usable), "template %s is missing", missing)
}

// stormRages reports whether status showed a storm that cannot have ended (spec 9.5, 9.6).
func (h *history) stormRages(versions []*NHC, w window) bool {
	return all(versions, func(nhc *NHC) bool {
		return nhc != nil && Stormy(&nhc.Spec) && meta.IsStatusConditionTrue(nhc.Status.Conditions, v1alpha1.ConditionStormActive)
	}) && !some(versions, func(spec *NHC) bool {
		return h.countsBy(spec, w).Calm(&spec.Spec) && some(versions, func(status *NHC) bool { return cooledDown(&spec.Spec, &status.Status, w.at) })
	})
}

// cooledDown reports whether the cooldown of the storm in status is over.
func cooledDown(spec *v1alpha1.NodeHealthCheckSpec, status *v1alpha1.NodeHealthCheckStatus, now time.Time) bool {
	if spec.StormCooldownDuration == nil || spec.StormCooldownDuration.Duration <= 0 {
		return true
	}
	cooling := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionStormCooldownActive)
	return cooling != nil && cooling.Status == metav1.ConditionTrue && !now.Before(cooling.LastTransitionTime.Add(spec.StormCooldownDuration.Duration))
}

// step is one step of a NodeHealthCheck.
type step struct {
	order    int32
	template corev1.ObjectReference
	timeout  time.Duration // Zero for the single step of a classic one.
}

// stepsOf returns the steps in the order of `order` (spec 13.1).
func stepsOf(nhc *NHC) []step {
	if template := nhc.Spec.RemediationTemplate; template != nil {
		return []step{{template: *template}}
	}
	var steps []step
	for _, escalation := range nhc.Spec.EscalatingRemediations {
		steps = append(steps, step{escalation.Order, escalation.RemediationTemplate, escalation.Timeout.Duration})
	}
	slices.SortFunc(steps, func(a, b step) int { return int(a.order) - int(b.order) })
	return steps
}

// kind is that of the CRs of the step.
func (s step) kind() string { return strings.TrimSuffix(s.template.Kind, v1alpha1.TemplateKindSuffix) }

// templateKey is where the history has the template.
func (s step) templateKey() string {
	key := s.template.Name
	if s.template.Namespace != "" {
		key = s.template.Namespace + "/" + key
	}
	return plural(s.template.Kind) + " " + key
}

// plural returns the resource of a kind. All kinds of the tests have the usual one.
func plural(kind string) string { return strings.ToLower(kind) + "s" }

// end returns how long after its beginning the step is over by its time (spec 13.3, 14.7).
func (s step) end() time.Duration {
	if s.timeout == 0 {
		return v1alpha1.ClassicLeaseOverdue
	}
	return s.timeout
}

// has reports whether a CR belongs to the step (spec 1.4).
func (s step) has(cr *CR) bool {
	if cr.Kind != s.kind() || (cr.Namespace != "" && cr.Namespace != s.template.Namespace) {
		return false
	}
	if cr.NamesTemplate {
		return cr.Template == s.template.Name
	}
	return cr.Name == cr.Node
}

// stepOf returns the index of the step of a CR, or -1.
func stepOf(steps []step, cr *CR) int {
	return slices.IndexFunc(steps, func(s step) bool { return s.has(cr) })
}
