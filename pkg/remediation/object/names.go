// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// hashLength is the number of hex digits that tell CRs of several templates apart.
const hashLength = 8

// Name returns the name of the CR for node. It is the name of the node, because some
// remediators find the node by it. If the template permits other names, it differs for
// every template. It is a valid object name, and the same each time: the name is the lock
// against a second CR.
func Name(node string, template *Template) string {
	if !template.SupportsMultiple() {
		return node
	}
	key := template.Namespace + "/" + template.Name
	if len(node)+1+hashLength <= validation.DNS1123SubdomainMaxLength {
		return node + "-" + digest(key)
	}
	cut := node[:validation.DNS1123SubdomainMaxLength-1-hashLength]
	// A name must not have a part that ends in a dash or begins with one.
	return strings.TrimRight(cut, ".-") + "-" + digest(node+"/"+key)
}

func digest(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])[:hashLength]
}

const (
	// holderPrefix starts the holder identity of a NodeHealthCheck.
	holderPrefix = v1alpha1.Kind + "-"
	// leasePrefix starts the name of the lease of a node.
	leasePrefix = "node-"
)

// NHCOfHolder returns the NodeHealthCheck with a holder identity, and false for
// holders of another kind.
func NHCOfHolder(holder string) (nhc string, ok bool) { return strings.CutPrefix(holder, holderPrefix) }

// MachineHealthCheckOfHolder returns the MachineHealthCheck with a holder identity, as
// <namespace>/<name>, and false for other holders. The upstream operator's own controller
// writes the same prefix with the name alone: its leases are foreign (spec M4.3).
func MachineHealthCheckOfHolder(holder string) (key string, ok bool) {
	key, ok = strings.CutPrefix(holder, v1beta1.Kind+"-")
	namespace, name, complete := strings.Cut(key, "/")
	if !ok || !complete || namespace == "" || name == "" || strings.Contains(name, "/") {
		return "", false
	}
	return key, true
}

// LeaseName returns the name of the lease of a node, which other operators use too.
// A node name that is too long for it is cut, and told apart by a hash.
func LeaseName(node string) string {
	name := leasePrefix + strings.ToLower(node)
	if len(name) <= validation.DNS1123SubdomainMaxLength {
		return name
	}
	cut := name[:validation.DNS1123SubdomainMaxLength-1-hashLength]
	return strings.TrimRight(cut, ".-") + "-" + digest(node)
}

// NodeOfLease returns the node that a lease is for, by its owner or else by its
// name.
func NodeOfLease(lease *coordinationv1.Lease) (node string, ok bool) {
	for _, owner := range lease.OwnerReferences {
		if owner.Kind == "Node" && owner.APIVersion == "v1" {
			return owner.Name, true
		}
	}
	return strings.CutPrefix(lease.Name, leasePrefix)
}
