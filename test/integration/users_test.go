// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	nhcv1alpha1 "github.com/nhc-controller/nhc-controller/pkg/apis/nhc/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// user is somebody with a role for users. The name is that of the role.
type user struct {
	*scenario
	name string
}

// newUser binds a ClusterRole, in the whole cluster or in one namespace.
func (s *scenario) newUser(role, namespace string) *user {
	s.t.Helper()
	u := &user{scenario: s, name: role + "-of-" + s.name + namespace}
	reference := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role}
	subjects := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: u.name}}
	meta := metav1.ObjectMeta{Name: u.name}
	var err error
	if namespace == "" {
		_, err = s.kube.RbacV1().ClusterRoleBindings().Create(s.t.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: meta, RoleRef: reference, Subjects: subjects}, metav1.CreateOptions{})
	} else {
		_, err = s.kube.RbacV1().RoleBindings(namespace).Create(s.t.Context(), &rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: reference, Subjects: subjects}, metav1.CreateOptions{})
	}
	require.NoError(s.t, err)
	return u
}

// kubectl runs kubectl as the user, with the user's editor.
func (u *user) kubectl(command, editor string) error {
	u.t.Helper()
	script := strings.ReplaceAll(command, "kubectl ", "kubectl --as="+u.name+" ")
	_, err := u.Shell(u.t.Context(), script, "NHC="+u.scenario.name, "KUBE_EDITOR="+editor)
	return err
}

func (u *user) require(command string) {
	u.t.Helper()
	require.NoError(u.t, u.kubectl(command, "false"), "%s: %s", u.name, command)
}

func (u *user) requireDenied(message, command string) {
	u.t.Helper()
	require.ErrorContains(u.t, u.kubectl(command, "false"), message, "%s: %s", u.name, command)
}

// manifest writes the NodeHealthCheck of the scenario to a file.
func (s *scenario) manifest(change ...func(*v1alpha1.NodeHealthCheckSpec)) (path string) {
	s.t.Helper()
	nhc := s.spec(change...)
	nhc.TypeMeta = metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: v1alpha1.Kind}
	content, err := yaml.Marshal(nhc)
	require.NoError(s.t, err)
	path = filepath.Join(s.t.TempDir(), "nodehealthcheck.yaml")
	require.NoError(s.t, os.WriteFile(path, content, 0o600))
	return path
}

const (
	onlyPauseRequests = "without the permission to update NodeHealthChecks, only spec.pauseRequests may be patched"
	noMetadata        = "without the permission to update NodeHealthChecks, metadata may not be patched"
)

// TestUserRoles: what the roles for users permit, with the kubectl that users have (spec 22.8).
func TestUserRoles(t *testing.T) {
	t.Parallel()
	c := exclusiveCluster(t)
	_, err := c.Kubectl(t.Context(), "create", "--dry-run=server", "--validate=strict", "-f", filepath.Join("..", "..", "manifests", "samples", "tenant-policy.yaml"))
	require.NoError(t, err)
	t.Run("22.8 edit", func(t *testing.T) {
		for _, role := range []string{"nhc-edit", "edit", "admin"} {
			s := newScenario(t, c)
			s.newUser(role, "").testEdits()
		}
	})
	t.Run("22.8 view", func(t *testing.T) {
		s := newScenario(t, c)
		_, err := s.nhc.RemediationV1alpha1().NodeHealthChecks().Create(t.Context(), s.spec(), metav1.CreateOptions{})
		require.NoError(t, err)
		for _, role := range []string{"nhc-view", "view"} {
			viewer := s.newUser(role, "")
			s.eventually("the role "+role, func() bool { return viewer.kubectl("kubectl get nhc $NHC", "") == nil })
			viewer.require("kubectl describe nhc $NHC")
			viewer.requireDenied(`cannot patch resource "nodehealthchecks"`, `kubectl patch nhc $NHC --type=merge -p '{"spec":{"pauseRequests":["x"]}}'`)
			viewer.requireDenied(`cannot delete resource "nodehealthchecks"`, "kubectl delete nhc $NHC")
			if role == "nhc-view" {
				viewer.require("kubectl get nodes")
			} else {
				viewer.requireDenied(`cannot list resource "nodes"`, "kubectl get nodes")
			}
			viewer.requireDenied(`cannot delete resource "nodes"`, "kubectl delete node any")
		}
		s.newUser("admin", s.name).requireDenied(`cannot get resource "nodehealthchecks"`, "kubectl get nhc $NHC")
	})
	t.Run("B1.1 budgets", func(t *testing.T) { testBudgetRoles(newScenario(t, c)) })
	t.Run("22.8 pause", func(t *testing.T) {
		s := newScenario(t, c)
		_, err := s.nhc.RemediationV1alpha1().NodeHealthChecks().Create(t.Context(), s.spec(), metav1.CreateOptions{})
		require.NoError(t, err)
		s.newUser("nhc-pause", "").testPauses()
		onCall := s.newUser("nhc-operate", "")
		onCall.testPauses()
		onCall.testOperates()
	})
}

// testEdits: create, read, apply, patch, edit and delete.
func (u *user) testEdits() {
	u.t.Helper()
	first := u.manifest()
	u.eventually("the role", func() bool { return u.kubectl("kubectl apply --filename="+first, "") == nil })
	u.require("kubectl apply --filename=" + u.manifest(pause("exam")))
	require.Equal(u.t, []string{"exam"}, u.get().Spec.PauseRequests)
	u.require(`kubectl patch nhc $NHC --type=merge -p '{"spec":{"minHealthy":"51%"}}'`)
	require.NoError(u.t, u.kubectl("kubectl edit nhc $NHC", "sed -i s/51%/90%/"))
	require.Equal(u.t, "90%", u.get().Spec.MinHealthy.StrVal)
	u.require("kubectl apply --server-side --force-conflicts --filename=" + first)
	u.require("kubectl label nhc $NHC team=nodes")
	u.require("kubectl get nhc $NHC")
	u.require("kubectl replace --filename=" + first)
	u.require("kubectl delete nhc $NHC")
	u.requireDenied(`cannot update resource "nodehealthchecks/status"`, "kubectl replace --subresource=status --filename="+first)
}

// testBudgetRoles: those who edit NodeHealthChecks edit RemediationBudgets. People on call only
// read them.
func testBudgetRoles(s *scenario) {
	path := filepath.Join(s.t.TempDir(), "budget.yaml")
	manifest := fmt.Sprintf("apiVersion: %s\nkind: %s\nmetadata: {name: %s}\nspec: {nodeSelector: {matchLabels: {%s: ''}}, maxConcurrent: 1}\n",
		nhcv1alpha1.SchemeGroupVersion, nhcv1alpha1.BudgetKind, s.name, s.name)
	require.NoError(s.t, os.WriteFile(path, []byte(manifest), 0o600))
	for _, role := range []string{"nhc-edit", "edit", "admin"} {
		editor := s.newUser(role, "")
		s.eventually("the role "+role, func() bool { return editor.kubectl("kubectl apply --filename="+path, "") == nil })
		editor.require(`kubectl patch rbudget $NHC --type=merge -p '{"spec":{"maxConcurrent":0}}'`)
		editor.require("kubectl get rbudget $NHC")
		editor.require("kubectl replace --filename=" + path)
		editor.requireDenied(`cannot update resource "remediationbudgets/status"`, "kubectl replace --subresource=status --filename="+path)
		editor.require("kubectl delete rbudget $NHC")
	}
	_, err := s.Kubectl(s.t.Context(), "apply", "-f", path)
	require.NoError(s.t, err)
	for _, role := range []string{"nhc-view", "view", "nhc-pause"} {
		viewer := s.newUser(role, "")
		s.eventually("the role "+role, func() bool { return viewer.kubectl("kubectl get rbudget $NHC", "") == nil })
		viewer.require("kubectl describe rbudget $NHC")
		viewer.require("kubectl get rbudget $NHC --subresource=status")
		viewer.requireDenied(`cannot patch resource "remediationbudgets"`, `kubectl patch rbudget $NHC --type=merge -p '{"spec":{"maxConcurrent":2}}'`)
		viewer.requireDenied(`cannot delete resource "remediationbudgets"`, "kubectl delete rbudget $NHC")
		viewer.requireDenied(`cannot create resource "remediationbudgets"`, "kubectl create --filename="+path)
	}
	s.newUser("admin", s.name).requireDenied(`cannot get resource "remediationbudgets"`, "kubectl get rbudget $NHC")
}

// testOperates: people on call stop everything, let it go on and hold a node. They lift no limit of others.
func (u *user) testOperates() {
	u.t.Helper()
	u.createNodes("a")
	budget := func(name string) string {
		path := filepath.Join(u.t.TempDir(), "budget.yaml")
		manifest := fmt.Sprintf("{apiVersion: %s, kind: %s, metadata: {name: %s}, spec: {nodeSelector: {matchLabels: {%s: ''}}, maxConcurrent: 0}}",
			nhcv1alpha1.SchemeGroupVersion, nhcv1alpha1.BudgetKind, name, u.scenario.name)
		require.NoError(u.t, os.WriteFile(path, []byte(manifest), 0o600))
		return path
	}
	u.require("kubectl create --filename=" + budget("pause-cluster"))
	u.require("kubectl delete rbudget pause-cluster")
	u.require("kubectl create --filename=" + budget(u.scenario.name))
	u.requireDenied(`cannot patch resource "remediationbudgets"`, `kubectl patch rbudget $NHC --type=merge -p '{"spec":{"maxConcurrent":9}}'`)
	u.requireDenied(`cannot delete resource "remediationbudgets"`, "kubectl delete rbudget $NHC")
	u.require("kubectl label node " + u.node("a") + " " + v1alpha1.LabelExclude + "=true")
	u.require("kubectl annotate node " + u.node("a") + " " + v1alpha1.AnnotationManuallyConfirmedHealthy + "=")
	u.requireDenied(`cannot delete resource "nodes"`, "kubectl delete node "+u.node("a"))
	u.require("kubectl get events,leases --all-namespaces")
	u.requireDenied(`cannot delete resource "leases"`, "kubectl delete lease any")
	for verb, want := range map[string]bool{"delete": true, "create": false} {
		review, err := u.kube.AuthorizationV1().SubjectAccessReviews().Create(u.t.Context(), &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: u.name, ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: verb, Group: "self-node-remediation.medik8s.io", Resource: "selfnoderemediations"},
		}}, metav1.CreateOptions{})
		require.NoError(u.t, err)
		require.Equal(u.t, want, review.Status.Allowed, verb)
	}
}

// testPauses: pause requests and nothing else, by whatever patch.
func (u *user) testPauses() {
	u.t.Helper()
	merge := func(patch string) string { return "kubectl patch nhc $NHC --type=merge -p '" + patch + "'" }
	u.eventually("the role", func() bool { return u.kubectl("kubectl get nhc $NHC", "") == nil })
	u.require(merge(`{"spec":{"pauseRequests":["freeze 4711, ask Kim"]}}`))
	u.require(`kubectl patch nhc $NHC --type=json -p '[{"op":"add","path":"/spec/pauseRequests/-","value":"another"}]'`)
	require.NoError(u.t, u.kubectl("kubectl edit nhc $NHC", "sed -i s/another/edited/"))
	require.Equal(u.t, []string{"freeze 4711, ask Kim", "edited"}, u.get().Spec.PauseRequests)
	u.require("kubectl get nhc -o name | xargs -I{} " + `kubectl patch {} --type=merge -p '{"spec":{"pauseRequests":null}}'`)
	require.Empty(u.t, u.get().Spec.PauseRequests)

	before := u.get()
	for _, patch := range []string{
		`{"spec":{"minHealthy":"1%"}}`, `{"spec":{"minHealthy":null,"maxUnhealthy":"100%"}}`, `{"spec":{"mode":"DryRun"}}`, `{"spec":{"unhealthyConditions":null}}`,
		`{"spec":{"selector":{"matchLabels":{"other":"x"}}}}`, `{"spec":{"remediationTemplate":{"name":"other"}}}`, `{"spec":{"pauseRequests":["x"],"healthyDelay":"1h"}}`,
	} {
		u.requireDenied(onlyPauseRequests, merge(patch))
	}
	u.requireDenied(noMetadata, "kubectl annotate nhc $NHC "+v1alpha1.AnnotationAllowDelete+"=")
	u.requireDenied(noMetadata, "kubectl label nhc $NHC team=nodes")
	u.requireDenied(noMetadata, merge(`{"metadata":{"finalizers":["example.com/hold"]}}`))
	u.requireDenied(noMetadata, merge(`{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Namespace","name":"x","uid":"x"}]}}`))
	u.requireDenied(`cannot delete resource "nodehealthchecks"`, "kubectl delete nhc $NHC")
	u.requireDenied(`cannot update resource "nodehealthchecks"`, "kubectl replace --filename="+u.manifest(pause("x")))
	u.requireDenied(`cannot patch resource "nodehealthchecks/status"`, `kubectl patch nhc $NHC --subresource=status --type=merge -p '{"status":{"phase":"Enabled"}}'`)
	require.Equal(u.t, before, u.get())
}
