// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	admissionregistrationv1 "k8s.io/client-go/kubernetes/typed/admissionregistration/v1"
	"k8s.io/klog/v2"
)

const (
	// policyCheckInterval is the time between two checks that find everything.
	policyCheckInterval = time.Hour
	// policyCheckRetry is the time to the next check after one that does not.
	policyCheckRetry = time.Minute
	// policyCheckTimeout bounds a check by an API server that does not answer.
	policyCheckTimeout = 30 * time.Second
)

// policyChecker checks that the admission policies of the manifests and their bindings
// exist, with the content that this version has (spec 22.7). Nothing depends on the result: without them remediation works, but
// deletions that do harm are not denied, and what the ServiceAccount may do with Nodes is
// not limited.
type policyChecker struct {
	client           admissionregistrationv1.AdmissionregistrationV1Interface
	shipped          *shippedPolicies
	missing, changed *prometheus.GaugeVec

	// What the log has already.
	logged        policyFindings
	loggedFailure string
}

// policyFindings are the objects that are not as in the manifests.
type policyFindings struct {
	missing, changed []string
}

func (f policyFindings) none() bool { return len(f.missing)+len(f.changed) == 0 }

func (f policyFindings) equal(other policyFindings) bool {
	return slices.Equal(f.missing, other.missing) && slices.Equal(f.changed, other.changed)
}

// newPolicyChecker returns a checker for a controller whose ServiceAccount is in namespace, and which
// remediates Machines or does not.
func newPolicyChecker(client admissionregistrationv1.AdmissionregistrationV1Interface, namespace string, machines bool, registry prometheus.Registerer) (*policyChecker, error) {
	shipped, err := newShippedPolicies(namespace, machines)
	if err != nil {
		return nil, err
	}
	// The metrics have no series before the first answer.
	c := &policyChecker{
		client: client, shipped: shipped,
		missing: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "nhc_admission_policies_missing",
			Help: "How many of the admission policies and bindings of the manifests do not exist.",
		}, nil),
		changed: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "nhc_admission_policies_changed",
			Help: "How many of the admission policies and bindings exist with other content than in the manifests of this version.",
		}, nil),
	}
	for _, gauge := range []*prometheus.GaugeVec{c.missing, c.changed} {
		if err := registry.Register(gauge); err != nil {
			return nil, fmt.Errorf("registering metrics: %w", err)
		}
	}
	return c, nil
}

// run checks until ctx is done: now, and then at intervals.
func (c *policyChecker) run(ctx context.Context) {
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-time.After(c.check(ctx)):
		}
	}
}

// check reports what is not as in the manifests, and returns how long to wait until the next
// check. An error is no answer: it leaves the metrics as they are.
func (c *policyChecker) check(ctx context.Context) time.Duration {
	logger := klog.FromContext(ctx)
	bounded, cancel := context.WithTimeout(ctx, policyCheckTimeout)
	defer cancel()
	found, cause, err := c.look(bounded)
	if ctx.Err() != nil {
		return 0
	}
	if err != nil {
		if cause != c.loggedFailure {
			logger.Error(err, "Cannot check the admission policies, trying again", "interval", policyCheckRetry)
		}
		c.loggedFailure = cause
		return policyCheckRetry
	}
	c.loggedFailure = ""
	c.missing.WithLabelValues().Set(float64(len(found.missing)))
	c.changed.WithLabelValues().Set(float64(len(found.changed)))
	c.log(logger, found)
	if found.none() {
		return policyCheckInterval
	}
	return policyCheckRetry
}

// log writes findings that are new to the log.
func (c *policyChecker) log(logger klog.Logger, found policyFindings) {
	switch {
	case found.equal(c.logged):
	case found.none():
		logger.Info("Admission policies are as in the manifests again")
	default:
		if len(found.missing) > 0 {
			logger.Error(nil, "Admission policies are missing, apply the manifests again", "missing", found.missing)
		}
		if len(found.changed) > 0 {
			logger.Error(nil, "Admission policies are not those of this version, apply its manifests again", "changed", found.changed)
		}
	}
	c.logged = found
}

// look compares the objects in the cluster with those of the manifests. If some cannot be
// read it returns an error, and a cause that stays the same as long as they cannot be read
// for the same reason.
func (c *policyChecker) look(ctx context.Context) (found policyFindings, cause string, err error) {
	var causes []string
	var errs []error
	note := func(object string, same bool, err error) {
		switch {
		case apierrors.IsNotFound(err): // Also where the API server does not serve the kind.
			found.missing = append(found.missing, object)
		case err != nil:
			causes = append(causes, object+" "+string(apierrors.ReasonForError(err)))
			errs = append(errs, err)
		case !same:
			found.changed = append(found.changed, object)
		}
	}
	for _, shipped := range c.shipped.policies {
		policy, err := c.client.ValidatingAdmissionPolicies().Get(ctx, shipped.Name, metav1.GetOptions{})
		note("ValidatingAdmissionPolicy/"+shipped.Name, err == nil && samePolicy(shipped, policy), err)
	}
	for _, shipped := range c.shipped.bindings {
		binding, err := c.client.ValidatingAdmissionPolicyBindings().Get(ctx, shipped.Name, metav1.GetOptions{})
		note("ValidatingAdmissionPolicyBinding/"+shipped.Name, err == nil && sameBinding(shipped, binding), err)
	}
	return found, strings.Join(causes, ", "), errors.Join(errs...)
}
