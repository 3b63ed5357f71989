// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	lua "github.com/yuin/gopher-lua"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	nhcv1alpha1 "github.com/nhc-controller/nhc-controller/pkg/apis/nhc/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// healthScript is a script of docs/gitops.md, with the kind that it is about.
var healthScript = regexp.MustCompile(`(?m)^  resource\.customizations\.health\.(\S+): (?:&\w+ )?\|\n((?:    .*\n|\n)+)`)

// argoHealth runs the health script of docs/gitops.md on an object as Argo CD does.
func argoHealth(t *testing.T, object any) (status, message string) {
	t.Helper()
	docs, err := os.ReadFile(filepath.Join("..", "..", "docs", "gitops.md"))
	require.NoError(t, err)
	script := healthScript.FindSubmatch(docs)
	require.NotNil(t, script)
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	require.NoError(t, err)

	state := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer state.Close()
	lua.OpenBase(state)
	state.SetGlobal("obj", luaValue(state, content))
	require.NoError(t, state.DoString(string(script[2])))
	result, ok := state.Get(-1).(*lua.LTable)
	require.True(t, ok, "a table")
	return result.RawGetString("status").String(), result.RawGetString("message").String()
}

// luaValue returns what a script sees of a value of JSON.
func luaValue(state *lua.LState, value any) lua.LValue {
	switch value := value.(type) {
	case map[string]any:
		table := state.NewTable()
		for key, item := range value {
			table.RawSetString(key, luaValue(state, item))
		}
		return table
	case []any:
		table := state.NewTable()
		for _, item := range value {
			table.Append(luaValue(state, item))
		}
		return table
	case string:
		return lua.LString(value)
	case bool:
		return lua.LBool(value)
	case int64:
		return lua.LNumber(value)
	case float64:
		return lua.LNumber(value)
	default:
		return lua.LNil
	}
}

// testHealthScript: what Argo CD shows of objects as the controller writes them (spec 18.7).
func testHealthScript(t *testing.T, c *cluster) {
	s := newScenario(t, c)
	shows := func(what, status, message string, read func() any) {
		t.Helper()
		var gotStatus, gotMessage string
		s.eventually(what, func() bool {
			gotStatus, gotMessage = argoHealth(t, read())
			return gotStatus == status && strings.HasPrefix(gotMessage, message)
		})
	}
	check := func() any { return s.get() }
	budget := func() any {
		b, err := s.nhc.NHCV1alpha1().RemediationBudgets().Get(t.Context(), s.name, metav1.GetOptions{})
		require.NoError(t, err)
		return b
	}
	status, _ := argoHealth(t, &v1alpha1.NodeHealthCheck{ObjectMeta: metav1.ObjectMeta{Generation: 1}})
	require.Equal(t, "Progressing", status, "the controller has not looked at it")
	old := &v1alpha1.NodeHealthCheck{ObjectMeta: metav1.ObjectMeta{Generation: 2}, Status: v1alpha1.NodeHealthCheckStatus{ObservedGeneration: 1}}
	old.Status.Conditions = []metav1.Condition{{Type: "RemediationAllowed", Status: metav1.ConditionTrue}}
	status, _ = argoHealth(t, old)
	require.Equal(t, "Progressing", status, "the controller has not looked at the change")

	require.NoError(t, s.sync(argo, s.manifest()))
	shows("no nodes", "Degraded", "NoNodes: the selector selects no node", check)
	_, err := c.Kubectl(t.Context(), "wait", "nhc", s.name, "--for=condition=Stalled", "--timeout=30s")
	require.NoError(t, err, "kubectl wait sees it")
	s.createNodes("a", "b")
	shows("nodes", "Healthy", "2 of 2 nodes are healthy", check)
	s.fail("a")
	s.eventuallyCR("a")
	shows("a node that fails is no fault of Git", "Healthy", "", check)
	s.heal("a")
	s.eventuallyNoCR("a")
	s.updateNHC(pause("freeze"))
	shows("a pause", "Suspended", "Paused: freeze", check)
	s.updateNHC(pause())
	shows("no pause", "Healthy", "", check)
	require.NoError(t, s.resource(s.kind.templates).Delete(t.Context(), s.name, metav1.DeleteOptions{}))
	shows("no template", "Degraded", "RemediationTemplateNotFound: Remediation template not found", check)

	s.createBudget(maxConcurrent(5))
	shows("a budget", "Healthy", "", budget)
	s.updateBudget(func(spec *nhcv1alpha1.RemediationBudgetSpec) {
		spec.ActiveDuring = []nhcv1alpha1.BudgetSchedule{{Cron: "0 9 * * 1-5", TimeZone: "Middle-earth/Shire", Duration: metav1.Duration{Duration: time.Hour}}}
	})
	shows("an invalid budget", "Degraded", "InvalidBudget: schedule 1: unknown time zone", budget)
}
