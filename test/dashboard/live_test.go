// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"bytes"
	"context"
	"encoding/json"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/nhc-controller/nhc-controller/pkg/kubectl/command"
	"github.com/nhc-controller/nhc-controller/test/deploy"
	"github.com/nhc-controller/nhc-controller/test/localkube"
	"github.com/nhc-controller/nhc-controller/test/patience"
	"github.com/nhc-controller/nhc-controller/test/remediator"
)

// cluster is a control plane with the controller, and nodes that do what the test says.
type cluster struct {
	*deploy.Cluster
	t *testing.T
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	started, err := deploy.NewCluster(t.Context(), localkube.Options{}, deploy.Kinds{Manifest: remediator.Manifest, Group: remediator.Resource.Group})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, started.Stop()) })
	c := &cluster{Cluster: started, t: t}
	controller, err := deploy.Start(t.Context(), c.ControlPlane, deploy.Controller{Name: "nhc-controller", Args: []string{"-v=4"}})
	require.NoError(t, err)
	t.Cleanup(func() {
		controller.Stop()
		require.Empty(t, deploy.LogFaults(controller))
	})
	c.apply(remediator.TemplateManifest)
	for _, name := range []string{"node-a", "node-b", "node-c"} {
		_, err := c.Kube.CoreV1().Nodes().Create(t.Context(), &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"node-role.kubernetes.io/worker": ""}},
			Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{ready(corev1.ConditionTrue)}},
		}, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	c.apply(remediator.NodeHealthCheckManifest)
	return c
}

func (c *cluster) apply(manifest string) {
	c.t.Helper()
	_, err := c.KubectlInput(c.t.Context(), strings.NewReader(manifest), "apply", "-f", "-")
	require.NoError(c.t, err)
}

func ready(status corev1.ConditionStatus) corev1.NodeCondition {
	return corev1.NodeCondition{Type: corev1.NodeReady, Status: status, LastTransitionTime: metav1.Now(), LastHeartbeatTime: metav1.Now(), Reason: "Test"}
}

// set sets the condition Ready of a node.
func (c *cluster) set(node string, status corev1.ConditionStatus) {
	c.t.Helper()
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": []corev1.NodeCondition{ready(status)}}})
	require.NoError(c.t, err)
	_, err = c.Kube.CoreV1().Nodes().Patch(c.t.Context(), node, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	require.NoError(c.t, err)
}

// output is what a command prints while it runs.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements [io.Writer].
func (o *output) Write(text []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(text)
}

// String returns the output so far.
func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

var address = regexp.MustCompile(`http://127\.0\.0\.1:\d+/[A-Z2-7]{26,}/`)

// start runs kubectl nhc dashboard, and returns the address that it prints.
func (c *cluster) start() (printed string, stop func()) {
	c.t.Helper()
	ctx, cancel := context.WithCancel(c.t.Context())
	var out, errOut output
	ended := make(chan int, 1)
	environment := command.Environment{
		IOStreams: genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &errOut}, Now: time.Now, Getenv: func(string) string { return "" },
	}
	go func() {
		ended <- command.Run(ctx, environment, []string{"--kubeconfig=" + c.AdminKubeconfig(), "dashboard"})
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		require.Equal(c.t, command.ExitOK, <-ended, errOut.String())
	})
	c.t.Cleanup(stop)
	require.Eventually(c.t, func() bool { return address.MatchString(out.String()) }, patience.Limit, 50*time.Millisecond, "no address: %s", &errOut)
	return address.FindString(out.String()), stop
}

// TestLive: what happens in the cluster appears on the page, which is never loaded again; also when the
// API server was away in the meantime.
func TestLive(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	address, stop := c.start()
	b := newTab(t, desk)
	b.open(address)
	b.shows("Live", "workers", "3 of 3 nodes healthy", "No node is unhealthy.")
	eval[int](b, "window.opened = 1")

	c.set("node-a", corev1.ConditionUnknown)
	b.shows("Ready=Unknown for")
	b.shows("StepRunning", "PowerCycleRemediation node-a", "2 of 3 nodes healthy")
	c.set("node-a", corev1.ConditionTrue)
	b.shows("3 of 3 nodes healthy", "No node is unhealthy.")
	require.Equal(t, 1, eval[int](b, "window.opened"), "the page was loaded again")

	b.open(address + "history")
	b.shows("1 episode.", "recovered", "Ready=Unknown")
	require.Contains(t, eval[string](b, "document.querySelector('a.bar').getAttribute('aria-label')"), "node-a, workers: detected ")
	eval[bool](b, "document.querySelector('a.bar').focus() === undefined")
	b.press("\r")
	b.eventually("the history of the node", func() bool { return eval[string](b, "location.search") == "?check=workers&node=node-a" })
	b.shows("1 episode", "PowerCycleRemediation", "Recovered")

	b.open(address + "node?name=node-b")
	b.shows("Node node-b", "healthy")
	eval[int](b, "window.opened = 2")
	require.NoError(t, c.StopAPIServer())
	b.shows("This page is not up to date: it shows the state of", "Cannot watch ")
	require.Contains(t, b.text(), "Node node-b")
	require.NoError(t, c.StartAPIServer(t.Context()))
	b.eventually("the page is up to date again", func() bool { return !strings.Contains(b.text(), "not up to date") })
	c.set("node-b", corev1.ConditionFalse)
	b.shows("unhealthy since", "Remediating, StepRunning")
	require.Equal(t, 2, eval[int](b, "window.opened"), "the page was loaded again")
	b.quiet()

	stop()
	b.shows("Connection lost. This is the state of", "Node node-b")
	b.quiet("net::ERR_")
}
