// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package installation_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	machinev1beta1 "github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	nhcv1alpha1 "github.com/nhc-controller/nhc-controller/pkg/apis/nhc/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/generated/clientset/versioned/fake"
	"github.com/nhc-controller/nhc-controller/pkg/kubectl/cluster"
	"github.com/nhc-controller/nhc-controller/pkg/kubectl/installation"
	"github.com/nhc-controller/nhc-controller/pkg/kubectl/view"
)

var now = time.Date(2026, 11, 29, 9, 0, 0, 0, time.UTC)

// installed is an installation that works, to be broken.
type installed struct {
	resources  []schema.GroupVersionResource
	namespace  *corev1.Namespace
	deployment *appsv1.Deployment
	lease      *coordinationv1.Lease
	nhc        *v1alpha1.NodeHealthCheck
	mhc        *machinev1beta1.MachineHealthCheck
	budget     *nhcv1alpha1.RemediationBudget
	// errors are the answers to requests, by verb and resource.
	errors map[string]error
}

func newInstalled() *installed {
	renewed := metav1.NewMicroTime(now)
	return &installed{
		resources:  []schema.GroupVersionResource{v1alpha1.SchemeGroupVersion.WithResource(v1alpha1.Plural), nhcv1alpha1.SchemeGroupVersion.WithResource(nhcv1alpha1.BudgetPlural)},
		namespace:  &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "leases"}},
		deployment: &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "moved", Name: "nhc-controller"}, Spec: appsv1.DeploymentSpec{Replicas: new(int32(2))}, Status: appsv1.DeploymentStatus{ReadyReplicas: 2}},
		lease: &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: "moved", Name: view.LeaderLease},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: new("pod-1"), LeaseDurationSeconds: new(int32(15)), RenewTime: &renewed},
		},
		nhc:    &v1alpha1.NodeHealthCheck{ObjectMeta: metav1.ObjectMeta{Name: "workers"}},
		mhc:    &machinev1beta1.MachineHealthCheck{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "pool"}},
		budget: &nhcv1alpha1.RemediationBudget{ObjectMeta: metav1.ObjectMeta{Name: "zones"}},
		errors: map[string]error{},
	}
}

// check returns the report, and what it prints.
func (i *installed) check(t *testing.T) (*installation.Report, string) {
	t.Helper()
	kube, nhc := kubefake.NewClientset(i.namespace, i.lease), fake.NewSimpleClientset(i.nhc, i.mhc, i.budget)
	if i.deployment != nil {
		require.NoError(t, kube.Tracker().Add(i.deployment))
	}
	for _, resource := range i.resources {
		kube.Resources = append(kube.Resources, &metav1.APIResourceList{GroupVersion: resource.GroupVersion().String(), APIResources: []metav1.APIResource{{Name: resource.Resource}}})
	}
	answer := func(action clienttesting.Action) (bool, runtime.Object, error) {
		err := i.errors[action.GetVerb()+" "+action.GetResource().Resource]
		return err != nil, nil, err
	}
	nhc.PrependReactor("create", v1alpha1.Plural, func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, &v1alpha1.NodeHealthCheck{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(now)}}, nil
	})
	kube.PrependReactor("*", "*", answer)
	nhc.PrependReactor("*", "*", answer)
	report, err := installation.Check(t.Context(), &cluster.Clients{Kube: kube, NHC: nhc}, "leases", now)
	require.NoError(t, err)
	for _, action := range nhc.Actions() {
		if create, ok := action.(clienttesting.CreateActionImpl); ok {
			require.Equal(t, []string{metav1.DryRunAll}, create.CreateOptions.DryRun, "it changes nothing")
		}
	}
	var out bytes.Buffer
	report.Print(view.NewPrinter(&out, view.Options{}))
	return report, out.String()
}

func stalled(message string) metav1.Condition {
	return metav1.Condition{Type: v1alpha1.ConditionStalled, Status: metav1.ConditionTrue, Message: message}
}

func forbidden(verb, resource string) error {
	return apierrors.NewForbidden(schema.GroupResource{Resource: resource}, "", errors.New(`User "ann" cannot `+verb+` resource "`+resource+`" in API group ""`))
}

func TestCheckWorks(t *testing.T) {
	t.Parallel()
	report, out := newInstalled().check(t)
	problems, admin, unread := report.Count()
	require.Equal(t, [3]int{}, [3]int{problems, admin, unread}, out)
	require.False(t, report.Unsettled())
	for _, line := range []string{"The installation works.\n", "2 of 2 replicas are ready in namespace moved\n", "pod-1\n", "2, and 1 budgets\n", "accepted\n"} {
		require.Contains(t, out, line)
	}
}

// TestCheckFinds: what is wrong comes first, and is a problem.
func TestCheckFinds(t *testing.T) {
	t.Parallel()
	for want, broken := range map[string]func(*installed){
		"CustomResourceDefinitions: remediationbudgets.nhc-controller.io is missing. Apply": func(i *installed) { i.resources = i.resources[:1] },
		"Leases of nodes: Namespace leases is missing: ":                                    func(i *installed) { i.namespace.Name = "other" },
		"Leases of nodes: Namespace leases is being deleted: ":                              func(i *installed) { i.namespace.DeletionTimestamp = &metav1.Time{Time: now} },
		"Deployment: There is no Deployment nhc-controller.":                                func(i *installed) { i.deployment = nil },
		"Deployment: 0 of 2 replicas are ready in namespace moved.":                         func(i *installed) { i.deployment.Status.ReadyReplicas = 0 },
		"Deployment: 1 of 2 replicas are ready in namespace moved.":                         func(i *installed) { i.deployment.Status.ReadyReplicas = 1 },
		"Deployment: 0 of 0 replicas are ready in namespace moved.": func(i *installed) {
			i.deployment.Spec.Replicas, i.deployment.Status.ReadyReplicas = new(int32), 0
		},
		"Leader: No controller is at work: pod-1 last renewed its lease 60m ago.": func(i *installed) { i.lease.Spec.RenewTime.Time = now.Add(-time.Hour) },
		"Leader: The clock of pod-1 is 60m ahead of the API server's: ":           func(i *installed) { i.lease.Spec.RenewTime.Time = now.Add(time.Hour) },
		"Health checks: NodeHealthCheck workers: no template.\n": func(i *installed) {
			i.nhc.Status.Conditions = []metav1.Condition{stalled("no template.")}
		},
		"Health checks: NodeHealthCheck workers: the controller has not taken in its spec yet.\n": func(i *installed) { i.nhc.Generation = 1 },
		"Health checks: MachineHealthCheck ns/pool: no Machines.\n": func(i *installed) {
			i.mhc.Status.Conditions = []machinev1beta1.Condition{{Type: machinev1beta1.ConditionStalled, Status: corev1.ConditionTrue, Message: "no Machines."}}
		},
		"Health checks: RemediationBudget zones: no time zone.\n": func(i *installed) { i.budget.Status.Conditions = []metav1.Condition{stalled("no time zone.")} },
		"Dry run of a NodeHealthCheck: The API server refuses to create nodehealthchecks: ": func(i *installed) {
			i.errors["create "+v1alpha1.Plural] = apierrors.NewForbidden(v1alpha1.Resource(v1alpha1.Plural), "", errors.New("denied by a webhook"))
		},
	} {
		i := newInstalled()
		broken(i)
		report, out := i.check(t)
		require.True(t, strings.HasPrefix(out, want), out)
		problems, admin, unread := report.Count()
		require.Equal(t, [3]int{1, 0, 0}, [3]int{problems, admin, unread}, out)
		require.True(t, report.Unsettled())
		require.NotContains(t, out, "The installation works.")
	}
}

// TestCheckUnseen: what takes an admin is counted apart from what could not be read, and neither is a problem.
func TestCheckUnseen(t *testing.T) {
	t.Parallel()
	i := newInstalled()
	for _, request := range [][2]string{{"get", "namespaces"}, {"list", "deployments"}, {"create", v1alpha1.Plural}} {
		i.errors[request[0]+" "+request[1]] = forbidden(request[0], request[1])
	}
	report, out := i.check(t)
	problems, admin, unread := report.Count()
	require.Equal(t, [3]int{0, 3, 0}, [3]int{problems, admin, unread}, out)
	require.False(t, report.Unsettled(), "a further look shows no more")
	require.Contains(t, out, "3 parts need an admin: Leases of nodes, Deployment, Dry run of a NodeHealthCheck\n")
	require.Contains(t, out, "pod-1\n", "it shows what it could see")
	require.NotContains(t, out, "The installation works.")

	i.errors["list leases"] = apierrors.NewInternalError(errors.New("etcd"))
	report, out = i.check(t)
	problems, admin, unread = report.Count()
	require.Equal(t, [3]int{0, 3, 1}, [3]int{problems, admin, unread}, out)
	require.True(t, report.Unsettled())
	require.Contains(t, out, "Leader: not checked. Cannot list leases of the leader: ")
}
