// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package nodes

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/test/deploy"
)

// TestUninstall: when the controller is uninstalled during a remediation, its pods go, and the remediation
// stays. Installed again, it goes on. make install-test has all ways to install, without pods that run.
func TestUninstall(t *testing.T) {
	t.Parallel()
	s := newStory(t, Options{}, false)
	leader, others := s.controllers()
	// kubectl would wait for a pod on a node that is down.
	i := slices.IndexFunc(s.nodes, func(n *Node) bool { return n != leader && !slices.Contains(others, n) })
	node := s.nodes[i]
	s.fail(node, "a power cut", (*Node).PowerOff)
	s.await("remediation " + node.Name + " created")

	s.documented("installation", "kubectl delete -k manifests/uninstall --ignore-not-found")
	require.Eventually(t, func() bool {
		list, err := s.Kube.CoreV1().Pods(deploy.Namespace).List(t.Context(), metav1.ListOptions{})
		return err == nil && len(list.Items) == 0
	}, patience, time.Second, "the pods of the controller go")
	_, _, deleted, _ := s.timeline.find("remediation "+node.Name+" deleted", "\x00")
	require.False(t, deleted)

	s.remediator()
	s.await("node " + node.Name + " Ready=True")
	time.Sleep(decided)
	_, _, deleted, _ = s.timeline.find("remediation "+node.Name+" being deleted", "\x00")
	require.False(t, deleted, "there is no controller")

	require.Eventually(t, func() bool { // The namespace may still be on its way out.
		_, err := s.documentedError("installation", "kubectl apply --server-side -f manifests/install.yaml")
		return err == nil
	}, patience, time.Second)
	s.await("remediation " + node.Name + " deleted")
	s.settle()
}
