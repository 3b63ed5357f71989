// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
)

// policyCluster is an API server with all admission policies, and a policyChecker.
type policyCluster struct {
	*testing.T
	kube     *kubefake.Clientset
	registry *prometheus.Registry
	logger   klog.Logger

	mu    sync.Mutex
	fails error // The answer to all requests, if not nil.
}

// inPolicyCluster runs a test in a bubble, in which a policyChecker starts after what before
// does.
func inPolicyCluster(t *testing.T, before, test func(c *policyCluster)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		shipped, err := newShippedPolicies("node-health", true)
		require.NoError(t, err)
		require.Len(t, shipped.policies, 5)
		require.Len(t, shipped.bindings, 5)
		c := &policyCluster{T: t, registry: prometheus.NewRegistry(), logger: ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))}
		var objects []runtime.Object
		for i := range shipped.policies {
			objects = append(objects, shipped.policies[i].DeepCopy(), shipped.bindings[i].DeepCopy())
		}
		c.kube = kubefake.NewClientset(objects...)
		c.kube.PrependReactor("get", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
			c.mu.Lock()
			defer c.mu.Unlock()
			return c.fails != nil, nil, c.fails
		})
		checker, err := newPolicyChecker(c.kube.AdmissionregistrationV1(), "node-health", true, c.registry)
		require.NoError(t, err)
		require.Equal(t, unknown, c.metric(missingMetric), "nobody has looked")
		before(c)

		ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), c.logger))
		var wg sync.WaitGroup
		defer wg.Wait()
		defer cancel()
		wg.Go(func() { checker.run(ctx) })
		synctest.Wait()
		test(c)
	})
}

func (c *policyCluster) deleteBinding(name string) {
	require.NoError(c, c.kube.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Delete(c.Context(), name, metav1.DeleteOptions{}))
}

func (c *policyCluster) createBinding(name string) {
	_, err := c.kube.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Create(c.Context(), c.shippedBinding(name), metav1.CreateOptions{})
	require.NoError(c, err)
}

func (c *policyCluster) shippedBinding(name string) *admissionregistrationv1.ValidatingAdmissionPolicyBinding {
	shipped, err := newShippedPolicies("node-health", true)
	require.NoError(c, err)
	i := slices.IndexFunc(shipped.bindings, func(b *admissionregistrationv1.ValidatingAdmissionPolicyBinding) bool { return b.Name == name })
	return shipped.bindings[i]
}

// changePolicy changes the stored policy, and changeBinding its binding.
func (c *policyCluster) changePolicy(name string, change func(*admissionregistrationv1.ValidatingAdmissionPolicy)) {
	policies := c.kube.AdmissionregistrationV1().ValidatingAdmissionPolicies()
	policy, err := policies.Get(c.Context(), name, metav1.GetOptions{})
	require.NoError(c, err)
	change(policy)
	_, err = policies.Update(c.Context(), policy, metav1.UpdateOptions{})
	require.NoError(c, err)
}

func (c *policyCluster) changeBinding(name string, change func(*admissionregistrationv1.ValidatingAdmissionPolicyBinding)) {
	bindings := c.kube.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings()
	binding, err := bindings.Get(c.Context(), name, metav1.GetOptions{})
	require.NoError(c, err)
	change(binding)
	_, err = bindings.Update(c.Context(), binding, metav1.UpdateOptions{})
	require.NoError(c, err)
}

func (c *policyCluster) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fails = err
}

// after lets time pass.
func (c *policyCluster) after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// unknown is the metric without a series.
const unknown = -1

const (
	missingMetric = "nhc_admission_policies_missing"
	changedMetric = "nhc_admission_policies_changed"
)

// metric returns the value of a metric.
func (c *policyCluster) metric(name string) int {
	families, err := c.registry.Gather()
	require.NoError(c, err)
	for _, family := range families {
		if family.GetName() == name {
			return int(family.GetMetric()[0].GetGauge().GetValue())
		}
	}
	return unknown
}

// logged returns the messages so far.
func (c *policyCluster) logged() (messages []string) {
	for _, entry := range c.logger.GetSink().(ktesting.Underlier).GetBuffer().Data() {
		messages = append(messages, entry.Message)
	}
	return messages
}

// requests returns the number of requests since the last call.
func (c *policyCluster) requests() int {
	defer c.kube.ClearActions()
	return len(c.kube.Actions())
}

const (
	policiesMissing = "Admission policies are missing, apply the manifests again"
	policiesChanged = "Admission policies are not those of this version, apply its manifests again"
	policiesBack    = "Admission policies are as in the manifests again"
	policiesUnread  = "Cannot check the admission policies, trying again"
)

func TestPoliciesExist(t *testing.T) {
	inPolicyCluster(t, func(*policyCluster) {}, func(c *policyCluster) {
		require.Equal(t, 0, c.metric(missingMetric), "22.7: at the start")
		require.Equal(t, 0, c.metric(changedMetric), "22.7: at the start")
		require.Empty(t, c.logged())
		require.Equal(t, 10, c.requests())
		c.after(policyCheckInterval - time.Second)
		require.Zero(t, c.requests(), "P3")
		c.deleteBinding("nhc-controller-nodes")
		c.after(time.Second)
		require.Equal(t, 1, c.metric(missingMetric), "22.7: within an hour")
		require.Equal(t, []string{policiesMissing}, c.logged())
	})
}

func TestPoliciesAreMissing(t *testing.T) {
	inPolicyCluster(t, func(c *policyCluster) {
		c.deleteBinding("nhc-controller-nodes")
		c.deleteBinding("nhc-controller-deletion")
	}, func(c *policyCluster) {
		require.Equal(t, 2, c.metric(missingMetric))
		c.after(10 * policyCheckRetry)
		require.Equal(t, []string{policiesMissing}, c.logged(), "logged once")
		require.Contains(t, c.logger.GetSink().(ktesting.Underlier).GetBuffer().String(), "ValidatingAdmissionPolicyBinding/nhc-controller-deletion")
		c.createBinding("nhc-controller-nodes")
		c.after(policyCheckRetry)
		require.Equal(t, 1, c.metric(missingMetric))
		c.createBinding("nhc-controller-deletion")
		c.after(policyCheckRetry)
		require.Equal(t, 0, c.metric(missingMetric))
		require.Equal(t, []string{policiesMissing, policiesMissing, policiesBack}, c.logged())
		c.requests()
		c.after(policyCheckInterval - time.Second)
		require.Zero(t, c.requests(), "P3")
	})
}

// TestPoliciesCannotBeRead: an error is no answer (spec P5), and it is logged once.
func TestPoliciesCannotBeRead(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "validatingadmissionpolicies"}, "", nil)
	inPolicyCluster(t, func(c *policyCluster) { c.fail(forbidden) }, func(c *policyCluster) {
		require.Equal(t, unknown, c.metric(missingMetric))
		c.after(10 * policyCheckRetry)
		require.Equal(t, []string{policiesUnread}, c.logged())
		c.fail(apierrors.NewInternalError(context.DeadlineExceeded))
		c.after(3 * policyCheckRetry)
		require.Equal(t, []string{policiesUnread, policiesUnread}, c.logged(), "another cause")
		require.Equal(t, unknown, c.metric(missingMetric))

		c.deleteBinding("nhc-controller-nodes")
		c.fail(nil)
		c.after(policyCheckRetry)
		require.Equal(t, 1, c.metric(missingMetric))
		c.fail(forbidden)
		c.after(policyCheckRetry)
		require.Equal(t, 1, c.metric(missingMetric), "P5: what was known stays")
		require.Equal(t, []string{policiesUnread, policiesUnread, policiesMissing, policiesUnread}, c.logged())
	})
}

// TestPoliciesAreNotServed: an API server without the kinds has no policies.
func TestPoliciesAreNotServed(t *testing.T) {
	notServed := apierrors.NewGenericServerResponse(404, "get", schema.GroupResource{}, "", "the server could not find the requested resource", 0, true)
	inPolicyCluster(t, func(c *policyCluster) { c.fail(notServed) }, func(c *policyCluster) {
		require.Equal(t, 10, c.metric(missingMetric))
	})
}

// TestPoliciesAreChanged: another content, and not what the one who installs may choose.
func TestPoliciesAreChanged(t *testing.T) {
	const name = "nhc-controller-nodes"
	inPolicyCluster(t, func(c *policyCluster) {
		c.changePolicy(name, func(policy *admissionregistrationv1.ValidatingAdmissionPolicy) {
			policy.Labels = map[string]string{"app.kubernetes.io/managed-by": "Helm"}
		})
	}, func(c *policyCluster) {
		require.Zero(t, c.metric(changedMetric), "labels are free")
		c.changePolicy(name, func(policy *admissionregistrationv1.ValidatingAdmissionPolicy) {
			policy.Spec.Validations = policy.Spec.Validations[1:]
		})
		c.changeBinding(name, func(binding *admissionregistrationv1.ValidatingAdmissionPolicyBinding) {
			binding.Spec.ValidationActions = []admissionregistrationv1.ValidationAction{admissionregistrationv1.Warn}
		})
		c.after(policyCheckInterval)
		require.Equal(t, 2, c.metric(changedMetric), "22.7")
		require.Zero(t, c.metric(missingMetric))
		require.Equal(t, []string{policiesChanged}, c.logged())
		require.Contains(t, c.logger.GetSink().(ktesting.Underlier).GetBuffer().String(), "ValidatingAdmissionPolicyBinding/"+name)

		shipped := c.shippedBinding(name)
		c.changeBinding(name, func(binding *admissionregistrationv1.ValidatingAdmissionPolicyBinding) { binding.Spec = shipped.Spec })
		c.deleteBinding("nhc-controller-deletion")
		c.after(policyCheckRetry)
		require.Equal(t, 1, c.metric(changedMetric))
		require.Equal(t, 1, c.metric(missingMetric))
		require.Equal(t, []string{policiesChanged, policiesMissing, policiesChanged}, c.logged())
	})
}

// TestPoliciesOfAnotherNamespace: a policy about the user of another namespace limits nobody.
func TestPoliciesOfAnotherNamespace(t *testing.T) {
	t.Parallel()
	here, err := newShippedPolicies("here", true)
	require.NoError(t, err)
	there, err := newShippedPolicies("there", true)
	require.NoError(t, err)
	require.True(t, samePolicy(here.policies[0], there.policies[0]), "it is about everybody")
	require.False(t, samePolicy(here.policies[1], there.policies[1]))
	require.False(t, samePolicy(here.policies[4], there.policies[4]), "nhc-controller-machines")
	require.Equal(t, "request.userInfo.username == 'system:serviceaccount:here:nhc-controller'", here.policies[1].Spec.MatchConditions[0].Expression)
}

// TestPoliciesWithoutMachines: those of the component are not missed where it is not installed.
func TestPoliciesWithoutMachines(t *testing.T) {
	t.Parallel()
	shipped, err := newShippedPolicies("", false)
	require.NoError(t, err)
	var names []string
	for i := range shipped.policies {
		require.Equal(t, shipped.policies[i].Name, shipped.bindings[i].Name)
		names = append(names, shipped.policies[i].Name)
	}
	require.Equal(t, []string{"nhc-controller-deletion", "nhc-controller-nodes", "nhc-controller-pause"}, names)
}
