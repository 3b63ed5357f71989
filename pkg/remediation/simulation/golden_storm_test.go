// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// stormStories are those of TestSimulationGolden about storms.
func stormStories() map[string]story {
	const m = time.Minute
	return map[string]story{
		"storm-with-cooldown": {
			about: "Of six nodes, three have to be healthy. A storm is calm with one that is not, and ends after five minutes of that.",
			spec: func(s *stage, spec *v1alpha1.NodeHealthCheckSpec) {
				classic("script")(s, spec)
				s.createWorkers("worker-2", "worker-3", "worker-4")
				spec.MinHealthy = new(intstr.FromInt32(3))
				spec.StormRecoveryThreshold = new(int32(1))
				spec.StormCooldownDuration = &metav1.Duration{Duration: 5 * m}
			},
			play: func(s *stage) {
				s.setAll(corev1.ConditionUnknown, "worker-1", "worker-2", "worker-3")
				s.tell("Three CRs are all that the gate allows: to reach that begins the storm (9.2).")
				s.run(m)
				s.setReady("worker-4", corev1.ConditionUnknown)
				s.run(2 * m)
				s.tell("With one recovered the gate is open. The storm is not over: no first CR (9.6).")
				s.heal("worker-1")
				s.run(m)
				s.tell("Only one is not healthy any more: it is calm.")
				s.setAll(corev1.ConditionTrue, "worker-2", "worker-3")
				s.run(2 * m)
				s.tell("One more fails for half a minute. The calm is lost, the cooldown runs again in full (P11).")
				s.setReady("worker-1", corev1.ConditionUnknown)
				s.run(m / 2)
				s.heal("worker-1")
				s.run(4 * m)
				s.tell("At its end the node that waits gets its CR in the same sync (9.7).")
				s.run(2 * m)
				s.heal("worker-4")
				s.run(m)
			},
		},
		"storm-steps-go-on": {
			about: "In a storm the steps of what has begun go on, as long as the gate is open. A restart changes nothing.",
			spec: func(s *stage, spec *v1alpha1.NodeHealthCheckSpec) {
				escalating("script", 2*m, "storage", 5*m)(s, spec)
				s.createWorkers("worker-2")
				spec.MinHealthy = new(intstr.FromInt32(2))
				spec.StormRecoveryThreshold = new(int32(0))
			},
			play: func(s *stage) {
				s.setReady("worker-1", corev1.ConditionUnknown)
				s.run(2 * m)
				s.setReady("worker-2", corev1.ConditionUnknown)
				s.run(m)
				s.tell("The second CR is the last one that the gate allows: the storm has begun. The next step of worker-1 begins all the same.")
				s.run(m)
				s.tell("A third node fails and the gate closes: no step ends now (5.3).")
				s.setReady("worker-7", corev1.ConditionUnknown)
				s.run(2 * m)
				s.log("", "the process is restarted")
				s.boot(0)
				s.run(m)
				s.tell("It recovers: the gate is open, and the step that is over ends at once.")
				s.heal("worker-7")
				s.run(m)
				s.tell("Without a cooldown the storm ends as soon as it is calm.")
				s.setAll(corev1.ConditionTrue, "worker-1", "worker-2")
				s.run(m)
			},
		},
	}
}

func (s *stage) createWorkers(names ...string) {
	for _, name := range names {
		s.createNode(name, corev1.ConditionTrue)
	}
}

func (s *stage) setAll(ready corev1.ConditionStatus, names ...string) {
	for _, name := range names {
		s.setReady(name, ready)
	}
}
