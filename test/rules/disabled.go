// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// verifiable are the reasons of condition Disabled whose causes are followed.
var verifiable = sets.New(v1alpha1.ReasonTemplateNotFound, v1alpha1.ReasonTemplateInvalid, v1alpha1.ReasonTemplateForbidden)

// follows reports whether the cause of a reason is followed.
func (h *history) follows(reason string) bool {
	return verifiable.Has(reason) || (h.followed && reason == v1alpha1.ReasonConflict)
}

// problems returns the reasons for which a NodeHealthCheck may have been Disabled by its
// templates, to an observer who knew everything of the time known (spec 6.1).
func (h *history) problems(nhc *NHC, known time.Time, until uint64) sets.Set[string] {
	reasons := sets.New[string]()
	steps := stepsOf(nhc)
	for _, s := range steps {
		if !strings.HasSuffix(s.template.Kind, v1alpha1.TemplateKindSuffix) {
			reasons.Insert(v1alpha1.ReasonTemplateInvalid)
			continue
		}
		if h.mayBeUnserved(s, known, until) {
			reasons.Insert(v1alpha1.ReasonTemplateNotFound)
		}
		if h.mayBeForbidden(s, known, until) {
			reasons.Insert(v1alpha1.ReasonTemplateForbidden)
		}
		twice := slices.ContainsFunc(steps, func(other step) bool {
			return other.order != s.order && other.template.Kind == s.template.Kind
		})
		for _, template := range h.templates[s.templateKey()].during(known, until) {
			switch {
			case template == nil:
				reasons.Insert(v1alpha1.ReasonTemplateNotFound)
			case !template.HasSpec, twice && !template.Multiple:
				reasons.Insert(v1alpha1.ReasonTemplateInvalid)
			}
		}
	}
	return reasons
}

// mayBeUnserved reports whether the kind of the template or of the CRs of a step may not
// have been served.
func (h *history) mayBeUnserved(s step, known time.Time, until uint64) bool {
	if len(h.kinds) == 0 {
		return false
	}
	for _, kind := range []string{s.kind(), s.template.Kind} {
		served := func(kind *Kind) bool { return kind != nil && kind.Served }
		if !all(h.kinds[kindKey(groupOf(s.template.APIVersion), kind)].during(known, until), served) {
			return true
		}
	}
	return false
}

// mayBeForbidden reports whether a permission for a step may have been missing (spec 6.6).
func (h *history) mayBeForbidden(s step, known time.Time, until uint64) bool {
	if len(h.role) == 0 {
		return false
	}
	group := groupOf(s.template.APIVersion)
	return !all(h.role.during(known, until), func(role *Role) bool {
		return role.permits(group, plural(s.kind()), "get", "list", "watch", "create", "patch", "delete") &&
			role.permits(group, plural(s.template.Kind), "get")
	})
}

// disabledJustified judges a write of the status by which a NodeHealthCheck became
// Disabled, or for another reason than before (spec 6.1, 6.2).
func (j *Judge) disabledJustified(w window, before, after *NHC) finding {
	condition := meta.FindStatusCondition(after.Status.Conditions, v1alpha1.ConditionDisabled)
	old := meta.FindStatusCondition(before.Status.Conditions, v1alpha1.ConditionDisabled)
	if condition == nil || condition.Status != metav1.ConditionTrue {
		return finding{rule: "6.1"}
	}
	if old != nil && old.Status == condition.Status && old.Reason == condition.Reason {
		return finding{rule: "6.1"}
	}
	if !j.follows(condition.Reason) {
		j.figures.Unjudged++
		j.events.blind = append(j.events.blind, w.at)
		return finding{rule: "6.1"}
	}
	if condition.Reason == v1alpha1.ReasonConflict {
		return check("6.1", !j.mayConflict(w), "Disabled by a conflict that there is not")
	}
	justified := some(j.nhcs[w.nhc].during(w.known, w.rv), func(nhc *NHC) bool {
		return nhc != nil && j.problems(nhc, w.known, w.rv).Has(condition.Reason)
	})
	return check("6.1", !justified, "Disabled for reason %s without a cause: %s", condition.Reason, condition.Message)
}

// checkDisabled compares condition Disabled with its causes (spec 6.1, 6.2, 6.4).
func (s *settledCheck) checkDisabled(condition *metav1.Condition) {
	if condition.Status == metav1.ConditionTrue && !s.follows(condition.Reason) {
		return // A MachineHealthCheck or the platform: not followed.
	}
	problems := s.problems(s.nhc, s.now, s.rv) // A conflict is none: it is judged by itself.
	if condition.Status != metav1.ConditionTrue {
		s.check("6.1", "", len(problems) > 0, "not Disabled, despite %s", names(problems))
		enabled := condition.Reason == v1alpha1.ReasonEnabled && condition.Message == v1alpha1.MessageEnabled
		s.check("6.2", "", !enabled, "condition Disabled is False with reason %s, %q", condition.Reason, condition.Message)
		return
	}
	s.check("6.4", "", !problems.Has(condition.Reason), "Disabled for reason %s without a cause: %s", condition.Reason, condition.Message)
}
