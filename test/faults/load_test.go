// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/test/patience"
)

// load changes nodes and NodeHealthChecks at random. All its decisions come from the
// seed of the environment.
type load struct {
	e     *environment
	nodes int
	// spares are NodeHealthChecks that come and go.
	spares []*v1alpha1.NodeHealthCheck
	// gap is the longest time between two actions.
	gap time.Duration
	// done is how many actions were tried.
	done int
}

// action is something that the load may do. Its weight is how often it does.
type action struct {
	name   string
	weight int
	do     func(ctx context.Context) error
}

func (l *load) actions() []action {
	actions := []action{
		{"node fails", 45, l.failOne},
		{"node heals", 20, l.healOne},
		{"node flaps", 6, l.flap},
		{"node is deleted", 3, l.deleteOne},
		{"node comes back", 6, l.recreate},
		{"node is relabelled", 4, l.relabel},
		{"node is excluded", 2, l.exclude},
		{"node is confirmed", 3, l.confirm},
		{"node gets many labels", 1, l.manyLabels},
		{"node lease is taken", 1, l.takeLease},
		{"nhc is paused", 2, l.pause},
		{"nhc goes on", 5, l.resume},
		{"nhc is edited", 4, l.edit},
		{"nhc comes", 3, l.comes},
		{"nhc goes", 2, l.goes},
	}
	if l.e.machines != nil {
		actions = append(actions, action{"machine fails", 12, l.failMachine}, action{"machine heals", 3, l.healMachine},
			action{"machine check is edited", 3, l.editCheck}, action{"machine budget is edited", 4, l.editBudget})
	}
	return actions
}

// run acts for a while.
func (l *load) run(ctx context.Context, d time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	chosen, total := l.actions(), 0
	for _, a := range chosen {
		total += a.weight
	}
	for ctx.Err() == nil {
		at := l.e.random.IntN(total)
		for _, a := range chosen {
			if at -= a.weight; at < 0 {
				l.attempt(ctx, a)
				break
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Duration(l.e.random.Int64N(int64(l.gap)))):
		}
	}
}

// runUntilSeen goes on until the referee has seen so many creations that its silence means something: on a busy machine,
// the usual time may be too short.
func (l *load) runUntilSeen(creations int) {
	l.e.t.Helper()
	patience.Eventually(l.e.t, "enough remediations", func() bool {
		l.e.requireOrder()
		if l.e.referee.Figures().Creations >= creations {
			return true
		}
		l.run(l.e.t.Context(), time.Second)
		return false
	})
}

// attempt does something. What hangs is given up: the API server may be in fault.
func (l *load) attempt(ctx context.Context, a action) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	l.e.count(a.do(ctx))
	l.done++
}

func (l *load) node() string { return nodeName(l.e.random.IntN(l.nodes)) }

// longAgo is when something has changed that is past by anybody's clock.
func longAgo() time.Time { return time.Now().Add(-time.Hour) }

// transition returns when a condition pretends to have changed: mostly now, but kubelets
// lie.
func (l *load) transition() time.Time {
	switch l.e.random.IntN(12) {
	case 0:
		return longAgo()
	case 1:
		return time.Time{}
	case 2:
		return time.Now().Add(time.Duration(l.e.random.IntN(5)) * time.Second)
	case 3:
		return time.Now().Add(time.Hour)
	default:
		return time.Now()
	}
}

func (l *load) failOne(ctx context.Context) error {
	switch l.e.random.IntN(4) {
	case 0:
		return l.e.setCondition(ctx, l.node(), corev1.NodeCondition{Type: brokenDisk, Status: "True", LastTransitionTime: metav1.NewTime(l.transition())})
	case 1:
		return l.e.setReady(ctx, l.node(), "Unknown", l.transition())
	default:
		return l.e.setReady(ctx, l.node(), "False", l.transition())
	}
}

func (l *load) healOne(ctx context.Context) error {
	node := l.node()
	if err := l.e.setCondition(ctx, node, corev1.NodeCondition{Type: brokenDisk, Status: "False", LastTransitionTime: metav1.Now()}); err != nil {
		return err
	}
	return l.e.setReady(ctx, node, "True", l.transition())
}

func (l *load) flap(ctx context.Context) error {
	node := l.node()
	for range 2 + l.e.random.IntN(6) {
		for _, status := range []corev1.ConditionStatus{"False", "True"} {
			if err := l.e.setReady(ctx, node, status, longAgo()); err != nil {
				return err
			}
			time.Sleep(time.Duration(l.e.random.IntN(60)) * time.Millisecond)
		}
	}
	return nil
}

func (l *load) deleteOne(ctx context.Context) error {
	return l.e.kube.CoreV1().Nodes().Delete(ctx, l.node(), metav1.DeleteOptions{})
}

func (l *load) recreate(ctx context.Context) error {
	i := l.e.random.IntN(l.nodes)
	if l.e.random.IntN(2) == 0 {
		_ = l.e.kube.CoreV1().Nodes().Delete(ctx, nodeName(i), metav1.DeleteOptions{}) // The name gets another uid.
	}
	return l.e.createNode(ctx, i)
}

func (l *load) relabel(ctx context.Context) error {
	pool := []string{"a", "b", "c", "of-no-check"}[l.e.random.IntN(4)]
	return l.e.changeNode(ctx, l.node(), "labels", map[string]any{poolLabel: pool})
}

func (l *load) exclude(ctx context.Context) error {
	return l.e.exclude(ctx, l.node(), []any{"true", nil, nil, "", "false"}[l.e.random.IntN(5)])
}

func (l *load) confirm(ctx context.Context) error {
	return l.e.changeNode(ctx, l.node(), "annotations", map[string]any{v1alpha1.AnnotationManuallyConfirmedHealthy: "yes"})
}

func (l *load) manyLabels(ctx context.Context) error {
	labels := map[string]any{}
	for i := range 1000 {
		labels[fmt.Sprintf("faults.test.nhc-controller.io/label-%d", i)] = fmt.Sprint(l.e.random.IntN(10))
	}
	return l.e.changeNode(ctx, l.node(), "labels", labels)
}

// takeLease has another operator take the lease of a node, if it is free, for a while.
func (l *load) takeLease(ctx context.Context) error {
	name := fmt.Sprintf("n%03d", l.e.random.IntN(min(l.nodes, 16)))
	return l.e.takeLease(ctx, name, time.Duration(1+l.e.random.IntN(8))*time.Second)
}

func (e *environment) takeLease(ctx context.Context, node string, d time.Duration) error {
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: "node-" + node},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: new("another-operator"), LeaseDurationSeconds: new(int32(d.Seconds())),
			AcquireTime: new(metav1.NowMicro()), RenewTime: new(metav1.NowMicro()),
		},
	}
	_, err := e.kube.CoordinationV1().Leases("medik8s-leases").Create(ctx, lease, metav1.CreateOptions{FieldManager: loader})
	return err
}

// someNHC calls f with one of the NodeHealthChecks.
func (l *load) someNHC(ctx context.Context, f func(name string) error) error {
	names, err := l.e.nhcNames(ctx)
	if err != nil || len(names) == 0 {
		return err
	}
	return f(names[l.e.random.IntN(len(names))])
}

func (l *load) pause(ctx context.Context) error {
	return l.someNHC(ctx, func(name string) error {
		return l.e.changeNHC(ctx, name, map[string]any{"pauseRequests": []string{"because", "of a test"}})
	})
}

func (l *load) resume(ctx context.Context) error {
	return l.someNHC(ctx, func(name string) error { return l.e.changeNHC(ctx, name, map[string]any{"pauseRequests": nil}) })
}

func (l *load) edit(ctx context.Context) error {
	edits := []map[string]any{
		{"minHealthy": fmt.Sprintf("%d%%", l.e.random.IntN(101)), "maxUnhealthy": nil},
		{"minHealthy": l.e.random.IntN(5), "maxUnhealthy": nil},
		{"minHealthy": nil, "maxUnhealthy": fmt.Sprintf("%d%%", l.e.random.IntN(101))},
		{"minHealthy": 0, "maxUnhealthy": nil},
		{"unhealthyConditions": unhealthyAfter(time.Duration(l.e.random.IntN(3)) * time.Second)},
		{"stormRecoveryThreshold": l.e.random.IntN(4), "stormCooldownDuration": nil},
		{"stormRecoveryThreshold": nil, "stormCooldownDuration": "2s"},
		{"stormRecoveryThreshold": nil, "stormCooldownDuration": nil},
		{"healthyDelay": []any{nil, "0s", "3s", "-1s"}[l.e.random.IntN(4)]},
	}
	spec := edits[l.e.random.IntN(len(edits))]
	return l.someNHC(ctx, func(name string) error { return l.e.changeNHC(ctx, name, spec) })
}

func (l *load) comes(ctx context.Context) error {
	if len(l.spares) == 0 {
		return nil
	}
	nhc := l.spares[l.e.random.IntN(len(l.spares))].DeepCopy()
	_, err := l.e.nhc.RemediationV1alpha1().NodeHealthChecks().Create(ctx, nhc, metav1.CreateOptions{FieldManager: loader})
	return err
}

func (l *load) goes(ctx context.Context) error {
	if len(l.spares) == 0 {
		return nil
	}
	l.e.removeNHC(ctx, l.spares[l.e.random.IntN(len(l.spares))].Name)
	return nil
}
