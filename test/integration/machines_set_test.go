// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// machineSet plays the controller of the owner and the provider of its Machines: it keeps so many
// Machines that are not being deleted, and provide decides what becomes of each new one.
type machineSet struct {
	s        *machineScenario
	replicas int
	provide  func(ctx context.Context, machine string) error

	mu      sync.Mutex
	made    int
	problem error
	// lives are the names of the Machines in the order of their creation.
	lives []string
}

// startMachineSet starts the stand-in. It stops at the end of the test.
func (s *machineScenario) startMachineSet(replicas int, provide func(ctx context.Context, machine string) error) *machineSet {
	s.t.Helper()
	set := &machineSet{s: s, replicas: replicas, provide: provide}
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		for ctx.Err() == nil {
			if err := set.reconcile(ctx); err != nil && ctx.Err() == nil {
				set.mu.Lock()
				set.problem = err
				set.mu.Unlock()
			}
			select {
			case <-time.After(50 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	})
	s.t.Cleanup(func() {
		stop()
		wg.Wait()
		require.NoError(s.t, set.problem)
	})
	return set
}

func (m *machineSet) reconcile(ctx context.Context) error {
	list, err := m.s.machines().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	living := 0
	for i := range list.Items {
		machine := &list.Items[i]
		switch {
		case machine.GetDeletionTimestamp() == nil:
			living++
		case len(machine.GetFinalizers()) > 0:
			if err := m.finalize(ctx, machine.GetName()); err != nil {
				return err
			}
		}
	}
	for ; living < m.replicas; living++ {
		m.mu.Lock()
		m.made++
		name := fmt.Sprintf("m%d", m.made)
		m.lives = append(m.lives, name)
		m.mu.Unlock()
		if _, err := m.s.tryMachine(ctx, name, finalized); err != nil {
			return err
		}
		if err := m.provide(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// finalize ends the instance of a Machine.
func (m *machineSet) finalize(ctx context.Context, machine string) error {
	if err := m.s.kube.CoreV1().Nodes().Delete(ctx, m.s.nodeName(machine), metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	_, err := m.s.machines().Patch(ctx, machine, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// names returns the Machines in the order of their creation.
func (m *machineSet) names() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.lives)
}

// joins is the provider whose Machines all get a Node.
func (s *machineScenario) joins(ctx context.Context, machine string) error {
	return s.tryJoin(ctx, machine, nil)
}

// fails is the provider whose Machines all fail, and hangs that of Machines that never get a Node.
func (s *machineScenario) fails(ctx context.Context, machine string) error {
	return s.patchStatus(ctx, machine, map[string]any{"phase": "Failed"})
}
