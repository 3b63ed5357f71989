// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package view

// Installation is what was found of an installation, in the order in which it has to be mended.
type Installation struct {
	Parts []InstallationPart `json:"parts"`
}

// InstallationPart is one part of an installation.
type InstallationPart struct {
	Name string `json:"name"`
	// Problems are what is wrong, and what to do about it.
	Problems []string `json:"problems,omitempty"`
	// Unread is why it cannot be told whether something is wrong.
	Unread []string `json:"unread,omitempty"`
	// Found is what is there.
	Found string `json:"found,omitempty"`
}

// Count returns how many problems there are, and how much cannot be told.
func (i *Installation) Count() (problems, unread int) {
	for _, part := range i.Parts {
		problems += len(part.Problems)
		unread += len(part.Unread)
	}
	return problems, unread
}

// Works reports whether all was read, and all is well.
func (i *Installation) Works() bool {
	problems, unread := i.Count()
	return problems+unread == 0
}
