// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package v1beta1

import "k8s.io/apimachinery/pkg/util/intstr"

// IntOrString is a number or a percentage. It decodes any stored integer: one beyond 32 bits
// becomes text, which is no valid limit. OpenShift's schema accepts such an integer, and it must
// not keep all other MachineHealthChecks from being decoded (spec M3.4).
//
// +kubebuilder:validation:XIntOrString
type IntOrString intstr.IntOrString

// UnmarshalJSON implements the decoding of JSON. It never fails on what the API server stores.
func (v *IntOrString) UnmarshalJSON(data []byte) error {
	var value intstr.IntOrString
	if err := value.UnmarshalJSON(data); err != nil {
		value = intstr.FromString(string(data))
	}
	*v = IntOrString(value)
	return nil
}

// MarshalJSON implements the encoding of JSON.
func (v IntOrString) MarshalJSON() ([]byte, error) { return intstr.IntOrString(v).MarshalJSON() }
