// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"cmp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
)

// Step is one remediation that a NodeHealthCheck asks for.
type Step struct {
	// Order ranks the steps, lower first.
	Order int32
	// Reference refers to the template.
	Reference corev1.ObjectReference
	// Timeout is how long the node has to recover. It is zero for the single step of
	// a classic NodeHealthCheck, which has none.
	Timeout time.Duration
}

// Steps returns the steps of a spec in ascending order: the single one of a
// classic NodeHealthCheck, or those of an escalating one.
func Steps(spec *v1alpha1.NodeHealthCheckSpec) []Step {
	if spec.RemediationTemplate != nil {
		return []Step{{Reference: *spec.RemediationTemplate}}
	}
	steps := make([]Step, 0, len(spec.EscalatingRemediations))
	for _, escalation := range spec.EscalatingRemediations {
		steps = append(steps, Step{Order: escalation.Order, Reference: escalation.RemediationTemplate, Timeout: escalation.Timeout.Duration})
	}
	slices.SortStableFunc(steps, func(a, b Step) int { return cmp.Compare(a.Order, b.Order) })
	return steps
}

// TemplateKind returns the kind of the template.
func (s Step) TemplateKind() schema.GroupVersionKind { return s.Reference.GroupVersionKind() }

// RemediationKind returns the kind of the CRs of the step, and false if the kind
// of the template does not end in Template.
func (s Step) RemediationKind() (schema.GroupVersionKind, bool) {
	gvk := s.TemplateKind()
	kind, ok := strings.CutSuffix(gvk.Kind, v1alpha1.TemplateKindSuffix)
	gvk.Kind = kind
	return gvk, ok && kind != ""
}

// Incomplete reports whether the step refers to no template (spec 4.3).
func (s Step) Incomplete() bool {
	return s.Reference.APIVersion == "" || s.Reference.Kind == "" || s.Reference.Name == ""
}

// Escalating reports whether the step ends by a timeout or by a failure.
func (s Step) Escalating() bool { return s.Timeout > 0 }

// Duration returns T of spec 1.4. The duration of the node's lease depends on it.
func (s Step) Duration() time.Duration {
	if s.Escalating() {
		return s.Timeout
	}
	return v1alpha1.ClassicDuration
}

// Owns reports whether the CR belongs to the template of the step (spec 1.4). The
// version is not compared: all versions are the same objects.
func (s Step) Owns(cr *object.CR) bool {
	template, known := cr.Template()
	return s.owns(cr.GroupVersionKind().GroupKind(), cr.Namespace, template, known || cr.Name != cr.Node())
}

// owns is Owns for a CR of a kind in a namespace. A CR that names no template belongs to the step
// if it has the name of the node.
func (s Step) owns(kind schema.GroupKind, namespace, template string, byTemplate bool) bool {
	own, _ := s.RemediationKind()
	return kind == own.GroupKind() && (namespace == "" || namespace == s.Reference.Namespace) && (!byTemplate || template == s.Reference.Name)
}

// recordedStep returns the index of the step of a CR that status names, and -1 if it belongs to
// none.
func recordedStep(steps []Step, node string, cr *v1alpha1.Remediation) int {
	return slices.IndexFunc(steps, func(step Step) bool {
		return step.owns(cr.Resource.GroupVersionKind().GroupKind(), cr.Resource.Namespace, cr.TemplateName, cr.TemplateName != "" || cr.Resource.Name != node)
	})
}

// Sort sorts own CRs of a node by step, those of no step last, and the oldest first
// within a step.
func Sort(steps []Step, crs []*object.CR) {
	rank := func(cr *object.CR) int {
		if i := slices.IndexFunc(steps, func(step Step) bool { return step.Owns(cr) }); i >= 0 {
			return i
		}
		return len(steps)
	}
	slices.SortFunc(crs, func(a, b *object.CR) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.UID, b.UID))
	})
}

// progress is how far the remediation of a node has come.
type progress struct {
	// current is the index of the first step that is not over, or the number of
	// steps if all are (spec 13.2).
	current int
	// running is the CR of the current step, nil if it has none.
	running *object.CR
	// last is the CR of the last step, also once that is over, nil if it has none.
	last *object.CR
	// deleting are CRs whose deletion was requested: they belong to no step any more.
	deleting []*object.CR
	// stepDeleting reports for each step whether one of these belonged to it. It is empty if
	// there is no CR at all.
	stepDeleting []bool
	// remaining is the number of CRs that are not being deleted.
	remaining int
	// latest is the index of the last step that has one of the remaining CRs, or -1.
	latest int
	// reached is the index of the last step that has any CR, or -1.
	reached int
	// spent means that the last step was over before its CR was deleted.
	spent bool
	// unknown means that there are CRs of no step at all.
	unknown bool
}

// deletes reports whether a CR of the step is being deleted.
func (p *progress) deletes(step int) bool { return len(p.stepDeleting) > 0 && p.stepDeleting[step] }

// trace finds out how far the remediation of a node has come, from its own CRs and their
// entries in status. CRs must be in the order of Sort. If a step has several CRs, the
// oldest counts (spec 11.8).
func trace(node *Node, steps []Step) progress {
	p := progress{latest: -1, reached: -1}
	if len(node.Own) == 0 {
		return p // The first step is due. Most nodes are like that.
	}
	p.stepDeleting = make([]bool, len(steps))
	first := make([]*object.CR, len(steps))
	over := make([]bool, len(steps))
	for _, cr := range node.Own {
		i := slices.IndexFunc(steps, func(step Step) bool { return step.Owns(cr) })
		p.reached = max(p.reached, i)
		deleting := node.deleting(cr)
		if deleting {
			p.deleting = append(p.deleting, cr)
		} else {
			p.remaining++
		}
		switch {
		case i < 0:
			p.unknown = p.unknown || !deleting
		case deleting:
			p.stepDeleting[i] = true
			p.spent = p.spent || (i == len(steps)-1 && node.recordedTimeout(cr) != nil)
		default:
			p.latest = max(p.latest, i)
			if first[i] == nil {
				first[i] = cr
				over[i] = cr.TimedOut() || node.recordedTimeout(cr) != nil
			}
		}
	}
	for p.current < len(steps) && (over[p.current] || p.current < p.latest) {
		p.current++
	}
	if p.current < len(steps) {
		p.running = first[p.current]
	}
	if len(steps) > 0 {
		p.last = first[len(steps)-1]
	}
	return p
}

// recordedTimeout returns when status says that the CR has timed out, or nil.
func (n *Node) recordedTimeout(cr *object.CR) *time.Time {
	for i := range n.Recorded {
		if n.Recorded[i].Resource.UID == cr.UID && n.Recorded[i].TimedOut != nil {
			return &n.Recorded[i].TimedOut.Time
		}
	}
	return nil
}
