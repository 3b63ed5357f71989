// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package localkube

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"k8s.io/client-go/rest"
)

const loopback = "127.0.0.1"

// limitedPriorities is the configuration of admission with Options.PodAdmission.
const limitedPriorities = `
apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
- name: ResourceQuota
  configuration:
    apiVersion: apiserver.config.k8s.io/v1
    kind: ResourceQuotaConfiguration
    limitedResources:
    - resource: pods
      matchScopes:
      - scopeName: PriorityClass
        operator: In
        values: [system-node-critical, system-cluster-critical]
`

// startFirstAPIServer finds a port for the API server and starts it. Another
// process may take a port between its choice and its use; then it takes another.
func (c *ControlPlane) startFirstAPIServer(ctx context.Context) error {
	const attempts = 5
	for attempt := 1; ; attempt++ {
		var err error
		if c.port, err = c.choosePort(); err != nil {
			return err
		}
		err = c.StartAPIServer(ctx)
		if err == nil || attempt == attempts || !strings.Contains(err.Error(), syscall.EADDRINUSE.Error()) {
			return err
		}
	}
}

// freePort returns a port outside of the ranges from which kernels choose, so that
// no outgoing connection takes it while the API server is down.
func freePort() (int, error) {
	var err error
	for range 100 {
		port := 10000 + rand.IntN(20000)
		var listener net.Listener
		if listener, err = net.Listen("tcp", net.JoinHostPort(loopback, strconv.Itoa(port))); err == nil {
			return port, listener.Close()
		}
	}
	return 0, fmt.Errorf("finding a free port: %w", err)
}

// StartAPIServer starts the API server that StopAPIServer has stopped, on the same
// port and with the same data, and returns when it is ready.
func (c *ControlPlane) StartAPIServer(ctx context.Context) error {
	err := c.startAPIServer(ctx)
	if err != nil && strings.Contains(err.Error(), "PostStartHook") { // It gives up after a minute: a kubelet would restart it.
		err = c.startAPIServer(ctx)
	}
	return err
}

func (c *ControlPlane) startAPIServer(ctx context.Context) error {
	args := []string{
		"--etcd-servers=unix://" + c.socket(),
		"--bind-address=" + loopback,
		"--secure-port=" + strconv.Itoa(c.port),
		"--cert-dir=" + filepath.Join(c.dir, certificateDir),
		// The Service called kubernetes may not have an endpoint on loopback.
		"--advertise-address=" + loopback,
		"--endpoint-reconciler-type=none",
		"--service-cluster-ip-range=10.0.0.0/24",
		"--authorization-mode=RBAC",
		"--token-auth-file=" + filepath.Join(c.dir, tokenFile),
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-signing-key-file=" + filepath.Join(c.dir, serviceAccountKeyFile),
		"--service-account-key-file=" + filepath.Join(c.dir, serviceAccountKeyFile),
		// Without it watches are not told to end, and hold up the shutdown for a minute.
		"--shutdown-watch-termination-grace-period=1s",
		"--profiling=false",
	}
	if c.opts.Network != nil {
		args = append(args, c.opts.Network.apiServerArgs()...) // The later flag counts.
	}
	if c.opts.PodAdmission {
		args = append(args, "--admission-control-config-file="+filepath.Join(c.dir, admissionFile))
	}
	if len(c.opts.AuditUsers) > 0 {
		args = append(args,
			"--audit-policy-file="+filepath.Join(c.dir, auditPolicyFile),
			"--audit-log-path="+filepath.Join(c.dir, auditLog),
			"--audit-log-maxsize=0", // Never rotated: Requests reads one file.
		)
	}
	p, err := c.startComponent(apiServerName, args...)
	if err != nil {
		return err
	}
	if err := c.waitFor(ctx, p, "/readyz", c.checkReady); err != nil {
		c.stopComponent(p)
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.apiServer = p
	return nil
}

// checkReady returns nil if this control plane's own API server is ready: no
// other has its serving certificate.
func (c *ControlPlane) checkReady(ctx context.Context) error {
	certificate, err := os.ReadFile(filepath.Join(c.dir, certificateDir, certificateFile))
	if err != nil {
		return err
	}
	config := c.AdminConfig()
	config.CAData = certificate
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, config.Host+"/readyz", http.NoBody)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return errors.New(response.Status)
	}
	if c.servingCertificate == nil { // Later it is the same, and others may read it.
		c.servingCertificate = certificate
	}
	return nil
}

// StopAPIServer stops the API server, for a test of an outage, and returns when
// its port is closed. Everything else keeps running.
func (c *ControlPlane) StopAPIServer() error {
	c.mu.Lock()
	p := c.apiServer
	c.apiServer = nil
	c.mu.Unlock()
	if p == nil {
		return errors.New("the API server is not running")
	}
	c.stopComponent(p)
	return nil
}

// RestartAPIServer stops and starts the API server.
func (c *ControlPlane) RestartAPIServer(ctx context.Context) error {
	if err := c.StopAPIServer(); err != nil {
		return err
	}
	return c.StartAPIServer(ctx)
}
