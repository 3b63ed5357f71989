// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
)

var update = flag.Bool("update", false, "write the golden files anew")

// story is what happens on a stage.
type story struct {
	about string
	spec  func(*stage, *v1alpha1.NodeHealthCheckSpec)
	play  func(*stage)
}

// stage is a world in which nothing happens by chance.
type stage struct{ *world }

// TestSimulationGolden tells stories. Each is compared to the log in testdata, which
// is meant to be read.
func TestSimulationGolden(t *testing.T) {
	t.Parallel()
	const m = time.Minute
	stories := map[string]story{
		"classic-success": {
			about: "A node fails, its remediator repairs it, and nothing is left.",
			spec:  classic("reboot"),
			play: func(s *stage) {
				s.setReady("worker-1", corev1.ConditionUnknown)
				s.run(3 * m)
				s.report(s.cr("reboot"), v1alpha1.RemediationSucceeded, corev1.ConditionTrue)
				s.heal("worker-1")
				s.run(m)
				s.tell("The remediator still has its finalizer.")
				s.letGo(s.cr("reboot"))
				s.run(m)
			},
		},
		"escalation-to-a-new-node": {
			about: "The first remediator fails within seconds, the second one replaces the node.",
			spec:  escalating("bmc", 5*m, "delete", 10*m),
			play: func(s *stage) {
				s.setReady("worker-1", corev1.ConditionUnknown)
				s.run(m)
				s.pass(2 * time.Second)
				s.report(s.cr("bmc"), v1alpha1.RemediationSucceeded, corev1.ConditionFalse)
				s.run(m)
				s.report(s.cr("delete"), v1alpha1.RemediationPermanentNodeDeletionExpected, corev1.ConditionTrue)
				s.run(m)
				s.deleteNode("worker-1")
				s.run(m)
				s.collect()
				s.run(m)
				s.tell("The CR of the first step hangs: its Node is gone. That of the second one stays (17.3).")
				s.createNode("worker-2", corev1.ConditionTrue)
				s.report(s.cr("delete"), v1alpha1.RemediationSucceeded, corev1.ConditionTrue)
				s.run(m)
			},
		},
		"timeout-of-a-silent-remediator": {
			about: "No remediator ever says anything. Each step ends by its timeout, then no template is left.",
			spec:  escalating("script", 2*m, "storage", 5*m),
			play: func(s *stage) {
				s.setReady("worker-1", corev1.ConditionFalse)
				s.run(20 * m)
				s.tell("Somebody repairs the node after all.")
				s.heal("worker-1")
				s.run(m)
			},
		},
		"healthy-delay-interrupted": {
			about: "The node must be healthy for two minutes, and is interrupted after one.",
			spec: func(s *stage, spec *v1alpha1.NodeHealthCheckSpec) {
				classic("script")(s, spec)
				spec.HealthyDelay = &metav1.Duration{Duration: 2 * m}
			},
			play: func(s *stage) {
				s.setReady("worker-1", corev1.ConditionUnknown)
				s.run(2 * m)
				s.heal("worker-1")
				s.run(m)
				s.tell("It fails again, but not for long enough to be unhealthy.")
				s.setReady("worker-1", corev1.ConditionUnknown)
				s.run(30 * time.Second)
				s.heal("worker-1")
				s.tell("The delay runs in full (P11).")
				s.run(5 * m)
			},
		},
		"lease-taken-over": {
			about: "Another operator holds the lease of the node, and dies.",
			spec:  classic("script"),
			play: func(s *stage) {
				s.putLease(&coordinationv1.Lease{
					ObjectMeta: metav1.ObjectMeta{Name: object.LeaseName("worker-1"), UID: s.newUID()},
					Spec: coordinationv1.LeaseSpec{
						HolderIdentity: new(maintenance), AcquireTime: new(micro(s.now)), RenewTime: new(micro(s.now)),
						LeaseDurationSeconds: new(int32(150)), LeaseTransitions: new(int32(4)),
					},
				})
				s.log("", "%s takes the lease %s", maintenance, s.terms(s.lease("worker-1")))
				s.setReady("worker-1", corev1.ConditionUnknown)
				s.run(6 * m)
				s.heal("worker-1")
				s.run(m)
			},
		},
		"crash-between-create-and-status": {
			about: "The process dies after the CR was created and before status says so.",
			spec:  classic("script"),
			play: func(s *stage) {
				s.setReady("worker-1", corev1.ConditionUnknown)
				s.pass(m)
				s.die("status of workers")
				s.run(m)
				s.tell("The new process has found the CR. Nothing was created twice.")
				s.heal("worker-1")
				s.run(m)
			},
		},
		"answer-lost": {
			about: "The CR is created, but the answer is lost, and the cache is behind.",
			spec:  classic("script"),
			play: func(s *stage) {
				s.setReady("worker-1", corev1.ConditionUnknown)
				s.pass(m)
				s.lose("create CustomizedUserRemediation")
				for _, i := range []*informer{s.process.nodes, s.process.leases, s.process.nhcs} {
					i.advance(100)
				}
				s.process.soil()
				s.process.sync("workers")
				s.tell("The next attempt is due in 100 ms. The cache of the CRs has still nothing to show.")
				s.pass(100 * time.Millisecond)
				s.process.leases.advance(100)
				s.process.nhcs.advance(100)
				s.process.sync("workers")
				s.run(m)
			},
		},
		"deletion-fails": {
			about: "The Node is deleted, and the deletion of its CR fails at first: the lease is kept (14.9).",
			spec:  classic("script"),
			play: func(s *stage) {
				s.setReady("worker-1", corev1.ConditionUnknown)
				s.run(2 * m)
				s.deleteNode("worker-1")
				s.fail("delete CustomizedUserRemediation")
				s.run(m)
			},
		},
		"classic-overdue": {
			about: "A classic remediation has no timeout, but its lease is overdue after half an hour.",
			spec:  classic("script"),
			play: func(s *stage) {
				s.setReady("worker-1", corev1.ConditionUnknown)
				s.run(2 * time.Hour)
				s.heal("worker-1")
				s.run(m)
			},
		},
	}
	maps.Copy(stories, stormStories())
	for name, story := range stories {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(story.spec)
			s.tell(story.about)
			story.play(s)
			path := filepath.Join("testdata", name+".golden")
			got := "# " + strings.ReplaceAll(name, "-", " ") + "\n" + s.world.tell("")
			if *update {
				require.NoError(t, os.MkdirAll("testdata", 0o755))
				require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
			}
			want, err := os.ReadFile(path)
			require.NoError(t, err, "go test ./pkg/remediation -run TestSimulationGolden -update writes it")
			require.Equal(t, string(want), got, "the story is another one; -update writes it anew")
		})
	}
}

// newStage returns three workers and one NodeHealthCheck.
func newStage(spec func(*stage, *v1alpha1.NodeHealthCheckSpec)) *stage {
	s := &stage{world: newWorld(1)}
	s.furnish()
	for _, name := range []string{"worker-1", "worker-7", "worker-8"} {
		s.createNode(name, corev1.ConditionTrue)
	}
	nhc := &v1alpha1.NodeHealthCheck{ObjectMeta: metav1.ObjectMeta{Name: "workers", UID: s.newUID(), Generation: 1}}
	nhc.Spec.MinHealthy = new(intstr.FromInt32(1))
	for _, status := range []corev1.ConditionStatus{corev1.ConditionFalse, corev1.ConditionUnknown} {
		nhc.Spec.UnhealthyConditions = append(nhc.Spec.UnhealthyConditions, v1alpha1.UnhealthyCondition{
			Type: corev1.NodeReady, Status: status, Duration: metav1.Duration{Duration: time.Minute},
		})
	}
	spec(s, &nhc.Spec)
	s.putNHC(nhc)
	s.timeline = nil
	s.log("", "%s", s.describeSpec("workers", &nhc.Spec))
	s.boot(0)
	return s
}

func classic(template string) func(*stage, *v1alpha1.NodeHealthCheckSpec) {
	return func(s *stage, spec *v1alpha1.NodeHealthCheckSpec) {
		spec.RemediationTemplate = new(s.reference(template))
	}
}

func escalating(first string, firstTimeout time.Duration, second string, secondTimeout time.Duration) func(*stage, *v1alpha1.NodeHealthCheckSpec) {
	return func(s *stage, spec *v1alpha1.NodeHealthCheckSpec) {
		spec.EscalatingRemediations = []v1alpha1.EscalatingRemediation{
			{Order: 2, RemediationTemplate: s.reference(second), Timeout: metav1.Duration{Duration: secondTimeout}},
			{Order: 1, RemediationTemplate: s.reference(first), Timeout: metav1.Duration{Duration: firstTimeout}},
		}
	}
}

// tell writes a remark into the log.
func (s *stage) tell(remark string) { s.log("", "# %s", remark) }

// cr returns the CR of a template. A remediator that uses finalizers has put its own
// on it.
func (s *stage) cr(template string) *object.CR {
	for _, cr := range s.crs() {
		if name, _ := cr.Template(); name != template {
			continue
		}
		if kind := cr.Kind; !cr.Deleting() && (kind == "FenceAgentsRemediation" || kind == "SelfNodeRemediation") {
			s.changeCR(cr, func(object *unstructured.Unstructured) { object.SetFinalizers([]string{finalizer}) })
			return s.remediations[kind].live[crKey(cr)].cr
		}
		return cr
	}
	panic(fmt.Sprintf("no CR of template %s", template))
}

func (s *stage) pass(span time.Duration) { s.now = s.now.Add(span) }

// run lets the controller work for some time.
func (s *stage) run(span time.Duration) {
	end := s.now.Add(span)
	s.settleUntil(end, func() bool { return false })
	s.now = end
}

// die lets the process die before the first request whose description starts so.
func (s *stage) die(request string) { s.ordain(request, diesBefore) }

// lose loses the answer to the first such request.
func (s *stage) lose(request string) { s.ordain(request, losesAnswer) }

// fail lets the first such request fail.
func (s *stage) fail(request string) { s.ordain(request, fails) }

func (s *stage) ordain(request string, what fate) {
	s.fate = func(asked string) fate {
		if strings.HasPrefix(asked, request) {
			s.fate = nil
			return what
		}
		return goesWell
	}
}
