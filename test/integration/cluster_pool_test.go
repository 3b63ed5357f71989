// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/metadata"

	"github.com/nhc-controller/nhc-controller/test/deploy"
	"github.com/nhc-controller/nhc-controller/test/localkube"
	"github.com/nhc-controller/nhc-controller/test/patience"
)

// clusters bounds the clusters besides the shared one. Each takes up to a gigabyte of memory.
var clusters = flag.Int("clusters", 5, "the number of clusters for tests that need one for themselves")

// exclusive are the clusters of tests that need a controller of their own, or that do
// something to the cluster that others must not notice.
var exclusive pool

// pool has clusters that one test at a time uses. Its methods may be called from any
// goroutine.
type pool struct {
	permits chan struct{} // One is taken for each cluster in use.

	mu   sync.Mutex
	idle []*member
}

// member is a cluster of a pool, and its state when it was new.
type member struct {
	*cluster
	metadata metadata.Interface
	initial  snapshot
}

// exclusiveCluster returns a cluster without a controller that no other test uses until
// the end of this one. It is as good as new, except the audit log and the
// namespaces of scenarios.
func exclusiveCluster(t *testing.T) *cluster {
	t.Helper()
	m, err := exclusive.take(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() {
		if err := exclusive.put(context.WithoutCancel(t.Context()), m); err != nil {
			t.Errorf("the cluster cannot be used again: %v", err)
		}
	})
	used := *m.cluster
	used.begin = time.Now()
	return &used
}

// take waits for a cluster that is not in use.
func (p *pool) take(ctx context.Context) (*member, error) {
	select {
	case p.permits <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	p.mu.Lock()
	if last := len(p.idle) - 1; last >= 0 {
		m := p.idle[last]
		p.idle = p.idle[:last]
		p.mu.Unlock()
		return m, nil
	}
	p.mu.Unlock()
	m, err := newMember(ctx)
	if err != nil {
		<-p.permits
	}
	return m, err
}

func newMember(ctx context.Context) (*member, error) {
	c, err := startCluster(ctx, localkube.Options{AuditUsers: []string{deploy.User}})
	if err != nil {
		return nil, err
	}
	m := &member{cluster: c}
	if m.metadata, err = metadata.NewForConfig(c.AdminConfig()); err == nil {
		m.initial, err = m.snapshot(ctx, nil, nil)
	}
	if err != nil {
		return nil, errors.Join(err, c.stop())
	}
	return m, nil
}

// put takes a cluster back. One that cannot be reset is stopped.
func (p *pool) put(ctx context.Context, m *member) error {
	defer func() { <-p.permits }()
	ctx, cancel := context.WithTimeout(ctx, 2*patience.Limit)
	defer cancel()
	if err := m.reset(ctx); err != nil {
		return errors.Join(fmt.Errorf("resetting the cluster: %w", err), m.stop())
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.idle = append(p.idle, m)
	return nil
}

// stop stops all clusters, at the end of all tests.
func (p *pool) stop() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var errs []error
	for _, m := range p.idle {
		errs = append(errs, m.stop())
	}
	return errors.Join(errs...)
}
