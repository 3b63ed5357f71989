// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealth

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
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

// TestSharesTemplate: which MachineHealthChecks of a namespace have one template (spec M12.1, M12.4).
func TestSharesTemplate(t *testing.T) {
	t.Parallel()
	criteria := func(api string, template *corev1.ObjectReference) *Criteria {
		return &Criteria{API: api, Template: template}
	}
	reference := func(kind, namespace, name string) *corev1.ObjectReference {
		return &corev1.ObjectReference{APIVersion: "example.com/v1", Kind: kind, Namespace: namespace, Name: name}
	}
	one := criteria(v1beta1.MachineAPIOpenShift, reference("RebootTemplate", "", "reboot"))
	for name, tc := range map[string]struct {
		other *Criteria
		want  bool
	}{
		"M12.4 the same":                   {criteria(v1beta1.MachineAPIOpenShift, reference("RebootTemplate", "", "reboot")), true},
		"M12.1 the namespace is not used":  {criteria(v1beta1.MachineAPIOpenShift, reference("RebootTemplate", "elsewhere", "reboot")), true},
		"M12.4 another name":               {criteria(v1beta1.MachineAPIOpenShift, reference("RebootTemplate", "", "fence")), false},
		"M12.4 another kind":               {criteria(v1beta1.MachineAPIOpenShift, reference("FenceTemplate", "", "reboot")), false},
		"M12.4 Machines of another API":    {criteria(v1beta1.MachineAPICluster, reference("RebootTemplate", "", "reboot")), false},
		"M12.4 the other one deletes them": {criteria(v1beta1.MachineAPIOpenShift, nil), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, one.SharesTemplate(tc.other))
			require.Equal(t, tc.want, tc.other.SharesTemplate(one))
		})
	}
}
