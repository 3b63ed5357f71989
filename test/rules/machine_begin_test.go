// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
)

// TestOtherIsAtWork begins the remediation of the Machine of node "n" by ns/check at second 100, by what is known
// since second 99: another MachineHealthCheck may be at work on it (spec M7.4).
func TestOtherIsAtWork(t *testing.T) {
	t.Parallel()
	reboots := func(c *v1beta1.MachineHealthCheck) {
		c.Name = "other"
		c.Spec.RemediationTemplate = &corev1.ObjectReference{APIVersion: "example.com/v1", Kind: "RebootTemplate", Name: "reboot"}
	}
	cr := func(owners, former []string) *CR {
		cr := newCR("n", "Reboot", "reboot")
		cr.Owners, cr.Checks, cr.FormerChecks, cr.Machine = nil, owners, former, "ns/n"
		return cr
	}
	other, gone := []string{"ns/other"}, []string{"ns/gone"}
	for name, tc := range map[string]struct {
		cr     *CR
		others []*MHC
		broken bool
	}{
		"M7.4 the CR refers to the other":              {cr(other, nil), []*MHC{checkOf(reboots)}, true},
		"M7.4 and that one is gone":                    {cr(gone, nil), nil, true},
		"M7.4 it refers to this MachineHealthCheck":    {cr([]string{"ns/check"}, nil), []*MHC{checkOf(reboots)}, false},
		"M7.4 it never was of a MachineHealthCheck":    {cr(nil, nil), []*MHC{checkOf(reboots)}, false},
		"M7.4 nothing is known of a remediation of it": {nil, []*MHC{checkOf(reboots)}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := machineFixture()
			if tc.cr != nil {
				before := *tc.cr
				before.Checks = append(before.FormerChecks, before.Checks...)
				s.cr(past, &before)
				s.cr(past, tc.cr)
			}
			for _, mhc := range tc.others {
				s.mhc(past, mhc)
			}
			w := window{known: at(99), rv: s.next(), at: at(100), node: "n"}
			b := beginning{window: w, how: byDeletion, versions: []*Machine{s.machines["ns/n"].at(w.rv)}}
			finding := s.othersAllow(b, checkOf())
			require.Equal(t, tc.broken, finding.text != "", finding.text)
		})
	}
}
