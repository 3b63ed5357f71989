// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"

	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	nhcv1alpha1 "github.com/nhc-controller/nhc-controller/pkg/apis/nhc/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/test/deploy"
)

// testRoles: the roles refuse everything unrelated to remediation. They permit the
// actions of the controller, so the thief can do these.
func (s *stolenToken) testRoles() {
	config, err := s.ServiceAccountConfig(s.Context(), deploy.Namespace, deploy.ServiceAccount)
	require.NoError(s, err)
	thief, err := dynamic.NewForConfig(config)
	require.NoError(s, err)
	for what, attempt := range s.attemptsBeyondRoles(thief) {
		s.requireForbidden(what, attempt.try(s.Context()), `User "`+deploy.User+`" cannot `+attempt.words)
	}
	for what, try := range s.attemptsWithinRoles(thief) {
		require.NoError(s, try(s.Context()), what)
	}
}

// attempt is a request, and what the refusal says.
type attempt struct {
	words string
	try   func(context.Context) error
}

func (s *stolenToken) attemptsBeyondRoles(thief dynamic.Interface) map[string]attempt {
	core, rbac := s.thief.CoreV1(), s.thief.RbacV1()
	read, create, remove := metav1.ListOptions{}, metav1.CreateOptions{DryRun: dryRun}, metav1.DeleteOptions{DryRun: dryRun}
	object := func(gvr schema.GroupVersionResource, kind, namespace string) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := thief.Resource(gvr).Namespace(namespace).Create(ctx, newObject(gvr.GroupVersion().WithKind(kind)), create)
			return err
		}
	}
	return map[string]attempt{
		"read secrets": {`list resource "secrets" in API group "" in the namespace "nhc-system"`, func(ctx context.Context) error {
			_, err := core.Secrets(deploy.Namespace).List(ctx, read)
			return err
		}},
		"read all secrets": {`list resource "secrets" in API group "" at the cluster scope`, func(ctx context.Context) error {
			_, err := core.Secrets(metav1.NamespaceAll).List(ctx, read)
			return err
		}},
		"run a shell": {`create resource "pods/exec" in API group "" in the namespace "kube-system"`, func(ctx context.Context) error {
			return core.RESTClient().Post().Resource("pods").Namespace("kube-system").Name("etcd-0").SubResource("exec").Param("command", "sh").Do(ctx).Error()
		}},
		"run a pod": {`create resource "pods" in API group "" in the namespace "default"`, func(ctx context.Context) error {
			_, err := core.Pods(metav1.NamespaceDefault).Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "own"}}, create)
			return err
		}},
		"write the status of a node": {`patch resource "nodes/status" in API group "" at the cluster scope`, func(ctx context.Context) error {
			_, err := core.Nodes().Patch(ctx, s.node.Name, types.MergePatchType, []byte(`{}`), metav1.PatchOptions{DryRun: dryRun}, "status")
			return err
		}},
		"delete a node": {`delete resource "nodes" in API group "" at the cluster scope`, func(ctx context.Context) error {
			return core.Nodes().Delete(ctx, s.node.Name, remove)
		}},
		"make a token": {`create resource "serviceaccounts/token" in API group "" in the namespace "kube-system"`, func(ctx context.Context) error {
			_, err := core.ServiceAccounts("kube-system").CreateToken(ctx, "default", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
			return err
		}},
		"bind a role": {`create resource "clusterrolebindings" in API group "rbac.authorization.k8s.io" at the cluster scope`, func(ctx context.Context) error {
			_, err := rbac.ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "own"}}, create)
			return err
		}},
		"widen its role": {`patch resource "clusterroles" in API group "rbac.authorization.k8s.io" at the cluster scope`, func(ctx context.Context) error {
			_, err := rbac.ClusterRoles().Patch(ctx, "nhc-controller-aggregation", types.MergePatchType, []byte(`{}`), metav1.PatchOptions{DryRun: dryRun})
			return err
		}},
		"remove the policy": {`delete resource "validatingadmissionpolicybindings" in API group "admissionregistration.k8s.io" at the cluster scope`, func(ctx context.Context) error {
			return s.thief.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Delete(ctx, nodePolicy, remove)
		}},
		"make a kubelet look alive": {`update resource "leases" in API group "coordination.k8s.io" in the namespace "kube-node-lease"`, func(ctx context.Context) error {
			_, err := s.thief.CoordinationV1().Leases("kube-node-lease").Update(ctx, newLease(s.node.Name), metav1.UpdateOptions{DryRun: dryRun})
			return err
		}},
		"take the place of a scheduler": {`create resource "leases" in API group "coordination.k8s.io" in the namespace "kube-system"`, func(ctx context.Context) error {
			_, err := s.thief.CoordinationV1().Leases("kube-system").Create(ctx, newLease("kube-scheduler"), create)
			return err
		}},
		"tell events of others": {`create resource "events" in API group "events.k8s.io" in the namespace "kube-system"`, func(ctx context.Context) error {
			_, err := s.thief.EventsV1().Events("kube-system").Create(ctx, &eventsv1.Event{ObjectMeta: metav1.ObjectMeta{Name: "own"}}, create)
			return err
		}},
		"have more nodes remediated": {
			`create resource "nodehealthchecks" in API group "remediation.medik8s.io" at the cluster scope`,
			object(v1alpha1.SchemeGroupVersion.WithResource(v1alpha1.Plural), v1alpha1.Kind, ""),
		},
		"lift a limit": {`delete resource "remediationbudgets" in API group "nhc-controller.io" at the cluster scope`, func(ctx context.Context) error {
			return thief.Resource(nhcv1alpha1.SchemeGroupVersion.WithResource(nhcv1alpha1.BudgetPlural)).Delete(ctx, "own", remove)
		}},
		"write a template": {
			`create resource "powercycleremediationtemplates" in API group "demo.nhc-controller.io" in the namespace "default"`,
			object(powerCycle.templates, powerCycle.templateName(), metav1.NamespaceDefault),
		},
		"use a remediator that has granted nothing": {
			`create resource "metal3remediations" in API group "infrastructure.cluster.x-k8s.io" in the namespace "default"`,
			object(metal3Remediation.resource, metal3Remediation.kind, metav1.NamespaceDefault),
		},
	}
}

// attemptsWithinRoles are what a thief can do, besides reading. docs/security.md warns
// of them.
func (s *stolenToken) attemptsWithinRoles(thief dynamic.Interface) map[string]func(context.Context) error {
	create := metav1.CreateOptions{DryRun: dryRun}
	lease := func(namespace string) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := s.thief.CoordinationV1().Leases(namespace).Create(ctx, newLease("own"), create)
			return err
		}
	}
	return map[string]func(context.Context) error{
		"remediate any node": func(ctx context.Context) error {
			gvr := powerCycle.remediations
			_, err := thief.Resource(gvr).Namespace(metav1.NamespaceDefault).Create(ctx, newObject(gvr.GroupVersion().WithKind(powerCycle.name)), create)
			return err
		},
		"keep others from a node":    lease(nodeLeaseNamespace),
		"leases beside the leader's": lease(deploy.Namespace),
		"look at nodes": func(ctx context.Context) error {
			_, err := s.thief.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
			return err
		},
	}
}

func newObject(gvk schema.GroupVersionKind) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{}}
	object.SetGroupVersionKind(gvk)
	object.SetName("own")
	return object
}

func newLease(name string) *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name}}
}
