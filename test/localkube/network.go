// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package localkube

import (
	"crypto/rand"
	"fmt"
)

// serviceURL is the API server as pods know it: by the address of the Service kubernetes.
const serviceURL = "https://10.0.0.1"

// Network is a network namespace for a control plane whose nodes are real. Its loopback device has the
// address 10.0.0.1, which is that of the Service kubernetes: so that pods reach the API server by
// routing alone. All controllers run.
type Network struct {
	// Namespace is its path, such as /proc/1234/ns/net.
	Namespace string
	// Address is that of the API server for nodes.
	Address string
	// Port is one on loopback outside of the namespace, from which someone forwards to port 443 of the
	// API server. The configurations that this package returns have it.
	Port int
	// Nodes are the names of those for which NodeKubeconfig works.
	Nodes []string
}

// apiServerArgs are the arguments that differ in a network of its own.
func (n *Network) apiServerArgs() []string {
	return []string{
		"--bind-address=0.0.0.0",
		"--secure-port=443",
		"--advertise-address=" + n.Address,
		"--endpoint-reconciler-type=lease", // By default: the Service kubernetes has an address.
		"--authorization-mode=Node",        // Besides RBAC: the flags add up.
		"--enable-admission-plugins=NodeRestriction",
		"--allow-privileged=true",
		"--enable-aggregator-routing=true", // To pods of webhooks: there is no kube-proxy.
		"--kubelet-preferred-address-types=InternalIP",
	}
}

// controllers are all, but those that need a range of addresses or a certificate authority.
func (n *Network) controllers() []string {
	return []string{"*", "-node-ipam-controller", "-certificatesigningrequest-signing-controller"}
}

func (n *Network) identities() []identity {
	var ids []identity
	for _, name := range n.Nodes {
		ids = append(ids, identity{"system:node:" + name, "system:nodes", rand.Text()})
	}
	return ids
}

// NodeKubeconfig writes the kubeconfig of the kubelet of one of Network.Nodes, and returns its path.
func (c *ControlPlane) NodeKubeconfig(node string) (string, error) {
	for _, id := range c.identities.nodes {
		if id.user == "system:node:"+node {
			return c.kubeconfigOf(id)
		}
	}
	return "", fmt.Errorf("the control plane knows no node %q", node)
}
