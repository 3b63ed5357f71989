// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package evaluation

import (
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
	// Unread says which template, or which kind of CRs that there may be, cannot be read. Meanwhile nothing begins and
	// no step ends (spec 6.5).
	Unread string
	// Steps are those of the NodeHealthCheck, in ascending order. Templates are their
	// templates, nil where none was found.
	Steps     []remediation.Step
	Templates []*object.Template
}
