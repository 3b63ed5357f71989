// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/test/localkube"
)

// testMetal3Namespace: the namespace of a Metal3 template matters where OpenShift's
// Machines are served (spec 6.1, 6.4).
func testMetal3Namespace(t *testing.T, c *cluster, _ *localkube.Process) {
	c.installOptional(t, openShiftMachine, metal3Remediation, metal3RemediationTemplate)
	s := newMetal3Scenario(t, c)
	s.grant(metal3.templates, templateVerbs...)
	s.grant(metal3.remediations, remediationVerbs...)
	s.createTemplate(metal3Template())
	s.createNodes("a", "b")
	s.fail("a")
	s.createNHC()
	message := "Metal3RemediationTemplate must be in the openshift-machine-api namespace. It is configured to be in namespace: " + s.name
	s.eventuallyDisabled("RemediationTemplateInvalid")
	s.requireDisabled("RemediationTemplateInvalid", message)
	s.eventuallyListed(map[string]int{"a": 0})
	s.catchUpNodes()
	s.requireNeverCreated("a")

	c.uninstallOptional(t, openShiftMachine)
	s.requireEnabled()
	s.eventuallyCR("a")
	c.installOptional(t, openShiftMachine)
	s.eventuallyDisabled("RemediationTemplateInvalid")
	s.requireDisabled("RemediationTemplateInvalid", message)
	s.heal("a")
	s.eventuallyNoCR("a") // 5.2
	s.eventuallyListed(map[string]int{})

	s.templateIn(machineNamespace, metal3Template())
	s.updateNHC(templateInNamespace(machineNamespace))
	s.requireEnabled()
	s.fail("b")
	s.crIn(machineNamespace, "b")
}

func metal3Template() map[string]any {
	return map[string]any{"template": map[string]any{"spec": map[string]any{
		"strategy": map[string]any{"type": "Reboot", "retryLimit": int64(2), "timeoutSeconds": int64(300)},
	}}}
}

// newMetal3Scenario returns a scenario with Metal3 as its remediator, without a
// template. The kinds are installed.
func newMetal3Scenario(t *testing.T, c *cluster) *onPlatform {
	t.Helper()
	return &onPlatform{newEmptyScenario(t, c, t.Name(), metal3)}
}

// testOpenShiftMachines: a Machine in the namespace of the template is the second
// owner of a CR, and the CR outlives it (spec 11.3, 21.2).
func testOpenShiftMachines(t *testing.T, c *cluster, controller *localkube.Process) {
	c.installOptional(t, openShiftMachine)
	s := newOnPlatform(t, c)
	s.templateIn(machineNamespace, usualTemplate())
	machine := c.createOptional(t, openShiftMachine, machineNamespace, s.name, map[string]any{"spec": map[string]any{}})
	c.createOptional(t, openShiftMachine, s.name, s.name, map[string]any{"spec": map[string]any{}})
	// What a controller finds when it starts: nothing is decided before it knows the
	// Machines.
	controller.Stop()
	nodes := map[string]string{
		"machine":     machineNamespace + "/" + s.name,
		"elsewhere":   s.name + "/" + s.name,
		"unknown":     machineNamespace + "/unknown",
		"unnamed":     machineNamespace + "/",
		"unqualified": s.name,
	}
	for name, annotation := range nodes {
		s.createNodes(name)
		s.annotateNode(name, map[string]any{"machine.openshift.io/machine": annotation})
		s.fail(name)
	}
	_, err := s.nhc.RemediationV1alpha1().NodeHealthChecks().Create(t.Context(), s.spec(templateInNamespace(machineNamespace)), metav1.CreateOptions{})
	require.NoError(t, err)
	c.startController(t, "openshift-machines")
	nhc, second := s.firstOwner(), secondOwner("machine.openshift.io/v1beta1", machine)
	for name := range nodes {
		cr := s.crIn(machineNamespace, name)
		if name == "machine" {
			require.Equal(t, []metav1.OwnerReference{nhc, second}, cr.GetOwnerReferences(), "11.3")
		} else {
			require.Equal(t, []metav1.OwnerReference{nhc}, cr.GetOwnerReferences(), "11.3: node %s", name)
		}
	}
	s.requireEnabled()
	s.eventuallyListed(map[string]int{"machine": 1, "elsewhere": 1, "unknown": 1, "unnamed": 1, "unqualified": 1})

	before := s.crIn(machineNamespace, "machine")
	c.deleteOptional(t, openShiftMachine, machineNamespace, s.name)
	s.eventually("the garbage collector has dropped the Machine", func() bool {
		return len(s.crIn(machineNamespace, "machine").GetOwnerReferences()) == 1
	})
	after := s.crIn(machineNamespace, "machine")
	require.Equal(t, before.GetUID(), after.GetUID())
	require.Equal(t, []metav1.OwnerReference{nhc}, after.GetOwnerReferences())
	s.eventuallyListed(map[string]int{"machine": 1, "elsewhere": 1, "unknown": 1, "unnamed": 1, "unqualified": 1})
	require.Equal(t, after.GetUID(), s.entry("machine").Remediations[0].Resource.UID)
	s.heal("machine")
	s.eventually("no CR", func() bool {
		_, err := s.dynamic.Resource(s.kind.remediations).Namespace(machineNamespace).Get(t.Context(), s.node("machine"), metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
}

// testClusterAPIMachines: a Machine of Cluster API is the second owner of CRs that
// need it, and of no others (spec 11.3).
func testClusterAPIMachines(t *testing.T, c *cluster) {
	c.applyOverlay(t, "cluster-api") // Grants the kinds of Metal3, too.
	c.installOptional(t, clusterAPIMachine, metal3Remediation, metal3RemediationTemplate)
	metal := newMetal3Scenario(t, c)
	metal.createTemplate(metal3Template())
	metal.createNHC()
	metal.requireEnabled() // 6.1: in whatever namespace
	spec := func() map[string]any {
		return map[string]any{"spec": map[string]any{
			"clusterName": "c", "bootstrap": map[string]any{"dataSecretName": "s"},
			"infrastructureRef": map[string]any{"apiGroup": metal3.remediations.Group, "kind": "Metal3Machine", "name": "m"},
		}}
	}
	machine := c.createOptional(t, clusterAPIMachine, metal.name, "m-0", spec())
	for name, annotations := range map[string]map[string]any{
		"machine":   {"cluster.x-k8s.io/machine": "m-0", "cluster.x-k8s.io/cluster-namespace": metal.name},
		"elsewhere": {"cluster.x-k8s.io/machine": "m-0", "cluster.x-k8s.io/cluster-namespace": "default"},
		"unknown":   {"cluster.x-k8s.io/machine": "m-1", "cluster.x-k8s.io/cluster-namespace": metal.name},
		"homeless":  {"cluster.x-k8s.io/machine": "m-0"},
	} {
		metal.createNodes(name)
		metal.annotateNode(name, annotations)
	}
	metal.eventuallyCounts(4, 4)
	// Of the informers of the controller each goes its own way. Each of these tries
	// is a new CR, until one is created that knows the Machine.
	second := secondOwner("cluster.x-k8s.io/v1beta2", machine)
	metal.eventually("a CR with a Machine as its second owner", func() bool {
		metal.fail("machine")
		owners := metal.eventuallyCR("machine").GetOwnerReferences()
		require.Equal(t, metal.firstOwner(), owners[0])
		if len(owners) == 2 {
			require.Equal(t, second, owners[1], "11.3")
			return true
		}
		require.Len(t, owners, 1)
		metal.heal("machine")
		metal.eventuallyNoCR("machine")
		return false
	})
	for _, name := range []string{"elsewhere", "unknown", "homeless"} {
		metal.fail(name)
		require.Equal(t, []metav1.OwnerReference{metal.firstOwner()}, metal.eventuallyCR(name).GetOwnerReferences(), "11.3: %s", name)
	}

	// The same Machine, the same namespace, but another group of remediators.
	other := &onPlatform{newEmptyScenario(t, c, t.Name()+"/other", powerCycle)}
	other.templateIn(metal.name, usualTemplate())
	other.createNHC(templateInNamespace(metal.name))
	other.createNodes("a")
	other.annotateNode("a", map[string]any{"cluster.x-k8s.io/machine": "m-0", "cluster.x-k8s.io/cluster-namespace": metal.name})
	other.fail("a")
	require.Equal(t, []metav1.OwnerReference{other.firstOwner()}, other.crIn(metal.name, "a").GetOwnerReferences(), "11.3")

	uid := metal.cr("machine").GetUID()
	c.deleteOptional(t, clusterAPIMachine, metal.name, "m-0")
	metal.eventually("the garbage collector has dropped the Machine", func() bool { return len(metal.cr("machine").GetOwnerReferences()) == 1 })
	require.Equal(t, uid, metal.cr("machine").GetUID())
	require.Equal(t, []metav1.OwnerReference{metal.firstOwner()}, metal.cr("machine").GetOwnerReferences())
	metal.heal("machine")
	metal.eventuallyNoCR("machine")
}

// testForbiddenMachines: without the permission to read Machines remediation goes on
// (spec 11.3).
func testForbiddenMachines(t *testing.T, c *cluster) {
	c.installOptional(t, openShiftMachine)
	s := newOnPlatform(t, c)
	s.createNodes("a", "b")
	c.createOptional(t, openShiftMachine, s.name, "m", map[string]any{"spec": map[string]any{}})
	s.annotateNode("a", map[string]any{"machine.openshift.io/machine": s.name + "/m"})
	s.createNHC()
	s.fail("a")
	require.Equal(t, []metav1.OwnerReference{s.firstOwner()}, s.eventuallyCR("a").GetOwnerReferences())
	require.Empty(t, s.audited(t, func(r localkube.Request) bool { return r.Group == openShiftMachine.resource.Group && r.Code == 403 }),
		"the permission is asked for, not tried")
}
