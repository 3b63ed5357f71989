// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	nhcv1alpha1 "github.com/nhc-controller/nhc-controller/pkg/apis/nhc/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/kubectl/command"
	"github.com/nhc-controller/nhc-controller/pkg/kubectl/view"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
)

// plugin runs kubectl nhc as the user, until the context ends.
func (u *user) plugin(ctx context.Context, out io.Writer, args ...string) (errors string, code int) {
	var errOut bytes.Buffer
	environment := command.Environment{
		IOStreams: genericiooptions.IOStreams{In: strings.NewReader(""), Out: out, ErrOut: &errOut},
		Now:       time.Now, Getenv: func(string) string { return "" },
	}
	code = command.Run(ctx, environment, append([]string{"--kubeconfig=" + u.AdminKubeconfig(), "--as=" + u.name}, args...))
	return errOut.String(), code
}

// shows runs the plugin, which succeeds and prints all these texts.
func (u *user) shows(texts []string, args ...string) string {
	u.t.Helper()
	var out bytes.Buffer
	errors, code := u.plugin(u.t.Context(), &out, args...)
	require.Equal(u.t, command.ExitOK, code, "%v: %s", args, errors)
	if args[0] != "__complete" { // Which tells there what a shell does with the names.
		require.Empty(u.t, errors)
	}
	for _, text := range texts {
		require.Contains(u.t, out.String(), text, args)
	}
	return out.String()
}

// fails runs the plugin, which fails with this sentence, and prints nothing else.
func (u *user) fails(sentence string, args ...string) {
	u.t.Helper()
	var out bytes.Buffer
	errors, code := u.plugin(u.t.Context(), &out, args...)
	require.Equal(u.t, command.ExitError, code, "%v: %s", args, out.String())
	require.Equal(u.t, "Error: "+sentence+"\n", errors, args)
	require.Empty(u.t, out.String())
}

// finds runs the plugin, which finds something, and says so.
func (u *user) finds(sentence string, args ...string) {
	u.t.Helper()
	errors, code := u.plugin(u.t.Context(), io.Discard, args...)
	require.Equal(u.t, command.ExitFound, code, "%v: %s", args, errors)
	require.Contains(u.t, errors, sentence, args)
}

// mayPatchNodes binds a role that the controller does not ship: what a pause of a node needs.
func (u *user) mayPatchNodes() {
	u.t.Helper()
	meta := metav1.ObjectMeta{Name: "patch-nodes-of-" + u.scenario.name}
	_, err := u.kube.RbacV1().ClusterRoles().Create(u.t.Context(), &rbacv1.ClusterRole{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"get", "list", "patch"}},
	}}, metav1.CreateOptions{})
	require.NoError(u.t, err)
	_, err = u.kube.RbacV1().ClusterRoleBindings().Create(u.t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: meta.Name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: u.name}},
	}, metav1.CreateOptions{})
	require.NoError(u.t, err)
}

// TestKubectlPlugin: each command of kubectl nhc, as a user with the shipped role for it.
func TestKubectlPlugin(t *testing.T) {
	t.Parallel()
	c := exclusiveCluster(t)
	controller := c.startController(t, "plugin")
	s := newScenario(t, c)
	viewer, editor := s.newUser("nhc-view", ""), s.newUser("nhc-edit", "")
	s.eventually("the roles", func() bool {
		return viewer.kubectl("kubectl get nodes", "") == nil && editor.kubectl("kubectl get nhc", "") == nil
	})

	t.Run("empty", func(*testing.T) {
		viewer.shows([]string{"There is no health check: nothing looks after the nodes of this cluster."}, "status")
	})
	s.createNodes("a", "b", "c")
	s.createNHC(conditions(
		v1alpha1.UnhealthyCondition{Type: corev1.NodeReady, Status: corev1.ConditionUnknown},
		v1alpha1.UnhealthyCondition{Type: corev1.NodeReady, Status: corev1.ConditionFalse, Duration: metav1.Duration{Duration: time.Hour}},
	), healthyDelay(-1))
	s.eventuallyCounts(3, 3)
	t.Run("names", func(*testing.T) { testPluginNames(viewer) })
	t.Run("lint", func(*testing.T) { testPluginLint(viewer) })
	t.Run("simulate", func(*testing.T) { viewer.shows([]string{"NodeHealthCheck " + s.name}, "simulate", "--for=1m") })
	t.Run("pause", func(*testing.T) { testPluginPause(viewer, editor) })
	t.Run("pause the cluster", func(*testing.T) { testPluginPauseCluster(viewer, editor) })
	t.Run("pause nodes", func(*testing.T) { testPluginPauseNode(viewer, editor) })
	t.Run("status", func(*testing.T) { testPluginStatus(viewer) })
	t.Run("explain", func(*testing.T) { testPluginExplain(viewer) })
	t.Run("dashboard", func(*testing.T) { testPluginDashboard(viewer) })
	t.Run("confirm-healthy", func(*testing.T) { testPluginConfirm(editor) })
	t.Run("history", func(*testing.T) { testPluginHistory(viewer) })
	t.Run("abort", func(*testing.T) { testPluginAbort(viewer, editor) })
	controller.Stop()
	t.Run("no controller", func(*testing.T) {
		viewer.shows([]string{"No controller is at work: ", "kubectl -n nhc-system get pods"}, "status")
		viewer.shows([]string{"No controller is at work: ", "Next: nothing, as long as no controller is at work"}, "explain", "node", viewer.node("a"))
		editor.finds("The pause has no effect yet. No controller is at work: ", "pause", "--cluster", "--reason=late")
	})
}

func testPluginNames(u *user) {
	u.fails(`There is no health check or budget "`+u.scenario.name+`x": kubectl nhc status lists what there is.`, "status", u.scenario.name+"x")
	require.Equal(u.t, "nodehealthcheck.remediation.medik8s.io/"+u.scenario.name+"\n", u.shows(nil, "status", "-o", "name"))
	require.Equal(u.t, u.scenario.name, u.shows(nil, "status", "-o", "jsonpath={.nodeHealthChecks[0].name}"))
	u.shows([]string{u.scenario.name + "\n"}, "__complete", "pause", "s-")
	u.shows([]string{"node/" + u.node("a") + "\nnode/" + u.node("b") + "\n"}, "__complete", "pause", "node/"+u.node(""))
	u.shows([]string{"node/\n"}, "__complete", "resume", "no")
	u.shows([]string{"kubectl-nhc "}, "version")
}

// testPluginPause: pause requests of others stay, and nothing is done twice.
func testPluginPause(viewer, editor *user) {
	name, requests := editor.scenario.name, func() []string { return editor.get().Spec.PauseRequests }
	viewer.fails("You may not patch nodehealthchecks: ask for the ClusterRole nhc-edit, or nhc-operate to pause and resume.", "pause", name, "--reason=freeze")
	editor.fails("Say why, with --reason: others see it, and resume by it.", "pause", name)
	editor.shows([]string{"NodeHealthCheck " + name + " is paused: ", "(server dry run)"}, "pause", name, "--reason=freeze", "--dry-run=server")
	editor.shows([]string{"- freeze\n"}, "pause", name, "--reason=freeze", "--dry-run=server", "-o", "yaml")
	require.Empty(editor.t, requests())
	onCall := editor.newUser("nhc-pause", "")
	editor.eventually("the role", func() bool { return onCall.kubectl("kubectl get nhc", "") == nil })
	onCall.shows([]string{"is paused: no remediation and no next step begins. What runs goes on."}, "pause", name, "--reason=freeze")
	editor.shows([]string{"is paused for this reason already."}, "pause", name, "--reason=freeze")
	editor.shows([]string{"is paused: "}, "pause", "--all", "--reason=upgrade")
	require.Equal(editor.t, []string{"freeze", "upgrade"}, requests())
	editor.eventually("the phase", func() bool { return strings.HasSuffix(editor.status().Reason, "freeze,upgrade") })
	viewer.shows([]string{"Paused: freeze,upgrade"}, "status", name)
	editor.finds("Error: NodeHealthCheck "+name+` is paused for 2 reasons: name one with --reason: "freeze", "upgrade".`, "resume", name)
	onCall.shows([]string{`is still paused for "upgrade".`}, "resume", name, "--reason=freeze")
	editor.shows([]string{`goes on. It was paused for "upgrade".`}, "resume", name)
	editor.shows([]string{"is not paused."}, "resume", name)
	require.Empty(editor.t, requests())
	editor.fails(`There is no NodeHealthCheck "`+name+`x": kubectl nhc status lists what there is.`, "pause", name+"x", "--reason=x")
}

// testPluginPauseCluster: it is in force when the command ends, and what else stops everything is named.
func testPluginPauseCluster(viewer, editor *user) {
	reason := "--reason=incident 4711"
	viewer.fails("You may not create remediationbudgets: ask for the ClusterRole nhc-edit, or nhc-operate to pause and resume.", "pause", "--cluster", reason)
	editor.shows([]string{"The cluster is paused: ", "(server dry run)"}, "pause", "--cluster", reason, "--dry-run=server")
	editor.shows([]string{"maxConcurrent: 0", "nodeSelector: {}"}, "pause", "--cluster", reason, "--dry-run=server", "-o", "yaml")
	editor.shows([]string{"The cluster is not paused."}, "resume", "--cluster")
	editor.shows([]string{"The cluster is paused: no remediation and no next step begins. What runs goes on."}, "pause", "--cluster", reason)
	editor.shows([]string{"The cluster is paused: "}, "pause", "--cluster", "--reason=drill")
	editor.finds(`The cluster is paused for 2 reasons: name one with --reason: "incident 4711", "drill".`, "resume", "--cluster")
	editor.finds("RemediationBudget pause-cluster still lets nothing begin: incident 4711. To end it: kubectl nhc resume --cluster", "resume", "--cluster", "--reason=drill")
	budget, err := editor.nhc.NHCV1alpha1().RemediationBudgets().Get(editor.t.Context(), view.PauseBudget, metav1.GetOptions{})
	require.NoError(editor.t, err)
	budgets := editor.nhc.NHCV1alpha1().RemediationBudgets()
	brake, err := budgets.Create(editor.t.Context(), &nhcv1alpha1.RemediationBudget{ObjectMeta: metav1.ObjectMeta{Name: "brake"}, Spec: budget.Spec}, metav1.CreateOptions{})
	require.NoError(editor.t, err)
	editor.fail("a")
	editor.eventuallyHeldByBudget("a", "brake: no remediation may begin. incident 4711")
	editor.eventually("column GATE", func() bool {
		allowed := meta.FindStatusCondition(editor.status().Conditions, v1alpha1.ConditionRemediationAllowed)
		return allowed.Reason == v1alpha1.ReasonStopped && allowed.Message == "RemediationBudget brake stops everything: incident 4711"
	})
	viewer.eventually("the budget tells who waits", func() bool {
		return strings.Contains(viewer.shows([]string{"Held"}, "status"), "1 node waits: "+editor.node("a"))
	})
	viewer.fails("You may not delete remediationbudgets: ask for the ClusterRole nhc-edit, or nhc-operate to pause and resume.", "resume", "--cluster")
	editor.finds("RemediationBudget brake still lets nothing begin: incident 4711. To end it: kubectl delete remediationbudget brake", "resume", "--cluster")
	require.NoError(editor.t, budgets.Delete(editor.t.Context(), brake.Name, metav1.DeleteOptions{}))
	editor.eventuallyCR("a")
}

func testPluginPauseNode(viewer, editor *user) {
	node := "node/" + editor.node("b")
	viewer.fails("You may not patch nodes: ask for the ClusterRole nhc-operate.", "pause", node, "--reason=disk")
	editor.fails("You may not get nodes: ask for the ClusterRole nhc-view.", "pause", node, "--reason=disk")
	editor.mayPatchNodes()
	editor.eventually("the role", func() bool { return editor.kubectl("kubectl get nodes", "") == nil })
	editor.shows([]string{"Node " + editor.node("b") + " is paused: ", "(server dry run)"}, "pause", node, "--reason=disk", "--dry-run=server")
	editor.shows([]string{"is not paused."}, "resume", node)
	editor.shows([]string{"Node " + editor.node("a") + " is paused: ", "Node " + editor.node("b") + " is paused: "}, "pause", "-l", scenarioLabel+"="+editor.scenario.name, "--reason=disk")
	require.Equal(editor.t, "true", editor.nodeObject("b").Labels[v1alpha1.LabelExclude])
	viewer.shows([]string{"It is paused: disk. "}, "explain", node)
	editor.shows([]string{`goes on. It was paused for "disk".`}, "resume", "-l", scenarioLabel+"="+editor.scenario.name)
	require.NotContains(editor.t, editor.nodeObject("b").Labels, v1alpha1.LabelExclude)
	editor.fails(`There is no Node "`+editor.node("b")+`b": kubectl get nodes lists what there is.`, "pause", node+"b", "--reason=x")
	editor.fails(`There is no NodeHealthCheck "`+editor.node("b")+`": did you mean `+node+"?", "pause", editor.node("b"), "--reason=x")
}

// testPluginStatus: node a is under remediation, node b is next.
func testPluginStatus(u *user) {
	u.setCondition("b", corev1.NodeReady, corev1.ConditionFalse, time.Now().Add(-30*time.Minute))
	u.eventually("b is on its way", func() bool { soon := u.status().SoonUnhealthyNodes; return soon != nil && *soon == 1 })
	u.shows([]string{"Remediating", "StepRunning", "Next to become unhealthy", u.node("b"), "Ready=False for", "1 of 3"}, "status", u.scenario.name)
	u.shows([]string{"PowerCycleRemediation/" + u.node("a"), "Ready=Unknown"}, "status", "-o", "wide")
	var overview view.Overview
	require.NoError(u.t, json.Unmarshal([]byte(u.shows(nil, "status", "-o", "json")), &overview))
	require.Empty(u.t, overview.Missing)
	require.Equal(u.t, u.node("b"), overview.NodeHealthChecks[0].Next[0].Name)
	require.Equal(u.t, v1alpha1.DecidedStepRunning, overview.NodeHealthChecks[0].Nodes[0].Decision.Reason)

	blind := u.newUser("view", "")
	u.eventually("the role", func() bool { return blind.kubectl("kubectl get nhc", "") == nil })
	blind.shows([]string{"StepRunning", "This view is partial, without nodes. You may not list nodes: ask for the ClusterRole nhc-view."}, "status")
	u.newUser("system:discovery", "").fails("You may not list nodehealthchecks: ask for the ClusterRole nhc-view.", "status")
	u.testWatch()
}

// output is written and read by different goroutines.
type output struct {
	mu   sync.Mutex
	text strings.Builder
}

func (o *output) Write(text []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(text)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// testWatch: a change is shown without being asked for.
func (u *user) testWatch() {
	ctx, stop := context.WithCancel(u.t.Context())
	var out output
	ended := make(chan int)
	go func() {
		_, code := u.plugin(ctx, &out, "status", "--watch")
		ended <- code
	}()
	u.eventually("the first view", func() bool { return strings.Contains(out.String(), "Ready=False") })
	u.heal("b")
	u.eventually("another view", func() bool {
		views := strings.Split(out.String(), "NodeHealthChecks\n")
		return len(views) > 2 && strings.Contains(views[len(views)-1], "2 of 3") && !strings.Contains(views[len(views)-1], "Next to become unhealthy")
	})
	stop()
	require.Equal(u.t, command.ExitOK, <-ended)
}

// testPluginExplain: node a is under remediation. What the role does not permit is missing.
func testPluginExplain(u *user) {
	a := u.node("a")
	for _, resource := range []string{"leases", "events", "powercycleremediations"} {
		u.shows([]string{"Decision: Remediating, StepRunning", "This view is partial, without " + resource + ". You may not"}, "explain", "node", a)
	}
	everything := &user{scenario: u.scenario, name: "system:admin-of-" + u.scenario.name}
	var explanation view.Explanation
	out := everything.shows(nil, "--as-group=system:masters", "explain", "node", a, "-o", "json")
	require.NoError(u.t, json.Unmarshal([]byte(out), &explanation))
	require.Empty(u.t, explanation.Missing)
	require.True(u.t, remediation.LeaseValid(explanation.Lease, time.Now()))
	require.Equal(u.t, "NodeHealthCheck-"+u.scenario.name, remediation.LeaseHolder(explanation.Lease))
	check := explanation.Checks[0]
	require.Equal(u.t, "Unhealthy", check.State)
	require.True(u.t, check.Remediations[0].Known)
	require.NotEmpty(u.t, explanation.Events)
	u.shows([]string{"Health: healthy", "PowerCycleRemediationTemplate " + u.scenario.name + "/" + u.scenario.name}, "explain", "node", u.node("c"))
	u.fails(`There is no Node "`+a+`a": kubectl get nodes lists what there is.`, "explain", "node", a+"a")
}

func testPluginConfirm(u *user) {
	a := u.node("a")
	u.fails("Node "+a+" is not healthy, as NodeHealthCheck "+u.scenario.name+" reports: confirm it when it is.", "confirm-healthy", a)
	u.shows([]string{"needs no confirmation"}, "confirm-healthy", u.node("c"))
	u.heal("a")
	u.eventually("the delay", func() bool { entry := u.entry("a"); return entry != nil && entry.HealthyDelayed != nil })
	u.shows([]string{"is confirmed to be healthy: its remediation objects of " + u.scenario.name + " are deleted now. (server dry run)"}, "confirm-healthy", a, "--dry-run=server")
	u.shows([]string{"is confirmed to be healthy"}, "confirm-healthy", a)
	u.eventuallyNoCR("a")
	u.eventuallyNoneListed()
	u.eventually("the annotation is gone", func() bool { return len(u.nodeObject("a").Annotations) == 0 })
	u.shows([]string{"needs no confirmation"}, "confirm-healthy", a)
}

func testPluginHistory(u *user) {
	a := u.node("a")
	u.eventually("the episode", func() bool {
		history := u.status().RemediationHistory
		return len(history) > 0 && history[0].Outcome != ""
	})
	u.shows([]string{a, "recovered", "PowerCycleRemediation Recovered"}, "history", u.scenario.name, "--since=1d")
	u.fails(`There is no node or health check "unknown": kubectl nhc status lists what there is.`, "history", "unknown")
	u.shows([]string{"No node was unhealthy"}, "history", u.node("c"))
	var history view.History
	require.NoError(u.t, json.Unmarshal([]byte(u.shows(nil, "history", "node/"+a, "-o", "json")), &history))
	require.Equal(u.t, v1alpha1.OutcomeRecovered, history.Episodes[0].Outcome)
	u.fails(`"yesterday" is no age: give one such as 90m, 12h, 7d or 2w.`, "history", "--since=yesterday")
}

// testPluginAbort: it asks first, is bounded, and nothing begins again.
func testPluginAbort(viewer, editor *user) {
	name := editor.scenario.name
	admin := &user{scenario: editor.scenario, name: "system:admin-of-" + name}
	abort := []string{"--as-group=system:masters", "abort", name, "--reason=switch"}
	editor.shows([]string{"has no remediation that runs."}, "abort", name, "--reason=switch")
	editor.fail("a")
	editor.eventuallyCR("a")
	editor.eventually("the report", func() bool { entry := editor.entry("a"); return entry != nil && len(entry.Remediations) == 1 })
	editor.fails("Say why, with --reason: others see it, and resume by it.", "abort", name)
	editor.fails("NodeHealthCheck "+name+" remediates 1 nodes, more than --limit 0: give a higher one if you mean all of them.", "abort", name, "--reason=switch", "--limit=0")
	errors, code := admin.plugin(editor.t.Context(), io.Discard, abort...)
	require.Equal(editor.t, command.ExitError, code)
	require.Contains(editor.t, errors, "PowerCycleRemediation "+editor.node("a")+" of node "+editor.node("a")+"\n")
	require.Contains(editor.t, errors, "is not taken back: a power-off")
	require.Contains(editor.t, errors, "Nothing was changed: answer yes, or give --yes.")
	viewer.fails("You may not patch nodehealthchecks: ask for the ClusterRole nhc-edit, or nhc-operate to pause and resume.",
		"abort", name, "--reason=switch", "--yes")
	require.Empty(editor.t, editor.get().Spec.PauseRequests)
	admin.shows([]string{"is paused. (server dry run)"}, append(abort, "--dry-run=server")...)
	admin.shows([]string{"is paused.", "PowerCycleRemediation " + editor.node("a") + " is deleted, for node " + editor.node("a")}, append(abort, "--yes")...)
	editor.eventuallyNoCR("a")
	require.Equal(editor.t, []string{"switch"}, editor.get().Spec.PauseRequests)
}
