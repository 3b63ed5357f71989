// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	nhcv1alpha1 "github.com/nhc-controller/nhc-controller/pkg/apis/nhc/v1alpha1"
)

// testBudgetDurations compares the rules about durations with the parser of Go.
func testBudgetDurations(a *budgetAdmission) {
	unsigned := regexp.MustCompile(`^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`)
	stored := a.store("valid", a.parse(budgetSpec), "")
	accepted := 0
	for _, text := range []string{
		"0s", "0", "00.00h", "0ns0h", "0.5ns", "0.9ns0.9ns", "1ns", "0.001us", "0.0000000001h", "0.000000000001h", "00000000000000000000000000000000000001ns",
		"1s", "1m", "1h1h", "3m2ms1us", "1µs", "1μs", "60s", "59.999999999s", "99999999999ns", "999999999999ns", "100h", "0100.5h",
		".5s", "5.s", "1 s", "1s ", "1S", "1d", "s", "1", "+1s", "-1s", "1e3s", "1s-1s", "",
		"2562047h47m16s", "2562047h47m15.9s", "2562047h48m", "9223372036s", "9223372037s", "153722867m", "153722868m", "1281023h1281024h", "1281024h1281024h",
		strings.Repeat("1s", 32), strings.Repeat("0h", 32), "0.00000000000000000000000000000000000000000001s", "99999999999999999999h",
	} {
		duration, err := time.ParseDuration(text)
		valid := err == nil && unsigned.MatchString(text) && duration > 0
		for field, changes := range map[string]string{
			"minInterval": fmt.Sprintf("{minInterval: %q}", text),
			"cooldown":    fmt.Sprintf("{maxUnhealthy: 1, cooldown: %q}", text),
			"duration":    fmt.Sprintf(`{activeDuring: [{cron: "* * * * *", duration: %q}]}`, text),
		} {
			refusals := a.judge(stored, a.budget(changes))
			if valid {
				accepted++
				require.Empty(a, refusals, text)
				continue
			}
			require.Len(a, refusals, 1, "%s: %q", field, text)
			require.Contains(a, refusals[0], field, text)
		}
	}
	require.Greater(a, accepted, 20, "some are valid")
}

// testBudgetSelectors compares the rules about selectors and label keys with the parsers of
// Kubernetes.
func testBudgetSelectors(a *budgetAdmission) {
	stored := a.store("valid", a.parse(budgetSpec), "")
	selectors, keys := 0, 0
	for _, selector := range candidateSelectors() {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&selector)
		require.NoError(a, err)
		_, invalid := metav1.LabelSelectorAsSelector(&selector)
		if invalid == nil {
			selectors++
		}
		aboutNodes, aboutMachines := a.parse(budgetSpec), a.parse(budgetSpec)
		aboutNodes["nodeSelector"] = content
		delete(aboutMachines, "nodeSelector")
		aboutMachines["machineSelector"] = map[string]any{"namespace": "machines", "selector": content}
		for prefix, spec := range map[string]map[string]any{badNodes: aboutNodes, badMachines: aboutMachines} {
			refusals := a.judge(stored, spec)
			require.Equal(a, invalid == nil, len(refusals) == 0, "%v: %v", selector, refusals)
			for _, refusal := range refusals {
				require.True(a, strings.HasPrefix(refusal, prefix), refusal)
			}
		}
		for key := range selector.MatchLabels {
			spec := a.parse(budgetSpec)
			spec["topologyKey"] = key
			if len(validation.IsQualifiedName(key)) == 0 {
				keys++
				require.Empty(a, a.judge(stored, spec), key)
			} else {
				require.Equal(a, []string{badTopologyKey}, a.judge(stored, spec), key)
			}
		}
	}
	require.Greater(a, selectors, 20, "some are valid")
	require.Greater(a, keys, 10, "some are valid")
}

// testBudgetCron: admission accepts what the controller can evaluate, field by field, and denies
// what it cannot.
func testBudgetCron(a *budgetAdmission) {
	stored := a.store("valid", a.parse(budgetSpec), "")
	items := []string{
		"*", "?", "0", "1", "01", "6", "7", "12", "13", "23", "24", "31", "32", "59", "60", "1-1", "1-6", "6-1", "1-7", "0-12", "0-23", "0-59", "5-60",
		"*/1", "*/05", "*/0", "3/2", "1-5/2", "1-5/0", "1/2/3", "1-2-3", "1,2,6", "1,60", "*,3", "-", "/", "-1", "1-", "JAN", "Dec", "jan-mar", "mar-jan", "jan-jan", "SUN", "mon-Fri", "fri-mon",
		"SUNDAY", "MO", "JAN-MON", "*/1000", "a", "L", "ſun", "1.5", "0x1", "1e1",
	}
	accepted := 0
	for field := range 5 {
		for _, item := range items {
			fields := []string{"*", "*", "*", "*", "*"}
			fields[field] = item
			spec := a.budget(cron(strings.Join(fields, " ")))
			problem, _ := problemOf(spec)
			refusals := a.judge(stored, spec)
			if len(refusals) == 0 {
				accepted++
			}
			require.Equal(a, problem != "", len(refusals) > 0, "%v: %s: %v", fields, problem, refusals)
		}
	}
	require.Greater(a, accepted, 50, "some are valid")
}

// testBudgetDefaults: nothing is added to what was sent.
func testBudgetDefaults(a *budgetAdmission) {
	for _, changes := range []string{`{}`, `{maxUnhealthy: "7"}`, `{activeDuring: [{cron: "* * * * *", duration: 90s}]}`} {
		spec := a.budget(changes)
		created, err := a.client.Create(a.Context(), a.object("defaults", spec), metav1.CreateOptions{DryRun: dryRun})
		require.NoError(a, err)
		require.Equal(a, spec, created.Object["spec"])
		require.NotContains(a, created.Object, "status")
	}
}

// budgetStatus has every field, with values that a later version may have.
const budgetStatus = `
observedGeneration: 7
observedNodes: 12
notHealthyNodes: 3
remediatingNodes: 2
remediationsAllowed: 0
groups:
- {name: "", observedNodes: 2, notHealthyNodes: 1, remediatingNodes: 1, remediationsAllowed: 0, lastStarted: "2026-01-02T03:04:05Z"}
- {name: zone-a, observedNodes: 10, notHealthyNodes: 2, remediatingNodes: 1}
conditions:
- {type: Exhausted, status: "True", reason: Later, message: "2 nodes wait: a, b", observedGeneration: 7, lastTransitionTime: "2026-01-02T03:04:05Z"}
- {type: Later, status: Unknown, reason: Later, message: "", lastTransitionTime: "2026-01-02T03:04:05Z"}
`

// writeStatuses writes the status in every way.
func (a *budgetAdmission) writeStatuses(object *unstructured.Unstructured) *unstructured.Unstructured {
	a.Helper()
	for _, status := range []string{`{observedNodes: 0}`, `{groups: [{name: "", observedNodes: 0, notHealthyNodes: 0, remediatingNodes: 0}]}`, budgetStatus} {
		object = a.writeStatus(object, status)
		require.Equal(a, a.parse(status), object.Object["status"])
	}
	apply := a.object(object.GetName(), nil)
	apply.Object["status"] = a.parse(`{observedNodes: 3}`)
	apply.SetResourceVersion(object.GetResourceVersion())
	_, err := a.client.ApplyStatus(a.Context(), object.GetName(), apply, metav1.ApplyOptions{FieldManager: "test", Force: true})
	require.NoError(a, err)
	object, err = a.client.Patch(a.Context(), object.GetName(), types.MergePatchType, []byte(`{"status":{"notHealthyNodes":5}}`), metav1.PatchOptions{}, "status")
	require.NoError(a, err)
	return object
}

// testBudgetStatus: no rule is about the status, and it is written by itself (spec B5.2).
func testBudgetStatus(a *budgetAdmission) {
	object := a.writeStatuses(a.store("status", a.parse(budgetSpec), ""))
	require.Equal(a, a.parse(budgetSpec), object.Object["spec"])
	require.Equal(a, int64(1), object.GetGeneration())

	since := metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	var most nhcv1alpha1.RemediationBudgetStatus
	for i := range nhcv1alpha1.MaxBudgetGroups {
		most.Groups = append(most.Groups, nhcv1alpha1.BudgetGroup{Name: fmt.Sprintf("%063d", i), LastStarted: &since})
	}
	for i := range 10 {
		most.Conditions = append(most.Conditions, metav1.Condition{
			Type: fmt.Sprintf("Condition%d", i), Status: metav1.ConditionTrue, Reason: "Reason", Message: strings.Repeat("<", 4096), LastTransitionTime: since,
		})
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&most)
	require.NoError(a, err)
	object.Object["status"] = content
	object, err = a.client.UpdateStatus(a.Context(), object, metav1.UpdateOptions{})
	require.NoError(a, err)

	// A write of the object leaves the status alone.
	object.Object["status"] = map[string]any{}
	object.Object["spec"] = a.budget(`{reason: why}`)
	object, err = a.client.Update(a.Context(), object, metav1.UpdateOptions{})
	require.NoError(a, err)
	require.Equal(a, content["groups"], object.Object["status"].(map[string]any)["groups"])
	require.Equal(a, int64(2), object.GetGeneration())
}

// testBudgetCost judges the largest spec: the API server gives up on rules that cost too much, and
// then denies the request.
func testBudgetCost(a *budgetAdmission) {
	stored := a.store("valid", a.parse(budgetSpec), "")
	values := make([]any, 512)
	for i := range values {
		values[i] = fmt.Sprintf("%s%03d", strings.Repeat("v", 60), i)
	}
	labels, expressions, schedules := map[string]any{}, make([]any, 16), make([]any, 16)
	for i := range 256 {
		labels[fmt.Sprintf("%s.example.com/label-%d", strings.Repeat("a", 200), i)] = strings.Repeat("v", 63)
	}
	times := "0" + strings.Repeat(",59", 15) + " 1-2" + strings.Repeat(",1-2/3", 7) + " * JAN" + strings.Repeat(",jan-DEC", 4) + " SUN" + strings.Repeat(",MON-Fri", 4)
	times += strings.Repeat(" ", 192-len(times))
	for i := range expressions {
		expressions[i] = map[string]any{"key": fmt.Sprintf("key-%d", i), "operator": "NotIn", "values": values}
		schedules[i] = map[string]any{"cron": times, "duration": strings.Repeat("1s", 32), "timeZone": strings.Repeat("z", 64)}
	}
	spec := map[string]any{
		"nodeSelector": map[string]any{"matchLabels": labels, "matchExpressions": expressions},
		"topologyKey":  strings.Repeat("a", 253) + "/" + strings.Repeat("b", 63), "maxUnhealthy": "2147483647", "maxConcurrent": "2147483647",
		"minInterval": strings.Repeat("1s", 32), "cooldown": strings.Repeat("1s", 32), "activeDuring": schedules, "reason": strings.Repeat("ä", 256),
	}
	require.Empty(a, a.judge(stored, spec))
	values[511] = "-"
	schedules[15].(map[string]any)["duration"] = "0s"
	require.Equal(a, []string{
		"spec.activeDuring[15].duration: duration must be positive", badNodes + "a value must be a label value, empty or at most 63 characters",
	}, a.judge(stored, spec))
}

// testBudgetColumns tests what kubectl get shows.
func testBudgetColumns(a *budgetAdmission) {
	a.store("shown", a.budget(`{reason: Frozen for the audit}`), budgetStatus)
	a.store("untouched", a.parse(budgetSpec), "")
	for _, tc := range []struct{ command, want string }{
		{"get rbudget shown", "NAME NOT HEALTHY REMEDIATING ALLOWED EXHAUSTED AGE shown 3 2 0 True"},
		{"get rbudget shown -o wide", "NAME NOT HEALTHY REMEDIATING ALLOWED EXHAUSTED AGE REASON WHY shown 3 2 0 True"},
		{"get remediationbudgets", "NAME NOT HEALTHY REMEDIATING ALLOWED EXHAUSTED AGE shown 3 2 0 True"},
		{"get remediationbudget shown", "NAME NOT HEALTHY REMEDIATING ALLOWED EXHAUSTED AGE shown 3 2 0 True"},
		{"get rbudget untouched -o wide", "NAME NOT HEALTHY REMEDIATING ALLOWED EXHAUSTED AGE REASON WHY untouched"},
		{"get medik8s", "NAME NOT HEALTHY REMEDIATING ALLOWED EXHAUSTED AGE "}, // Last, as in testColumns.
	} {
		output, err := a.cluster.Kubectl(a.Context(), strings.Fields(tc.command)...)
		require.NoError(a, err)
		line := strings.Join(strings.Fields(output), " ")
		require.Contains(a, line, tc.want, tc.command)
		if strings.HasSuffix(tc.command, "shown -o wide") {
			require.True(a, strings.HasSuffix(line, " Frozen for the audit 2 nodes wait: a, b"), line)
		}
	}
}

// testBudgetsStoredBefore: budgets that were stored without the rules can be read and deleted,
// and their status can be written. Only a change of the spec is judged.
func testBudgetsStoredBefore(a *budgetAdmission) {
	stored := map[string]string{} // From the test case to the RemediationBudget.
	a.withoutRules(func() {
		for test, tc := range budgetRules {
			if spec := a.budget(tc.changes); spec != nil {
				stored[test] = a.storeUnnamed(spec)
			}
		}
	})
	lenient := a.cluster.minor(a.T) >= 33 // Older API servers judge the spec in a status write, too.
	for test, tc := range budgetRules {
		if stored[test] == "" {
			continue
		}
		object, err := a.client.Get(a.Context(), stored[test], metav1.GetOptions{})
		require.NoError(a, err)
		if lenient || len(tc.denied) == 0 {
			object = a.writeStatuses(object)
		}
		object, err = a.client.Patch(a.Context(), object.GetName(), types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{})
		require.NoError(a, err, "%s: metadata", test)
		require.Empty(a, a.update(object, a.parse(budgetSpec)), "%s is corrected", test)
		require.NoError(a, a.client.Delete(a.Context(), object.GetName(), metav1.DeleteOptions{}), test)
	}
}
