// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	componentbaseconfig "k8s.io/component-base/config"
	"k8s.io/klog/v2"
)

// errLeaseLost is returned when another process may be the leader.
var errLeaseLost = errors.New("lost the leader lease")

// lead waits for the leader lease, calls run while it holds it, and returns the result of
// run. When ctx is done, run has to finish its work. Only then the lease is released, so
// that the next leader never overlaps with this one. When the lease is lost, the context
// of run ends, run must stop at once, and the error wraps errLeaseLost.
func lead(ctx context.Context, lock resourcelock.Interface, config *componentbaseconfig.LeaderElectionConfiguration, watchdog *leaderelection.HealthzAdaptor, run func(context.Context) error) error {
	// The lease ends after the work, not with ctx.
	leaseCtx, release := context.WithCancel(context.WithoutCancel(ctx))
	defer release()

	logger := klog.FromContext(ctx)
	var leading atomic.Bool
	stopWaiting := context.AfterFunc(ctx, func() {
		if !leading.Load() {
			release() // Still a candidate: there is nothing to finish.
		}
	})
	defer stopWaiting()

	finished := make(chan error, 1)
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Name:            config.ResourceName,
		Lock:            lock,
		LeaseDuration:   config.LeaseDuration.Duration,
		RenewDeadline:   config.RenewDeadline.Duration,
		RetryPeriod:     config.RetryPeriod.Duration,
		ReleaseOnCancel: true,
		WatchDog:        watchdog,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(held context.Context) {
				leading.Store(true)
				logger.Info("Became leader", "lock", lock.Describe(), "identity", lock.Identity())
				defer release()
				finished <- run(held)
			},
			OnStoppedLeading: func() { // Also if this process has never led.
				if leading.Load() {
					logger.Info("Stopped leading", "lock", lock.Describe(), "identity", lock.Identity())
				}
			},
		},
	})
	if err != nil {
		return fmt.Errorf("configuring leader election: %w", err)
	}
	watchdog.SetLeaderElection(elector)
	elector.Run(leaseCtx)
	if ctx.Err() != nil && !leading.Load() {
		return nil
	}
	err = <-finished
	if err == nil && ctx.Err() == nil {
		return fmt.Errorf("%w %s", errLeaseLost, lock.Describe())
	}
	return err
}
