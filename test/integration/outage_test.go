// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"errors"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/test/deploy"
	"github.com/nhc-controller/nhc-controller/test/localkube"
	"github.com/nhc-controller/nhc-controller/test/patience"
)

// TestOutage takes the API server away in the middle of the work (spec P5, P8, 22.5,
// 22.6).
func TestOutage(t *testing.T) {
	t.Parallel()
	c := exclusiveCluster(t)
	t.Cleanup(func() { require.NoError(t, c.RestartControllerManager(), "or the next test would wait for it") })

	// The API server cannot read the objects of one kind. This comes first: after an
	// outage of everything, other controllers are slow to follow.
	t.Run("of one kind", func(t *testing.T) {
		other := newScenario(t, c)
		other.createNodes("a", "b")
		s := newEmptyScenario(t, c, t.Name()+"broken", remediationKind{
			name:         "HammerRemediation",
			remediations: brokenGroup.WithResource("hammerremediations"),
			templates:    brokenGroup.WithResource("hammerremediationtemplates"),
		})
		s.createNodes("a", "b")
		repair := s.installBroken()
		controller := c.startController(t, "hindered", shortLease...)
		other.createNHC()
		_, err := s.nhc.RemediationV1alpha1().NodeHealthChecks().Create(t.Context(), s.spec(), metav1.CreateOptions{})
		require.NoError(t, err)
		s.fail("a")
		s.eventually("the controller tries to watch the kind", func() bool {
			return len(s.requests(func(r localkube.Request) bool { return r.Resource == s.kind.remediations.Resource })) > 0
		})
		require.Equal(t, http.StatusOK, probe(t, controller, "/readyz"))
		other.fail("a")
		other.eventuallyCR("a")
		other.recover("a", 2)
		s.eventually("the status says that the kind cannot be read", func() bool {
			return meta.IsStatusConditionFalse(s.status().Conditions, v1alpha1.ConditionRemediationAllowed)
		})
		require.Nil(t, meta.FindStatusCondition(s.status().Conditions, v1alpha1.ConditionDisabled), "6.5: an error is not an answer")
		require.Empty(t, s.requests(func(r localkube.Request) bool { return r.Group == brokenGroup.Group && isWrite(r) }))

		repair()
		s.eventuallyEnabled()
		s.eventuallyCR("a")
		s.eventuallyCounts(2, 1)
	})

	t.Run("survived", func(t *testing.T) {
		s := newScenario(t, c)
		// Long enough for the controller to be frozen before a node is unhealthy.
		const duration = 10 * time.Second
		s.createNodes("before", "during", "healing", "well")
		controller := c.startController(t, "patient", longLease...)
		s.createNHC(func(spec *v1alpha1.NodeHealthCheckSpec) {
			spec.UnhealthyConditions = []v1alpha1.UnhealthyCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, Duration: metav1.Duration{Duration: duration}}}
		})
		s.eventuallyCounts(4, 4)
		s.fail("before")
		s.fail("healing")
		before, healing := s.eventuallyCR("before"), s.eventuallyCR("healing")
		s.setFinalizers("healing", "test.nhc-controller.io/repairing")
		s.heal("healing")
		s.eventuallyDeleting("healing")
		s.fail("during")
		s.eventuallyCounts(4, 1)

		// However long the API server takes to stop, the controller does nothing meanwhile.
		require.NoError(t, controller.Signal(syscall.SIGSTOP))
		err := c.StopAPIServer()
		require.NoError(t, errors.Join(err, controller.Signal(syscall.SIGCONT)))
		down := time.Now()
		patience.Eventually(t, "the creation of a CR fails", func() bool {
			requireRunning(t, controller)
			for _, line := range logged(t, controller, "Acting on a node failed, retrying") {
				if line["node"] == s.node("during") {
					return true
				}
			}
			return false
		})
		require.Equal(t, http.StatusOK, probe(t, controller, "/readyz"), "22.5: its caches are filled")
		require.Equal(t, http.StatusOK, probe(t, controller, "/livez"), "22.5: its lease has not ended")
		require.NoError(t, c.StartAPIServer(t.Context()))

		during := s.eventuallyCR("during")
		require.True(t, during.GetCreationTimestamp().After(down), "it was created before the outage, which shows nothing")
		require.Equal(t, before.GetUID(), s.cr("before").GetUID())
		require.Equal(t, healing.GetUID(), s.cr("healing").GetUID())
		s.setFinalizers("healing")
		s.eventuallyNoCR("healing")
		for _, name := range []string{"before", "during"} {
			s.heal(name)
			s.eventuallyNoCR(name)
		}
		s.eventuallyCounts(4, 4)
		s.eventuallyNoneListed()
		for _, name := range []string{"before", "during", "healing"} {
			created := s.requests(func(r localkube.Request) bool {
				return r.Verb == "create" && r.Resource == s.kind.remediations.Resource && r.Namespace == s.name && r.Name == s.node(name)
			})
			require.Len(t, created, 1, name)
			s.eventually("the event about the node", func() bool { return len(s.eventsAbout("Node", s.node(name), "RemediationRemoved")) > 0 })
			require.Len(t, s.eventsAbout("Node", s.node(name), "RemediationCreated"), 1, name)
		}
		requireRunning(t, controller)
		require.NoError(t, controller.Signal(syscall.SIGTERM))
		require.Equal(t, 0, exitCode(t, controller))
	})

	t.Run("too long for the lease", func(t *testing.T) {
		s := newScenario(t, c)
		s.createNodes("a", "b")
		controller := c.startController(t, "impatient") // A slow machine must not be too late for the lease.
		c.eventuallyLeader(t, "impatient")
		s.createNHC()
		s.fail("a")
		cr := s.eventuallyCR("a")
		require.NoError(t, c.StopAPIServer())
		require.Equal(t, 1, exitCode(t, controller), "22.6: a lost leader lease")
		require.Contains(t, controller.LogTail(), "lost the leader lease")
		require.NoError(t, c.StartAPIServer(t.Context()))
		s.fail("b")
		c.startController(t, "successor", shortLease...)
		s.eventuallyCR("b")
		require.Equal(t, cr.GetUID(), s.cr("a").GetUID())
		s.heal("a")
		s.heal("b")
		s.eventuallyCounts(2, 2)
		require.Empty(t, s.crs())
	})
}

var brokenGroup = schema.GroupVersion{Group: "broken.test.nhc-controller.io", Version: "v2"}

// installBroken creates the kinds of the scenario, with a template. Its objects are
// stored in a version that would have to be converted by somebody who does not
// answer, until repair makes that unnecessary.
func (s *scenario) installBroken() (repair func()) {
	s.t.Helper()
	crds := s.dynamic.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	kinds := map[string]string{s.kind.name: s.kind.remediations.Resource, s.kind.templateName(): s.kind.templates.Resource}
	version := func(name string, storage bool) map[string]any {
		return map[string]any{
			"name": name, "served": true, "storage": storage,
			"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
		}
	}
	for kind, plural := range kinds {
		crd := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
			"group": brokenGroup.Group, "scope": "Namespaced",
			"names":    map[string]any{"kind": kind, "plural": plural},
			"versions": []any{version("v1", true), version(brokenGroup.Version, false)},
		}}}
		crd.SetAPIVersion("apiextensions.k8s.io/v1")
		crd.SetKind("CustomResourceDefinition")
		crd.SetName(plural + "." + brokenGroup.Group)
		_, err := crds.Create(s.t.Context(), crd, metav1.CreateOptions{})
		require.NoError(s.t, err)
	}
	_, err := s.KubectlInput(s.t.Context(), strings.NewReader(brokenRole), "apply", "-f", "-")
	require.NoError(s.t, err)
	_, err = s.Kubectl(s.t.Context(), "wait", "--for=condition=Established", "--timeout=60s", "crd", "--all")
	require.NoError(s.t, err)
	require.NoError(s.t, deploy.AwaitRBAC(s.t.Context(), s.ControlPlane, brokenGroup.Group))
	s.createTemplate(usualTemplate())
	foreign := s.createForeignCR("foreign", nil) // Without any object there is nothing to convert.

	conversion := func(value map[string]any) {
		for _, plural := range kinds {
			s.patch(crds, plural+"."+brokenGroup.Group, map[string]any{"spec": map[string]any{"conversion": value}})
		}
	}
	readable := func() bool {
		_, err := s.crClient().Get(s.t.Context(), foreign.GetName(), metav1.GetOptions{})
		_, templateErr := s.resource(s.kind.templates).Get(s.t.Context(), s.name, metav1.GetOptions{})
		return err == nil && templateErr == nil
	}
	conversion(map[string]any{"strategy": "Webhook", "webhook": map[string]any{
		"clientConfig": map[string]any{"url": "https://127.0.0.1:1/convert"}, "conversionReviewVersions": []any{"v1"},
	}})
	s.eventually("the kinds cannot be read", func() bool { return !readable() })
	return func() {
		conversion(map[string]any{"strategy": "None", "webhook": nil})
		s.eventually("the kinds can be read", readable)
	}
}

const brokenRole = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: hammer-ext-remediation
  labels:
    rbac.ext-remediation/aggregate-to-ext-remediation: "true"
rules:
- apiGroups: [broken.test.nhc-controller.io]
  resources: [hammerremediations, hammerremediationtemplates]
  verbs: [get, list, watch, create, patch, delete]
`
