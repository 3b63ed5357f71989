// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
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
	"github.com/nhc-controller/nhc-controller/test/machineset"
	"github.com/nhc-controller/nhc-controller/test/patience"
	"github.com/nhc-controller/nhc-controller/test/referee"
	"github.com/nhc-controller/nhc-controller/test/rules"
)

// environment is a test with its referee, its nodes and its NodeHealthChecks.
type environment struct {
	*cluster
	t           *testing.T
	seed        uint64
	random      *rand.Rand
	referee     *referee.Referee
	remediators *fakeRemediators
	// machines are those of each API, nil if there are none.
	machines []*machineset.Machines
	begin    time.Time
	failures int // Of the load's own requests.
	// executable is that of the controllers, empty for the usual one. env is added to the
	// environment of controllers that are started from now on.
	executable string
	env        []string

	mu sync.Mutex
	// logs are those of the controllers that were started, and the beginnings of their user agents.
	logs map[string]string
}

// newEnvironment returns an empty environment that a referee watches.
func newEnvironment(t *testing.T, seed uint64) *environment {
	t.Helper()
	c := sharedCluster(t)
	require.NoError(t, c.createTemplates(t.Context()))
	e := &environment{cluster: c, t: t, seed: seed, random: rand.New(rand.NewPCG(seed, 0)), begin: time.Now(), logs: map[string]string{}}
	t.Logf("seed %d: to run it again, -faults.seed=%d", seed, seed)
	var err error
	e.referee, err = referee.Start(t.Context(), referee.Config{
		Client: c.AdminConfig(), Remediations: resources(remediationsOf), Templates: resources(templatesOf),
		LeaseNamespace: "medik8s-leases", Machines: machineConfig(), Requests: e.requests, LoggedActions: e.loggedActions, Log: t.Logf, Tolerance: tolerance(),
	})
	require.NoError(t, err)
	t.Cleanup(e.cleanUp)
	e.remediators = newFakeRemediators(e)
	e.mark("referee and remediators at work")
	return e
}

// requests returns those of the controllers of this test.
func (e *environment) requests() ([]localkube.Request, error) {
	return e.RequestsSince(e.begin)
}

// loggedActions returns what the controllers of this test have logged.
func (e *environment) loggedActions() (all []rules.LoggedAction, _ error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for path, client := range e.logs {
		actions, err := referee.ReadLog(path, client)
		if err != nil {
			return nil, err
		}
		all = append(all, actions...)
	}
	return all, nil
}

// cleanUp tells the figures, and removes everything.
func (e *environment) cleanUp() {
	e.mark("cleaning up")
	e.remediators.stop()
	e.referee.Stop()
	e.t.Logf("figures: %s", e.referee.Figures().JSON())
	e.requireJudged()
	ctx, cancel := context.WithTimeout(context.Background(), patience.Limit)
	defer cancel()
	nhcs := e.nhc.RemediationV1alpha1().NodeHealthChecks()
	list, err := nhcs.List(ctx, metav1.ListOptions{})
	require.NoError(e.t, err)
	for i := range list.Items {
		e.removeNHC(ctx, list.Items[i].Name)
	}
	e.removeMachines(ctx)
	require.NoError(e.t, e.kube.CoreV1().Nodes().DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}))
	require.NoError(e.t, e.kube.CoordinationV1().Leases("medik8s-leases").DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}))
	require.NoError(e.t, wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		left := 0
		for _, kind := range kindNames {
			client := e.dynamic.Resource(remediationsOf(kind)).Namespace(namespace)
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
func (e *environment) removeNHC(ctx context.Context, name string) {
	nhcs := e.nhc.RemediationV1alpha1().NodeHealthChecks()
	e.count(patchMetadata(map[string]any{"annotations": map[string]any{v1alpha1.AnnotationAllowDelete: ""}}, func(patch []byte) error {
		_, err := nhcs.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: loader})
		return err
	}))
	e.count(nhcs.Delete(ctx, name, metav1.DeleteOptions{}))
}

func patchMetadata(metadata map[string]any, send func([]byte) error) error {
	patch, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return err
	}
	return send(patch)
}

// count counts a failed request of the load. Some requests fail while the API server is in
// fault.
func (e *environment) count(err error) {
	if err != nil {
		e.failures++
	}
}

// start starts a controller that reaches the API server through a proxy, nil for none.
func (e *environment) start(name string, proxy *Proxy, args ...string) *localkube.Process {
	e.t.Helper()
	process, err := e.launch(name, proxy, args...)
	require.NoError(e.t, err)
	return process
}

// launch is start for any goroutine.
func (e *environment) launch(name string, proxy *Proxy, args ...string) (*localkube.Process, error) {
	controller := deploy.Controller{Name: name, Executable: e.executable, Args: append([]string{"-v=4"}, args...), Env: e.env}
	client := "nhc-controller"
	if proxy != nil {
		controller.Through, client = proxy.Config, proxy.name
	}
	if e.referee != nil { // There is none yet where one controller outlives many environments.
		e.referee.Started()
	}
	process, err := deploy.Start(e.t.Context(), e.ControlPlane, controller)
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	e.logs[process.LogPath()] = client
	e.mu.Unlock()
	e.t.Cleanup(func() {
		if err := process.Kill(); err != nil { // How it shuts down is a matter of other tests.
			e.t.Error(err)
		}
		for _, fault := range deploy.LogFaults(process) {
			e.t.Error(fault)
		}
		if e.t.Failed() {
			e.t.Logf("the last of the log of %s:\n%s", name, process.LogTail())
		}
	})
	return process, nil
}

// startAlone starts the only controller of a test.
func (e *environment) startAlone(proxy *Proxy) *localkube.Process {
	e.t.Helper()
	return e.start(e.processName("alone"), proxy, "--leader-elect=false")
}

// processName returns a name that no other process has: it is that of a log.
func (e *environment) processName(name string) string {
	return strings.ToLower(strings.NewReplacer("/", "-", "_", "-").Replace(e.t.Name())) + "-" + name
}

// startProxy starts a proxy that ends with the test.
func (e *environment) startProxy(name string) *Proxy {
	e.t.Helper()
	proxy, err := StartProxy(e.AdminConfig(), name, e.seed)
	require.NoError(e.t, err)
	e.t.Cleanup(func() { require.NoError(e.t, proxy.Stop()) })
	return proxy
}

// requireOrder requires that no rule was broken until now.
func (e *environment) requireOrder() {
	e.t.Helper()
	require.NoError(e.t, e.referee.Judge(e.t.Context()))
	e.requireNone(e.referee.Violations())
}

func (e *environment) requireNone(violations []rules.Violation) {
	e.t.Helper()
	const shown = 5
	for i, violation := range violations {
		if i == shown {
			e.t.Errorf("and %d more", len(violations)-shown)
			break
		}
		e.t.Errorf("seed %d: %s", e.seed, violation)
	}
	if len(violations) > 0 {
		e.t.FailNow()
	}
}

// requireSettled requires that all is as it has to be once nothing goes wrong any more:
// first with the NodeHealthChecks as they are, with closed gates, pauses, delays and
// storms, and without any change that wakes the controller; then with those that let
// everything begin; then, when all nodes are healthy, that nothing is left, and that
// nothing is written any more.
func (e *environment) requireSettled() {
	e.t.Helper()
	e.mark("as it is")
	e.requireNone(e.referee.Settled(e.t.Context(), patience.Limit))
	e.requireOrder()
	e.mark("calm")
	e.calm()
	e.requireNone(e.referee.Settled(e.t.Context(), patience.Limit))
	e.requireOrder()
	e.mark("healing")
	e.healAll()
	e.requireNone(e.referee.Settled(e.t.Context(), patience.Limit))
	e.awaitStorms()
	if e.machines != nil {
		time.Sleep(2 * time.Second) // The status of a budget is written once per second (B5.2), and the judge does not know all that it counts.
	}
	e.mark("silence")
	writes, err := e.referee.Silent(e.t.Context(), lasting(500*time.Millisecond, 5*time.Second))
	require.NoError(e.t, err)
	require.Empty(e.t, writes, "P3: nothing has changed")
	e.requireOrder()
}

// awaitStorms waits for the cooldowns of all storms: their end is written without any change.
func (e *environment) awaitStorms() {
	e.t.Helper()
	patience.Eventually(e.t, "the storms are over", func() bool {
		list, err := e.nhc.RemediationV1alpha1().NodeHealthChecks().List(e.t.Context(), metav1.ListOptions{})
		return err == nil && !slices.ContainsFunc(list.Items, func(nhc v1alpha1.NodeHealthCheck) bool {
			return meta.IsStatusConditionTrue(nhc.Status.Conditions, v1alpha1.ConditionStormActive)
		})
	})
}

// requireJudged requires that little remained unjudged: each fault of the API server or of
// a kind may hide some changes.
func (e *environment) requireJudged() {
	e.t.Helper()
	if *byOrder { // All may be excused that depends on time.
		return
	}
	figures := e.referee.Figures()
	if blind := figures.BlindSpots(); blind > 10+figures.Events/20 {
		e.t.Errorf("%d of %d changes could not be judged: %s", blind, figures.Events, figures.JSON())
	}
}

// mark tells in the log how far the test has come.
func (e *environment) mark(what string) {
	e.referee.Remark("%s", what)
	e.t.Logf("%s after %s", what, time.Since(e.begin).Round(100*time.Millisecond))
}

// requireSeen requires that the referee has seen enough for its silence to mean anything.
func (e *environment) requireSeen(creations, deletions int) {
	e.t.Helper()
	figures := e.referee.Figures()
	require.GreaterOrEqual(e.t, figures.Creations, creations, "CRs created: %s", figures.JSON())
	require.GreaterOrEqual(e.t, figures.Deletions, deletions, "CRs deleted: %s", figures.JSON())
	require.NotZero(e.t, figures.Versioned, "writes judged by a version: %s", figures.JSON())
	e.t.Logf("%d requests of the load failed", e.failures)
}
