// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/nhc-controller/nhc-controller/pkg/watches"
)

// TestSurelyUnusable: a MachineHealthCheck keeps no other from a Machine only if its template cannot be used for certain:
// an API server that fails for a moment must not let a laxer one begin (spec M7.4, P5).
func TestSurelyUnusable(t *testing.T) {
	t.Parallel()
	resource := schema.GroupResource{Resource: "powercycleremediationtemplates"}
	for name, tc := range map[string]struct {
		err  error
		want bool
	}{
		"usable":                        {},
		"not read yet":                  {err: watches.ErrPending},
		"the API server has failed":     {err: fmt.Errorf("discovering: %w", apierrors.NewInternalError(errors.New("etcd has no leader")))},
		"the kind is not served":        {err: &meta.NoKindMatchError{}, want: true},
		"it does not exist":             {err: apierrors.NewNotFound(resource, "gone"), want: true},
		"it may not be read":            {err: &watches.ForbiddenError{Verb: "get", Resource: resource}, want: true},
		"nothing can be made out of it": {err: errNoTemplateSpec, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, surelyUnusable(tc.err))
		})
	}
}
