// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package evaluation

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
)

// Templates are the templates of a NodeHealthCheck, as far as they are known.
type Templates struct {
	// Problem says why they cannot be used, if that is known.
	Problem *remediation.Problem
	// Unknown means that a template or a kind could not be read for now. Then the condition
	// stays as it is, and the steps that need it do not begin.
	Unknown bool
	// Unread names the first such step.
	Unread string
	// Steps are those of the NodeHealthCheck, in ascending order. Templates are their
	// templates, nil where none was found.
	Steps     []remediation.Step
	Templates []*object.Template
}

// unusable reports whether no step may begin: there is a problem, or it cannot be ruled
// out. As long as some template is known, what cannot be read concerns its own steps only
// (P1), unless the NodeHealthCheck is Disabled and nothing says that this is over (6.5).
func (t *Templates) unusable(status *v1alpha1.NodeHealthCheckStatus) bool {
	known := slices.ContainsFunc(t.Templates, func(template *object.Template) bool { return template != nil })
	return t.Problem != nil || (t.Unknown && (!known || meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionDisabled)))
}
