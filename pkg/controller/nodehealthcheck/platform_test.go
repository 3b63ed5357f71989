// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/pkg/watches"
)

func TestPlatformHandler(t *testing.T) {
	t.Parallel()
	check := func(version, condition string) *unstructured.Unstructured {
		return platformObject(`{"kind": "MachineHealthCheck", "metadata": {"name": "n", "resourceVersion": "` + version + `"}, "spec": {"unhealthyConditions": [{"type": "` + condition + `"}]}}`)
	}
	version := func(version, status string) *unstructured.Unstructured {
		return platformObject(`{"kind": "ClusterVersion", "metadata": {"name": "n", "resourceVersion": "` + version + `"}, "status": {"conditions": [{"type": "Progressing", "status": "` + status + `"}]}}`)
	}
	machine := platformObject(`{"kind": "Machine", "metadata": {"name": "n"}}`)
	tests := map[string]struct {
		event func(cache.ResourceEventHandler)
		all   bool
	}{
		"21.1 a MachineHealthCheck comes":        {func(h cache.ResourceEventHandler) { h.OnAdd(check("1", "Ready"), true) }, true},
		"21.1 a MachineHealthCheck changes":      {func(h cache.ResourceEventHandler) { h.OnUpdate(check("1", "Ready"), check("2", "Terminating")) }, true},
		"P3 a MachineHealthCheck hardly changes": {func(h cache.ResourceEventHandler) { h.OnUpdate(check("1", "Ready"), check("2", "Ready")) }, false},
		"21.1 a MachineHealthCheck goes":         {func(h cache.ResourceEventHandler) { h.OnDelete(check("1", "Ready")) }, true},
		"P2 a MachineHealthCheck has gone unseen": {func(h cache.ResourceEventHandler) {
			h.OnDelete(cache.DeletedFinalStateUnknown{Obj: check("1", "Ready")})
		}, true},
		"21.1 a ClusterVersion comes":        {func(h cache.ResourceEventHandler) { h.OnAdd(version("1", "True"), false) }, true},
		"21.1 a ClusterVersion changes":      {func(h cache.ResourceEventHandler) { h.OnUpdate(version("1", "True"), version("2", "False")) }, true},
		"P3 a ClusterVersion hardly changes": {func(h cache.ResourceEventHandler) { h.OnUpdate(version("1", "True"), version("2", "True")) }, false},
		"21.1 a ClusterVersion goes":         {func(h cache.ResourceEventHandler) { h.OnDelete(version("1", "True")) }, true},
		"21.1 Machines wake no sync": {func(h cache.ResourceEventHandler) {
			h.OnAdd(machine, false)
			h.OnUpdate(machine, machine)
			h.OnDelete(machine)
		}, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newPlatformController()
			defer c.Queue.ShutDown()
			tc.event(c.platformHandler())
			if tc.all {
				require.Equal(t, 2, c.Queue.Len())
			} else {
				require.Zero(t, c.Queue.Len())
			}
		})
	}
}

func TestLookAround(t *testing.T) {
	t.Parallel()
	const ready, terminating = `{"spec": {"unhealthyConditions": [{"type": "Ready"}]}}`, `{"spec": {"unhealthyConditions": [{"type": "Terminating"}]}}`
	progressing := `{"status": {"conditions": [{"type": "Progressing", "status": "True"}]}}`
	machineHealthChecks := schema.GroupResource{Group: "machine.openshift.io", Resource: "machinehealthchecks"}
	openShiftMachines := schema.GroupResource{Group: "machine.openshift.io", Resource: "machines"}
	clusterAPIMachines := schema.GroupResource{Group: "cluster.x-k8s.io", Resource: "machines"}
	clusterVersions := schema.GroupResource{Group: "config.openshift.io", Resource: "clusterversions"}
	tests := map[string]struct {
		prepare func(*fakePlatform)
		// objects are created afterwards.
		objects func(t *testing.T, w *fakePlatform)
		// pending means that a sync has to wait, and goes on once it is known that
		// there is no answer.
		pending bool
		want    platformState
	}{
		"1.3 nothing is served": {prepare: func(w *fakePlatform) { clear(w.served) }},
		"1.3 nothing exists":    {want: platformState{openShiftMachines: true}},
		"7.7 a MachineHealthCheck": {
			objects: func(t *testing.T, w *fakePlatform) {
				t.Helper()
				w.create(t, remediation.MachineHealthCheckKind, "a", terminating)
			},
			want: platformState{openShiftMachines: true, machineHealthChecks: true},
		},
		"6.9 a MachineHealthCheck of another type": {
			objects: func(t *testing.T, w *fakePlatform) {
				t.Helper()
				w.create(t, remediation.MachineHealthCheckKind, "a", ready)
			},
			want: platformState{openShiftMachines: true, machineHealthChecks: true, conflict: true},
		},
		"6.9 two MachineHealthChecks": {
			objects: func(t *testing.T, w *fakePlatform) {
				t.Helper()
				w.create(t, remediation.MachineHealthCheckKind, "a", terminating)
				w.create(t, remediation.MachineHealthCheckKind, "b", terminating)
			},
			want: platformState{openShiftMachines: true, machineHealthChecks: true, conflict: true},
		},
		"10.2 an upgrade": {
			objects: func(t *testing.T, w *fakePlatform) {
				t.Helper()
				w.create(t, remediation.ClusterVersionKind, "version", progressing)
			},
			want: platformState{openShiftMachines: true, progressing: true},
		},
		"6.1 forbidden MachineHealthChecks": {
			prepare: func(w *fakePlatform) { w.denied[machineHealthChecks] = true },
			want:    platformState{openShiftMachines: true, problem: remediation.PlatformForbidden("get", machineHealthChecks), unknown: true},
		},
		"6.9 MachineHealthChecks that cannot be read": {
			prepare: func(w *fakePlatform) { w.refuse("machinehealthchecks", errors.New("out of order")) },
			want:    platformState{openShiftMachines: true, unknown: true},
		},
		"6.9 MachineHealthChecks that are not read yet": {
			prepare: func(w *fakePlatform) { w.hanging[machineHealthChecks] = true },
			pending: true,
			want:    platformState{openShiftMachines: true, unknown: true},
		},
		"10.2 forbidden ClusterVersions": {
			prepare: func(w *fakePlatform) { w.denied[clusterVersions] = true },
			want:    platformState{openShiftMachines: true, access: remediation.PlatformForbidden("get", clusterVersions), unseen: true},
		},
		"10.2 ClusterVersions that cannot be read": {
			prepare: func(w *fakePlatform) { w.refuse("clusterversions", errors.New("out of order")) },
			want:    platformState{openShiftMachines: true, access: remediation.PlatformUnreadable(remediation.ClusterVersionKind), unseen: true},
		},
		"21.2 ClusterVersions that are not read yet": {
			prepare: func(w *fakePlatform) { w.hanging[clusterVersions] = true },
			pending: true,
			want:    platformState{openShiftMachines: true, access: remediation.PlatformUnreadable(remediation.ClusterVersionKind), unseen: true},
		},
		"6.1 forbidden Machines are served": {
			prepare: func(w *fakePlatform) { w.denied[openShiftMachines] = true },
			want:    platformState{openShiftMachines: true},
		},
		"6.1 Machines of Cluster API alone": {
			prepare: func(w *fakePlatform) { delete(w.served, remediation.OpenShiftMachineKind) },
		},
		"21.2 Machines that are not read yet": {
			prepare: func(w *fakePlatform) { w.hanging[openShiftMachines] = true },
			pending: true,
		},
		"21.2 Machines of Cluster API that are not read yet": {
			prepare: func(w *fakePlatform) { w.hanging[clusterAPIMachines] = true },
			pending: true,
			want:    platformState{openShiftMachines: true},
		},
		"P1 Machines that cannot be read": {
			prepare: func(w *fakePlatform) { w.refuse("machines", errors.New("out of order")) },
			want:    platformState{openShiftMachines: true},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tc.prepare == nil {
				tc.prepare = func(*fakePlatform) {}
			}
			inPlatform(t, tc.prepare, func(t *testing.T, w *fakePlatform, c *Controller) {
				t.Helper()
				if tc.objects != nil {
					tc.objects(t, w)
				}
				if tc.pending {
					_, err := c.observePlatform(testCheck(), &nhcState{})
					require.Equal(t, watches.ErrPending, err)
					for c.Queue.Len() > 0 {
						key, _ := c.Queue.Get()
						c.Queue.Done(key)
					}
					time.Sleep(20 * time.Second) // Longer than anybody waits for an answer.
					wait()
					require.Equal(t, 2, c.Queue.Len(), "21.2: a kind that cannot be read delays no other")
				}
				got, err := c.observePlatform(testCheck(), &nhcState{})
				require.NoError(t, err)
				require.Equal(t, tc.want, got)
			})
		})
	}
}

func TestMachinesOf(t *testing.T) {
	t.Parallel()
	node := func(annotations map[string]string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node", Annotations: annotations}}
	}
	both := map[string]string{"machine.openshift.io/machine": "ns/m", "cluster.x-k8s.io/machine": "m", "cluster.x-k8s.io/cluster-namespace": "ns"}
	uids := func(machines *remediation.Machines) []types.UID {
		var all []types.UID
		for _, machine := range []*unstructured.Unstructured{machines.OpenShift, machines.ClusterAPI} {
			if machine == nil {
				all = append(all, "")
				continue
			}
			all = append(all, machine.GetUID())
		}
		return all
	}
	inPlatform(t, func(*fakePlatform) {}, func(t *testing.T, w *fakePlatform, c *Controller) {
		t.Helper()
		require.Equal(t, &remediation.Machines{}, c.machinesOf(node(both)), "11.3: they do not exist")
		w.create(t, remediation.OpenShiftMachineKind, "m", `{}`)
		w.create(t, clusterAPIMachine(), "m", `{}`)
		require.Equal(t, []types.UID{"machine.openshift.io-m", "cluster.x-k8s.io-m"}, uids(c.machinesOf(node(both))), "11.3")
		require.Nil(t, c.machinesOf(node(nil)), "11.3")
		require.Equal(t, &remediation.Machines{}, c.machinesOf(node(map[string]string{
			"machine.openshift.io/machine": "other/m", "cluster.x-k8s.io/machine": "m", "cluster.x-k8s.io/cluster-namespace": "other",
		})), "11.3: in another namespace")
	})
}

// TestMachineUnread: a read that fails is not the answer that there is no Machine (spec
// 11.3, P5).
func TestMachineUnread(t *testing.T) {
	t.Parallel()
	named := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node", Annotations: map[string]string{"machine.openshift.io/machine": "ns/m"}}}
	for name, tc := range map[string]struct {
		prepare func(*fakePlatform)
		want    remediation.Machines
	}{
		"P5 the list fails": {prepare: func(w *fakePlatform) { w.refuse("machines", apierrors.NewInternalError(errors.New("etcd"))) }, want: remediation.Machines{UnreadOpenShift: "ns"}},
		"11.3 it must not be read": {prepare: func(w *fakePlatform) {
			w.denied[schema.GroupResource{Group: "machine.openshift.io", Resource: "machines"}] = true
		}},
		"11.3 it is not served": {prepare: func(w *fakePlatform) { delete(w.served, remediation.OpenShiftMachineKind) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inPlatform(t, tc.prepare, func(t *testing.T, _ *fakePlatform, c *Controller) {
				t.Helper()
				require.Equal(t, &tc.want, c.machinesOf(named))
			})
		})
	}
}

// TestPlatformStateRecalled: while a kind cannot be read, its last state holds: a missing
// answer never leads to a deletion (P5, spec 5.2, 6.7, 6.9, 10.2).
func TestPlatformStateRecalled(t *testing.T) {
	t.Parallel()
	status := func(condition string, status metav1.ConditionStatus, reason string) *v1alpha1.NodeHealthCheck {
		return testCheck(func(nhc *v1alpha1.NodeHealthCheck) {
			nhc.Status.Conditions = []metav1.Condition{{Type: condition, Status: status, Reason: reason}}
		})
	}
	inConflict := status(v1alpha1.ConditionDisabled, metav1.ConditionTrue, v1alpha1.ReasonConflict)
	upgrading := status(v1alpha1.ConditionRemediationAllowed, metav1.ConditionFalse, "ClusterUpgrading")
	tests := map[string]struct {
		nhc  *v1alpha1.NodeHealthCheck
		seen platformState
		want platformState
	}{
		"6.7 a conflict":                       {testCheck(), platformState{conflict: true}, platformState{conflict: true}},
		"6.7 no conflict any more":             {inConflict, platformState{}, platformState{}},
		"P5 no answer after a conflict":        {inConflict, platformState{unknown: true}, platformState{unknown: true, conflict: true}},
		"P5 no answer after another problem":   {status(v1alpha1.ConditionDisabled, metav1.ConditionTrue, v1alpha1.ReasonTemplateNotFound), platformState{unknown: true}, platformState{unknown: true}},
		"P5 no answer after none":              {status(v1alpha1.ConditionDisabled, metav1.ConditionFalse, v1alpha1.ReasonEnabled), platformState{unknown: true}, platformState{unknown: true}},
		"P5 no answer before anything is said": {testCheck(), platformState{unknown: true}, platformState{unknown: true}},
		"10.2 an upgrade that was known":       {upgrading, platformState{unseen: true}, platformState{unseen: true, progressing: true}},
		"10.2 an upgrade that has ended":       {upgrading, platformState{}, platformState{}},
		"10.2 none was known":                  {status(v1alpha1.ConditionRemediationAllowed, metav1.ConditionFalse, "Closed"), platformState{unseen: true}, platformState{unseen: true}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var states nhcStates
			got := tc.seen
			got.recall(tc.nhc, states.of(tc.nhc))
			require.Equal(t, tc.want, got)
			if tc.seen.unseen && !tc.want.progressing {
				got = tc.seen
				got.recall(upgrading, states.of(upgrading))
				require.Equal(t, tc.want, got, "P12: what this process writes does not count")
			}
		})
	}
}

// TestPlatformTakenAway: a permission that is taken away ends nothing that was known (spec
// 6.1, 6.9, 10.2).
func TestPlatformTakenAway(t *testing.T) {
	t.Parallel()
	const ready, progressing = `{"spec": {"unhealthyConditions": [{"type": "Ready"}]}}`, `{"status": {"conditions": [{"type": "Progressing", "status": "True"}]}}`
	checks := schema.GroupResource{Group: "machine.openshift.io", Resource: "machinehealthchecks"}
	versions := schema.GroupResource{Group: "config.openshift.io", Resource: "clusterversions"}
	deny := func(w *fakePlatform, c *Controller, denied bool) {
		w.mu.Lock()
		w.denied[checks], w.denied[versions] = denied, denied
		w.mu.Unlock()
		c.platform.Refresh("machinehealthchecks." + checks.Group)
		c.platform.Refresh("clusterversions." + versions.Group)
		time.Sleep(30 * time.Second)
		wait()
	}
	for name, known := range map[string]bool{"known": true, "nothing known": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inPlatform(t, func(*fakePlatform) {}, func(t *testing.T, w *fakePlatform, c *Controller) {
				t.Helper()
				if known {
					w.create(t, remediation.MachineHealthCheckKind, "a", ready)
					w.create(t, remediation.ClusterVersionKind, "version", progressing)
				}
				before, err := c.observePlatform(testCheck(), &nhcState{})
				require.NoError(t, err)
				require.Equal(t, platformState{openShiftMachines: true, conflict: known, machineHealthChecks: known, progressing: known}, before)

				deny(w, c, true)
				want := before
				want.access = remediation.PlatformForbidden("get", versions)
				if !known {
					want.problem = remediation.PlatformForbidden("get", checks)
				}
				got, err := c.observePlatform(testCheck(), &nhcState{})
				require.NoError(t, err)
				require.Equal(t, want, got)

				deny(w, c, false)
				got, err = c.observePlatform(testCheck(), &nhcState{})
				require.NoError(t, err)
				require.Equal(t, before, got, "P12")
			})
		})
	}
}
