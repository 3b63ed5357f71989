// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// loadResult is what the kubelets of a cluster without news have written.
type loadResult struct {
	Seconds            float64 `json:"seconds"`
	LeasesPerSecond    float64 `json:"leasesPerSecond"`
	HeartbeatPerSecond float64 `json:"heartbeatsPerSecond"`
	Failed             int     `json:"failed,omitempty"`
}

func (l loadResult) events() float64 { return l.Seconds * (l.LeasesPerSecond + l.HeartbeatPerSecond) }

// load plays the kubelets of all nodes.
type load struct {
	e                  *environment
	leases             []renewal
	renewed, heartbeat atomic.Int64
	errors             errorCount
}

// renewal is the lease of a kubelet.
type renewal struct {
	mu    sync.Mutex
	lease *coordinationv1.Lease // As it was written last.
}

// startLoad begins with the rates of the options. stop ends it, and returns what the
// machine was able to do.
func (e *environment) startLoad(ctx context.Context) (stop func() (loadResult, error)) {
	l := &load{e: e, leases: make([]renewal, e.nodes)}
	ctx, cancel := context.WithCancel(ctx)
	begin := time.Now()
	var wg sync.WaitGroup
	wg.Go(func() { atRate(ctx, e.options.leaseRate, 16, l.renew) })
	wg.Go(func() { atRate(ctx, e.options.heartbeatRate, 16, l.beat) })
	return func() (loadResult, error) {
		took := time.Since(begin).Seconds()
		r := loadResult{Seconds: took, LeasesPerSecond: float64(l.renewed.Load()) / took, HeartbeatPerSecond: float64(l.heartbeat.Load()) / took}
		cancel()
		wg.Wait()
		failed, err := l.errors.failure()
		r.Failed = failed
		if failed > 0 && float64(failed) > 0.01*r.events() {
			return r, fmt.Errorf("playing kubelets: %d requests failed, the first: %w", failed, err)
		}
		return r, nil
	}
}

// renew renews the lease of a node as its kubelet does: on top of its last renewal.
func (l *load) renew(ctx context.Context, i int) {
	r := &l.leases[i%len(l.leases)]
	r.mu.Lock()
	defer r.mu.Unlock()
	leases := l.e.kubelet.kube.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	var err error
	if r.lease == nil {
		if r.lease, err = leases.Get(ctx, nodeName(i%len(l.leases)), metav1.GetOptions{}); err != nil {
			r.lease = nil
			l.errors.add(ctx, err)
			return
		}
	}
	r.lease.Spec.RenewTime = new(metav1.NowMicro())
	if r.lease, err = leases.Update(ctx, r.lease, metav1.UpdateOptions{}); err != nil {
		r.lease = nil
		l.errors.add(ctx, err)
		return
	}
	l.renewed.Add(1)
}

func (l *load) beat(ctx context.Context, i int) {
	patch, err := heartbeatPatch(time.Now())
	if err == nil {
		err = l.e.patchStatus(ctx, l.e.kubelet, nodeName(i%l.e.nodes), patch)
	}
	if err != nil {
		l.errors.add(ctx, err)
		return
	}
	l.heartbeat.Add(1)
}
