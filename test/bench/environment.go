// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/test/deploy"
	"github.com/nhc-controller/nhc-controller/test/localkube"
	"github.com/nhc-controller/nhc-controller/test/meter"
	"github.com/nhc-controller/nhc-controller/test/remediator"
)

// The control is a ServiceAccount like the controller: the API server checks its
// token, its permissions and its fair share in the same way, and records what it does.
const (
	controlAccount = "bench-control"
	controlUser    = "system:serviceaccount:" + metav1.NamespaceDefault + ":" + controlAccount
)

// environment is a cluster of one size with everything that measuring needs.
type environment struct {
	options *options
	nodes   int   // Those that the NodeHealthCheck selects.
	limit   int64 // Of the controller's memory, by its Deployment, in bytes.
	random  *rand.Rand

	cluster    *localkube.ControlPlane
	controller *localkube.Process // Nil while it is stopped.
	starts     int

	admin   *clients // Plays the kubelets of failing nodes, and watches.
	kubelet *clients // Plays all other kubelets.
	tracker *tracker

	stopWatching context.CancelFunc
	watching     sync.WaitGroup
}

// newEnvironment starts a control plane and the controller, and creates the nodes. All is
// quiet when it returns.
func newEnvironment(ctx context.Context, o *options, nodes int) (e *environment, err error) {
	// Each change of a node is a copy of it, and they are kept for minutes.
	const quota = "ETCD_QUOTA_BACKEND_BYTES"
	if os.Getenv(quota) == "" {
		if err := os.Setenv(quota, "8589934592"); err != nil {
			return nil, err
		}
	}
	e = &environment{options: o, nodes: nodes, tracker: newTracker(), stopWatching: func() {}}
	e.cluster, err = localkube.Start(ctx, localkube.Options{AuditUsers: []string{deploy.User, controlUser}})
	if err != nil {
		return nil, err
	}
	if err := e.setUp(ctx); err != nil {
		return nil, errors.Join(err, e.stop())
	}
	return e, nil
}

// setUp brings everything into the cluster.
func (e *environment) setUp(ctx context.Context) error {
	var err error
	if e.admin, err = newClients(e.cluster.AdminConfig(), "bench"); err != nil {
		return err
	}
	if e.kubelet, err = newClients(e.cluster.AdminConfig(), "bench-kubelet"); err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{e.install, e.addControl, e.watch, e.createNodes, e.createMeasuredNHC, e.startController} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (e *environment) install(ctx context.Context) error {
	if err := deploy.Install(ctx, e.cluster); err != nil {
		return err
	}
	var err error
	if e.limit, err = deploy.MemoryLimit(ctx, e.cluster); err != nil {
		return err
	}
	if err := deploy.InstallKinds(ctx, e.cluster, deploy.Kinds{Manifest: remediator.Manifest, Group: remediator.Resource.Group}); err != nil {
		return err
	}
	_, err = e.cluster.KubectlInput(ctx, strings.NewReader(remediator.TemplateManifest), "apply", "-f", "-")
	return err
}

// addControl makes the ServiceAccount of the control, with all permissions.
func (e *environment) addControl(ctx context.Context) error {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: controlAccount}}
	if _, err := e.admin.kube.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Create(ctx, account, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating the ServiceAccount of the control: %w", err)
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: controlAccount},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: metav1.NamespaceDefault, Name: controlAccount}},
	}
	if _, err := e.admin.kube.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("permitting the control: %w", err)
	}
	return nil
}

// startController starts the controller, and returns when it has shown that it works
// and has nothing more to do.
func (e *environment) startController(ctx context.Context) error {
	if err := e.startProcess(ctx); err != nil {
		return err
	}
	if err := e.probe(ctx); err != nil {
		return fmt.Errorf("%w\nlast lines of the controller's log:\n%s", err, e.controller.LogTail())
	}
	return e.waitUntilIdle(ctx)
}

// startProcess starts the controller, and does not wait for it.
func (e *environment) startProcess(ctx context.Context) (err error) {
	e.starts++
	e.controller, err = deploy.Start(ctx, e.cluster, deploy.Controller{
		Name: fmt.Sprintf("controller-%d", e.starts), Executable: e.options.controller, Args: e.options.controllerArgs,
	})
	return err
}

// stopController ends the controller as a deployment would.
func (e *environment) stopController() {
	if e.controller != nil {
		e.controller.Stop()
		e.controller = nil
	}
}

// probe has a node fail and recover.
func (e *environment) probe(ctx context.Context) error {
	node := nodeName(0)
	if err := e.setReady(ctx, node, false); err != nil {
		return err
	}
	if err := e.tracker.waitFor(ctx, "the first remediation", func() bool { return e.tracker.listed[node] }); err != nil {
		return err
	}
	if err := e.setReady(ctx, node, true); err != nil {
		return err
	}
	return e.tracker.waitFor(ctx, "the end of the first remediation", e.tracker.allClean)
}

// waitUntilIdle waits until the controller has hardly used the CPU for some seconds: it writes
// events long after the actions. It does not wait for ever.
func (e *environment) waitUntilIdle(ctx context.Context) error {
	return waitUntilIdle(ctx, e.controller.Pid())
}

func waitUntilIdle(ctx context.Context, pid int) error {
	const step, enough, most = 500 * time.Millisecond, 6, 240
	quiet := 0
	last, err := meter.UsageOf(pid)
	for i := 0; err == nil && quiet < enough && i < most; i++ {
		if err := sleep(ctx, step); err != nil {
			return err
		}
		var now meter.Usage
		now, err = meter.UsageOf(pid)
		if now.CPU-last.CPU <= meter.ClockTick {
			quiet++
		} else {
			quiet = 0
		}
		last = now
	}
	return err
}

// setReady plays the kubelet of a node that fails or recovers now. The NodeHealthCheck does not wait for it.
func (e *environment) setReady(ctx context.Context, node string, ready bool) error {
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
	return e.setReadySince(ctx, node, status, time.Now())
}

func (e *environment) setReadySince(ctx context.Context, node string, status corev1.ConditionStatus, since time.Time) error {
	patch, err := readyPatch(status, time.Now(), since)
	if err != nil {
		return err
	}
	return e.patchStatus(ctx, e.admin, node, patch)
}

func (e *environment) stop() error {
	e.stopController()
	e.stopWatching()
	e.watching.Wait()
	return e.cluster.Stop()
}

func (e *environment) logf(format string, args ...any) {
	fmt.Printf("  %s "+format+"\n", append([]any{time.Now().Format(time.TimeOnly)}, args...)...)
}

// sleep waits for a while.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}
