// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"

	"github.com/nhc-controller/nhc-controller/test/deploy"
	"github.com/nhc-controller/nhc-controller/test/localkube"
	"github.com/nhc-controller/nhc-controller/test/patience"
)

// Kinds that tell what the controller may do, with any content.
var (
	featureGate           = untypedKind("config.openshift.io", "v1", "FeatureGate", true)
	clusterOfCAPI         = untypedKind("cluster.x-k8s.io", "v1beta2", "Cluster", false)
	clusterAPIHealthCheck = untypedKind("cluster.x-k8s.io", "v1beta2", "MachineHealthCheck", false)
)

func untypedKind(group, version, kind string, clusterScoped bool) optionalKind {
	singular := strings.ToLower(kind)
	scope := "scope: Namespaced"
	if clusterScoped {
		scope = "scope: Cluster"
	}
	manifest := strings.NewReplacer("config.openshift.io", group, "ClusterVersion", kind, "clusterversions", singular+"s", "clusterversion", singular,
		"name: v1", "name: "+version, "scope: Cluster", scope).Replace(clusterVersion.manifest)
	return optionalKind{kind: kind, resource: schema.GroupVersionResource{Group: group, Version: version, Resource: singular + "s"}, manifest: manifest}
}

// TestMachineHealthCheckInstalled: installed by the overlay, the controller replaces Machines and
// hands them over with the permissions that it has there, uses all of them, and misses none (spec
// M20.1 to M20.3). The admission policies let all of it pass.
func TestMachineHealthCheckInstalled(t *testing.T) {
	t.Parallel()
	c := exclusiveCluster(t)
	c.unbindBasicUser(t)
	c.createNamespaces(t, machineNamespace)
	before := c.granted(t)
	c.installOptional(t, openShiftMachine, clusterAPIMachine, clusterOfCAPI, clusterAPIHealthCheck, featureGate)
	c.applyOverlay(t, ownOverlay)
	c.createOptional(t, featureGate, "", "cluster", map[string]any{"status": map[string]any{"featureGates": []any{map[string]any{
		"version": "4.20", "enabled": []any{map[string]any{"name": "MachineAPIOperatorDisableMachineHealthCheckController"}},
	}}}})
	c.startDeployed(t, deploy.Controller{
		Name: "machines", Args: []string{"-v=5"}, Env: []string{"KUBE_FEATURE_WatchListClient=false"}, // Then it lists, too.
	})
	i := &machineInstallation{
		t: t, cluster: c,
		machines: c.dynamic.Resource(openShiftMachine.resource).Namespace(machineNamespace),
		checks:   c.dynamic.Resource(machineHealthCheck.resource).Namespace(machineNamespace),
	}
	i.testDeletion()
	i.testAnnotation()
	i.testTemplate()
	i.testClusterAPI()

	unused := func() []permission {
		// That something is not there is an answer, too.
		answered := c.audited(t, func(r localkube.Request) bool { return r.Code/100 == 2 || r.Code == http.StatusNotFound })
		return slices.DeleteFunc(c.granted(t), func(p permission) bool {
			// Of an optional kind it asks whether it may get, list and watch it, and gets no object.
			asked := p.verb == "get" && slices.Contains([]string{"machinehealthchecks", "clusters", "featuregates"}, p.resource)
			return asked || slices.Contains(before, p) || slices.ContainsFunc(answered, p.permits)
		})
	}
	_ = wait.PollUntilContextTimeout(t.Context(), 200*time.Millisecond, patience.Limit, true, func(context.Context) (bool, error) { return len(unused()) == 0, nil })
	require.Empty(t, unused(), "granted, and never used")
	require.Empty(t, c.audited(t, func(r localkube.Request) bool { return r.Code == http.StatusForbidden }), "tried, and not permitted")
}

// machineInstallation is a cluster with the controller of MachineHealthChecks.
type machineInstallation struct {
	t *testing.T
	*cluster
	machines, checks dynamic.ResourceInterface
}

// check creates a MachineHealthCheck of the Machines of a pool.
func (i *machineInstallation) check(pool string, annotations map[string]string, spec map[string]any) {
	i.t.Helper()
	object := &unstructured.Unstructured{Object: map[string]any{"spec": merge(spec, map[string]any{
		"selector":            map[string]any{"matchLabels": map[string]any{"pool": pool}},
		"unhealthyConditions": []any{map[string]any{"type": "Ready", "status": "Unknown", "timeout": "1s"}},
	})}}
	object.SetGroupVersionKind(machineHealthCheck.resource.GroupVersion().WithKind(machineHealthCheck.kind))
	object.SetName(pool)
	object.SetAnnotations(annotations)
	_, err := i.checks.Create(i.t.Context(), object, metav1.CreateOptions{})
	require.NoError(i.t, err)
}

// machine creates a Machine of a pool that a MachineSet owns.
func (i *machineInstallation) machine(kind optionalKind, pool string, status map[string]any) {
	i.t.Helper()
	machine := (&machineThief{kind: kind}).machine(pool+"-1", map[string]any{"labels": map[string]any{"pool": pool}}, owner(true))
	machine.Object["status"] = status
	i.createOptional(i.t, kind, machineNamespace, machine.GetName(), machine.Object)
}

func (i *machineInstallation) eventuallyGone(client dynamic.ResourceInterface, name string) {
	i.t.Helper()
	patience.Eventually(i.t, name+" is gone", func() bool {
		_, err := client.Get(i.t.Context(), name, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
}

// testDeletion: a Machine that has failed is deleted, with an event, and status says what remains.
func (i *machineInstallation) testDeletion() {
	i.check("deleted", nil, nil)
	i.machine(openShiftMachine, "deleted", map[string]any{"phase": "Failed"})
	i.eventuallyGone(i.machines, "deleted-1")
	patience.Eventually(i.t, "an event", func() bool {
		events, err := i.kube.EventsV1().Events(machineNamespace).List(i.t.Context(), metav1.ListOptions{})
		require.NoError(i.t, err)
		for k := range events.Items {
			if events.Items[k].Reason == "MachineDeleted" {
				return true
			}
		}
		return false
	})
	patience.Eventually(i.t, "a status", func() bool {
		check, err := i.checks.Get(i.t.Context(), "deleted", metav1.GetOptions{})
		require.NoError(i.t, err)
		conditions, _, _ := unstructured.NestedSlice(check.Object, "status", "conditions")
		health, _ := argoHealth(i.t, check)
		return len(conditions) > 0 && health == "Healthy"
	})
}

// testAnnotation: both keys are set, and the second goes after the first.
func (i *machineInstallation) testAnnotation() {
	i.check("rebooted", map[string]string{remediationStrategy: "external-baremetal"}, nil)
	i.machine(openShiftMachine, "rebooted", map[string]any{"phase": "Running", "nodeRef": map[string]any{"name": "missing"}})
	patience.Eventually(i.t, "both keys", func() bool {
		machine, err := i.machines.Get(i.t.Context(), "rebooted-1", metav1.GetOptions{})
		require.NoError(i.t, err)
		_, asked := machine.GetAnnotations()[asksForRemediation]
		return asked && machine.GetAnnotations()[remediationStrategy] == "external-baremetal"
	})
	i.createNode("missing", nil)
	_, err := i.machines.Patch(i.t.Context(), "rebooted-1", types.MergePatchType, []byte(`{"metadata":{"annotations":{"`+asksForRemediation+`":null}}}`), metav1.PatchOptions{})
	require.NoError(i.t, err)
	patience.Eventually(i.t, "no key", func() bool {
		machine, err := i.machines.Get(i.t.Context(), "rebooted-1", metav1.GetOptions{})
		require.NoError(i.t, err)
		return len(machine.GetAnnotations()) == 0
	})
}

// testTemplate: a remediation object comes and goes, twice: the second event about it changes the
// first one.
func (i *machineInstallation) testTemplate() {
	template := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"offSeconds": int64(3)}}}}}
	template.SetGroupVersionKind(powerCycle.templates.GroupVersion().WithKind(powerCycle.templateName()))
	template.SetName("power-cycle")
	_, err := i.dynamic.Resource(powerCycle.templates).Namespace(machineNamespace).Create(i.t.Context(), template, metav1.CreateOptions{})
	require.NoError(i.t, err)
	i.check("cycled", nil, map[string]any{"remediationTemplate": map[string]any{
		"apiVersion": powerCycle.templates.GroupVersion().String(), "kind": powerCycle.templateName(), "name": "power-cycle",
	}})
	i.check("stalled", nil, map[string]any{"remediationTemplate": map[string]any{
		"apiVersion": powerCycle.templates.GroupVersion().String(), "kind": powerCycle.templateName(), "name": "missing",
	}})
	patience.Eventually(i.t, "M16.4: it is stalled", func() bool {
		check, err := i.checks.Get(i.t.Context(), "stalled", metav1.GetOptions{})
		require.NoError(i.t, err)
		health, message := argoHealth(i.t, check)
		return health == "Degraded" && strings.HasPrefix(message, "ExternalRemediationTemplateNotFound: ")
	})
	i.machine(openShiftMachine, "cycled", map[string]any{"phase": "Running", "nodeRef": map[string]any{"name": "cycled"}})
	remediations := i.dynamic.Resource(powerCycle.remediations).Namespace(machineNamespace)
	for range 2 {
		patience.Eventually(i.t, "a remediation object", func() bool {
			_, err := remediations.Get(i.t.Context(), "cycled-1", metav1.GetOptions{})
			return err == nil
		})
		i.createNode("cycled", nil)
		i.eventuallyGone(remediations, "cycled-1")
		require.NoError(i.t, i.kube.CoreV1().Nodes().Delete(i.t.Context(), "cycled", metav1.DeleteOptions{}))
	}
}

// testClusterAPI: a Machine of Cluster API, of this cluster, is deleted.
func (i *machineInstallation) testClusterAPI() {
	i.createNode("self", map[string]string{"cluster.x-k8s.io/cluster-name": "self", "cluster.x-k8s.io/cluster-namespace": machineNamespace})
	i.createOptional(i.t, clusterOfCAPI, machineNamespace, "self", map[string]any{"spec": map[string]any{}})
	i.check("own", map[string]string{"nhc-controller.io/machine-api": "cluster.x-k8s.io"}, nil)
	i.machine(clusterAPIMachine, "own", map[string]any{"nodeRef": map[string]any{"name": "gone"}})
	i.eventuallyGone(i.dynamic.Resource(clusterAPIMachine.resource).Namespace(machineNamespace), "own-1")
}

func (i *machineInstallation) createNode(name string, annotations map[string]string) {
	i.t.Helper()
	_, err := i.kube.CoreV1().Nodes().Create(i.t.Context(), &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations},
		Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{readyCondition(corev1.ConditionTrue, time.Now().Add(-time.Hour))}},
	}, metav1.CreateOptions{})
	require.NoError(i.t, err)
}
