// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/nhc-controller/nhc-controller/test/deploy"
	"github.com/nhc-controller/nhc-controller/test/localkube"
)

// shortLease is for tests that wait until a lease has expired.
var shortLease = []string{"--leader-elect-lease-duration=6s", "--leader-elect-renew-deadline=4s", "--leader-elect-retry-period=1s"}

// longLease is for tests in which a lease that has to expire fails the test.
var longLease = []string{"--leader-elect-lease-duration=1h", "--leader-elect-renew-deadline=30m", "--leader-elect-retry-period=1s"}

// replicas are the names of the ServiceAccounts of the controllers of TestLeader:
// by its user the audit log tells who made a request.
var replicas = []string{"alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta"}

func replicaUser(name string) string {
	return "system:serviceaccount:" + deploy.Namespace + ":" + name
}

// TestLeader runs several controllers. One works at a time (spec 22.4 to 22.6).
func TestLeader(t *testing.T) {
	t.Parallel()
	c := exclusiveCluster(t)
	c.createReplicas(t)

	t.Run("handed over", func(t *testing.T) {
		s := newScenario(t, c)
		alpha := c.startReplica(t, "alpha", longLease...)
		c.eventuallyLeader(t, "alpha")
		s.createNodes("a", "b", "c", "d", "e", "f", "g", "h")
		s.createNHC()
		beta := c.startReplica(t, "beta", longLease...)
		eventuallyReady(t, beta)
		s.fail("a")
		s.eventuallyCR("a")
		// All kinds of changes, to tempt the standby.
		s.recover("a", 8)
		require.Empty(t, c.audited(t, func(r localkube.Request) bool {
			return r.User == replicaUser("beta") && (isWrite(r) || r.Verb == "list" || r.Verb == "watch")
		}), "22.5: a standby writes nothing, and has no caches")
		require.Equal(t, "alpha", c.leader(t))

		for _, name := range []string{"a", "b", "c", "d"} {
			s.fail(name)
		}
		require.NoError(t, alpha.Signal(syscall.SIGTERM))
		for _, name := range []string{"e", "f"} {
			s.fail(name)
		}
		require.Equal(t, 0, exitCode(t, alpha), alpha.LogTail())
		ended := time.Now()
		s.fail("g")
		c.eventuallyLeader(t, "beta") // Within an hour, if the lease had to expire.
		uids := map[string]any{}
		for _, name := range []string{"a", "b", "c", "d", "e", "f", "g"} {
			uids[name] = s.eventuallyCR(name).GetUID()
		}
		s.eventuallyCounts(8, 1)
		requests := c.audited(t, func(r localkube.Request) bool {
			return r.Resource == s.kind.remediations.Resource && r.Namespace == s.name && isWrite(r)
		})
		created := map[string]int{}
		for _, r := range requests {
			if r.Verb == "create" && r.Code == 201 {
				created[r.Name]++
			}
		}
		require.Equal(t, 2, created[s.node("a")], "one before and one in the hand-over: %v", requests)
		for _, name := range []string{"b", "c", "d", "e", "f", "g"} {
			require.Equal(t, 1, created[s.node(name)], "%s: %v", name, requests)
			require.Equal(t, uids[name], s.cr(name).GetUID())
		}
		require.Empty(t, c.audited(t, func(r localkube.Request) bool { return r.User == replicaUser("alpha") && r.Time.After(ended) }))
		for node, times := range created {
			s.eventually("one event for each remediation of "+node, func() bool { return len(s.eventsAbout("Node", node, "RemediationCreated")) == times })
		}
		requireRunning(t, beta)
	})

	t.Run("killed before the CR that has its place", func(t *testing.T) {
		s := newScenario(t, c)
		eta := c.startReplica(t, "eta", shortLease...)
		c.eventuallyLeader(t, "eta")
		s.createNodes("a", "b", "c")
		s.createBudget(maxConcurrent(1))
		s.createNHC()
		theta := c.startReplica(t, "theta", shortLease...)
		eventuallyReady(t, theta)
		hold := s.holdCreations()
		for _, name := range []string{"a", "b", "c"} {
			s.fail(name)
		}
		hold.await(t)
		require.NoError(t, eta.Kill())
		hold.release() // Whether it is created after all is up to the API server.
		c.eventuallyLeader(t, "theta")
		left := []string{"a", "b", "c"}
		for len(left) > 0 {
			var node string
			s.eventually("another one is under remediation", func() bool {
				crs := s.crs()
				if len(crs) == 1 {
					node = strings.TrimPrefix(crs[0].GetName(), s.name+"-")
				}
				return slices.Contains(left, node)
			})
			left = slices.DeleteFunc(left, func(name string) bool { return name == node })
			for _, waiting := range left {
				s.eventuallyHeldByBudget(waiting, s.name+": 1 of at most 1 nodes are under remediation")
			}
			require.Len(t, s.crs(), 1, "B3.2")
			s.heal(node)
		}
		s.eventually("none is left", func() bool { return len(s.crs()) == 0 })
		require.NoError(t, theta.Signal(syscall.SIGTERM))
		require.Equal(t, 0, exitCode(t, theta))
	})

	t.Run("killed", func(t *testing.T) {
		s := newScenario(t, c)
		gamma := c.startReplica(t, "gamma", shortLease...)
		c.eventuallyLeader(t, "gamma")
		s.createNodes("a", "b")
		s.createNHC()
		delta := c.startReplica(t, "delta", shortLease...)
		eventuallyReady(t, delta)
		s.fail("a")
		a := s.eventuallyCR("a")
		require.NoError(t, gamma.Kill())
		lease := c.leaderLease(t)
		s.fail("b")
		c.eventuallyLeader(t, "delta")
		s.eventuallyCR("b")
		require.Equal(t, a.GetUID(), s.cr("a").GetUID())
		taken := c.leaderLease(t)
		require.False(t, taken.Spec.AcquireTime.Time.Before(lease.Spec.RenewTime.Add(6*time.Second)), "not before the lease had expired")
		first := c.audited(t, func(r localkube.Request) bool {
			return r.User == replicaUser("delta") && isWrite(r) && !isLeaderLease(r)
		})
		require.NotEmpty(t, first)
		require.False(t, first[0].Time.Before(lease.Spec.RenewTime.Add(6*time.Second)), "%v", first)
		require.NoError(t, delta.Signal(syscall.SIGTERM))
		require.Equal(t, 0, exitCode(t, delta))
	})

	// The leader is frozen until another one leads. When it goes on, it has an
	// unhealthy node without CR before its eyes, and must not touch it.
	t.Run("frozen", func(t *testing.T) {
		s := newScenario(t, c)
		epsilon := c.startReplica(t, "epsilon", shortLease...)
		c.eventuallyLeader(t, "epsilon")
		s.createNodes("a", "b")
		s.createNHC()
		s.fail("a")
		s.eventuallyCR("a")
		zeta := c.startReplica(t, "zeta", shortLease...)
		eventuallyReady(t, zeta)
		impersonated := rest.CopyConfig(c.AdminConfig())
		impersonated.Impersonate = rest.ImpersonationConfig{UserName: replicaUser("zeta")}
		client, err := dynamic.NewForConfig(impersonated)
		require.NoError(t, err)
		asZeta := *s
		asZeta.cluster = &cluster{ControlPlane: c.ControlPlane, kube: c.kube, nhc: c.nhc, dynamic: client, changes: c.changes, begin: c.begin}
		allow := s.deny(t, "creations-by-zeta", denial{
			group: s.kind.remediations.Group, resource: s.kind.remediations.Resource, operation: admissionregistrationv1.Create,
			unless: fmt.Sprintf("request.userInfo.username != %q", replicaUser("zeta")), try: asZeta.tryCR,
		})

		require.NoError(t, epsilon.Signal(syscall.SIGSTOP))
		t.Cleanup(func() { _ = epsilon.Signal(syscall.SIGCONT) })
		lease := c.leaderLease(t)
		s.fail("b")
		c.eventuallyLeader(t, "zeta")
		s.eventually("the new leader is refused the CR", func() bool {
			return len(c.audited(t, func(r localkube.Request) bool {
				return r.User == replicaUser("zeta") && r.Verb == "create" && r.Resource == s.kind.remediations.Resource
			})) > 0
		})
		require.NoError(t, epsilon.Signal(syscall.SIGCONT))
		require.Equal(t, 1, exitCode(t, epsilon), epsilon.LogTail())
		require.Contains(t, epsilon.LogTail(), "lost the leader lease")
		expired := lease.Spec.RenewTime.Add(6 * time.Second)
		require.Empty(t, c.audited(t, func(r localkube.Request) bool {
			return r.User == replicaUser("epsilon") && r.Time.After(expired) && isWrite(r) && !isLeaderLease(r)
		}), "it wrote though its lease had expired")
		require.Equal(t, "zeta", c.leader(t))
		require.Nil(t, s.cr("b"))
		allow()
		s.eventuallyCR("b")
	})
}

// createReplicas creates ServiceAccounts with all that is granted to the one of the
// controller.
func (c *cluster) createReplicas(t *testing.T) {
	t.Helper()
	extend := func(subjects []rbacv1.Subject) []rbacv1.Subject {
		for _, subject := range subjects {
			if subject.Kind == rbacv1.ServiceAccountKind && subject.Namespace == deploy.Namespace && subject.Name == deploy.ServiceAccount {
				for _, name := range replicas {
					subject.Name = name
					subjects = append(subjects, subject)
				}
				break
			}
		}
		return subjects
	}
	for _, name := range replicas {
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}
		_, err := c.kube.CoreV1().ServiceAccounts(deploy.Namespace).Create(t.Context(), account, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	clusterRoleBindings, err := c.kube.RbacV1().ClusterRoleBindings().List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	for i := range clusterRoleBindings.Items {
		binding := &clusterRoleBindings.Items[i]
		if subjects := extend(binding.Subjects); len(subjects) > len(binding.Subjects) {
			binding.Subjects = subjects
			_, err := c.kube.RbacV1().ClusterRoleBindings().Update(t.Context(), binding, metav1.UpdateOptions{})
			require.NoError(t, err)
		}
	}
	roleBindings, err := c.kube.RbacV1().RoleBindings(metav1.NamespaceAll).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	for i := range roleBindings.Items {
		binding := &roleBindings.Items[i]
		if subjects := extend(binding.Subjects); len(subjects) > len(binding.Subjects) {
			binding.Subjects = subjects
			_, err := c.kube.RbacV1().RoleBindings(binding.Namespace).Update(t.Context(), binding, metav1.UpdateOptions{})
			require.NoError(t, err)
		}
	}
}

// startReplica starts a controller as the ServiceAccount with its name.
func (c *cluster) startReplica(t *testing.T, name string, args ...string) *localkube.Process {
	t.Helper()
	config, err := c.ServiceAccountConfig(t.Context(), deploy.Namespace, name)
	require.NoError(t, err)
	path := filepath.Join(c.Dir(), "replica-"+name+".kubeconfig")
	require.NoError(t, localkube.WriteKubeconfig(path, config))
	return c.startController(t, name, append([]string{"--kubeconfig=" + path}, args...)...)
}
