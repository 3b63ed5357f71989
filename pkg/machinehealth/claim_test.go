// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealth

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
)

func TestClaim(t *testing.T) {
	t.Parallel()
	annotated := func(m *Machine) { m.Annotations = map[string]string{v1beta1.AnnotationExternalRemediation: ""} }
	deleting := func(m *Machine) { m.DeletionTimestamp = new(metav1.NewTime(epoch)) }
	created := func(after time.Duration) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(epoch.Add(after))}}
	}
	for name, tc := range map[string]struct {
		change func(*Machine)
		checks []string
		node   *corev1.Node
		want   string
	}{
		"M15.1 no MachineHealthCheck has it":  {node: created(0)},
		"M15.1 the first of those that do":    {checks: []string{"ns/b", "ns/a"}, node: created(0), want: "MachineHealthCheck ns/a looks after the Machine of the node"},
		"M15.1 it is named first":             {change: annotated, checks: []string{"ns/a"}, node: created(0), want: "MachineHealthCheck ns/a looks after the Machine of the node"},
		"M15.2 an external remediation":       {change: annotated, node: created(0), want: "Machine ns/m of the node has annotation host.metal3.io/external-remediation"},
		"M15.2 deletion, and the Node is new": {change: deleting, node: created(time.Second), want: "Machine ns/m of the node was being deleted already when the Node appeared"},
		"M15.2 in the same second":            {change: deleting, node: created(0), want: "Machine ns/m of the node was being deleted already when the Node appeared"},
		"M15.2 deletion, the Node was there":  {change: deleting, node: created(-time.Second)},
		"M15.2 deletion, there is no Node":    {change: deleting},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			machine := &Machine{}
			machine.Namespace, machine.Name = "ns", "m"
			if tc.change != nil {
				tc.change(machine)
			}
			require.Equal(t, tc.want, Claim(machine, tc.checks, tc.node))
		})
	}
}
