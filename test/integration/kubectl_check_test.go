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
	"github.com/nhc-controller/nhc-controller/test/localkube"
	"github.com/nhc-controller/nhc-controller/test/patience"
)

// breakage is one way in which an installation does not work.
type breakage struct {
	name string
	// commands of kubectl break it, and others mend it.
	commands, mends []string
	// shows is in the first lines of what kubectl nhc check prints.
	shows string
}

// breakages returns the ways, for a check with this name.
func breakages(name string) []breakage {
	const nodeLeases, nodeHealthChecks = "medik8s-leases", "nodehealthchecks.remediation.medik8s.io"
	apply := []string{"apply --server-side --force-conflicts -f " + installManifest}
	removeFirst := func(path string) string { return `--type=json --patch=[{"op":"remove","path":"` + path + `/0"}]` }
	return []breakage{
		{"an old kind", []string{"patch crd " + nodeHealthChecks + " " + removeFirst("/spec/versions/0/additionalPrinterColumns")}, apply, "CustomResourceDefinitions: " + nodeHealthChecks + " is not that of "},
		{"a kind is missing", []string{"delete crd remediationbudgets.remediation.medik8s.io"}, apply, "CustomResourceDefinitions: remediationbudgets.remediation.medik8s.io is missing"},
		{"a binding is missing", []string{"delete validatingadmissionpolicybinding " + nodePolicy}, apply, "Admission policies: ValidatingAdmissionPolicyBinding " + nodePolicy + " is missing"},
		{"another policy", []string{"patch validatingadmissionpolicy " + nodePolicy + " " + removeFirst("/spec/validations")}, apply, "Admission policies: ValidatingAdmissionPolicy " + nodePolicy + " is not that of "},
		{"a permission of its own", []string{"delete rolebinding -n " + nodeLeases + " nhc-controller-node-leases"}, apply, "Permissions: ServiceAccount nhc-system/nhc-controller may not list leases.coordination.k8s.io in namespace " + nodeLeases},
		{"a permission on a kind", []string{"label clusterrole powercycle-ext-remediation " + v1alpha1.LabelAggregate + "-"}, []string{"label clusterrole powercycle-ext-remediation " + v1alpha1.LabelAggregate + "=true"},
			`Missing permission: cannot get resource "`},
		{"the template is missing", []string{"delete nhc " + name, "delete powercycleremediationtemplate -n " + name + " " + name}, nil, "Templates: PowerCycleRemediationTemplate " + name + "/" + name + ": Remediation template not found"},
		{"the Deployment is missing", []string{"delete deployment -n nhc-system nhc-controller"}, apply, "Deployment: There is no Deployment nhc-controller in namespace nhc-system."},
		{"the namespace of leases is missing", []string{"delete namespace " + nodeLeases}, apply, "Leases of nodes: Namespace " + nodeLeases + " is missing"},
	}
}

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
		if code == command.ExitError && strings.Contains(first, text) {
			require.Contains(u.t, errors, "Error: The installation is not in order: ")
			return
		}
		time.Sleep(200 * time.Millisecond)
	}
	require.FailNow(u.t, "not found in the first lines", "%s\n%s", text, out)
}

// leaveOver deletes the NodeHealthCheck while no controller runs, which leaves the CR of a node that has a further owner.
func (s *scenario) leaveOver(node string, controller *localkube.Process) {
	s.t.Helper()
	s.createNodes(node)
	s.fail(node)
	cr := s.eventuallyCR(node)
	s.addOwner(cr)
	controller.Stop()
	s.patch(s.dynamic.Resource(v1alpha1.SchemeGroupVersion.WithResource(v1alpha1.Plural)), s.name, metadataPatch("annotations", map[string]any{v1alpha1.AnnotationAllowDelete: ""}))
	require.NoError(s.t, s.nhc.RemediationV1alpha1().NodeHealthChecks().Delete(s.t.Context(), s.name, metav1.DeleteOptions{}))
	s.eventually("the NodeHealthCheck owns it no more", func() bool { return len(s.cr(node).GetOwnerReferences()) == 1 })
}

// TestKubectlCheck: right after an installation all is well, and each way to break it is named in the first lines (spec 22.7).
func TestKubectlCheck(t *testing.T) {
	t.Parallel()
	c := exclusiveCluster(t)
	s := newScenario(t, c)
	admin := &user{scenario: s, name: "system:admin-of-" + s.name}
	admin.eventuallyChecked("No controller is at work: there is no lease")
	controller := c.startController(t, "checked")
	out, errors, code := admin.checks("--wait")
	require.Equal(t, command.ExitOK, code, "%s%s", out, errors)
	require.True(t, strings.HasPrefix(strings.TrimSpace(out), "The installation works."), out)
	s.createNHC()

	viewer := s.newUser("nhc-view", "")
	t.Run("without permissions", func(t *testing.T) {
		s.eventually("it says what is not checked", func() bool {
			var out bytes.Buffer
			_, code := viewer.plugin(t.Context(), &out, "check")
			require.NotContains(t, out.String(), "You may not list pods", "Pods have templates, and are no remediation objects")
			return code == command.ExitError && strings.Contains(out.String(), "CustomResourceDefinitions: not checked. You may not get customresourcedefinitions")
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
	t.Run("remediation objects are left over", func(*testing.T) {
		s.leaveOver("a", controller)
		admin.eventuallyChecked("Remediation objects: No health check owns 1 powercycleremediations any more, and they keep others from their nodes. " +
			"If you need them no longer: kubectl delete powercycleremediations.demo.nhc-controller.io -n " + s.name + " " + s.node("a"))
		controller = c.startController(t, "checked-again")
		s.createNHC()
		s.eventuallyDecided("a", v1alpha1.DecidedForeignRemediation)
		_, err := c.Kubectl(t.Context(), "delete", "powercycleremediations.demo.nhc-controller.io", "-n", s.name, s.node("a"))
		require.NoError(t, err)
		s.eventuallyCR("a")
		out, errors, code := admin.checks("--wait")
		require.Equal(t, command.ExitOK, code, "%s%s", out, errors)
		s.heal("a")
		s.eventuallyNoCR("a")
	})
	for _, b := range breakages(s.name) {
		t.Run(b.name, func(*testing.T) {
			for _, line := range b.commands {
				_, err := c.Kubectl(t.Context(), strings.Fields(line)...)
				require.NoError(t, err)
			}
			if b.name == "the template is missing" {
				s.createNHC()
			}
			admin.eventuallyChecked(b.shows)
			for _, line := range b.mends {
				_, err := c.Kubectl(t.Context(), strings.Fields(line)...)
				require.NoError(t, err)
			}
		})
	}
	for name, tc := range map[string]struct{ renewed, shows string }{
		"a leader that is gone":         {time.Now().Add(-time.Hour).UTC().Format(time.RFC3339), "Leader: No controller is at work: somebody last renewed its lease 60m ago"},
		"a leader whose clock is ahead": {time.Now().Add(time.Hour).UTC().Format(time.RFC3339), "Leader: The clock of somebody is 5"},
	} {
		t.Run(name, func(t *testing.T) {
			controller.Stop()
			patch := `--patch={"spec":{"holderIdentity":"somebody","leaseDurationSeconds":15,"renewTime":"` + strings.TrimSuffix(tc.renewed, "Z") + `.000000Z"}}`
			_, err := c.Kubectl(t.Context(), "patch", "lease", "-n", deploy.Namespace, deploy.LeaderLease, "--type=merge", patch)
			require.NoError(t, err)
			admin.eventuallyChecked(tc.shows)
		})
	}
}
