// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealth

// Candidate is a MachineHealthCheck of the namespace of a CR that has its template.
type Candidate struct {
	Name string
	// HoldsLease means that it holds the lease of the Node of the Machine. Selects means that it selects
	// the Machine.
	HoldsLease, Selects bool
}

// Adopter returns the name of the candidate that goes on with a CR that refers to no health check. It is the
// candidate that holds the lease, else the first by name that selects the Machine. Others cannot tell when the
// Machine is healthy. Without such a candidate the CR stays until the Machine is gone (spec M12.4).
func Adopter(candidates []Candidate) (name string) {
	for _, candidate := range candidates {
		switch {
		case candidate.HoldsLease:
			return candidate.Name
		case candidate.Selects && (name == "" || candidate.Name < name):
			name = candidate.Name
		}
	}
	return name
}
