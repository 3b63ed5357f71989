// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package watches

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

func TestCRDChanged(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		obj   any
		group string
	}{
		"as it is":              {&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "reboots.example.com"}}, "example.com"},
		"without a group":       {&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "nodot"}}, ""},
		"only its key is known": {cache.DeletedFinalStateUnknown{Key: "reboots.example.com"}, "example.com"},
		"nothing of the kind":   {"nothing of the kind", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, group, ok := groupOfCRD(tc.obj)
			require.Equal(t, tc.group, group)
			require.Equal(t, tc.group != "", ok)
		})
	}
}
