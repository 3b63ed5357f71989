// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	"cmp"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/evaluation"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
	"github.com/nhc-controller/nhc-controller/pkg/watches"
)

// observeTemplates checks every referenced template in ascending order. The first
// problem counts.
func (c *Controller) observeTemplates(nhc *v1alpha1.NodeHealthCheck, platform platformState) (evaluation.Templates, error) {
	steps := remediation.Steps(&nhc.Spec)
	found := evaluation.Templates{Problem: platform.problem, Unknown: platform.unknown, Steps: steps, Templates: make([]*object.Template, len(steps))}
	if platform.conflict {
		found.Problem = remediation.Conflict()
	}
	for i, step := range steps {
		template, problem, err := c.findTemplate(steps, step)
		if problem == nil && err == nil && platform.openShiftMachines {
			problem = remediation.CheckMetal3(step)
		}
		switch {
		case errors.Is(err, watches.ErrPending):
			return evaluation.Templates{}, err
		case err != nil:
			found.Unknown = true
			found.Unread = cmp.Or(found.Unread, fmt.Sprintf("%s %s/%s, or its remediation objects, cannot be read at the moment", step.Reference.Kind, step.Reference.Namespace, step.Reference.Name))
		case problem != nil && found.Problem == nil:
			found.Problem = problem
		}
		found.Templates[i] = template
	}
	return found, nil
}

func (c *Controller) findTemplate(steps []remediation.Step, step remediation.Step) (*object.Template, *remediation.Problem, error) {
	if problem := remediation.CheckReference(step); problem != nil || step.Incomplete() {
		return nil, problem, nil
	}
	mapping, err := c.templates.Mapping(step.TemplateKind())
	if err != nil {
		return problemOf(err)
	}
	namespaced := mapping.Scope.Name() == meta.RESTScopeNameNamespace
	if problem := cmp.Or(remediation.CheckScope(step, namespaced), remediation.CheckUnique(steps, step, namespaced)); problem != nil {
		return nil, problem, nil
	}
	name := types.NamespacedName{Name: step.Reference.Name}
	if namespaced {
		name.Namespace = step.Reference.Namespace
	}
	obj, err := c.templates.Get(step.TemplateKind(), name)
	if apierrors.IsNotFound(err) {
		return nil, remediation.Missing(step.Reference), nil
	}
	if err != nil {
		return problemOf(err)
	}
	template := obj.(*object.Template)
	if problem := remediation.CheckTemplate(steps, step, template); problem != nil {
		return template, problem, nil
	}
	kind, _ := step.RemediationKind()
	crMapping, err := c.Remediations.MappingIn(kind.GroupKind(), kind.Version)
	if err != nil {
		return problemOf(err)
	}
	if problem := remediation.CheckRemediationScope(step, namespaced, crMapping.Scope.Name() == meta.RESTScopeNameNamespace); problem != nil {
		return nil, problem, nil
	}
	if _, err := c.Remediations.Cache(kind.GroupKind()); err != nil {
		return problemOf(err)
	}
	return template, nil, nil
}

// problemOf separates errors that are answers from those that are not.
func problemOf(err error) (*object.Template, *remediation.Problem, error) {
	if forbidden, ok := errors.AsType[*watches.ForbiddenError](err); ok {
		return nil, remediation.Forbidden(forbidden.Verb, forbidden.Resource), nil
	}
	if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
		return nil, remediation.NotFound(err.Error()), nil
	}
	return nil, nil, err
}
