// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// writeStatus replaces the status as a whole, unless it is the one that nhc has (spec 18.2),
// bound to the resourceVersion from which it was computed. It reports whether it wrote.
func (c *Controller) writeStatus(ctx context.Context, nhc *v1alpha1.NodeHealthCheck, status *v1alpha1.NodeHealthCheckStatus) (bool, error) {
	if status == &nhc.Status {
		return false, nil
	}
	updated := *nhc
	updated.Status = *status
	written, err := c.client.NodeHealthChecks().UpdateStatus(ctx, &updated, metav1.UpdateOptions{FieldManager: Name})
	if err != nil {
		return false, fmt.Errorf("updating status: %w", err)
	}
	c.writes.Wrote(nhc.Name, nhcResource, written.ResourceVersion, c.clock.Now())
	return true, nil
}
