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

// shippedPolicies are the admission policies of the manifests. Each has a binding of the
// same name.
var shippedPolicies = []string{"nhc-controller-deletion", "nhc-controller-nodes"}

const (
	// policyCheckInterval is the time between two checks that find everything.
	policyCheckInterval = time.Hour
	// policyCheckRetry is the time to the next check after one that does not.
	policyCheckRetry = time.Minute
	// policyCheckTimeout bounds a check by an API server that does not answer.
	policyCheckTimeout = 30 * time.Second
)

// policyChecker checks that the admission policies of the manifests and their bindings
// exist (spec 22.7). Nothing depends on the result: without them remediation works, but
// deletions that do harm are not denied, and what the ServiceAccount may do with Nodes is
// not limited.
type policyChecker struct {
	client  admissionregistrationv1.AdmissionregistrationV1Interface
	missing *prometheus.GaugeVec

	// What the log has already.
	loggedMissing []string
	loggedFailure string
}

func newPolicyChecker(client admissionregistrationv1.AdmissionregistrationV1Interface, registry prometheus.Registerer) (*policyChecker, error) {
	// It has no series before it is known how many are missing.
	c := &policyChecker{client: client, missing: prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "nhc_admission_policies_missing",
		Help: "How many of the admission policies and bindings of the manifests do not exist.",
	}, nil)}
	if err := registry.Register(c.missing); err != nil {
		return nil, fmt.Errorf("registering metrics: %w", err)
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

// check reports what is missing, and returns how long to wait until the next check. An
// error is no answer: it leaves the metric as it is.
func (c *policyChecker) check(ctx context.Context) time.Duration {
	logger := klog.FromContext(ctx)
	bounded, cancel := context.WithTimeout(ctx, policyCheckTimeout)
	defer cancel()
	missing, cause, err := c.look(bounded)
	if ctx.Err() != nil {
		return 0
	}
	if err != nil {
		if cause != c.loggedFailure {
			logger.Error(err, "Cannot check whether the admission policies exist, trying again", "interval", policyCheckRetry)
		}
		c.loggedFailure = cause
		return policyCheckRetry
	}
	c.loggedFailure = ""
	c.missing.WithLabelValues().Set(float64(len(missing)))
	switch {
	case slices.Equal(missing, c.loggedMissing):
	case len(missing) == 0:
		logger.Info("Admission policies exist again")
	default:
		logger.Error(nil, "Admission policies are missing, apply the manifests again", "missing", missing)
	}
	c.loggedMissing = missing
	if len(missing) > 0 {
		return policyCheckRetry
	}
	return policyCheckInterval
}

// look returns which objects are missing. If some cannot be read it returns an error, and a
// cause that stays the same as long as they cannot be read for the same reason.
func (c *policyChecker) look(ctx context.Context) (missing []string, cause string, err error) {
	var causes []string
	var errs []error
	note := func(object string, err error) {
		switch {
		case apierrors.IsNotFound(err): // Also where the API server does not serve the kind.
			missing = append(missing, object)
		case err != nil:
			causes = append(causes, object+" "+string(apierrors.ReasonForError(err)))
			errs = append(errs, err)
		}
	}
	for _, name := range shippedPolicies {
		_, err := c.client.ValidatingAdmissionPolicies().Get(ctx, name, metav1.GetOptions{})
		note("ValidatingAdmissionPolicy/"+name, err)
		_, err = c.client.ValidatingAdmissionPolicyBindings().Get(ctx, name, metav1.GetOptions{})
		note("ValidatingAdmissionPolicyBinding/"+name, err)
	}
	return missing, strings.Join(causes, ", "), errors.Join(errs...)
}
