// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package machineset

import (
	"context"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// interval is how often a Set looks at its Machines.
const interval = 50 * time.Millisecond

// Set keeps a number of Machines that are not being deleted, and ends the instances of those
// that are. All fields are required.
type Set struct {
	*Machines
	// Replicas is how many Machines there are to be.
	Replicas int
	// Name returns the name of the n-th Machine, from 1.
	Name func(n int) string
	// Provide decides what becomes of a new Machine: whether it joins, fails or does neither.
	Provide func(ctx context.Context, machine string) error

	mu    sync.Mutex
	names []string
}

// Run works until ctx is done. An attempt that fails is repeated; Run returns the last error.
func (s *Set) Run(ctx context.Context) error {
	var last error
	for ctx.Err() == nil {
		if err := s.reconcile(ctx); err != nil && ctx.Err() == nil {
			last = err
		}
		select {
		case <-time.After(interval):
		case <-ctx.Done():
		}
	}
	return last
}

func (s *Set) reconcile(ctx context.Context) error {
	list, err := s.Client().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	current := 0
	for i := range list.Items {
		machine := &list.Items[i]
		switch {
		case machine.GetDeletionTimestamp() == nil:
			current++
		case len(machine.GetFinalizers()) > 0:
			if err := s.Terminate(ctx, machine.GetName()); err != nil {
				return err
			}
		}
	}
	for ; current < s.Replicas; current++ {
		name := s.nextName()
		if _, err := s.Create(ctx, name, Finalized); err != nil {
			return err
		}
		if err := s.Provide(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

func (s *Set) nextName() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := s.Name(len(s.names) + 1)
	s.names = append(s.names, name)
	return name
}

// Created returns the names of the Machines in the order of their creation, also of those that
// are gone.
func (s *Set) Created() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.names)
}
