// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package nodes

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nhc-controller/nhc-controller/test/deploy"
	"github.com/nhc-controller/nhc-controller/test/remediator"
)

const (
	// patience is for one step. It bounds a failure.
	patience = 10 * time.Minute

	database = "db-0"

	// noticed bounds Ready=Unknown, besides the grace period: what the kubelet takes to notice its runtime.
	noticed = 40 * time.Second
	// decided bounds the remediation after that: the duration in the NodeHealthCheck is five seconds.
	decided = 10 * time.Second
)

// grace measures with the grace period of other clusters: it is 50 seconds by default, and 40 before Kubernetes 1.32.
var grace = flag.Duration("nodes.grace", 20*time.Second, "how long Kubernetes waits for a node that is silent")

// bySeconds is for machines that do nothing else.
var bySeconds = flag.Bool("nodes.seconds", false, "judge how long things take, besides their order")

// requireWithin checks that something did not take too long, where that is judged. The log has the figures in any case.
func (s *story) requireWithin(took, limit time.Duration) {
	s.t.Helper()
	if *bySeconds {
		require.Less(s.t, took, limit)
	}
}

// story is a cluster with the controller, a remediator, and a pod with a volume.
type story struct {
	*Cluster
	t        *testing.T
	timeline *Timeline
	before   int // How many lines the volume had before the last failure.
	// check is the NodeHealthCheck, and later is how much longer than five seconds its duration is.
	check string
	later time.Duration
}

// newStory starts a cluster. fence is false if the test plays the remediator.
func newStory(t *testing.T, opts Options, fence bool) *story {
	t.Helper()
	return newStoryWith(t, opts, fence, (*story).installManifest)
}

func (s *story) installManifest() error { return deploy.Install(s.t.Context(), s.ControlPlane) }

// newStoryWith is newStory with a controller that is installed in another way.
func newStoryWith(t *testing.T, opts Options, fence bool, install func(*story) error) *story {
	t.Helper()
	require.NoError(t, CheckRequirements())
	image, err := ControllerImage()
	require.NoError(t, err)
	opts.Images = append(opts.Images, image)
	opts.Logs, opts.Log, opts.GracePeriod = logs(t), t.Output(), *grace
	cluster, err := Start(t.Context(), opts)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, cluster.Stop()) })
	s := &story{Cluster: cluster, t: t, timeline: NewTimeline(t.Output()), check: "workers"}
	require.NoError(t, s.InstallWith(t.Context(), func() error { return install(s) }))
	require.NoError(t, s.Apply(t.Context(), DatabaseManifest))
	s.kubectl("rollout", "status", "statefulset/db", "--timeout=120s")
	s.background(func(ctx context.Context) {
		wait, err := s.timeline.Watch(ctx, cluster)
		if err != nil {
			t.Error(err)
			return
		}
		wait()
	})
	if fence {
		s.remediator()
	}
	require.NoError(t, s.Apply(t.Context(), remediator.NodeHealthCheckManifest))
	s.settle()
	return s
}

// logs is a directory for the logs of a test, which CI can keep.
func logs(t *testing.T) string {
	t.Helper()
	root, err := deploy.ModuleRoot()
	require.NoError(t, err)
	dir := filepath.Join(root, "_output", "tests", "nodes", t.Name())
	require.NoError(t, os.RemoveAll(dir))
	return dir
}

// background runs something until the test ends, and before the cluster is stopped.
func (s *story) background(run func(context.Context)) {
	ctx, cancel := context.WithCancel(s.t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { run(ctx) })
	s.t.Cleanup(func() {
		cancel()
		wg.Wait()
	})
}

// remediator runs the example remediator until the test ends.
func (s *story) remediator() {
	repairs := &Remediator{Cluster: s.Cluster, OffFor: 5 * time.Second, Say: func(node, what string) { s.timeline.Say("BMC of "+node, what) }}
	s.background(repairs.Run)
}

func (s *story) kubectl(args ...string) string {
	s.t.Helper()
	output, err := s.Kubectl(s.t.Context(), args...)
	require.NoError(s.t, err)
	return output
}

// in returns the same story in a subtest.
func (s *story) in(t *testing.T) *story {
	t.Helper()
	same := *s
	same.t = t
	return &same
}

// settle returns when nothing is wrong with the cluster: all nodes are Ready and without a taint, there is no
// remediation, the NodeHealthCheck is Enabled, and the pods of the database and the controller run.
func (s *story) settle() {
	s.t.Helper()
	ctx := s.t.Context()
	require.NoError(s.t, s.AwaitReady(ctx))
	require.EventuallyWithT(s.t, func(t *assert.CollectT) {
		nodes, err := s.Kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		require.NoError(t, err)
		for i := range nodes.Items {
			require.Empty(t, nodes.Items[i].Spec.Taints)
		}
		crs, err := s.Dynamic.Resource(remediator.Resource).List(ctx, metav1.ListOptions{})
		require.NoError(t, err)
		require.Empty(t, crs.Items)
		nhc, err := s.NHC.RemediationV1alpha1().NodeHealthChecks().Get(ctx, s.check, metav1.GetOptions{})
		require.NoError(t, err)
		require.Equal(t, "Enabled", string(nhc.Status.Phase))
		pods, err := s.Kube.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
		require.NoError(t, err)
		running := 0
		for i := range pods.Items {
			if failed(pods.Items[i]) {
				continue
			}
			require.Nil(t, pods.Items[i].DeletionTimestamp, pods.Items[i].Name)
			require.True(t, podIsReady(&pods.Items[i]), pods.Items[i].Name)
			running++
		}
		require.GreaterOrEqual(t, running, 3) // The database, and two controllers.
	}, patience, 500*time.Millisecond)
}

// configure changes the spec of the NodeHealthCheck, by a merge patch.
func (s *story) configure(spec string) {
	s.t.Helper()
	_, err := s.NHC.RemediationV1alpha1().NodeHealthChecks().Patch(s.t.Context(), "workers", types.MergePatchType, []byte(`{"spec":`+spec+`}`), metav1.PatchOptions{})
	require.NoError(s.t, err)
}

// nodeOfDatabase returns where the pod with the volume is.
func (s *story) nodeOfDatabase() *Node {
	s.t.Helper()
	pod, err := s.Kube.CoreV1().Pods(metav1.NamespaceDefault).Get(s.t.Context(), database, metav1.GetOptions{})
	require.NoError(s.t, err)
	require.NotEmpty(s.t, pod.Spec.NodeName, "the pod waits for a node")
	return s.Node(pod.Spec.NodeName)
}

// leader returns the replica that leads, which is nil if no pod does, and its lease.
func (s *story) leader() (*corev1.Pod, *coordinationv1.Lease) {
	s.t.Helper()
	lease, err := s.Kube.CoordinationV1().Leases(deploy.Namespace).Get(s.t.Context(), deploy.LeaderLease, metav1.GetOptions{})
	require.NoError(s.t, err)
	require.NotNil(s.t, lease.Spec.HolderIdentity)
	for _, pod := range s.replicas() {
		if leads(&pod, lease) {
			return &pod, lease
		}
	}
	return nil, lease
}

// replicas returns the pods of the controller, except those that have failed for good.
func (s *story) replicas() []corev1.Pod {
	s.t.Helper()
	pods, err := s.Kube.CoreV1().Pods(deploy.Namespace).List(s.t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=nhc-controller"})
	require.NoError(s.t, err)
	return slices.DeleteFunc(pods.Items, failed)
}

// controllers returns the nodes of the replica that leads, and of the others.
func (s *story) controllers() (leader *Node, others []*Node) {
	s.t.Helper()
	leading := s.podOfLeader()
	for _, pod := range s.replicas() {
		if pod.Spec.NodeName != "" && pod.UID != leading.UID {
			others = append(others, s.Node(pod.Spec.NodeName))
		}
	}
	return s.Node(leading.Spec.NodeName), others
}

// failed is true for a pod that a kubelet has refused, for example because it did not know yet that a taint had been
// removed. Kubernetes makes another one, and keeps this one.
func failed(pod corev1.Pod) bool { return pod.Status.Phase == corev1.PodFailed }

func leads(pod *corev1.Pod, lease *coordinationv1.Lease) bool {
	return strings.HasPrefix(*lease.Spec.HolderIdentity, pod.Name)
}

// fail makes a node fail, from when on times count.
func (s *story) fail(node *Node, how string, failure func(*Node) error) {
	s.t.Helper()
	s.before = len(s.lines())
	s.timeline.Restart()
	s.timeline.Say("test", how+" of node "+node.Name)
	require.NoError(s.t, failure(node))
}

// await returns when a line of the timeline was said.
func (s *story) await(line string) time.Duration {
	s.t.Helper()
	after, err := s.timeline.Await(s.t.Context(), line, patience)
	require.NoError(s.t, err)
	return after
}

// times are those of a failure of the node of the database that is remediated.
type times struct {
	noticed, created, fenced, elsewhere, back time.Duration
}

// remediated waits for all steps of a remediation of the node of the database, and checks that the volume
// never had two writers. mend is called when the pod runs elsewhere; nil means that power is all it takes.
func (s *story) remediated(node *Node, how, symptom string, mend func(*Node) error) times {
	s.t.Helper()
	about := "node " + node.Name
	var took times
	took.noticed = s.await(about + " " + symptom)
	took.created = s.await("remediation " + node.Name + " created")
	took.fenced = s.await("BMC of " + node.Name + " has the taint")
	var err error
	took.elsewhere, _, err = s.timeline.AwaitOther(s.t.Context(), "pod "+database+" runs on ", node.Name, patience)
	require.NoError(s.t, err)
	s.await("BMC of " + node.Name + " has its power back")
	if mend != nil {
		s.timeline.Say("test", "what failed is mended")
		require.NoError(s.t, mend(node))
	}
	took.back = s.await(about + " Ready=True")
	s.await("remediation " + node.Name + " deleted")
	s.requireOneWriter()
	s.settle()
	fmt.Fprintf(s.t.Output(), "TIMES %-24s noticed %5.1f  remediation %5.1f  fenced %5.1f  pod elsewhere %5.1f  node back %5.1f\n", how,
		took.noticed.Seconds(), took.created.Seconds(), took.fenced.Seconds(), took.elsewhere.Seconds(), took.back.Seconds())
	s.requireWithin(took.noticed, *grace+noticed)
	s.requireWithin(took.created-took.noticed, decided+s.later)
	return took
}

// writers returns the nodes that have written to the volume since the failure, in the order of their
// lines, without repetitions.
func (s *story) writers() []string {
	s.t.Helper()
	lines := s.lines()
	var nodes []string
	for _, line := range lines[s.before:] {
		_, node, found := strings.Cut(line, " ")
		require.True(s.t, found, line)
		nodes = append(nodes, strings.TrimSpace(node))
	}
	return slices.Compact(nodes)
}

// lines are what was written to the volume.
func (s *story) lines() []string {
	s.t.Helper()
	content, err := os.ReadFile(filepath.Join(s.shared(), "volume-0", "log"))
	require.NoError(s.t, err)
	return slices.Collect(strings.Lines(string(content)))
}

// requireOneWriter checks that the volume was handed over once at most: two writers at a time would
// take turns every second.
func (s *story) requireOneWriter() {
	s.t.Helper()
	require.LessOrEqual(s.t, len(s.writers()), 2, "the nodes that wrote: %q", s.writers())
}
