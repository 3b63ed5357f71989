// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package localkube

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// Options says what differs between control planes. The zero value is the
// smallest one: an API server and the controllers that every test needs.
type Options struct {
	// NodeLifecycle runs the node-lifecycle controller, which overwrites the
	// conditions of nodes without heartbeats. Tests that patch conditions
	// themselves run without it.
	NodeLifecycle bool
	// NodeMonitorGracePeriod is how long that controller waits for a heartbeat
	// before it sets Ready=Unknown. It defaults to 20 seconds; with less, healthy
	// nodes flap on a slow machine.
	NodeMonitorGracePeriod time.Duration
	// Kubelets simulates the kubelets of the nodes with HeartbeatLabel.
	Kubelets bool
	// PodAdmission admits pods of a system-critical priority class only where a quota permits
	// it, as some platforms do, and runs the controllers of Deployments, ReplicaSets and
	// quotas. No pod runs: there is no scheduler and no kubelet.
	PodAdmission bool
	// OneProcessor has each component use one processor at a time, because there are many more
	// components than processors: they take a tenth less CPU.
	OneProcessor bool
	// AuditUsers are the users whose requests ControlPlane.Requests returns.
	AuditUsers []string
	// AuditResponses has Requests tell which object a write was answered with. The API
	// server then writes all answers to its audit log.
	AuditResponses bool
	// Network is where the control plane of real nodes is. Nil means loopback.
	Network *Network
	// Dir is the working directory, with the logs of all processes. It is made if
	// missing, and stays. Empty means a temporary directory that Stop removes.
	Dir string
	// Log receives a line per step. It may be nil.
	Log io.Writer
}

// ControlPlane is a running control plane. All methods may be called from any
// goroutine, but those that stop or start a component not at the same time.
type ControlPlane struct {
	opts       Options
	executable string // localkube, or full/localkube in a Network.
	leash      string
	kubectl    string
	dir        string
	socketDir  string // For the path of a socket, dir may be too long.
	identities identities

	choosePort         func() (int, error)
	port               int
	servingCertificate []byte
	audit              auditReader
	controllerManager  *Process
	stopKubelets       func() // Nil without Options.Kubelets.

	mu         sync.Mutex
	components []*Process // Those not expected to end, in the order of their start.
	others     []*Process // Those of StartProcess, in the order of their start.
	etcd       *Process   // Among the components, once it has been started.
	apiServer  *Process   // Among the components, nil if it is stopped on purpose.
	stop       func() error
}

// Start starts a control plane. It is ready for use when Start returns: the API
// server serves everything and the controllers work. If that fails, or ctx is
// done first, nothing is left, and the error has the last lines of the log of the
// component that failed.
//
// ctx limits the start only. The control plane ends with Stop, or with the
// process that started it, in whatever way that process ends.
func Start(ctx context.Context, opts Options) (*ControlPlane, error) {
	c := newControlPlane(opts)
	if err := c.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("starting a control plane: %w", err), c.Stop())
	}
	return c, nil
}

func newControlPlane(opts Options) *ControlPlane {
	if opts.NodeMonitorGracePeriod == 0 {
		opts.NodeMonitorGracePeriod = 20 * time.Second
	}
	if opts.Log == nil {
		opts.Log = io.Discard
	}
	c := &ControlPlane{opts: opts, identities: newIdentities(), choosePort: freePort}
	if network := opts.Network; network != nil {
		c.choosePort = func() (int, error) { return network.Port, nil }
		c.identities.nodes = network.identities()
	}
	c.stop = sync.OnceValue(c.stopAll)
	return c
}

func (c *ControlPlane) start(ctx context.Context) error {
	begin := time.Now()
	if err := c.prepare(); err != nil {
		return err
	}
	if err := c.startEtcd(ctx); err != nil {
		return err
	}
	if err := c.startFirstAPIServer(ctx); err != nil {
		return err
	}
	if err := WriteKubeconfig(c.AdminKubeconfig(), c.AdminConfig()); err != nil {
		return err
	}
	if err := c.startControllers(ctx); err != nil {
		return err
	}
	c.logf("Control plane is ready after %s, kubeconfig %s", time.Since(begin).Round(time.Millisecond), c.AdminKubeconfig())
	return nil
}

// prepare makes the directories and all the files that do not depend on the port.
func (c *ControlPlane) prepare() error {
	if err := c.findPrograms(); err != nil {
		return err
	}
	var err error
	if c.socketDir, err = os.MkdirTemp("", "localkube"); err != nil {
		return err
	}
	c.dir = c.socketDir
	if c.opts.Dir != "" {
		if c.dir, err = filepath.Abs(c.opts.Dir); err != nil {
			return err
		}
		if err := os.MkdirAll(c.dir, 0o700); err != nil {
			return err
		}
	}
	key, err := serviceAccountKey()
	if err != nil {
		return err
	}
	policy, err := auditPolicy(c.opts.AuditUsers, c.opts.AuditResponses)
	if err != nil {
		return err
	}
	return errors.Join(
		c.writeFile(serviceAccountKeyFile, key),
		c.writeFile(tokenFile, c.identities.tokenFile()),
		c.writeFile(auditPolicyFile, policy),
		c.writeFile(admissionFile, []byte(limitedPriorities)),
	)
}

func (c *ControlPlane) findPrograms() error {
	name := "localkube"
	if c.opts.Network != nil {
		name = "full/localkube" // With all controllers, and the scheduler.
	}
	for name, path := range map[string]*string{name: &c.executable, "leash": &c.leash, "kubectl": &c.kubectl} {
		var err error
		if *path, err = Binary(name); err != nil {
			return err
		}
	}
	return nil
}

// Dir returns the working directory, with the logs of all processes.
func (c *ControlPlane) Dir() string { return c.dir }

// StartProcess starts a process that ends with the control plane at the latest:
// the controller under test, for example.
func (c *ControlPlane) StartProcess(cmd Command) (*Process, error) {
	p, err := startProcess(c.leash, c.dir, cmd)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	// Those that have exited need not be remembered: failure tests start many.
	c.others = slices.DeleteFunc(c.others, func(p *Process) bool { return !p.running() })
	c.others = append(c.others, p)
	return p, nil
}

// Stop ends all processes and removes the working directory if it is a temporary
// one. The error reports components that had died before, which may be why a
// test fails. Further calls do nothing and return the same.
func (c *ControlPlane) Stop() error { return c.stop() }

func (c *ControlPlane) stopAll() error {
	c.mu.Lock()
	processes := c.others
	c.others = nil
	c.mu.Unlock()
	for _, p := range slices.Backward(processes) {
		p.Stop()
	}
	if c.stopKubelets != nil {
		c.stopKubelets()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var errs []error
	for _, p := range c.components {
		if !p.running() {
			errs = append(errs, fmt.Errorf("%s had exited with code %d: %s", p.name, p.exitCode, p.LogTail()))
		}
	}
	// The API server goes after its clients and before its etcd.
	for _, p := range slices.Backward(c.components) {
		if p != c.apiServer && p != c.etcd {
			p.Stop()
		}
	}
	for _, p := range []*Process{c.apiServer, c.etcd} {
		if p != nil {
			p.Stop()
		}
	}
	if c.socketDir != "" {
		errs = append(errs, os.RemoveAll(c.socketDir))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("stopping the control plane: %w", err)
	}
	return nil
}

func (c *ControlPlane) logf(format string, args ...any) {
	fmt.Fprintf(c.opts.Log, format+"\n", args...)
}
