// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package localkube runs a real Kubernetes control plane for tests, benchmarks
// and the demo, without containers: etcd, kube-apiserver with RBAC, admission
// and priority and fairness as in a real cluster, the controllers of
// kube-controller-manager that matter to nhc-controller, and, if wanted, the
// kubelets of simulated nodes. All but these are ordinary processes of the user, on
// loopback and on a socket; several control planes may run side by side.
//
//	cluster, err := localkube.Start(ctx, localkube.Options{NodeLifecycle: true, Kubelets: true})
//	…
//	defer cluster.Stop()
//	client, err := kubernetes.NewForConfig(cluster.AdminConfig())
//
// The executables come from `make localkube`. They are looked for in the
// directory that the environment variable LOCALKUBE_BIN names, or else in bin/ at
// the root of the module.
//
// # Nothing stays behind
//
// Every process runs on a leash, a small parent of its own that holds the end of
// a pipe from the test. When the test's end closes, by Stop, a panic, a
// timeout of go test or SIGKILL, the leash terminates the process and all the
// processes that this one has started:
//
//	test ──pipe──► leash ──SIGTERM, later SIGKILL──► process group
//
// The controller under test is started in the same way, by
// ControlPlane.StartProcess. Process.Signal and Process.Kill reach the process
// itself, not its leash.
//
// # The controller under test
//
// Install it with Kubectl from the manifests that users get, and run it as the
// ServiceAccount in them: write what ServiceAccountConfig returns with
// WriteKubeconfig. A missing RBAC rule then fails a test. Which requests it made
// is in Requests, if Options.AuditUsers has its name
// (system:serviceaccount:NAMESPACE:NAME).
//
// # Failures
//
// StopAPIServer and StartAPIServer make an outage, RestartEtcd a crash below the API
// server, and Compact a history that is too short for a client that was away.
//
// # Nodes
//
// No kubelet and no scheduler run, and no controllers of workloads: a Deployment
// can be applied, but nothing happens. Without Options.NodeLifecycle a Node is
// what tests write. With it, a node is Ready as long as it has heartbeats:
// with Options.Kubelets, those with HeartbeatLabel have them. New nodes have the taint
// node.kubernetes.io/not-ready, which only the node-lifecycle controller takes off,
// when they become Ready.
package localkube
