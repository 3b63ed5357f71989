// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/test/memapi"
	"github.com/nhc-controller/nhc-controller/test/rules"
)

// TestScenarios has short courses of events, each for one rule. The judge checks the other rules meanwhile. Besides the
// nodes of the control plane there are six workers.
func TestScenarios(t *testing.T) {
	t.Parallel()
	for name, scenario := range map[string]func(t *testing.T, c *cluster){
		"P4 what others write into status goes":             statusOfOthers,
		"P6 one control plane node of all":                  twoChecksOneSlot,
		"P7 order alone ranks":                              orderRanks,
		"5.1 the order within a sync":                       orderOfSync,
		"5.8 the episode of a dry run":                      dryRunEpisode,
		"6.6 a permission is missing for a while":           permissionMissing,
		"8.4 one evaluation for a batch":                    gateDuringBatch,
		"8.4 12.2 lists of the control plane hang":          hangingLists,
		"8.4 a late answer":                                 lateAnswer,
		"9.7 after a storm":                                 afterStorm,
		"10.3 10.4 a pause ends":                            pauseEnds,
		"11.5 two select one node":                          twoSelectOneNode,
		"11.6 a remediation object vanishes":                objectVanishes,
		"11.6 13.3 each remediation object vanishes":        allVanish,
		"19.1 23b.1 a creation that no watch shows":         creationUnseen,
		"12.1 each label of the control plane":              controlPlaneLabels,
		"14.3 the lease of another holder":                  leaseOfAnother,
		"14.8 the lease is lost":                            leaseLost,
		"15.2 other values of the label":                    otherLabelValues,
		"16.3 the last remediation object is gone":          lastObjectGone,
		"21.1 what starts no sync":                          noSync,
		"21.1 the requests of a failure and a recovery":     fewRequests,
		"23b.3 those without a remediation displace no one": historyLimit,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			withNHC(t, func(t *testing.T, c *cluster) {
				for _, worker := range []string{"worker-0", "worker-1", "worker-2", "worker-3", "worker-4", "worker-5"} {
					c.createNode(worker, corev1.ConditionTrue)
				}
				c.sleep(inTime)
				scenario(t, c)
			})
		})
	}
}

// unready has nodes fail: a second later they are unhealthy.
func (c *cluster) unready(names ...string) {
	for _, name := range names {
		c.setReady(name, corev1.ConditionUnknown)
	}
}

// entry returns what the status of a NodeHealthCheck says of a node, nothing if it does not list it.
func (c *cluster) entry(nhc, node string) (entry v1alpha1.UnhealthyNode) {
	for _, listed := range c.nhc(nhc).Status.UnhealthyNodes {
		if listed.Name == node {
			return listed
		}
	}
	return entry
}

func (c *cluster) decided(node string) v1alpha1.DecisionReason {
	if decision := c.entry("blue", node).Decision; decision != nil {
		return decision.Reason
	}
	return ""
}

// notes returns those of the events with a reason that are about a kind of objects.
func (c *cluster) notes(kind, reason string) (notes []string) {
	for _, event := range c.server.List(events) {
		about, _, _ := unstructured.NestedString(event.Object, "regarding", "kind")
		if given, _, _ := unstructured.NestedString(event.Object, "reason"); given == reason && about == kind {
			note, _, _ := unstructured.NestedString(event.Object, "note")
			notes = append(notes, note)
		}
	}
	return notes
}

func (c *cluster) deleteCR() {
	cr := c.crs()[0]
	c.server.Delete("user", c.of(cr).crs(), keyOf(cr))
}

func statusOfOthers(t *testing.T, c *cluster) {
	c.unready("worker-0")
	c.sleep(2 * inTime)
	c.server.Modify("user", nhcs, memapi.Key{Name: "blue"}, func(object *unstructured.Unstructured) {
		nhc := as[v1alpha1.NodeHealthCheck](object)
		ghost := nhc.Status.UnhealthyNodes[0]
		ghost.Name = "a-ghost"
		nhc.Status.UnhealthyNodes, nhc.Status.RemediatingNodes = append([]v1alpha1.UnhealthyNode{ghost}, nhc.Status.UnhealthyNodes...), new(int32(7))
		object.Object["status"] = from(nhc).Object["status"]
	})
	c.heal("worker-0")
	c.sleep(2 * inTime)
	status := c.nhc("blue").Status
	require.Empty(t, status.UnhealthyNodes)
	require.Zero(t, *status.RemediatingNodes)
	c.checkMetrics()
}

func twoChecksOneSlot(t *testing.T, c *cluster) {
	for _, name := range []string{"master-3", "master-4"} { // Enough for a quorum without two.
		c.createNode(name, corev1.ConditionTrue)
		c.changeNode(name, func(node *unstructured.Unstructured) {
			node.SetLabels(map[string]string{"pool": "a", "node-role.kubernetes.io/control-plane": ""})
		})
	}
	references := c.references()
	c.addNHC("amber")
	c.changeSpec("amber", func(spec *v1alpha1.NodeHealthCheckSpec) {
		spec.RemediationTemplate, spec.Selector = &references[len(references)-1], selectorOf("b")
	})
	c.changeSpec("blue", func(spec *v1alpha1.NodeHealthCheckSpec) { spec.Selector = selectorOf("a") })
	c.changeNode("master-1", func(node *unstructured.Unstructured) { setEntry(node, "labels", "pool", "b") })
	c.sleep(inTime)
	c.unready("master-0", "master-1")
	c.sleep(2 * time.Minute)
	first := c.remediated()
	require.Len(t, first, 1)
	c.heal(first[0])
	c.sleep(2 * inTime)
	require.Len(t, c.remediated(), 1)
	require.NotEqual(t, first, c.remediated())
}

func orderRanks(t *testing.T, c *cluster) {
	references := c.references()
	last := references[len(references)-1]
	c.changeSpec("blue", func(spec *v1alpha1.NodeHealthCheckSpec) {
		spec.RemediationTemplate, spec.EscalatingRemediations = nil, []v1alpha1.EscalatingRemediation{
			{RemediationTemplate: last, Order: 3, Timeout: metav1.Duration{Duration: time.Minute}},
			{RemediationTemplate: references[0], Order: -3, Timeout: metav1.Duration{Duration: time.Minute}},
		}
		spec.UnhealthyConditions = append([]v1alpha1.UnhealthyCondition{{Type: diskPressure, Status: corev1.ConditionTrue, Duration: metav1.Duration{Duration: time.Hour}}}, spec.UnhealthyConditions...)
	})
	c.changeNode("worker-0", func(node *unstructured.Unstructured) { setCondition(node, diskPressure, "True") })
	c.unready("worker-0")
	c.sleep(2 * inTime)
	require.Len(t, c.crs(), 1, "a condition that is not due hides none that is")
	require.Equal(t, references[0].Kind, c.crs()[0].Kind+v1alpha1.TemplateKindSuffix)
	c.sleep(time.Minute + inTime)
	require.Len(t, c.crs(), 2)
	require.Equal(t, last.Kind, c.entry("blue", "worker-0").Remediations[1].Resource.Kind+v1alpha1.TemplateKindSuffix)
}

func orderOfSync(t *testing.T, c *cluster) {
	c.unready("worker-5")
	c.sleep(2 * inTime)
	c.loseLeader()
	c.unready("worker-2", "worker-1")
	c.heal("worker-5")
	time.Sleep(inTime)
	before := len(c.server.Requests(0))
	c.elect()
	c.sleep(inTime)
	var order []string
	for _, request := range c.server.Requests(before) {
		if request.Resource == c.kinds[0].crs() && writes(&request) || request.Subresource == "status" {
			order = append(order, request.Verb)
		}
	}
	require.GreaterOrEqual(t, len(order), 4)
	require.Equal(t, []string{"delete", "create", "create", "update"}, order[:4], "what ends, what begins, the status")
}

func dryRunEpisode(t *testing.T, c *cluster) {
	c.changeSpec("blue", func(spec *v1alpha1.NodeHealthCheckSpec) { spec.Mode = v1alpha1.ModeDryRun })
	due := time.Now().Add(time.Second)
	c.unready("worker-0", "worker-1")
	c.sleep(time.Minute)
	for _, episode := range c.nhc("blue").Status.RemediationHistory {
		require.WithinDuration(t, due, episode.Started.Time, inTime)
	}
	c.heal("worker-0")
	c.sleep(inTime)
	c.changeSpec("blue", func(spec *v1alpha1.NodeHealthCheckSpec) { spec.Mode = v1alpha1.ModeEnforce })
	c.sleep(inTime)
	episodes := map[string]v1alpha1.Episode{}
	for _, episode := range c.nhc("blue").Status.RemediationHistory {
		episodes[episode.Node] = episode
	}
	require.Equal(t, v1alpha1.OutcomeDryRun, episodes["worker-0"].Outcome)
	require.Equal(t, []string{"worker-1"}, c.remediated())
	require.WithinDuration(t, time.Now(), episodes["worker-1"].Started.Time, inTime, "that of the remediation")
}

func permissionMissing(t *testing.T, c *cluster) {
	crs := c.kinds[0].crs().GroupResource()
	c.unjudged = true // The judge does not know of it.
	c.leader().client.Forbid("create", crs, true)
	c.unready("worker-0")
	c.sleep(2 * time.Minute)
	disabled := meta.FindStatusCondition(c.nhc("blue").Status.Conditions, v1alpha1.ConditionDisabled)
	require.Equal(t, v1alpha1.ReasonTemplateForbidden, disabled.Reason)
	require.Contains(t, disabled.Message, `cannot create resource "`+crs.Resource+`"`)
	c.leader().client.Forbid("create", crs, false)
	c.sleep(time.Minute)
	require.Equal(t, []string{"worker-0"}, c.remediated())
	require.True(t, meta.IsStatusConditionFalse(c.nhc("blue").Status.Conditions, v1alpha1.ConditionDisabled))
}

func gateDuringBatch(t *testing.T, c *cluster) {
	c.changeSpec("blue", func(spec *v1alpha1.NodeHealthCheckSpec) { spec.MinHealthy = new(intstr.FromInt32(5)) })
	c.disturb("creations take a while", time.Minute)
	late := 5 * time.Second
	slow := c.judge.BeginFault(time.Now(), "creations take a while", rules.Tolerance{Cache: late, LiveRead: late, Sync: late})
	c.slowRequests("create "+c.kinds[0].crs().Resource, 2*time.Second)
	c.unready("worker-0", "worker-1", "worker-2")
	c.sleep(1500 * time.Millisecond)
	c.unready("worker-3", "worker-4")
	c.sleep(time.Minute)
	c.judge.EndFault(time.Now(), slow)
	require.Equal(t, []string{"worker-0", "worker-1", "worker-2"}, c.remediated(), "all of the batch, and no others")
	require.Equal(t, v1alpha1.DecidedGateClosed, c.decided("worker-3"))
}

// hangingLists: candidates of the control plane wait for one list, not each for its own, and the others for no more than that.
func hangingLists(t *testing.T, c *cluster) {
	for _, name := range []string{"master-3", "master-4"} { // Enough for a quorum without two.
		c.createNode(name, corev1.ConditionTrue)
		c.changeNode(name, func(node *unstructured.Unstructured) {
			setEntry(node, "labels", "node-role.kubernetes.io/control-plane", "")
		})
	}
	c.sleep(inTime)
	c.slowRequests("list "+c.kinds[0].crs().Resource, time.Hour)
	const hang = 10 * time.Second
	c.judge.BeginFault(time.Now(), "lists hang", rules.Tolerance{Cache: hang, LiveRead: hang, Sync: hang})
	c.disturb("lists hang", 2*time.Minute)
	c.unready("master-0", "master-1")
	c.sleep(2 * inTime)
	c.unready("worker-0")
	c.sleep(10 * time.Second)
	require.Equal(t, []string{"worker-0"}, c.remediated())
	c.slowRequests("list "+c.kinds[0].crs().Resource, 0)
	c.sleep(time.Minute)
	require.Equal(t, []string{"master-0", "worker-0"}, c.remediated())
}

// lateAnswer: a CR whose creation takes long is reported and counted all the same.
func lateAnswer(t *testing.T, c *cluster) {
	const late = 5 * time.Second
	c.judge.BeginFault(time.Now(), "creations take a while", rules.Tolerance{Cache: late, LiveRead: late, Sync: late})
	c.disturb("creations take a while", time.Minute)
	c.slowRequests("create "+c.kinds[0].crs().Resource, late)
	c.unready("worker-0")
	c.sleep(10 * time.Second)
	require.Len(t, c.notes("Node", "RemediationCreated"), 1)
	families, err := c.leader().registry.Gather()
	require.NoError(t, err)
	for _, family := range families {
		if family.GetName() == "nhc_detection_to_creation_seconds" {
			require.EqualValues(t, 1, family.GetMetric()[0].GetHistogram().GetSampleCount())
		}
	}
}

func afterStorm(t *testing.T, c *cluster) {
	c.changeSpec("blue", func(spec *v1alpha1.NodeHealthCheckSpec) {
		spec.MinHealthy, spec.StormRecoveryThreshold = new(intstr.FromInt32(5)), new(int32(2))
	})
	c.unready("worker-0", "worker-1", "worker-2")
	c.sleep(2 * inTime)
	c.unready("worker-3", "worker-4")
	c.sleep(2 * inTime)
	require.True(t, meta.IsStatusConditionTrue(c.nhc("blue").Status.Conditions, v1alpha1.ConditionStormActive))
	c.heal("worker-0")
	c.heal("worker-1")
	c.sleep(2 * inTime)
	require.Equal(t, []string{"worker-2"}, c.remediated(), "9.6: an open gate is not enough")
	c.heal("worker-2")
	c.sleep(inTime)
	require.Equal(t, []string{"worker-3", "worker-4"}, c.remediated())
	require.True(t, meta.IsStatusConditionFalse(c.nhc("blue").Status.Conditions, v1alpha1.ConditionStormActive))
}

func pauseEnds(t *testing.T, c *cluster) {
	pause := func(requests ...string) {
		c.changeSpec("blue", func(spec *v1alpha1.NodeHealthCheckSpec) { spec.PauseRequests = requests })
	}
	pause("drain the rack")
	c.unready("worker-0")
	c.sleep(time.Minute)
	pause("exam")
	c.sleep(time.Minute)
	require.Empty(t, c.remediated())
	require.Equal(t, []string{"[remediation] Postponing potential remediations because of pause requests"}, c.notes(v1alpha1.Kind, "RemediationSkipped"))
	pause()
	c.sleep(inTime)
	require.Equal(t, []string{"worker-0"}, c.remediated())
}

// syncLog counts the syncs that a controller logs, by their text.
type syncLog struct {
	mutex sync.Mutex
	lines []string
}

func (l *syncLog) Write(line []byte) (int, error) {
	if text := string(line); strings.Contains(text, `"Syncing"`) {
		l.mutex.Lock()
		defer l.mutex.Unlock()
		l.lines = append(l.lines, text)
	}
	return len(line), nil
}

// countingContext returns a context whose log counts syncs, and is printed with -simulation.verbose.
func countingContext(t *testing.T) (context.Context, *syncLog) {
	t.Helper()
	log := &syncLog{}
	output := io.Writer(log)
	if *verbose {
		output = io.MultiWriter(log, t.Output())
	}
	return klog.NewContext(t.Context(), textlogger.NewLogger(textlogger.NewConfig(textlogger.Verbosity(4), textlogger.Output(output)))), log
}

// syncs returns how often a health check has been synced.
func (c *cluster) syncs(check string) (total int) {
	c.synced.mutex.Lock()
	defer c.synced.mutex.Unlock()
	for _, line := range c.synced.lines {
		if strings.Contains(line, check+`"`) {
			total++
		}
	}
	return total
}

func noSync(t *testing.T, c *cluster) {
	c.sleep(time.Hour)
	before, requests := c.syncs("blue"), len(c.server.Requests(0))
	require.Positive(t, before)
	c.changeNode("worker-0", func(node *unstructured.Unstructured) {
		setEntry(node, "labels", "example.com/noise", "1")
		setEntry(node, "annotations", "example.com/noise", "1")
		conditions, _, _ := unstructured.NestedSlice(node.Object, "status", "conditions")
		for _, condition := range conditions {
			condition.(map[string]any)["lastHeartbeatTime"] = time.Now().UTC().Format(time.RFC3339)
		}
		_ = unstructured.SetNestedSlice(node.Object, conditions, "status", "conditions")
	})
	c.sleep(time.Hour)
	require.Equal(t, before, c.syncs("blue"))
	require.Empty(t, c.server.Requests(requests), "P3")
	c.changeNode("worker-0", func(node *unstructured.Unstructured) { setEntry(node, "labels", "pool", "none") })
	c.sleep(inTime)
	require.Greater(t, c.syncs("blue"), before)
	require.EqualValues(t, 8, *c.nhc("blue").Status.ObservedNodes)
}

func historyLimit(t *testing.T, c *cluster) {
	c.changeSpec("blue", func(spec *v1alpha1.NodeHealthCheckSpec) { spec.RemediationHistoryLimit = new(int32(2)) })
	episode := func(node string, pauses ...string) {
		c.changeSpec("blue", func(spec *v1alpha1.NodeHealthCheckSpec) { spec.PauseRequests = pauses })
		c.sleep(inTime)
		c.unready(node)
		c.sleep(2 * inTime)
		c.heal(node)
		c.sleep(inTime)
	}
	listed := func() (nodes []string) {
		for _, episode := range c.nhc("blue").Status.RemediationHistory {
			nodes = append(nodes, episode.Node)
		}
		return nodes
	}
	episode("worker-0")
	episode("worker-1", "exam")
	require.ElementsMatch(t, []string{"worker-0", "worker-1"}, listed(), "there is room")
	episode("worker-2")
	require.ElementsMatch(t, []string{"worker-0", "worker-2"}, listed())
	episode("worker-3", "exam")
	require.ElementsMatch(t, []string{"worker-0", "worker-2"}, listed())
	episode("worker-4")
	require.ElementsMatch(t, []string{"worker-2", "worker-4"}, listed())
}
