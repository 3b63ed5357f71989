// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/test/deploy"
	"github.com/nhc-controller/nhc-controller/test/localkube"
	"github.com/nhc-controller/nhc-controller/test/referee"
	"github.com/nhc-controller/nhc-controller/test/rules"
)

// world is a test with its referee, its nodes and its NodeHealthChecks.
type world struct {
	*cluster
	t        *testing.T
	seed     uint64
	random   *rand.Rand
	referee  *referee.Referee
	staff    *staff
	begin    time.Time
	failures int // Of the load's own requests.
	// executable is that of the controllers, empty for the usual one, and env what is
	// added to the environment of those that are started from now on.
	executable string
	env        []string
}

// newWorld returns an empty world that a referee watches.
func newWorld(t *testing.T, seed uint64) *world {
	t.Helper()
	c := sharedCluster(t)
	require.NoError(t, c.createTemplates(t.Context()))
	w := &world{cluster: c, t: t, seed: seed, random: rand.New(rand.NewPCG(seed, 0)), begin: time.Now()}
	t.Logf("seed %d: to run it again, -faults.seed=%d", seed, seed)
	var err error
	w.referee, err = referee.Start(t.Context(), referee.Config{
		Client: c.AdminConfig(), Remediations: resources(remediationsOf), Templates: resources(templatesOf),
		LeaseNamespace: "medik8s-leases", Requests: w.requests, Log: t.Logf,
	})
	require.NoError(t, err)
	t.Cleanup(w.cleanUp)
	w.staff = newStaff(w)
	w.mark("referee and staff at work")
	return w
}

// requests returns those of the controllers of this test.
func (w *world) requests() ([]localkube.Request, error) {
	return w.RequestsSince(w.begin)
}

// cleanUp tells the figures, and removes everything.
func (w *world) cleanUp() {
	w.mark("cleaning up")
	w.staff.stop()
	w.referee.Stop()
	w.t.Logf("figures: %s", w.referee.Figures().JSON())
	total.add(w.t.Name(), w.referee.Figures())
	w.requireSight()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	nhcs := w.nhc.RemediationV1alpha1().NodeHealthChecks()
	list, err := nhcs.List(ctx, metav1.ListOptions{})
	require.NoError(w.t, err)
	for i := range list.Items {
		w.removeNHC(ctx, list.Items[i].Name)
	}
	require.NoError(w.t, w.kube.CoreV1().Nodes().DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}))
	require.NoError(w.t, w.kube.CoordinationV1().Leases("medik8s-leases").DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}))
	require.NoError(w.t, wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		left := 0
		for _, kind := range kindNames {
			client := w.dynamic.Resource(remediationsOf(kind)).Namespace(namespace)
			crs, err := client.List(ctx, metav1.ListOptions{})
			if err != nil {
				return false, err
			}
			for _, cr := range crs.Items {
				left++
				_, _ = client.Patch(ctx, cr.GetName(), types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
				_ = client.Delete(ctx, cr.GetName(), metav1.DeleteOptions{})
			}
		}
		return left == 0, nil
	}), "removing the CRs")
}

// removeNHC deletes a NodeHealthCheck, even during a remediation.
func (w *world) removeNHC(ctx context.Context, name string) {
	nhcs := w.nhc.RemediationV1alpha1().NodeHealthChecks()
	w.count(patchMetadata(map[string]any{"annotations": map[string]any{v1alpha1.AnnotationAllowDelete: ""}}, func(patch []byte) error {
		_, err := nhcs.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: loader})
		return err
	}))
	w.count(nhcs.Delete(ctx, name, metav1.DeleteOptions{}))
}

func patchMetadata(metadata map[string]any, send func([]byte) error) error {
	patch, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return err
	}
	return send(patch)
}

// count counts a failure of a request of the load, of which there are some while the API
// server is in trouble.
func (w *world) count(err error) {
	if err != nil {
		w.failures++
	}
}

// start starts a controller that reaches the API server through a proxy, nil for none.
func (w *world) start(name string, proxy *Proxy, args ...string) *localkube.Process {
	w.t.Helper()
	process, err := w.launch(name, proxy, args...)
	require.NoError(w.t, err)
	return process
}

// launch is start for any goroutine.
func (w *world) launch(name string, proxy *Proxy, args ...string) (*localkube.Process, error) {
	controller := deploy.Controller{Name: name, Executable: w.executable, Args: append([]string{"-v=4"}, args...), Env: w.env}
	if proxy != nil {
		controller.Through = proxy.Config
	}
	process, err := deploy.Start(w.t.Context(), w.ControlPlane, controller)
	if err != nil {
		return nil, err
	}
	w.t.Cleanup(func() {
		if err := process.Kill(); err != nil { // How it shuts down is a matter of other tests.
			w.t.Error(err)
		}
		for _, fault := range deploy.LogFaults(process) {
			w.t.Error(fault)
		}
		if w.t.Failed() {
			w.t.Logf("the last of the log of %s:\n%s", name, process.LogTail())
		}
	})
	return process, nil
}

// startAlone starts the only controller of a test.
func (w *world) startAlone(proxy *Proxy) *localkube.Process {
	w.t.Helper()
	return w.start(w.processName("alone"), proxy, "--leader-elect=false")
}

// processName returns a name that no other process has: it is that of a log.
func (w *world) processName(name string) string {
	return strings.ToLower(strings.NewReplacer("/", "-", "_", "-").Replace(w.t.Name())) + "-" + name
}

// startProxy starts a proxy that ends with the test.
func (w *world) startProxy(name string) *Proxy {
	w.t.Helper()
	proxy, err := StartProxy(w.AdminConfig(), name, w.seed)
	require.NoError(w.t, err)
	w.t.Cleanup(func() {
		total.addInjected(w.t.Name(), proxy.Faults())
		require.NoError(w.t, proxy.Stop())
	})
	return proxy
}

func (w *world) eventually(what string, holds func() bool) {
	w.t.Helper()
	err := wait.PollUntilContextTimeout(w.t.Context(), 50*time.Millisecond, patience, true, func(context.Context) (bool, error) { return holds(), nil })
	if err != nil {
		w.t.Fatalf("did not come: %s", what)
	}
}

// requireOrder requires that no rule was broken until now.
func (w *world) requireOrder() {
	w.t.Helper()
	require.NoError(w.t, w.referee.Judge(w.t.Context()))
	w.requireNone(w.referee.Violations())
}

func (w *world) requireNone(violations []rules.Violation) {
	w.t.Helper()
	const shown = 5
	for i, violation := range violations {
		if i == shown {
			w.t.Errorf("and %d more", len(violations)-shown)
			break
		}
		w.t.Errorf("seed %d: %s", w.seed, violation)
	}
	if len(violations) > 0 {
		w.t.FailNow()
	}
}

// requireSettled requires that all is as it has to be once nothing goes wrong any more:
// first with the NodeHealthChecks as they are, with closed gates, pauses, delays and
// storms, and without any change that wakes the controller; then with those that let
// everything begin; then, when all nodes are healthy, that nothing is left, and that
// nothing is written any more.
func (w *world) requireSettled() {
	w.t.Helper()
	w.mark("as it is")
	w.requireNone(w.referee.Settled(w.t.Context(), patience))
	w.requireOrder()
	w.mark("calm")
	w.calm()
	w.requireNone(w.referee.Settled(w.t.Context(), patience))
	w.requireOrder()
	w.mark("healing")
	w.healAll()
	w.requireNone(w.referee.Settled(w.t.Context(), patience))
	w.awaitStorms()
	w.mark("silence")
	writes, err := w.referee.Silent(w.t.Context(), lasting(500*time.Millisecond, 5*time.Second))
	require.NoError(w.t, err)
	require.Empty(w.t, writes, "P3: nothing has changed")
	w.requireOrder()
}

// awaitStorms waits for the cooldowns of all storms: their end is written without any change.
func (w *world) awaitStorms() {
	w.t.Helper()
	w.eventually("the storms are over", func() bool {
		list, err := w.nhc.RemediationV1alpha1().NodeHealthChecks().List(w.t.Context(), metav1.ListOptions{})
		return err == nil && !slices.ContainsFunc(list.Items, func(nhc v1alpha1.NodeHealthCheck) bool {
			return meta.IsStatusConditionTrue(nhc.Status.Conditions, v1alpha1.ConditionStormActive)
		})
	})
}

// requireSight requires that little remained unjudged: each fault of the API server or of
// a kind may hide some changes.
func (w *world) requireSight() {
	w.t.Helper()
	figures := w.referee.Figures()
	if blind := figures.BlindSpots(); blind > 10+figures.Events/20 {
		w.t.Errorf("%d of %d changes could not be judged: %s", blind, figures.Events, figures.JSON())
	}
}

// mark tells in the log how far the test has come.
func (w *world) mark(what string) {
	w.referee.Remark("%s", what)
	w.t.Logf("%s after %s", what, time.Since(w.begin).Round(100*time.Millisecond))
}

// requireSeen requires that the referee has seen enough for its silence to mean anything.
func (w *world) requireSeen(creations, deletions int) {
	w.t.Helper()
	figures := w.referee.Figures()
	require.GreaterOrEqual(w.t, figures.Creations, creations, "CRs created: %s", figures.JSON())
	require.GreaterOrEqual(w.t, figures.Deletions, deletions, "CRs deleted: %s", figures.JSON())
	w.t.Logf("%d requests of the load failed", w.failures)
}
