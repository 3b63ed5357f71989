// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/generated/clientset/versioned"
	"github.com/nhc-controller/nhc-controller/test/deploy"
	"github.com/nhc-controller/nhc-controller/test/localkube"
	"github.com/nhc-controller/nhc-controller/test/patience"
	"github.com/nhc-controller/nhc-controller/test/remediator"
)

const (
	upstreamNamespace  = "operators"
	upstreamDeployment = "node-healthcheck-controller-manager"
	leftOverWebhook    = "vnodehealthcheck.kb.io-5km76"
)

// olmKinds are the kinds of OLM, with any content.
const olmKinds = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: subscriptions.operators.coreos.com}
spec:
  group: operators.coreos.com
  names: {kind: Subscription, listKind: SubscriptionList, plural: subscriptions, singular: subscription, shortNames: [sub]}
  scope: Namespaced
  versions: [{name: v1alpha1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: clusterserviceversions.operators.coreos.com}
spec:
  group: operators.coreos.com
  names: {kind: ClusterServiceVersion, listKind: ClusterServiceVersionList, plural: clusterserviceversions, singular: clusterserviceversion, shortNames: [csv, csvs]}
  scope: Namespaced
  versions: [{name: v1alpha1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
`

// olmObjects are what OLM has of the upstream operator.
const olmObjects = `
apiVersion: operators.coreos.com/v1alpha1
kind: Subscription
metadata: {name: node-healthcheck-operator, namespace: operators, labels: {operators.coreos.com/node-healthcheck-operator.operators: ""}}
---
apiVersion: operators.coreos.com/v1alpha1
kind: ClusterServiceVersion
metadata: {name: node-healthcheck-operator.v0.10.0, namespace: operators, labels: {operators.coreos.com/node-healthcheck-operator.operators: ""}}
`

// upstreamWebhook is left over: nothing answers it.
const upstreamWebhook = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: ` + leftOverWebhook + `, labels: {olm.owner: node-healthcheck-operator.v0.10.0}}
webhooks:
- name: vnodehealthcheck.kb.io
  admissionReviewVersions: [v1]
  sideEffects: None
  failurePolicy: Fail
  clientConfig: {service: {namespace: operators, name: node-healthcheck-controller-manager-service, path: /validate, port: 443}}
  rules: [{apiGroups: [remediation.medik8s.io], apiVersions: [v1alpha1], operations: [CREATE, UPDATE, DELETE], resources: [nodehealthchecks]}]
`

// repair is a repair in progress.
type repair struct {
	cr    *unstructured.Unstructured
	lease *coordinationv1.Lease
}

// TestMigration runs the commands of docs/migration.md: from the upstream operator, which OLM
// has installed or not, and back, in the middle of repairs. It plays upstream (spec 1.1, 1.4,
// P8, P9).
func TestMigration(t *testing.T) {
	t.Parallel()
	c := startUpstreamCluster(t)
	for _, olm := range []bool{true, false} {
		name := "without OLM"
		if olm {
			name = "with OLM"
		}
		t.Run(name, func(t *testing.T) { testMigration(t, c, olm) })
	}
}

func testMigration(t *testing.T, c *cluster, olm bool) {
	m := c.newManual(t, "NAMESPACE", upstreamNamespace, "WEBHOOK", leftOverWebhook)
	c.createUpstreamDeployment(t, olm)
	s := newScenario(t, c)
	nhc, running := s.createUpstreamState()

	const there, freeze = "From the upstream operator", "Pause everything"
	m.run("migration.md", there, "-o yaml")
	m.run("operations.md", freeze, "freeze 4711")
	if olm {
		m.run("migration.md", there, "delete subscription,csv")
	} else {
		m.run("migration.md", there, "delete deployment")
	}
	patience.Eventually(t, "the upstream Deployment is gone", func() bool {
		_, err := c.kube.AppsV1().Deployments(upstreamNamespace).Get(t.Context(), upstreamDeployment, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
	_, err := c.KubectlInput(t.Context(), strings.NewReader(upstreamWebhook), "apply", "-f", "-")
	require.NoError(t, err)
	patience.Eventually(t, "a webhook that is left over refuses every change", func() bool {
		_, err := c.Kubectl(t.Context(), "label", "--overwrite", "nhc", s.name, "try=1")
		return err != nil && strings.Contains(err.Error(), "failed calling webhook")
	})
	require.Contains(t, m.run("migration.md", there, "get validatingwebhookconfigurations"), leftOverWebhook)
	m.run("migration.md", there, "get crd")
	m.run("migration.md", there, "delete validatingwebhookconfiguration")

	m.run("migration.md", there, "kubectl apply")
	_, err = c.Kubectl(t.Context(), "wait", "--for=condition=Established", "--timeout=60s", "crd/nodehealthchecks.remediation.medik8s.io", "crd/remediationbudgets.nhc-controller.io")
	require.NoError(t, err)
	require.NoError(t, deploy.AwaitRBAC(t.Context(), c.ControlPlane, remediator.Resource.Group))
	controller := c.startController(t, "successor")
	s.eventually("it has taken over", func() bool { return s.status().ObservedGeneration > 0 && s.status().Phase == v1alpha1.PhasePaused })
	s.fail("later")
	s.eventuallyListed(map[string]int{"generated": 1, "named": 1, "later": 0})
	s.requireAdopted(running)
	require.Contains(t, m.run("migration.md", there, "get nhc"), s.name)
	require.Contains(t, m.run("migration.md", there, "get clusterrole"), "powercycle-ext-remediation")
	m.run("operations.md", freeze, `"pauseRequests":null`)
	s.eventuallyListed(map[string]int{"generated": 1, "named": 1, "later": 1})
	s.requireAdopted(running)
	require.Len(t, s.crs(), 3, "P9: no node has a second CR")

	s.heal("generated")
	s.eventuallyListed(map[string]int{"named": 1, "later": 1})
	s.eventuallyNoNodeLease("generated")
	delete(running, "generated")
	running["later"] = repair{cr: s.onlyCROf("later"), lease: s.nodeLease("later")}
	s.testWayBack(m, controller, nhc.UID, running)
}

// testWayBack: uninstalled, and replaced by upstream, which finds all as it was.
func (s *scenario) testWayBack(m *manual, controller *localkube.Process, uid any, running map[string]repair) {
	s.t.Helper()
	controller.Stop()
	const back = "Back to the upstream operator"
	m.run("migration.md", back, "delete -k")
	_, err := s.KubectlInput(s.t.Context(), strings.NewReader(upstreamCRD(s.t)), "apply", "--server-side", "--force-conflicts", "--field-manager=olm", "-f", "-")
	require.NoError(s.t, err)
	s.createUpstreamDeployment(s.t, false)
	s.eventually("the API server has the CRD of upstream", func() bool { return s.prunes() })
	s.requireAdopted(running)
	for name := range running {
		require.Equal(s.t, s.node(name), s.onlyCROf(name).GetAnnotations()[v1alpha1.AnnotationNodeName], "upstream finds it by that")
	}
	require.Equal(s.t, []string{"NAME", "PAUSED", s.name, "<none>"}, strings.Fields(m.run("migration.md", back, "get nhc")))

	// Upstream writes status, ends a repair, and a user deletes the NodeHealthCheck: nothing of
	// this controller is in the way.
	nhc := s.get()
	require.Equal(s.t, uid, nhc.UID)
	nhc.Status = v1alpha1.NodeHealthCheckStatus{ObservedNodes: new(int32(3)), HealthyNodes: new(int32(1)), UnhealthyNodes: nhc.Status.UnhealthyNodes}
	_, err = s.nhc.RemediationV1alpha1().NodeHealthChecks().UpdateStatus(s.t.Context(), nhc, metav1.UpdateOptions{FieldManager: "manager"})
	require.NoError(s.t, err)
	named := running["named"]
	require.NoError(s.t, s.crClient().Delete(s.t.Context(), named.cr.GetName(), metav1.DeleteOptions{}))
	require.NoError(s.t, s.nodeLeases().Delete(s.t.Context(), s.nodeLeaseName("named"), metav1.DeleteOptions{}))
	require.NoError(s.t, s.nhc.RemediationV1alpha1().NodeHealthChecks().Delete(s.t.Context(), s.name, metav1.DeleteOptions{}))
	_, err = s.Kubectl(s.t.Context(), "-n", upstreamNamespace, "delete", "deployment", upstreamDeployment)
	require.NoError(s.t, err)
}

// startUpstreamCluster starts a control plane in which upstream was installed, and this
// controller never was.
func startUpstreamCluster(t *testing.T) *cluster {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	controlPlane, err := localkube.Start(ctx, localkube.Options{AuditUsers: []string{deploy.User}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, controlPlane.Stop()) })
	c := &cluster{ControlPlane: controlPlane, begin: time.Now()}
	config := controlPlane.AdminConfig()
	c.kube, err = kubernetes.NewForConfig(config)
	require.NoError(t, err)
	c.nhc, err = versioned.NewForConfig(config)
	require.NoError(t, err)
	c.dynamic, err = dynamic.NewForConfig(config)
	require.NoError(t, err)
	for _, manifest := range []string{upstreamCRD(t), remediator.Manifest, olmKinds} {
		_, err := c.KubectlInput(ctx, strings.NewReader(manifest), "apply", "--server-side", "--field-manager=olm", "-f", "-")
		require.NoError(t, err)
	}
	for _, namespace := range []string{upstreamNamespace, nodeLeaseNamespace} {
		_, err = c.Kubectl(ctx, "create", "namespace", namespace)
		require.NoError(t, err)
	}
	_, err = c.Kubectl(ctx, "wait", "--for=condition=Established", "--timeout=60s", "crd", "--all")
	require.NoError(t, err)
	c.changes, err = watchChanges(t.Context(), config)
	require.NoError(t, err)
	return c
}

// upstreamCRD is a CRD without the additions to the API, and with a map where ours has an
// atomic list.
func upstreamCRD(t *testing.T) string {
	t.Helper()
	return olderCRD(t, map[string]any{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": []any{"name"}})
}

// createUpstreamDeployment creates the Deployment of upstream, with an owner as OLM sets it or without any.
func (c *cluster) createUpstreamDeployment(t *testing.T, olm bool) {
	t.Helper()
	_, err := c.Kubectl(t.Context(), "-n", upstreamNamespace, "create", "deployment", upstreamDeployment, "--image=example.com/upstream")
	require.NoError(t, err)
	if !olm {
		return
	}
	_, err = c.KubectlInput(t.Context(), strings.NewReader(olmObjects), "apply", "-f", "-")
	require.NoError(t, err)
	csv, err := c.dynamic.Resource(schema.GroupVersionResource{Group: "operators.coreos.com", Version: "v1alpha1", Resource: "clusterserviceversions"}).
		Namespace(upstreamNamespace).Get(t.Context(), "node-healthcheck-operator.v0.10.0", metav1.GetOptions{})
	require.NoError(t, err)
	deployments := c.kube.AppsV1().Deployments(upstreamNamespace)
	deployment, err := deployments.Get(t.Context(), upstreamDeployment, metav1.GetOptions{})
	require.NoError(t, err)
	deployment.OwnerReferences = []metav1.OwnerReference{{APIVersion: csv.GetAPIVersion(), Kind: csv.GetKind(), Name: csv.GetName(), UID: csv.GetUID()}}
	_, err = deployments.Update(t.Context(), deployment, metav1.UpdateOptions{})
	require.NoError(t, err)
}

// createUpstreamState creates what upstream has in the middle of two repairs: remediation
// objects with a generated name and with that of the node, their leases, and status.
func (s *scenario) createUpstreamState() (*v1alpha1.NodeHealthCheck, map[string]repair) {
	s.t.Helper()
	s.createNodes("generated", "named", "later")
	// What upstream gives a random name to is of a template that supports it.
	s.patch(s.resource(s.kind.templates), s.name, metadataPatch("annotations", map[string]any{v1alpha1.AnnotationMultipleTemplates: ""}))
	nhcs := s.nhc.RemediationV1alpha1().NodeHealthChecks()
	nhc, err := nhcs.Create(s.t.Context(), s.spec(), metav1.CreateOptions{FieldManager: "kubectl-client-side-apply"})
	require.NoError(s.t, err)
	running := map[string]repair{}
	nhc.Status = v1alpha1.NodeHealthCheckStatus{
		ObservedNodes: new(int32(3)), HealthyNodes: new(int32(1)), Phase: v1alpha1.PhaseRemediating, Reason: "NHC is remediating 2 nodes",
		LastUpdateTime: new(metav1.Now().Rfc3339Copy()),
	}
	for _, name := range []string{"generated", "named"} {
		s.setCondition(name, corev1.NodeReady, corev1.ConditionUnknown, time.Now().Add(-time.Minute))
		cr := s.createUpstreamCR(nhc, name, name == "generated")
		running[name] = repair{cr: cr, lease: s.createUpstreamLease(name)}
		nhc.Status.UnhealthyNodes = append(nhc.Status.UnhealthyNodes, v1alpha1.UnhealthyNode{Name: s.node(name), Remediations: []v1alpha1.Remediation{{
			Resource: corev1.ObjectReference{APIVersion: cr.GetAPIVersion(), Kind: cr.GetKind(), Namespace: cr.GetNamespace(), Name: cr.GetName(), UID: cr.GetUID()},
			Started:  cr.GetCreationTimestamp(), TemplateName: s.name,
		}}})
	}
	_, err = nhcs.UpdateStatus(s.t.Context(), nhc, metav1.UpdateOptions{FieldManager: "manager"})
	require.NoError(s.t, err)
	return nhc, running
}

// createUpstreamLease creates the lease of a node as upstream does.
func (s *scenario) createUpstreamLease(name string) *coordinationv1.Lease {
	s.t.Helper()
	node, err := s.kube.CoreV1().Nodes().Get(s.t.Context(), s.node(name), metav1.GetOptions{})
	require.NoError(s.t, err)
	acquired := new(metav1.NewMicroTime(time.Now().Add(-time.Minute).Truncate(time.Microsecond)))
	lease, err := s.nodeLeases().Create(s.t.Context(), &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Name: s.nodeLeaseName(name), OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}},
		},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: new("NodeHealthCheck-" + s.name), LeaseDurationSeconds: new(int32(660)), LeaseTransitions: new(int32(0)),
			AcquireTime: acquired, RenewTime: acquired,
		},
	}, metav1.CreateOptions{FieldManager: "manager"})
	require.NoError(s.t, err)
	return lease
}

// onlyCROf returns the CR of a node, which has one.
func (s *scenario) onlyCROf(name string) *unstructured.Unstructured {
	s.t.Helper()
	var found []unstructured.Unstructured
	for _, cr := range s.crs() {
		if cr.GetAnnotations()[v1alpha1.AnnotationNodeName] == s.node(name) {
			found = append(found, cr)
		}
	}
	require.Len(s.t, found, 1)
	return &found[0]
}

// requireAdopted requires that repairs go on as they were: with the same object, to which
// nothing was written, and the same lease, which had no other holder.
func (s *scenario) requireAdopted(running map[string]repair) {
	s.t.Helper()
	for name, before := range running {
		live := s.onlyCROf(name)
		require.Equal(s.t, before.cr.GetUID(), live.GetUID(), "P8")
		require.Equal(s.t, before.cr.GetResourceVersion(), live.GetResourceVersion(), "11.2")
		lease := s.nodeLease(name)
		require.NotNil(s.t, lease)
		require.Equal(s.t, before.lease.UID, lease.UID)
		require.Equal(s.t, "NodeHealthCheck-"+s.name, *lease.Spec.HolderIdentity)
		require.Equal(s.t, before.lease.Spec.AcquireTime, lease.Spec.AcquireTime, "14.5")
		require.Equal(s.t, before.lease.Spec.LeaseTransitions, lease.Spec.LeaseTransitions, "14.5")
	}
}

// createUpstreamCR creates a CR as upstream does.
func (s *scenario) createUpstreamCR(nhc *v1alpha1.NodeHealthCheck, node string, generated bool) *unstructured.Unstructured {
	s.t.Helper()
	cr := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"offSeconds": int64(1)}}}
	cr.SetGroupVersionKind(s.kind.remediations.GroupVersion().WithKind(s.kind.name))
	cr.SetAnnotations(map[string]string{v1alpha1.AnnotationNodeName: s.node(node), v1alpha1.AnnotationTemplateName: s.name})
	if generated {
		cr.SetGenerateName(s.node(node) + "-")
	} else {
		cr.SetName(s.node(node))
	}
	cr.SetLabels(map[string]string{v1alpha1.LabelPartOf: v1alpha1.PartOf})
	cr.SetOwnerReferences([]metav1.OwnerReference{{
		APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: v1alpha1.Kind, Name: nhc.Name, UID: nhc.UID, Controller: new(false),
	}})
	cr, err := s.crClient().Create(s.t.Context(), cr, metav1.CreateOptions{FieldManager: "manager"})
	require.NoError(s.t, err)
	return cr
}
