// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package slot

// Member is what has, or needs, the control plane slot: a Node, or a Machine (spec 12.2, M13.1).
type Member struct {
	// Machine identifies a Machine by API, namespace and name. It is empty for a Node.
	Machine string
	// Node is the Node, or the one that the Machine names, empty if it names none.
	Node string
}

// Same reports whether two members are one. A Node and a Machine are one if the Machine names the Node. Two
// Machines that name one Node are two.
func (m Member) Same(other Member) bool {
	if m.Machine != "" && other.Machine != "" {
		return m.Machine == other.Machine
	}
	return m.Node != "" && m.Node == other.Node
}
