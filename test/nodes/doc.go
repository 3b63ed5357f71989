// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package nodes runs a Kubernetes cluster whose nodes really fail, on one machine: a control plane of
// test/localkube, and nodes that are real kubelets with a real container runtime, each in namespaces
// and cgroups of its own, with its own disk and network cable.
//
//	cluster, err := nodes.Start(ctx, nodes.Options{})
//	…
//	defer cluster.Stop()
//	cluster.Node("a").PowerOff(ctx)
//
// It needs Linux, root, and the packages of Debian that Start names if they are missing. The executables
// come from `make nodes`.
//
// # A node
//
// A node is a PID namespace. When its processes are killed, all at once, the power is off: what is left
// is a file, its disk. Process 1 is the program test/nodes/realnode. It starts containerd, the kubelet
// and the driver of the volumes, which are directories that all nodes share. An attacher in the process of the
// test says which node has a volume, as that of a cloud would.
//
// # The network
//
// The control plane is in a network namespace, in which a bridge has the cables of all nodes. Nothing leads
// out of it: all images are made here. There is no kube-proxy, no DNS and no network plugin that runs: pods reach
// the API server because it has the address of its Service, and each other by routes. The process of the test
// forwards a port on loopback to the API server.
//
// # Nothing stays behind
//
// A keeper holds the end of a pipe from the test, as leashes do in test/localkube. When the test ends, in whatever
// way, the keeper kills all nodes, and removes cgroups and files. Networks and mounts go with the last
// process that is in them. If even the keeper is killed, Start of the next cluster does its work. Names
// have the process in them, and addresses are in namespaces: clusters can run side by side.
package nodes
