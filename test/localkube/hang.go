// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package localkube

import (
	"fmt"
	"os"
	"sync"
	"syscall"
)

// HangAPIServer freezes the API server: it keeps its connections, and does nothing until
// goOn is called, which may be called more than once. It must go on before it is stopped.
func (c *ControlPlane) HangAPIServer() (goOn func(), err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return hang(c.apiServer)
}

// HangEtcd freezes etcd in the same way.
func (c *ControlPlane) HangEtcd() (goOn func(), err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return hang(c.etcd)
}

func hang(p *Process) (goOn func(), err error) {
	if p == nil {
		return nil, fmt.Errorf("freezing a component that is stopped: %w", os.ErrProcessDone)
	}
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		return nil, fmt.Errorf("freezing %s: %w", p.name, err)
	}
	return sync.OnceFunc(func() { _ = p.Signal(syscall.SIGCONT) }), nil // It may have been killed.
}
