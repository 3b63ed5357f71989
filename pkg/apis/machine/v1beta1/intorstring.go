// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package v1beta1

import "k8s.io/apimachinery/pkg/util/intstr"

// IntOrString is a number or a percentage into which any stored integer can be decoded: one
// beyond 32 bits is kept as text, which is no valid limit. OpenShift's schema accepts it, and it
// must not keep all other MachineHealthChecks from being decoded (spec M3.4).
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
