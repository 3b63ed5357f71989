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

// world is a cluster of one size with all that is needed to measure in it.
type world struct {
	options *options
	nodes   int // Those that the NodeHealthCheck selects.
	random  *rand.Rand

	cluster    *localkube.ControlPlane
	controller *localkube.Process // Nil while it is stopped.
	starts     int

	admin   *clients // Plays the kubelets of failing nodes, and looks on.
	kubelet *clients // Plays all other kubelets.
	control *clients
	sight   *sight

	stopWatching context.CancelFunc
	watching     sync.WaitGroup
}

// newWorld starts a control plane and the controller, and creates the nodes. All is
// quiet when it returns.
func newWorld(ctx context.Context, o *options, nodes int) (w *world, err error) {
	// Each change of a node is a copy of it, and they are kept for minutes.
	const quota = "ETCD_QUOTA_BACKEND_BYTES"
	if os.Getenv(quota) == "" {
		if err := os.Setenv(quota, "8589934592"); err != nil {
			return nil, err
		}
	}
	w = &world{options: o, nodes: nodes, sight: newSight(), stopWatching: func() {}}
	w.cluster, err = localkube.Start(ctx, localkube.Options{AuditUsers: []string{deploy.User, controlUser}})
	if err != nil {
		return nil, err
	}
	if err := w.furnish(ctx); err != nil {
		return nil, errors.Join(err, w.stop())
	}
	return w, nil
}

// furnish brings everything into the cluster.
func (w *world) furnish(ctx context.Context) error {
	var err error
	if w.admin, err = newClients(w.cluster.AdminConfig(), "bench"); err != nil {
		return err
	}
	if w.kubelet, err = newClients(w.cluster.AdminConfig(), "bench-kubelet"); err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{w.install, w.addControl, w.watch, w.createNodes, w.createNHC, w.startController} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (w *world) install(ctx context.Context) error {
	if err := deploy.Install(ctx, w.cluster); err != nil {
		return err
	}
	if err := deploy.InstallKinds(ctx, w.cluster, deploy.Kinds{Manifest: remediator.Manifest, Group: remediator.Resource.Group}); err != nil {
		return err
	}
	_, err := w.cluster.KubectlInput(ctx, strings.NewReader(remediator.TemplateManifest), "apply", "-f", "-")
	return err
}

// addControl makes the ServiceAccount of the control, with all permissions.
func (w *world) addControl(ctx context.Context) error {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: controlAccount}}
	if _, err := w.admin.kube.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Create(ctx, account, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating the ServiceAccount of the control: %w", err)
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: controlAccount},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: metav1.NamespaceDefault, Name: controlAccount}},
	}
	if _, err := w.admin.kube.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("permitting the control: %w", err)
	}
	config, err := w.cluster.ServiceAccountConfig(ctx, metav1.NamespaceDefault, controlAccount)
	if err != nil {
		return err
	}
	w.control, err = newClients(config, controlAccount)
	return err
}

// startController starts the controller, and returns when it has shown that it works
// and has nothing more to do.
func (w *world) startController(ctx context.Context) error {
	w.starts++
	var err error
	w.controller, err = deploy.Start(ctx, w.cluster, deploy.Controller{
		Name: fmt.Sprintf("controller-%d", w.starts), Executable: w.options.controller, Args: w.options.controllerArgs,
	})
	if err != nil {
		return err
	}
	if err := w.probe(ctx); err != nil {
		return fmt.Errorf("%w\nlast lines of the controller's log:\n%s", err, w.controller.LogTail())
	}
	return w.settle(ctx)
}

// stopController ends the controller as a deployment would.
func (w *world) stopController() {
	if w.controller != nil {
		w.controller.Stop()
		w.controller = nil
	}
}

// probe has a node fail and recover.
func (w *world) probe(ctx context.Context) error {
	node := nodeName(0)
	if err := w.setReady(ctx, node, false, longAgo); err != nil {
		return err
	}
	if err := w.sight.await(ctx, "the first remediation", func() bool { return w.sight.listed[node] }); err != nil {
		return err
	}
	if err := w.setReady(ctx, node, true, 0); err != nil {
		return err
	}
	return w.sight.await(ctx, "the end of the first remediation", w.sight.allClean)
}

// settle waits until the controller has hardly used the CPU for some seconds: events
// are written long after what they tell of. It does not wait for ever.
func (w *world) settle(ctx context.Context) error {
	const step, enough, most = 500 * time.Millisecond, 6, 240
	quiet := 0
	last, err := meter.UsageOf(w.controller.Pid())
	for i := 0; err == nil && quiet < enough && i < most; i++ {
		if err := pause(ctx, step); err != nil {
			return err
		}
		var now meter.Usage
		now, err = meter.UsageOf(w.controller.Pid())
		if now.CPU-last.CPU <= meter.ClockTick {
			quiet++
		} else {
			quiet = 0
		}
		last = now
	}
	return err
}

// setReady plays the kubelet of a node whose Ready changes, since some time ago.
func (w *world) setReady(ctx context.Context, node string, ready bool, ago time.Duration) error {
	now := time.Now()
	patch, err := readyPatch(ready, now, now.Add(-ago))
	if err != nil {
		return err
	}
	return w.patchStatus(ctx, w.admin, node, patch)
}

func (w *world) stop() error {
	w.stopController()
	w.stopWatching()
	w.watching.Wait()
	return w.cluster.Stop()
}

func (w *world) logf(format string, args ...any) {
	fmt.Printf("  %s "+format+"\n", append([]any{time.Now().Format(time.TimeOnly)}, args...)...)
}

// pause waits for a while.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}
