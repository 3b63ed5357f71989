// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	nhcac "github.com/nhc-controller/nhc-controller/pkg/generated/applyconfiguration/remediation/v1alpha1"
)

// writeStatus writes the status, bound to the resourceVersion that it was computed from,
// unless it is the one that nhc has. It returns whether there was anything to write.
func (c *Controller) writeStatus(ctx context.Context, nhc *v1alpha1.NodeHealthCheck, status *v1alpha1.NodeHealthCheckStatus) (bool, error) {
	if status == &nhc.Status {
		return false, nil
	}
	ac, err := statusApplyConfiguration(status)
	if err != nil {
		return false, err
	}
	written, err := c.client.NodeHealthChecks().ApplyStatus(ctx,
		nhcac.NodeHealthCheck(nhc.Name).WithResourceVersion(nhc.ResourceVersion).WithStatus(ac),
		metav1.ApplyOptions{FieldManager: Name, Force: true})
	switch {
	case apierrors.IsInvalid(err):
		// Applied to a list of which somebody else has written a part, a list without
		// entries becomes null, which the schema refuses.
		written = nhc.DeepCopy()
	case err != nil:
		return false, fmt.Errorf("applying status: %w", err)
	default:
		c.writes.Wrote(nhc.Name, nhcResource, written.ResourceVersion, c.clock.Now())
	}
	if sameStatus(&written.Status, status) {
		return true, nil
	}
	// Applying leaves alone what somebody else has written: the operator that was
	// here before, for example. All of the status is ours, so this is replaced.
	written.Status = *status
	replaced, err := c.client.NodeHealthChecks().UpdateStatus(ctx, written, metav1.UpdateOptions{FieldManager: Name})
	if err != nil {
		return false, fmt.Errorf("replacing status: %w", err)
	}
	c.writes.Wrote(nhc.Name, nhcResource, replaced.ResourceVersion, c.clock.Now())
	return true, nil
}

// statusApplyConfiguration returns all of a status: what an apply leaves out is
// removed. Both types have the same JSON form, so no field can be forgotten.
func statusApplyConfiguration(status *v1alpha1.NodeHealthCheckStatus) (*nhcac.NodeHealthCheckStatusApplyConfiguration, error) {
	encoded, err := json.Marshal(status)
	if err != nil {
		return nil, fmt.Errorf("encoding status: %w", err)
	}
	ac := nhcac.NodeHealthCheckStatus()
	if err := json.Unmarshal(encoded, ac); err != nil {
		return nil, fmt.Errorf("decoding status: %w", err)
	}
	return ac, nil
}
