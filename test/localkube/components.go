// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package localkube

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	etcdName              = "etcd"
	apiServerName         = "kube-apiserver"
	controllerManagerName = "kube-controller-manager"
	schedulerName         = "kube-scheduler"

	// Files in the working directory.
	serviceAccountKeyFile = "service-account.key"
	tokenFile             = "tokens.csv"
	auditPolicyFile       = "audit-policy.json"
	auditLog              = "audit.log"
	admissionFile         = "admission.yaml"
	certificateDir        = "certificates"
	certificateFile       = "apiserver.crt" // In certificateDir.

	// startTimeout is long enough for a busy machine. A component that cannot start
	// exits, and is noticed at once.
	startTimeout = 10 * time.Minute
	pollInterval = 50 * time.Millisecond

	// componentGrace is enough for an orderly shutdown. When the test has died, all
	// components get SIGTERM at once, and the API server without etcd takes all of it.
	componentGrace = 5 * time.Second

	// moreMemory is not what tests are short of: a fifth less CPU.
	moreMemory = "GOGC=600"
)

// startComponent starts a component, which is part of the localkube executable.
func (c *ControlPlane) startComponent(name string, args ...string) (*Process, error) {
	command := append([]string{c.executable, name}, args...)
	if c.opts.Network != nil {
		command = append([]string{"nsenter", "--net=" + c.opts.Network.Namespace, "--"}, command...)
	}
	cmd := Command{
		Name: name, Path: command[0], Args: command[1:], Grace: componentGrace,
		Env: []string{moreMemory},
	}
	if c.opts.OneProcessor {
		cmd.Env = append(cmd.Env, "GOMAXPROCS=1")
	}
	if name == etcdName {
		// It has most of the files, and must not leave them behind when a test is killed.
		cmd.remove = c.socketDir
	}
	c.logf("Starting %s", cmd.Name)
	p, err := startProcess(c.leash, c.dir, cmd)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.components = append(c.components, p)
	return p, nil
}

// stopComponent stops a component on purpose.
func (c *ControlPlane) stopComponent(p *Process) {
	p.Stop()
	c.forget(p)
}

// forget makes it no fault of a component that it has ended.
func (c *ControlPlane) forget(p *Process) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.components = slices.DeleteFunc(c.components, func(other *Process) bool { return other == p })
}

// waitFor returns when check of a component does not fail any more.
func (c *ControlPlane) waitFor(ctx context.Context, p *Process, what string, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	// A check must not hang on another process that has the port instead of p.
	checkCtx, cancelCheck := context.WithCancel(ctx)
	defer cancelCheck()
	go func() {
		select {
		case <-p.exited:
			cancelCheck()
		case <-checkCtx.Done():
		}
	}()
	var last error
	err := wait.PollUntilContextCancel(ctx, pollInterval, true, func(context.Context) (bool, error) {
		if !p.running() {
			return false, fmt.Errorf("it exited with code %d", p.exitCode)
		}
		last = check(checkCtx)
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for %s of %s: %w\n%s", what, p.name, errors.Join(err, last), p.LogTail())
	}
	return nil
}
