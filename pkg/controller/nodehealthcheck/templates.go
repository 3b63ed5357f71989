// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
	"github.com/nhc-controller/nhc-controller/pkg/watches"
)

// templateState is what is known of the templates.
type templateState struct {
	// problem is why they cannot be used, if that is known.
	problem *remediation.Problem
	// unknown means that something could not be read for now: no answer is not an
	// answer, so the condition stays as it is, and the steps that it concerns do not
	// begin.
	unknown bool
	// unread names the first step that it concerns.
	unread string
	// steps are those of the NodeHealthCheck, in ascending order, and templates what
	// was found of them: nil where nothing was.
	steps     []remediation.Step
	templates []*object.Template
}

// observeTemplates checks every referenced template in ascending order. The first
// problem counts.
func (c *Controller) observeTemplates(nhc *v1alpha1.NodeHealthCheck, platform platformState) (templateState, error) {
	steps := remediation.Steps(&nhc.Spec)
	found := templateState{problem: platform.problem, unknown: platform.unknown, steps: steps, templates: make([]*object.Template, len(steps))}
	if platform.conflict {
		found.problem = remediation.Conflict()
	}
	for i, step := range steps {
		template, problem, err := c.findTemplate(steps, step)
		if problem == nil && err == nil && platform.openShiftMachines {
			problem = remediation.CheckMetal3(step)
		}
		switch {
		case err != nil && onlyPending(err):
			return templateState{}, err
		case err != nil:
			found.unknown = true
			found.unread = cmp.Or(found.unread, fmt.Sprintf("%s %s/%s, or its remediation objects, cannot be read at the moment", step.Reference.Kind, step.Reference.Namespace, step.Reference.Name))
		case problem != nil && found.problem == nil:
			found.problem = problem
		}
		found.templates[i] = template
	}
	return found, nil
}

// unusable reports whether no step may begin: there is a problem, or it cannot be ruled
// out. As long as some template is known, what cannot be read concerns its own steps only
// (P1), unless the NodeHealthCheck is Disabled and nothing says that this is over (6.5).
func (f *templateState) unusable(nhc *v1alpha1.NodeHealthCheck) bool {
	known := slices.ContainsFunc(f.templates, func(template *object.Template) bool { return template != nil })
	return f.problem != nil || (f.unknown && (!known || meta.IsStatusConditionTrue(nhc.Status.Conditions, v1alpha1.ConditionDisabled)))
}

// onlyPending reports whether an answer is about to come. An ErrPending with a cause
// means that attempts have failed: then a sync goes on without.
func onlyPending(err error) bool { return err == watches.ErrPending } //nolint:errorlint // the bare one is meant

func (c *Controller) findTemplate(steps []remediation.Step, step remediation.Step) (*object.Template, *remediation.Problem, error) {
	if problem := remediation.CheckReference(step); problem != nil {
		return nil, problem, nil
	}
	mapping, err := c.templates.Mapping(step.TemplateKind())
	if err != nil {
		return problemOf(step, err)
	}
	namespaced := mapping.Scope.Name() == metaNamespaced
	if problem := remediation.CheckScope(step, namespaced); problem != nil {
		return nil, problem, nil
	}
	name := types.NamespacedName{Name: step.Reference.Name}
	if namespaced {
		name.Namespace = step.Reference.Namespace
	}
	obj, err := c.templates.Get(step.TemplateKind(), name)
	if err != nil {
		return problemOf(step, err)
	}
	template := obj.(*object.Template)
	if problem := remediation.CheckTemplate(steps, step, template); problem != nil {
		return template, problem, nil
	}
	kind, _ := step.RemediationKind()
	crMapping, err := c.remediations.Mapping(kind)
	if err != nil {
		return problemOf(step, err)
	}
	if problem := remediation.CheckRemediationScope(step, namespaced, crMapping.Scope.Name() == metaNamespaced); problem != nil {
		return nil, problem, nil
	}
	if _, err := c.remediations.Cache(kind); err != nil {
		return problemOf(step, err)
	}
	return template, nil, nil
}

// problemOf tells the errors that are answers from those that are not.
func problemOf(step remediation.Step, err error) (*object.Template, *remediation.Problem, error) {
	if forbidden, ok := errors.AsType[*watches.ForbiddenError](err); ok {
		return nil, remediation.Forbidden(forbidden.Verb, forbidden.Resource), nil
	}
	if isNoMatch(err) || apierrors.IsNotFound(err) {
		return nil, remediation.NotFound(step.Reference, err.Error()), nil
	}
	return nil, nil, err
}
