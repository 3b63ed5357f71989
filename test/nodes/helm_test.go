// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package nodes

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/test/deploy"
)

// TestHelm: the chart is installed, upgraded while a node is down, and uninstalled, with the commands of the
// documentation, and so are those that need running pods.
func TestHelm(t *testing.T) {
	t.Parallel()
	require.NotEmpty(t, os.Getenv("NHC_HELM"), "NHC_HELM has to name Helm: run make test-nodes")
	s := newStoryWith(t, Options{}, true, func(s *story) error {
		for _, command := range []string{
			"kubectl create namespace nhc-system",
			"kubectl label namespace nhc-system pod-security.kubernetes.io/{enforce,audit,warn}=restricted",
			"helm install nhc-controller charts/nhc-controller --namespace nhc-system",
		} {
			if _, err := s.documentedError("installation", command); err != nil {
				return err
			}
		}
		return nil
	})
	t.Log(s.documented("installation", "kubectl nhc check --wait"))

	const upgrade = "helm upgrade nhc-controller charts/nhc-controller --namespace nhc-system"
	s.documented("migration", upgrade)
	t.Run("upgrade while a node is down", func(t *testing.T) {
		s := s.in(t)
		node := s.nodeOfDatabase()
		s.fail(node, "a pulled cable", (*Node).Cut)
		_, err := s.shell(upgrade + " --set dashboard.enabled=true,machineHealthCheck.enabled=true")
		require.NoError(t, err)
		s.documented("migration", "kubectl -n nhc-system rollout status deployment nhc-controller")
		s.remediated(node, "Helm upgrades", "Ready=Unknown", (*Node).Join)
		s.documented("installation", "kubectl nhc check --wait")
	})
	t.Run("commands that need pods", func(t *testing.T) { s.in(t).runCommandsWithPods() })
	t.Run("dashboard", func(t *testing.T) { s.in(t).openDashboard() })
	t.Run("uninstall", func(t *testing.T) {
		s := s.in(t)
		s.documented("migration", "helm uninstall nhc-controller --namespace nhc-system")
		s.documented("migration", "kubectl delete namespace nhc-system")
		_, err := s.Kube.CoreV1().Namespaces().Get(t.Context(), deploy.Namespace, metav1.GetOptions{})
		require.Error(t, err, "it is gone, and with it all pods")
		s.kubectl("get", "nodehealthcheck", "workers")
	})
}

// runCommandsWithPods runs those of all pages. Each replica has ended once, so that there is a log of before.
func (s *story) runCommandsWithPods() {
	s.t.Helper()
	for _, pod := range s.replicas() {
		require.NoError(s.t, s.Node(pod.Spec.NodeName).kill("nhc-controller"))
	}
	require.Eventually(s.t, func() bool {
		for _, pod := range s.replicas() {
			if len(pod.Status.ContainerStatuses) != 1 || pod.Status.ContainerStatuses[0].RestartCount == 0 || !podIsReady(&pod) {
				return false
			}
		}
		return true
	}, patience, time.Second, "the containers run again")
	commands := commandsWithPods(s.t)
	require.Greater(s.t, len(commands), 3)
	slices.SortStableFunc(commands, func(a, b string) int { // A restart makes new pods, which have no log of before.
		return strings.Count(a, " restart ") - strings.Count(b, " restart ")
	})
	for _, command := range commands {
		switch {
		case strings.HasSuffix(command, " -f"): // It goes on for ever.
			command = "timeout --preserve-status --signal=INT 3 " + command + " || true"
		case strings.Contains(command, "'clock of this machine'"): // The clock is right.
			command, _, _ = strings.Cut(command, " | ")
		}
		output, err := s.shell(command)
		require.NoError(s.t, err)
		require.NotEmpty(s.t, strings.TrimSpace(output), command)
		s.t.Logf("%s\n%.200s", command, output)
	}
	s.documented("migration", "kubectl -n nhc-system rollout status deployment nhc-controller")
}

// kill ends all processes of a program on a node.
func (n *Node) kill(program string) error {
	return n.powered("killing "+program+" of", func(*running) error {
		files, err := filepath.Glob("/proc/[0-9]*/comm")
		if err != nil {
			return err
		}
		var errs []error
		for _, file := range files {
			dir := filepath.Dir(file)
			name, _ := os.ReadFile(file) // It may have ended.
			groups, _ := os.ReadFile(filepath.Join(dir, "cgroup"))
			if strings.TrimSpace(string(name)) != program || !strings.Contains(string(groups), string(n.group)+"/") {
				continue
			}
			var pid int
			if _, err := fmt.Sscan(filepath.Base(dir), &pid); err != nil {
				return err
			}
			errs = append(errs, syscall.Kill(pid, syscall.SIGKILL))
		}
		if len(errs) == 0 {
			return errors.New("there is none")
		}
		return errors.Join(errs...)
	})
}

// openDashboard opens that in the cluster as docs/dashboard-in-cluster.md says, on a port that is free.
func (s *story) openDashboard() {
	s.t.Helper()
	s.kubectl("--namespace", deploy.Namespace, "rollout", "status", "deployment/nhc-dashboard", "--timeout=120s")
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(s.t, err)
	port := fmt.Sprint(listener.Addr().(*net.TCPAddr).Port)
	require.NoError(s.t, listener.Close())
	page, err := os.ReadFile(filepath.Join(projectDir(s.t), "docs", "dashboard-in-cluster.md"))
	require.NoError(s.t, err)
	_, block, _ := strings.Cut(string(page), "To see that it works:\n\n```console\n")
	block, _, found := strings.Cut(block, "```")
	require.True(s.t, found)
	lines := strings.Split(strings.TrimSpace(strings.ReplaceAll(strings.ReplaceAll(block, "8443", port), "$ ", "")), "\n")
	require.Len(s.t, lines, 3)
	lines[2] = "for i in {1..50}; do sleep 0.2; (: </dev/tcp/localhost/" + port + ") 2>/dev/null && break; done\n" + lines[2]
	output, err := s.shell(strings.Join(lines, "\n") + "\nkill $!")
	require.NoError(s.t, err)
	require.Contains(s.t, output, "workers")
}
