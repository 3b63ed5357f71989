// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

func (s *scenario) kindMissing(kind string) string {
	return fmt.Sprintf("Remediation template not found: no matches for kind %q in version %q", kind, s.kind.templates.GroupVersion())
}

func forbidden(verb string, gvr schema.GroupVersionResource) string {
	return fmt.Sprintf(`Missing permission: cannot %s resource "%s" in API group "%s". Grant it to the controller by a ClusterRole with the label rbac.ext-remediation/aggregate-to-ext-remediation: "true"`,
		verb, gvr.Resource, gvr.Group)
}

// eventuallyMessage waits until the NodeHealthCheck is Disabled with this message.
func (s *scenario) eventuallyMessage(reason, message string) {
	s.t.Helper()
	s.eventually("Disabled: "+message, func() bool { return s.eventuallyDisabled(reason) == message })
}

// TestKindInstalledLater: kinds may come after the NodeHealthCheck that refers to
// them, one by one (spec 4.6, 6.1, 6.4).
func TestKindInstalledLater(t *testing.T) {
	t.Parallel()
	s := newRepairScenario(t, sharedCluster(t), "")
	s.createNodes("a", "b")
	s.fail("a")
	s.createNHC()
	s.eventuallyDisabled(v1alpha1.ReasonTemplateNotFound)
	s.requireDisabled(v1alpha1.ReasonTemplateNotFound, s.kindMissing("RepairTemplate"))
	s.eventuallyListed(map[string]int{"a": 0})

	s.grant(s.kind.templates, templateVerbs...)
	s.grant(s.kind.remediations, remediationVerbs...)
	s.install(s.kind.templates)
	s.eventuallyMessage(v1alpha1.ReasonTemplateNotFound, s.templateMissing())
	s.createTemplate(usualTemplate())
	s.eventuallyMessage(v1alpha1.ReasonTemplateNotFound, s.kindMissing("Repair"))
	s.requireEvents(v1alpha1.Kind, s.name, "Disabled", 1, "6.3: neither a flip nor another reason")
	s.install(s.kind.remediations)
	s.requireEnabled()
	s.requireOnly("a", s.eventuallyCR("a"))
	require.Equal(t, int64(1), s.get().Generation, "6.4: without touching the NodeHealthCheck")
	s.heal("a")
	s.eventuallyNoCR("a")
	s.eventuallyCounts(2, 2)
}

// TestPermissions: every missing permission is named, and noticed when it is granted
// (spec 6.1, 6.4, 6.6).
func TestPermissions(t *testing.T) {
	t.Parallel()
	s := newRepairScenario(t, sharedCluster(t), "")
	s.createNodes("a", "b")
	s.fail("a")
	s.install(s.kind.templates)
	s.install(s.kind.remediations)
	s.createTemplate(usualTemplate())
	s.createNHC()
	s.eventuallyDisabled(v1alpha1.ReasonTemplateForbidden)
	s.requireDisabled(v1alpha1.ReasonTemplateForbidden, forbidden("get", s.kind.templates))

	for i, verb := range templateVerbs {
		s.grant(s.kind.templates, templateVerbs[:i]...)
		s.touchCRD(s.kind.templates, verb) // Instead of waiting for the next probe.
		s.eventuallyMessage(v1alpha1.ReasonTemplateForbidden, forbidden(verb, s.kind.templates))
	}
	s.grant(s.kind.templates, templateVerbs...)
	s.touchCRD(s.kind.templates, "granted")
	for i, verb := range remediationVerbs {
		s.grant(s.kind.remediations, remediationVerbs[:i]...)
		s.touchCRD(s.kind.remediations, verb) // Instead of waiting for the next probe.
		s.eventuallyMessage(v1alpha1.ReasonTemplateForbidden, forbidden(verb, s.kind.remediations))
		s.eventuallyListed(map[string]int{"a": 0})
	}
	s.requireEvents(v1alpha1.Kind, s.name, "Disabled", 1, "6.3: one reason")
	s.grant(s.kind.remediations, remediationVerbs...)
	s.requireEnabled() // By the next probe.
	s.eventuallyCR("a")
	require.Equal(t, int64(1), s.get().Generation, "6.4")
	s.requireRequests("create", "a", 1)
}

// TestPermissionTakenAway: at run time, during a remediation. What is still permitted
// goes on (spec 5.2, 6.6, 6.7).
func TestPermissionTakenAway(t *testing.T) {
	t.Parallel()
	s := newRepairScenario(t, sharedCluster(t), "")
	s.installAll()
	s.createNodes("a", "b", "c")
	s.createNHC()
	s.fail("a")
	s.eventuallyCR("a")
	s.grant(s.kind.remediations, "get", "list", "watch", "patch", "delete")
	s.fail("b")
	s.eventuallyMessage(v1alpha1.ReasonTemplateForbidden, forbidden("create", s.kind.remediations))
	s.requireDisabled(v1alpha1.ReasonTemplateForbidden, forbidden("create", s.kind.remediations))
	s.eventuallyListed(map[string]int{"a": 1, "b": 0})
	attempts := len(s.crRequests("create", "b"))
	s.heal("a")
	s.eventuallyNoCR("a")
	s.eventuallyListed(map[string]int{"b": 0})
	s.eventuallyCounts(3, 2)
	s.grant(s.kind.remediations, remediationVerbs...)
	s.requireEnabled()
	s.eventuallyCR("b")
	s.requireRequests("create", "b", attempts+1, "5.2: none while Disabled")

	// All of it: what status names and cannot be read counts as existing.
	cr := s.cr("b")
	s.grant(s.kind.remediations)
	s.touchCRD(s.kind.remediations, "no permission at all")
	s.eventuallyMessage(v1alpha1.ReasonTemplateForbidden, forbidden("get", s.kind.remediations))
	s.heal("b")
	s.eventually("conditionsHealthyTimestamp", func() bool { return s.entry("b").ConditionsHealthyTimestamp != nil })
	s.catchUpNodes()
	s.requireOnly("b", cr)
	s.eventuallyCounts(3, 2)
	require.Equal(t, int32(1), *s.status().RemediatingNodes, "6.8")
	s.grant(s.kind.remediations, remediationVerbs...)
	s.requireEnabled()
	s.eventuallyNoCR("b")
	s.eventuallyCounts(3, 3)
	require.Empty(t, s.listed())
}

// TestVersionNotServed: a reference to a version that is not served starts nothing, and the CRs,
// which are read in another version, are still looked after (spec 6.4, 6.8).
func TestVersionNotServed(t *testing.T) {
	t.Parallel()
	s := newRepairScenario(t, sharedCluster(t), "")
	s.installAll()
	s.createNodes("a", "b", "c")
	s.createNHC()
	s.fail("a")
	s.fail("b")
	a, b := s.eventuallyCR("a"), s.eventuallyCR("b")
	s.serve(s.kind.remediations, false)
	s.eventuallyMessage(v1alpha1.ReasonTemplateNotFound, s.kindMissing("Repair"))
	s.requireOnly("a", a)
	s.heal("a")
	s.fail("c")
	s.eventuallyListed(map[string]int{"b": 1, "c": 0})
	s.catchUpNodes()
	s.eventuallyCounts(3, 1)
	s.requireOnly("b", b)
	require.Equal(t, int32(1), *s.status().RemediatingNodes)

	s.serve(s.kind.remediations, true)
	s.requireEnabled()
	s.eventuallyNoCR("a")
	s.eventuallyCR("c")
	s.eventuallyListed(map[string]int{"b": 1, "c": 1})
	require.Equal(t, b.GetUID(), s.cr("b").GetUID())
	for _, name := range []string{"a", "b", "c"} {
		s.requireRequests("create", name, 1, "P9: node %s", name)
	}
}

// TestCRDDeleted: nothing is started without the kind of the CRs, and the
// remediation begins anew when it is back (spec 6.1, 6.4, 11.6).
func TestCRDDeleted(t *testing.T) {
	t.Parallel()
	s := newRepairScenario(t, sharedCluster(t), "")
	s.installAll()
	s.createNodes("a", "b")
	s.createNHC()
	s.fail("a")
	first := s.eventuallyCR("a")
	s.uninstall(s.kind.remediations)
	s.eventuallyMessage(v1alpha1.ReasonTemplateNotFound, s.kindMissing("Repair"))
	s.fail("b")
	s.eventually("node b is listed", func() bool { return s.entry("b") != nil })
	s.eventuallyListed(map[string]int{"a": 0, "b": 0}) // P12: the CR went with its kind.
	s.eventuallyCounts(2, 0)

	s.install(s.kind.remediations)
	s.requireEnabled()
	second := s.eventuallyCR("a")
	require.NotEqual(t, first.GetUID(), second.GetUID())
	s.requireOnly("a", second)
	s.eventuallyCR("b")
	s.heal("a")
	s.heal("b")
	s.eventuallyCounts(2, 2)
	require.Empty(t, s.crs())

	// The kind of the templates alone: what runs can end.
	s.fail("a")
	s.eventuallyCR("a")
	s.uninstall(s.kind.templates)
	s.eventuallyMessage(v1alpha1.ReasonTemplateNotFound, s.kindMissing("RepairTemplate"))
	s.heal("a")
	s.eventuallyNoCR("a")
	s.eventuallyCounts(2, 2)
	s.install(s.kind.templates)
	s.createTemplate(usualTemplate())
	s.requireEnabled()
}
