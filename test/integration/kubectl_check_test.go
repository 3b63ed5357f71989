// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/kubectl/command"
	"github.com/nhc-controller/nhc-controller/test/deploy"
	"github.com/nhc-controller/nhc-controller/test/patience"
)

// checks runs kubectl nhc check as an administrator.
func (u *user) checks(args ...string) (out, errors string, code int) {
	u.t.Helper()
	var buffer bytes.Buffer
	errors, code = u.plugin(u.t.Context(), &buffer, append([]string{"--as-group=system:masters", "check"}, args...)...)
	return buffer.String(), errors, code
}

// eventuallyChecked waits until the first lines of kubectl nhc check say so: the API server takes note of policies and
// roles within seconds.
func (u *user) eventuallyChecked(text string) {
	u.t.Helper()
	var out string
	deadline := time.Now().Add(patience.Limit)
	for time.Now().Before(deadline) {
		var errors string
		var code int
		out, errors, code = u.checks()
		first := strings.Join(strings.SplitN(out, "\n", 4)[:min(3, strings.Count(out, "\n"))], "\n")
		if code == command.ExitFound && strings.Contains(first, text) {
			require.Contains(u.t, errors, "Error: The installation is not in order: ")
			return
		}
		time.Sleep(200 * time.Millisecond)
	}
	require.FailNow(u.t, "not found in the first lines", "%s\n%s", text, out)
}

// makeReady says that all replicas are ready: in this cluster nothing runs them.
func (c *cluster) makeReady(t *testing.T) {
	t.Helper()
	deployments := c.kube.AppsV1().Deployments(deploy.Namespace)
	deployment, err := deployments.Get(t.Context(), "nhc-controller", metav1.GetOptions{})
	require.NoError(t, err)
	deployment.Status.Replicas, deployment.Status.ReadyReplicas = 2, 2
	_, err = deployments.UpdateStatus(t.Context(), deployment, metav1.UpdateOptions{})
	require.NoError(t, err)
}

// TestKubectlCheck: right after an installation all is well, and each way to break it is named in the first lines (spec 22.7).
func TestKubectlCheck(t *testing.T) {
	t.Parallel()
	c := exclusiveCluster(t)
	s := newScenario(t, c)
	admin := &user{scenario: s, name: "system:admin-of-" + s.name}
	admin.eventuallyChecked("0 of 2 replicas are ready")
	c.makeReady(t)
	admin.eventuallyChecked("No controller is at work: there is no lease")
	controller := c.startController(t, "checked")
	out, errors, code := admin.checks("--wait")
	require.Equal(t, command.ExitOK, code, "%s%s", out, errors)
	require.True(t, strings.HasPrefix(strings.TrimSpace(out), "The installation works."), out)
	s.createNodes("a")
	s.createNHC()

	viewer := s.newUser("nhc-view", "")
	t.Run("without permissions", func(t *testing.T) {
		s.eventually("it says what is not checked", func() bool {
			var out bytes.Buffer
			_, code := viewer.plugin(t.Context(), &out, "check")
			return code == command.ExitError && strings.Contains(out.String(), "3 parts need an admin: Leases of nodes, Deployment, Dry run of a NodeHealthCheck\n")
		})
	})
	t.Run("a creation is denied", func(t *testing.T) {
		allow := c.deny(t, "deny-creation-of-"+s.name, denial{
			group: v1alpha1.SchemeGroupVersion.Group, resource: v1alpha1.Plural, operation: "CREATE", unless: "false",
			try: func(ctx context.Context, dryRun []string) error {
				_, err := s.nhc.RemediationV1alpha1().NodeHealthChecks().Create(ctx, s.spec(func(*v1alpha1.NodeHealthCheckSpec) {}), metav1.CreateOptions{DryRun: dryRun})
				if apierrors.IsAlreadyExists(err) {
					return nil
				}
				return err
			},
		})
		admin.eventuallyChecked("Dry run of a NodeHealthCheck: The API server refuses to create nodehealthchecks: ")
		allow()
	})
	for breaks, shows := range map[string]string{
		"delete crd remediationbudgets.nhc-controller.io": "CustomResourceDefinitions: remediationbudgets.nhc-controller.io is missing",
		"delete namespace medik8s-leases":                 "Leases of nodes: Namespace medik8s-leases is missing",
	} {
		t.Run(breaks, func(t *testing.T) {
			_, err := c.Kubectl(t.Context(), strings.Fields(breaks)...)
			require.NoError(t, err)
			admin.eventuallyChecked(shows)
			_, err = c.Kubectl(t.Context(), "apply", "--server-side", "--force-conflicts", "-f", installManifest)
			require.NoError(t, err)
		})
	}
	controller.Stop()
	admin.eventuallyChecked("Leader: No controller is at work: the last one has stopped ")
}
