// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealth

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
)

// TestAdopter: of several MachineHealthChecks with a template, one goes on with what another controller has begun
// (spec M12.4).
func TestAdopter(t *testing.T) {
	t.Parallel()
	type candidate = Candidate
	for name, tc := range map[string]struct {
		candidates []candidate
		want       string
	}{
		"M12.4 none":                         {nil, ""},
		"M12.4 none selects it":              {[]candidate{{Name: "a"}, {Name: "b"}}, ""},
		"M12.4 the one that selects it":      {[]candidate{{Name: "a"}, {Name: "b", Selects: true}, {Name: "c"}}, "b"},
		"M12.4 the first that selects it":    {[]candidate{{Name: "a"}, {Name: "b", Selects: true}, {Name: "c", Selects: true}}, "b"},
		"M12.4 the one that holds the lease": {[]candidate{{Name: "a", Selects: true}, {Name: "b"}, {Name: "c", HoldsLease: true}}, "c"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, Adopter(tc.candidates))
			slices.Reverse(tc.candidates)
			require.Equal(t, tc.want, Adopter(tc.candidates), "whatever their order")
		})
	}
}

// TestHasTemplateOf: which CRs were made from the template of a MachineHealthCheck (spec M12.1, M12.4).
func TestHasTemplateOf(t *testing.T) {
	t.Parallel()
	cr := func(apiVersion, kind, annotation, template string) *object.CR {
		return &object.CR{
			TypeMeta:   metav1.TypeMeta{APIVersion: apiVersion, Kind: kind},
			ObjectMeta: metav1.ObjectMeta{Name: "m", Namespace: "machines", Annotations: map[string]string{annotation: template}},
		}
	}
	const name, ofCluster = "machine.openshift.io/cloned-from-name", "cluster.x-k8s.io/cloned-from-name"
	criteria := func(template *corev1.ObjectReference) *Criteria {
		return &Criteria{API: v1beta1.MachineAPIOpenShift, Template: template}
	}
	reboot := criteria(&corev1.ObjectReference{APIVersion: "example.com/v1", Kind: "RebootTemplate", Namespace: "elsewhere", Name: "reboot"})
	for label, tc := range map[string]struct {
		criteria *Criteria
		cr       *object.CR
		want     bool
	}{
		"M12.4 its own, whatever namespace":     {reboot, cr("example.com/v1", "Reboot", name, "reboot"), true},
		"M12.4 in another version":              {reboot, cr("example.com/v2", "Reboot", name, "reboot"), true},
		"M12.4 of another template":             {reboot, cr("example.com/v1", "Reboot", name, "fence"), false},
		"M12.4 of another kind":                 {reboot, cr("example.com/v1", "Fence", name, "reboot"), false},
		"M12.4 of another group":                {reboot, cr("example.org/v1", "Reboot", name, "reboot"), false},
		"M12.4 cloned by the other Machine API": {reboot, cr("example.com/v1", "Reboot", ofCluster, "reboot"), false},
		"M12.4 this one deletes Machines":       {criteria(nil), cr("example.com/v1", "Reboot", name, "reboot"), false},
		"M12.4 no template is named":            {criteria(&corev1.ObjectReference{APIVersion: "example.com/v1", Kind: "RebootTemplate"}), cr("example.com/v1", "Reboot", name, ""), false},
	} {
		t.Run(label, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, tc.criteria.HasTemplateOf(tc.cr))
		})
	}
}
