// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/nhc-controller/nhc-controller/test/deploy"
	"github.com/nhc-controller/nhc-controller/test/localkube"
	"github.com/nhc-controller/nhc-controller/test/patience"
)

// shortLease is for tests that wait until a lease has expired.
var shortLease = []string{"--leader-elect-lease-duration=6s", "--leader-elect-renew-deadline=4s", "--leader-elect-retry-period=1s"}

// logged returns the lines with a message in the log of a controller, which the
// Deployment makes a JSON object per line.
func logged(t *testing.T, p *localkube.Process, message string) []map[string]any {
	t.Helper()
	log, err := os.ReadFile(p.LogPath())
	require.NoError(t, err)
	text, err := json.Marshal(message)
	require.NoError(t, err)
	var lines []map[string]any
	for line := range bytes.Lines(log) {
		var fields map[string]any
		if bytes.Contains(line, text) && json.Unmarshal(line, &fields) == nil && fields["msg"] == message {
			lines = append(lines, fields)
		}
	}
	return lines
}

func eventuallyLogged(t *testing.T, p *localkube.Process, message string) {
	t.Helper()
	patience.Eventually(t, "in the log: "+message, func() bool { return len(logged(t, p, message)) > 0 })
}

// address returns where a server of a controller listens, "probes" or "metrics". It
// comes from the log, so every process of a test has a name of its own.
func address(t *testing.T, p *localkube.Process, server string) string {
	t.Helper()
	var found string
	patience.Eventually(t, "address of the server for "+server, func() bool {
		requireRunning(t, p)
		for _, line := range logged(t, p, "Listening") {
			if line["server"] == server {
				found, _ = line["address"].(string)
			}
		}
		return found != ""
	})
	return found
}

// probe returns the status code of a probe.
func probe(t *testing.T, p *localkube.Process, path string) int {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address(t, p, "probes")+path, http.NoBody)
	require.NoError(t, err)
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	return response.StatusCode
}

func eventuallyReady(t *testing.T, p *localkube.Process) {
	t.Helper()
	patience.Eventually(t, "/readyz", func() bool { return probe(t, p, "/readyz") == http.StatusOK })
}

func requireRunning(t *testing.T, p *localkube.Process) {
	t.Helper()
	select {
	case <-p.Exited():
		t.Fatalf("the controller has exited:\n%s", p.LogTail())
	default:
	}
}

// exitCode waits for the process to exit.
func exitCode(t *testing.T, p *localkube.Process) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience.Limit)
	defer cancel()
	code, err := p.Wait(ctx)
	require.NoError(t, err, p.LogTail())
	return code
}

// leader returns the name of the controller that holds the lease, empty if none does.
func (c *cluster) leader(t *testing.T) string {
	t.Helper()
	lease, err := c.kube.CoordinationV1().Leases(deploy.Namespace).Get(t.Context(), deploy.LeaderLease, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && lease.Spec.HolderIdentity == nil {
		return ""
	}
	require.NoError(t, err)
	name, _, _ := strings.Cut(*lease.Spec.HolderIdentity, "_")
	return name
}

// audited returns the audited requests for which want is true.
func (c *cluster) audited(t *testing.T, want func(localkube.Request) bool) []localkube.Request {
	t.Helper()
	requests, err := c.RequestsWhere(c.begin, func(r *localkube.Request) bool { return want(*r) })
	require.NoError(t, err)
	return requests
}

// isWrite reports whether a request changes an object. A review changes nothing.
func isWrite(r localkube.Request) bool {
	return !slices.Contains([]string{"get", "list", "watch"}, r.Verb) &&
		r.Group != "authorization.k8s.io" && r.Group != "authentication.k8s.io" && r.Resource != ""
}

func isLeaderLease(r localkube.Request) bool {
	return r.Resource == "leases" && r.Namespace == deploy.Namespace
}

// denial is a ValidatingAdmissionPolicy of a test.
type denial struct {
	// group and resource are what must not be written; a subresource follows a slash.
	group, resource string
	operation       admissionregistrationv1.OperationType
	// unless is a CEL expression. What it holds for is permitted.
	unless string
	// try is such a write as a dry run. It shows whether the policy is in force.
	try func(ctx context.Context, dryRun []string) error
}

// deny has the API server refuse a kind of writes, as a quota does. It returns when it does. So does
// allow, which ends it.
func (c *cluster) deny(t *testing.T, name string, d denial) (allow func()) {
	t.Helper()
	group, resource := d.group, d.resource
	policies := c.kube.AdmissionregistrationV1().ValidatingAdmissionPolicies()
	bindings := c.kube.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings()
	_, err := policies.Create(t.Context(), &admissionregistrationv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionregistrationv1.MatchResources{
				ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: admissionregistrationv1.RuleWithOperations{
					Operations: []admissionregistrationv1.OperationType{d.operation},
					Rule:       admissionregistrationv1.Rule{APIGroups: []string{group}, APIVersions: []string{"*"}, Resources: []string{resource}},
				}}},
			},
			Validations: []admissionregistrationv1.Validation{{Expression: d.unless, Message: "denied by the test", Reason: new(metav1.StatusReasonForbidden)}},
		},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = bindings.Create(t.Context(), &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: name, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
		},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	remove := func(ctx context.Context) error {
		return errors.Join(bindings.Delete(ctx, name, metav1.DeleteOptions{}), policies.Delete(ctx, name, metav1.DeleteOptions{}))
	}
	t.Cleanup(func() { _ = remove(context.WithoutCancel(t.Context())) }) // A test that fails leaves it behind.
	refused := func() bool {
		err := d.try(t.Context(), []string{metav1.DryRunAll})
		if err != nil {
			require.ErrorContains(t, err, "denied by the test")
		}
		return err != nil
	}
	patience.Eventually(t, "the policy "+name+" denies", refused)
	return func() {
		t.Helper()
		require.NoError(t, remove(t.Context()))
		patience.Eventually(t, "the policy "+name+" is gone", func() bool { return !refused() })
	}
}

// tryCR creates a CR as a dry run.
func (s *scenario) tryCR(ctx context.Context, dryRun []string) error {
	cr := &unstructured.Unstructured{Object: map[string]any{}}
	cr.SetGroupVersionKind(s.kind.remediations.GroupVersion().WithKind(s.kind.name))
	cr.SetName("dry-run")
	_, err := s.crClient().Create(ctx, cr, metav1.CreateOptions{DryRun: dryRun})
	return err
}
