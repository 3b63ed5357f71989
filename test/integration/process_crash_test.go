// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/test/localkube"
)

func (s *scenario) wipeStatus() {
	s.t.Helper()
	s.patch(s.dynamic.Resource(v1alpha1.SchemeGroupVersion.WithResource(v1alpha1.Plural)), s.name, map[string]any{"status": nil}, "status")
}

// recover heals a node and waits until nothing is left of its remediation.
func (s *scenario) recover(name string, nodes int32) {
	s.t.Helper()
	s.heal(name)
	s.eventuallyNoCR(name)
	s.eventuallyCounts(nodes, nodes)
	s.eventuallyNoneListed()
	s.eventuallyEvent("RemediationRemoved", "Deleted remediation CR of kind PowerCycleRemediation with name "+s.node(name))
}

// creations returns the controller's attempts to create a CR.
func (s *scenario) creations() []localkube.Request {
	s.t.Helper()
	return s.requests(func(r localkube.Request) bool {
		return r.Verb == "create" && r.Resource == s.kind.remediations.Resource && r.Namespace == s.name
	})
}
