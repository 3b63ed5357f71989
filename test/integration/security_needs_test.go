// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/test/deploy"
	"github.com/nhc-controller/nhc-controller/test/localkube"
	"github.com/nhc-controller/nhc-controller/test/patience"
)

// testGrantedIsNeeded takes away each permission. The controller says what it misses,
// and goes on when it has it again.
func testGrantedIsNeeded(t *testing.T, c *cluster) {
	left := c.granted(t)
	// take returns the permissions that are about something, each once.
	take := func(about func(permission) bool) (taken []permission) {
		left = slices.DeleteFunc(left, func(p permission) bool {
			if about(p) {
				taken = append(taken, p)
			}
			return about(p)
		})
		require.NotEmpty(t, taken)
		return taken
	}
	// What is needed from the beginning, one verb of all kinds at a time: except for budgets, kinds do
	// not depend on one another.
	for _, verb := range []string{"get", "list", "watch"} {
		testNeededAtStart(t, c, verb, take(func(p permission) bool {
			return p.verb == verb && p.namespace != remediation.EtcdNamespace && p.resource != v1alpha1.BudgetPlural && (verb != "get" || p.resource != "nodes")
		}))
	}
	for _, verb := range []string{"update", "create"} {
		testNeededAtStart(t, c, verb, take(func(p permission) bool { return p.verb == verb && p.namespace == deploy.Namespace }))
	}

	s := newScenario(t, c)
	s.createNodes("a", "b", "cp")
	s.labelNode("cp", map[string]any{controlPlaneRole: ""})
	controller := c.startListing(t, "needed")
	s.createNHC()
	s.eventuallyCounts(3, 3)
	for _, part := range []struct {
		about string // Verb and resource.
		test  func(*deprived)
	}{
		{"get nodes", needsNode},
		{"create leases", needsLease},
		{"update leases", needsRenewal},
		{"update nodehealthchecks/status", needsStatus},
		{"delete leases", needsRelease},
		{"get remediationbudgets", needsBudgets},
		{"list remediationbudgets", needsBudgets},
		{"watch remediationbudgets", needsBudgets},
		{"update remediationbudgets/status", needsBudgetStatus},
		{"patch nodes", needsConfirmation},
		{"create events", needsEvent},
		{"patch events", needsSeries},
		{"create tokenreviews", needsReview},
		{"create subjectaccessreviews", needsReview},
		{"create selfsubjectaccessreviews", needsOwnReview},
		{"list poddisruptionbudgets", needsEtcd},
		{"list pods", needsEtcd},
	} {
		lacks := take(func(p permission) bool { return p.verb+" "+p.resource == part.about })
		require.True(t, t.Run(part.about, func(t *testing.T) {
			own := *s
			own.t = t
			part.test(&deprived{scenario: &own, controller: controller, lacks: lacks})
		}), "what was taken away is not there any more")
	}
	require.Empty(t, left, "granted, and not taken away by this test")
}

// testNeededAtStart starts a controller that lacks permissions.
func testNeededAtStart(t *testing.T, c *cluster, verb string, lacks []permission) {
	require.True(t, t.Run("start without "+verb, func(t *testing.T) {
		if verb == "create" {
			leases := c.kube.CoordinationV1().Leases(deploy.Namespace)
			require.NoError(t, leases.Delete(t.Context(), deploy.LeaderLease, metav1.DeleteOptions{}))
		}
		d := &deprived{scenario: &scenario{cluster: c, t: t}, lacks: lacks}
		restore := c.withdraw(t, lacks...)
		name := "start-without-" + verb
		d.controller = c.startListing(t, name)
		d.eventuallySays()
		switch verb {
		case "list":
			require.Equal(t, http.StatusServiceUnavailable, probe(t, d.controller, "/readyz"))
		case "get", "update", "create":
			require.NotEqual(t, name, c.leader(t))
		}
		restore()
		eventuallyReady(t, d.controller)
		c.eventuallyLeader(t, name)
		d.controller.Stop()
	}), "what was taken away is not there any more")
}

// deprived is a controller that lacks permissions for a while.
type deprived struct {
	*scenario
	controller *localkube.Process
	lacks      []permission
}

// eventuallySays waits until the log of the controller names each permission that it
// lacks: as the API server does, or as the controller does that has asked for it.
func (d *deprived) eventuallySays() {
	d.t.Helper()
	for _, p := range d.lacks {
		asked := fmt.Sprintf("no permission to %s %s.%s", p.verb, p.resource, p.group)
		patience.Eventually(d.t, "in the log: "+p.String(), func() bool {
			log, err := os.ReadFile(d.controller.LogPath())
			require.NoError(d.t, err)
			text := strings.ReplaceAll(string(log), `\"`, `"`)
			return strings.Contains(text, p.String()) || strings.Contains(text, asked)
		})
	}
}

// without does something without the permissions, until the controller complains. It
// checks the result before it grants the permissions again.
func (d *deprived) without(act func(), looks ...func()) {
	d.t.Helper()
	restore := d.withdraw(d.t, d.lacks...)
	act()
	d.eventuallySays()
	for _, look := range looks {
		look()
	}
	restore()
}

// requireNoCR requires that nothing has begun for a node.
func (d *deprived) requireNoCR(name string) func() {
	return func() {
		d.t.Helper()
		require.Nil(d.t, d.cr(name))
	}
}

// recovered heals a node and waits until nothing is left of its remediation.
func (d *deprived) recovered(name string) {
	d.t.Helper()
	d.heal(name)
	d.eventuallyNoCR(name)
	d.eventuallyNoNodeLease(name)
	d.eventually("no entry of node "+name, func() bool { return d.entry(name) == nil })
}

// needsNode: the Node is read live before a CR is created.
func needsNode(d *deprived) {
	d.without(func() { d.fail("a") }, d.requireNoCR("a"))
	d.eventuallyCR("a")
	d.recovered("a")
}

// needsLease: there is no CR without a lease.
func needsLease(d *deprived) {
	d.without(func() { d.fail("a") }, d.requireNoCR("a"))
	d.eventuallyCR("a")
}

func needsRenewal(d *deprived) {
	var old = d.nodeLease("a")
	d.without(func() {
		old = d.patchNodeLeaseSpec("a", map[string]any{"renewTime": microTime(time.Now().Add(-time.Hour))})
	})
	d.eventuallyNodeLease("a", old)
}

// needsStatus: without it nothing is reported, also what another writer has left stays.
func needsStatus(d *deprived) {
	d.without(func() {
		d.writeForeignStatus()
		d.heal("a")
	})
	d.recovered("a")
	d.eventually("the status of others is gone", func() bool { return len(d.status().InFlightRemediations) == 0 })
	d.fail("a")
	d.eventuallyCR("a")
}

// needsBudgets: nothing begins while it is not known which budgets there are. They are looked at
// again when something happens to their CRD.
func needsBudgets(d *deprived) {
	d.createBudget(func(spec *v1alpha1.RemediationBudgetSpec) { spec.MaxConcurrent = new(intstr.FromInt32(0)) })
	d.fail("a")
	d.eventuallyHeldByBudget("a", d.name+": 0 of at most 0 nodes are under remediation")
	lacks := d.lacks[0]
	d.without(func() {
		d.touchCRD(v1alpha1.SchemeGroupVersion.WithResource(v1alpha1.BudgetPlural), lacks.verb)
	}, func() {
		d.eventuallyHeldByBudget("a", fmt.Sprintf("RemediationBudgets cannot be read: no permission to %s %s.%s", lacks.verb, lacks.resource, lacks.group))
		d.deleteBudget() // No watch shows that.
	})
	d.eventuallyCR("a")
	d.recovered("a")
}

func (d *deprived) deleteBudget() {
	d.t.Helper()
	require.NoError(d.t, d.nhc.RemediationV1alpha1().RemediationBudgets().Delete(d.t.Context(), d.name, metav1.DeleteOptions{}))
}

// unlimited is a budget that is counted, and refuses nothing.
func unlimited(spec *v1alpha1.RemediationBudgetSpec) {
	spec.MaxUnhealthy = new(intstr.FromString("100%"))
}

// needsBudgetStatus: without it nothing is reported about a budget.
func needsBudgetStatus(d *deprived) {
	d.createBudget(unlimited)
	observed := func() bool { return d.budget().Status.ObservedGeneration == d.budget().Generation }
	d.without(func() {
		d.updateBudget(func(spec *v1alpha1.RemediationBudgetSpec) { spec.Reason = "another" })
	}, func() { require.False(d.t, observed()) })
	d.eventually("the new spec was evaluated", observed)
	d.deleteBudget()
}

func needsRelease(d *deprived) {
	d.without(func() { d.heal("a") }, func() { require.NotNil(d.t, d.nodeLease("a")) })
	d.recovered("a")
}

func needsConfirmation(d *deprived) {
	d.without(func() { d.confirm("a", "") }, func() { require.True(d.t, d.confirmed("a")) })
	d.eventually("the confirmation is removed", func() bool { return !d.confirmed("a") })
}

// needsEvent: an event that is refused is lost, and no later one.
func needsEvent(d *deprived) {
	d.without(func() {
		d.fail("b")
		d.eventuallyCR("b")
	})
	d.recovered("b")
	d.requireEvents("Node", d.node("b"), "RemediationRemoved", 1)
}

// needsSeries: the second event of a kind changes the first one.
func needsSeries(d *deprived) {
	d.without(func() {
		d.fail("b")
		d.eventuallyCR("b")
		d.recovered("b")
	})
}

// needsReview: without it the controller cannot check a token, and no client reads the metrics.
func needsReview(d *deprived) {
	token := "Bearer " + d.createToken(d.t, "reader-"+d.lacks[0].resource, true)
	scrape := func() int {
		response, _ := d.cluster.get(d.t, d.controller, token)
		return response.StatusCode
	}
	d.without(func() { require.Equal(d.t, http.StatusInternalServerError, scrape()) })
	require.Equal(d.t, http.StatusOK, scrape())
}

// needsOwnReview: a kind is looked at again when something happens to its CRD.
func needsOwnReview(d *deprived) {
	d.without(func() { d.touchCRD(d.kind.templates, "1") })
	d.fail("a")
	d.eventuallyCR("a")
	d.recovered("a")
}

// needsEtcd: on OpenShift, etcd is asked about a control plane node.
func needsEtcd(d *deprived) {
	d.without(func() { d.fail("cp") }, d.requireNoCR("cp"))
	d.recovered("cp")
}
