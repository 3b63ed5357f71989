// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/test/deploy"
)

// termination is how a controller ends that gets SIGTERM in the middle of a storm.
type termination struct {
	Created  int     `json:"created"`  // CRs, when it got SIGTERM.
	Exit     float64 `json:"exit"`     // Until the process was gone, in seconds.
	Released bool    `json:"released"` // Whether the leader lease had no holder then.
	Left     int     `json:"left"`     // CRs that the next process created.
	Next     float64 `json:"next"`     // From the exit until the first of these was requested, in seconds.
}

// terminateInStorm sends SIGTERM when a quarter of the CRs exist, starts another process
// when the first one is gone, and waits until that has finished the storm.
func (e *environment) terminateInStorm(ctx context.Context, victims []string, r *termination) error {
	if err := e.waitUntilIdle(ctx); err != nil {
		return err
	}
	flips := make(chan error, 1)
	go func() {
		flips <- sideBySide(ctx, len(victims), writers, func(ctx context.Context, i int) error {
			return e.setReady(ctx, victims[i], false)
		})
	}()
	err := e.tracker.waitFor(ctx, "a quarter of the CRs", func() bool {
		r.Created = len(e.tracker.crs)
		return r.Created >= (len(victims)+3)/4
	})
	if err != nil {
		return err
	}
	begin := time.Now()
	if err := e.controller.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("terminating the controller: %w", err)
	}
	limited, cancel := context.WithTimeout(ctx, waitTimeout)
	defer cancel()
	code, err := e.controller.Wait(limited)
	if err != nil {
		return err
	}
	if code != 0 {
		return fmt.Errorf("the controller exited with %d after SIGTERM", code)
	}
	exit := time.Now()
	r.Exit = exit.Sub(begin).Seconds()
	lease, err := e.admin.kube.CoordinationV1().Leases(deploy.Namespace).Get(ctx, deploy.LeaderLease, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading the leader lease: %w", err)
	}
	r.Released = lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == ""
	if err := e.startProcess(ctx); err != nil {
		return err
	}
	if err := <-flips; err != nil {
		return err
	}
	if err := e.tracker.waitFor(ctx, "all remediations", func() bool { return len(e.tracker.crs) >= len(victims) }); err != nil {
		return err
	}
	if err := sleep(ctx, 200*time.Millisecond); err != nil { // The audit log is behind.
		return err
	}
	requests, err := e.requestsSince(exit)
	if err != nil {
		return err
	}
	for _, creation := range requestsForCRs(requests, "create") {
		r.Left++
		if next := creation.Time.Sub(exit).Seconds(); r.Left == 1 || next < r.Next {
			r.Next = next
		}
	}
	return e.recoverAll(ctx, victims)
}

func (r *termination) goals() []goal {
	released := 0.0
	if r.Released {
		released = 1
	}
	goals := []goal{
		{What: "CRs at SIGTERM", Value: float64(r.Created)},
		{What: "SIGTERM to exit", Value: r.Exit, Unit: "s", AtMost: new(boundOfExit)},
		{What: "leader lease is released", Value: released, AtLeast: new(1.0)},
		{What: "CRs that are left for the next process", Value: float64(r.Left)},
	}
	if r.Left > 0 {
		goals = append(goals, goal{What: "exit to the first of these", Value: r.Next, Unit: "s"})
	}
	return goals
}
