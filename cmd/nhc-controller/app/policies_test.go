// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
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
		c := &policyCluster{T: t, registry: prometheus.NewRegistry(), logger: ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))}
		var objects []runtime.Object
		for _, name := range shippedPolicies {
			objects = append(objects,
				&admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}},
				&admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: name}})
		}
		c.kube = kubefake.NewClientset(objects...)
		c.kube.PrependReactor("get", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
			c.mu.Lock()
			defer c.mu.Unlock()
			return c.fails != nil, nil, c.fails
		})
		checker, err := newPolicyChecker(c.kube.AdmissionregistrationV1(), c.registry)
		require.NoError(t, err)
		require.Equal(t, unknown, c.metric(), "nobody has looked")
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
	_, err := c.kube.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Create(c.Context(),
		&admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
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

// metric returns the value of the metric.
func (c *policyCluster) metric() int {
	families, err := c.registry.Gather()
	require.NoError(c, err)
	if len(families) == 0 {
		return unknown
	}
	require.Equal(c, "nhc_admission_policies_missing", families[0].GetName())
	return int(families[0].GetMetric()[0].GetGauge().GetValue())
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
	policiesBack    = "Admission policies exist again"
	policiesUnread  = "Cannot check whether the admission policies exist, trying again"
)

func TestPoliciesExist(t *testing.T) {
	inPolicyCluster(t, func(*policyCluster) {}, func(c *policyCluster) {
		require.Equal(t, 0, c.metric(), "22.7: at the start")
		require.Empty(t, c.logged())
		require.Equal(t, 2*len(shippedPolicies), c.requests())
		c.after(policyCheckInterval - time.Second)
		require.Zero(t, c.requests(), "P3")
		c.deleteBinding("nhc-controller-nodes")
		c.after(time.Second)
		require.Equal(t, 1, c.metric(), "22.7: within an hour")
		require.Equal(t, []string{policiesMissing}, c.logged())
	})
}

func TestPoliciesAreMissing(t *testing.T) {
	inPolicyCluster(t, func(c *policyCluster) {
		c.deleteBinding("nhc-controller-nodes")
		c.deleteBinding("nhc-controller-deletion")
	}, func(c *policyCluster) {
		require.Equal(t, 2, c.metric())
		c.after(10 * policyCheckRetry)
		require.Equal(t, []string{policiesMissing}, c.logged(), "logged once")
		require.Contains(t, c.logger.GetSink().(ktesting.Underlier).GetBuffer().String(), "ValidatingAdmissionPolicyBinding/nhc-controller-deletion")
		c.createBinding("nhc-controller-nodes")
		c.after(policyCheckRetry)
		require.Equal(t, 1, c.metric())
		c.createBinding("nhc-controller-deletion")
		c.after(policyCheckRetry)
		require.Equal(t, 0, c.metric())
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
		require.Equal(t, unknown, c.metric())
		c.after(10 * policyCheckRetry)
		require.Equal(t, []string{policiesUnread}, c.logged())
		c.fail(apierrors.NewInternalError(context.DeadlineExceeded))
		c.after(3 * policyCheckRetry)
		require.Equal(t, []string{policiesUnread, policiesUnread}, c.logged(), "another cause")
		require.Equal(t, unknown, c.metric())

		c.deleteBinding("nhc-controller-nodes")
		c.fail(nil)
		c.after(policyCheckRetry)
		require.Equal(t, 1, c.metric())
		c.fail(forbidden)
		c.after(policyCheckRetry)
		require.Equal(t, 1, c.metric(), "P5: what was known stays")
		require.Equal(t, []string{policiesUnread, policiesUnread, policiesMissing, policiesUnread}, c.logged())
	})
}

// TestPoliciesAreNotServed: an API server without the kinds has no policies.
func TestPoliciesAreNotServed(t *testing.T) {
	notServed := apierrors.NewGenericServerResponse(404, "get", schema.GroupResource{}, "", "the server could not find the requested resource", 0, true)
	inPolicyCluster(t, func(c *policyCluster) { c.fail(notServed) }, func(c *policyCluster) {
		require.Equal(t, 2*len(shippedPolicies), c.metric())
	})
}
