// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package execute

import (
	"context"

	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
)

// DeleteLeft deletes the CRs that a deleted health check has left, each bound to its uid (spec 4.8, M3.5).
// If one cannot be deleted, it deletes the others all the same. It only needs Client and Mapping.
func (e *Executor) DeleteLeft(ctx context.Context, crs []*object.CR) error {
	var outcome pendingOutcome
	for _, cr := range crs {
		_ = e.send(ctx, object.Owner{}, nil, remediation.Delete{CR: cr}, &outcome) // The outcome has the error.
	}
	return outcome.Err
}
