// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/test/memapi"
)

// The resources of platforms.
var (
	clusterVersions   = schema.GroupVersionResource{Group: "config.openshift.io", Version: "v1", Resource: "clusterversions"}
	disruptionBudgets = policyv1.SchemeGroupVersion.WithResource("poddisruptionbudgets")
	pods              = corev1.SchemeGroupVersion.WithResource("pods")
	clusterAPIChecks  = schema.GroupVersionResource{Group: "cluster.x-k8s.io", Version: "v1beta2", Resource: "machinehealthchecks"}
)

// TestPlatformScenarios has short courses of events, each for one rule about OpenShift, which the judge does not know.
func TestPlatformScenarios(t *testing.T) {
	t.Parallel()
	for name, scenario := range map[string]func(t *testing.T, c *cluster){
		"6.9 MachineHealthChecks in conflict":  conflictingChecks,
		"7.7 nodes that terminate":             terminatingNodes,
		"10.3 10.4 an upgrade ends":            upgradeEnds,
		"12.3 etcd is asked before it may run": etcdIsAsked,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			withNHC(t, func(t *testing.T, c *cluster) {
				c.unjudged = true
				c.createNode("worker-0", corev1.ConditionTrue)
				c.server.Install("admin", memapi.Resource{GroupVersionResource: mhcs, Kind: v1beta1.Kind, Namespaced: true})
				c.server.Install("admin", memapi.Resource{GroupVersionResource: clusterVersions, Kind: "ClusterVersion"})
				c.server.Install("admin", memapi.Resource{GroupVersionResource: disruptionBudgets, Kind: "PodDisruptionBudget", Namespaced: true})
				c.server.Install("admin", memapi.Resource{GroupVersionResource: pods, Kind: "Pod", Namespaced: true})
				c.sleep(time.Minute)
				scenario(t, c)
			})
		})
	}
}

// put creates an object, or replaces it.
func (c *cluster) put(gvr schema.GroupVersionResource, kind, namespace, name string, content map[string]any) {
	object := &unstructured.Unstructured{Object: content}
	object.SetGroupVersionKind(gvr.GroupVersion().WithKind(kind))
	object.SetNamespace(namespace)
	object.SetName(name)
	c.server.Delete("platform", gvr, memapi.Key{Namespace: namespace, Name: name})
	_, err := c.server.Create("platform", gvr, object)
	require.NoError(c.t, err)
}

// putCheck creates a MachineHealthCheck that looks at a condition.
func (c *cluster) putCheck(name, condition string) {
	c.put(mhcs, v1beta1.Kind, "machines", name, map[string]any{"spec": map[string]any{
		"selector": map[string]any{}, "unhealthyConditions": []any{map[string]any{"type": condition, "status": "True", "timeout": "0s"}},
	}})
}

func (c *cluster) disabledReason() string {
	disabled := meta.FindStatusCondition(c.nhc("blue").Status.Conditions, v1alpha1.ConditionDisabled)
	if disabled.Status != metav1.ConditionTrue {
		return ""
	}
	return disabled.Reason
}

func conflictingChecks(t *testing.T, c *cluster) {
	c.putCheck("one", "Terminating")
	c.sleep(5 * time.Second)
	require.Empty(t, c.disabledReason())
	c.putCheck("two", "Terminating")
	c.sleep(5 * time.Second)
	require.Equal(t, v1alpha1.ReasonConflict, c.disabledReason())
	c.unready("worker-0")
	c.sleep(10 * time.Minute)
	require.Empty(t, c.remediated())
	c.server.Delete("platform", mhcs, memapi.Key{Namespace: "machines", Name: "two"})
	c.sleep(5 * time.Second)
	require.Equal(t, []string{"worker-0"}, c.remediated())
	c.putCheck("one", "Ready")
	c.sleep(5 * time.Second)
	require.Equal(t, v1alpha1.ReasonConflict, c.disabledReason())
}

func terminatingNodes(t *testing.T, c *cluster) {
	c.putCheck("one", "Terminating")
	c.changeNode("worker-0", func(node *unstructured.Unstructured) { setCondition(node, "Terminating", "False") })
	c.sleep(5 * time.Second)
	c.unready("worker-0")
	c.sleep(10 * time.Minute)
	require.Empty(t, c.remediated())
	require.EqualValues(t, 4, *c.nhc("blue").Status.HealthyNodes)
	c.server.Delete("platform", mhcs, memapi.Key{Namespace: "machines", Name: "one"})
	c.sleep(5 * time.Second)
	require.Equal(t, []string{"worker-0"}, c.remediated())
}

func upgradeEnds(t *testing.T, c *cluster) {
	progressing := func(status string) {
		c.put(clusterVersions, "ClusterVersion", "", "version", map[string]any{"status": map[string]any{"conditions": []any{map[string]any{"type": "Progressing", "status": status}}}})
	}
	progressing("True")
	c.sleep(5 * time.Second)
	c.changeSpec("blue", func(spec *v1alpha1.NodeHealthCheckSpec) { spec.PauseRequests = []string{"exam"} })
	c.sleep(5 * time.Second)
	c.changeSpec("blue", func(spec *v1alpha1.NodeHealthCheckSpec) { spec.PauseRequests = nil })
	c.unready("worker-0")
	c.sleep(10 * time.Minute)
	require.Empty(t, c.remediated())
	require.Equal(t, v1alpha1.DecidedClusterUpgrading, c.decided("worker-0"))
	require.Equal(t, []string{"[remediation] Postponing potential remediations because of ongoing cluster upgrade"}, c.notes(v1alpha1.Kind, "RemediationSkipped"))
	progressing("False")
	c.sleep(time.Minute)
	require.Equal(t, []string{"worker-0"}, c.remediated())
}

func etcdIsAsked(t *testing.T, c *cluster) {
	c.unready("master-0")
	c.sleep(5 * time.Minute)
	require.Empty(t, c.remediated(), "there is no budget")
	require.Equal(t, v1alpha1.DecidedEtcdQuorum, c.decided("master-0"))
	before := len(c.server.Requests(0))
	c.put(disruptionBudgets, "PodDisruptionBudget", remediation.EtcdNamespace, "etcd", map[string]any{
		"spec":   map[string]any{"selector": map[string]any{"matchLabels": map[string]any{"app": "etcd"}}},
		"status": map[string]any{"disruptionsAllowed": int64(0)},
	})
	etcd := func(ready string) {
		c.put(pods, "Pod", remediation.EtcdNamespace, "etcd-0", map[string]any{
			"metadata": map[string]any{"labels": map[string]any{"app": "etcd"}},
			"spec":     map[string]any{"nodeName": "master-0"}, "status": map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": ready}}},
		})
	}
	etcd("Unknown")
	c.sleep(5 * time.Minute)
	require.Empty(t, c.remediated(), "its member may be working")
	asked := 0
	for _, request := range c.server.Requests(before) {
		if request.Resource == pods && request.Code == http.StatusOK {
			asked++
		}
	}
	require.InDelta(t, 5, asked, 1, "12.4: once a minute")
	etcd("False")
	c.sleep(time.Minute + inTime)
	require.Equal(t, []string{"master-0"}, c.remediated())
}

// TestClusterAPIScenarios has short courses of events, each for one rule about Machines of Cluster API.
func TestClusterAPIScenarios(t *testing.T) {
	t.Parallel()
	for name, scenario := range map[string]func(t *testing.T, m *machineAPI){
		"M4.4 targets of Cluster API's own":     targetsOfAnother,
		"M5.3 Machines of other clusters":       machinesOfOtherClusters,
		"M19 a quiet one makes no request":      quietMachines,
		"M19 a pause that ends is seen at once": machinePauseEnds,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			withMachinesOfOne(t, ofClusterAPI, func(t *testing.T, m *machineAPI) {
				m.unjudged = true
				m.addMHC("east", "a", asItIs)
				m.sleep(inTime)
				scenario(t, m)
			})
		})
	}
}

func targetsOfAnother(t *testing.T, m *machineAPI) {
	set := m.newSet("workers", "worker")
	mine, theirs := m.addMachine(set, "a", "worker-0"), m.addMachine(set, "a", "worker-1")
	m.server.Install("admin", memapi.Resource{GroupVersionResource: clusterAPIChecks, Kind: "MachineHealthCheck", Namespaced: true})
	m.put(clusterAPIChecks, "MachineHealthCheck", machineNamespace, "theirs", map[string]any{"status": map[string]any{"targets": []any{theirs}}})
	m.sleep(time.Minute)
	m.cluster.unready("worker-0", "worker-1")
	m.sleep(time.Minute)
	require.True(t, m.deleting(mine))
	require.False(t, m.deleting(theirs))
	require.Equal(t, v1beta1.DecidedOtherHealthCheck, m.decision("east", theirs))
	m.server.Delete("platform", clusterAPIChecks, memapi.Key{Namespace: machineNamespace, Name: "theirs"})
	m.sleep(10 * time.Minute)
	require.True(t, m.deleting(theirs))
}

func machinesOfOtherClusters(t *testing.T, m *machineAPI) {
	set := m.newSet("workers", "worker")
	mine, other := m.addMachine(set, "a", "worker-0"), m.addMachine(set, "a", "worker-1")
	m.changeMachine("user", other, func(machine *unstructured.Unstructured) {
		_ = unstructured.SetNestedField(machine.Object, "another", "spec", "clusterName")
	})
	m.sleep(inTime)
	require.Equal(t, 1, *m.mhc("east").Status.ExpectedMachines)
	require.Equal(t, 1, *m.mhc("east").Status.IgnoredMachines)
	m.fail(mine)
	m.fail(other)
	m.sleep(10 * time.Minute)
	require.True(t, m.deleting(mine))
	require.False(t, m.deleting(other))
}

func quietMachines(t *testing.T, m *machineAPI) {
	machine := m.addMachine(m.newSet("workers", "worker"), "a", "worker-0")
	m.sleep(time.Hour)
	before, syncs := len(m.server.Requests(0)), m.syncs("east")
	require.Positive(t, syncs)
	m.setStatus(machine, func(status map[string]any) {
		status["addresses"] = []any{map[string]any{"type": "InternalIP", "address": "192.0.2.1"}}
	})
	m.changeMachine("user", machine, func(machine *unstructured.Unstructured) { setEntry(machine, "annotations", "example.com/noise", "1") })
	m.changeNode("worker-0", func(node *unstructured.Unstructured) { setEntry(node, "labels", "example.com/noise", "1") })
	m.sleep(time.Hour)
	require.Empty(t, m.server.Requests(before))
	require.Equal(t, syncs, m.syncs("east"), "M19.1")
}

func machinePauseEnds(t *testing.T, m *machineAPI) {
	machine := m.addMachine(m.newSet("workers", "worker"), "a", "worker-0")
	pause := func(change func(annotations map[string]string)) {
		m.changeMHC("east", func(mhc *v1beta1.MachineHealthCheck) { change(mhc.Annotations) })
	}
	pause(func(annotations map[string]string) { annotations[v1beta1.AnnotationPaused] = "" })
	m.fail(machine)
	m.sleep(10 * time.Minute)
	require.False(t, m.deleting(machine))
	pause(func(annotations map[string]string) { delete(annotations, v1beta1.AnnotationPaused) })
	m.sleep(inTime)
	require.True(t, m.deleting(machine), "M19.1")
}
