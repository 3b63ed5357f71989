// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
)

// Messages of section 4.3 of the specification that hold no value.
const (
	bothLimits       = "minHealthy and maxUnhealthy cannot be specified at the same time"
	noLimit          = "one of minHealthy and maxUnhealthy should be specified"
	machineDeletion  = "maxUnhealthy can't be used with MachineDeletionRemediationTemplate"
	machineDeletions = "maxUnhealthy can't be used with MachineDeletionRemediationTemplate escalating remediation"
	noSelector       = "Selector is mandatory"
	noTemplate       = "Either RemediationTemplate or at least one EscalatingRemediations must be set"
	bothTemplates    = "RemediationTemplate and EscalatingRemediations usage is mutual exclusive"

	incompleteReference = "remediationTemplate must have apiVersion, kind and name"

	badOperator = "Invalid selector: an operator must be In, NotIn, Exists or DoesNotExist"
	badValues   = "Invalid selector: In and NotIn need at least one value, Exists and DoesNotExist take none"
	badKey      = "Invalid selector: a key must be a label key, a name of at most 63 characters after an optional DNS subdomain and a slash"
	badValue    = "Invalid selector: a value must be a label value, empty or at most 63 characters"

	noConditions = "unhealthyConditions must not be empty, leave it out for the default"

	tooLong = "must not be longer than 2562047h47m16s"
	tooMany = "must not exceed 2147483647"
)

// specRules has a spec, valid and invalid, for each rule about specs. The changes
// are made to one of the specs of admission_setup_test.go.
var specRules = map[string]struct {
	base, changes string
	denied        []string // The messages, all of them.
}{
	"classic":                          {base: classicSpec},
	"escalating":                       {base: escalatingSpec},
	"minHealthy is a number":           {base: classicSpec, changes: `{minHealthy: 0}`},
	"minHealthy is a numeric string":   {base: classicSpec, changes: `{minHealthy: "12"}`},
	"minHealthy is everything":         {base: classicSpec, changes: `{minHealthy: 100%}`},
	"maxUnhealthy is a percentage":     {base: classicSpec, changes: `{minHealthy: null, maxUnhealthy: 0%}`},
	"maxUnhealthy is a number":         {base: classicSpec, changes: `{minHealthy: null, maxUnhealthy: 2147483647}`},
	"both limits":                      {base: classicSpec, changes: `{maxUnhealthy: 1}`, denied: []string{bothLimits}},
	"no limit":                         {base: classicSpec, changes: `{minHealthy: null}`, denied: []string{noLimit}},
	"negative minHealthy":              {base: classicSpec, changes: `{minHealthy: -1}`, denied: []string{"minHealthy must not be negative: -1"}},
	"negative maxUnhealthy":            {base: classicSpec, changes: `{minHealthy: null, maxUnhealthy: -20}`, denied: []string{"maxUnhealthy must not be negative: -20"}},
	"minHealthy beyond 32 bits":        {base: classicSpec, changes: `{minHealthy: 3000000000}`, denied: []string{tooMany}},
	"maxUnhealthy beyond 32 bits":      {base: classicSpec, changes: `{minHealthy: null, maxUnhealthy: "99999999999999999999"}`, denied: []string{tooMany}},
	"minHealthy is no number":          {base: classicSpec, changes: `{minHealthy: half}`, denied: []string{"spec.minHealthy in body should match '^((100|[0-9]{1,2})%|[0-9]+)$'"}},
	"more than everything":             {base: classicSpec, changes: `{minHealthy: 101%}`, denied: []string{"spec.minHealthy in body should match '^((100|[0-9]{1,2})%|[0-9]+)$'"}},
	"machine deletion with minHealthy": {base: classicSpec, changes: `{remediationTemplate: {kind: MachineDeletionRemediationTemplate}}`},
	"machine deletion":                 {base: classicSpec, changes: `{minHealthy: null, maxUnhealthy: 1, remediationTemplate: {kind: MachineDeletionRemediationTemplate}}`, denied: []string{machineDeletion}},
	"machine deletion in lower case":   {base: classicSpec, changes: `{minHealthy: null, maxUnhealthy: 1, remediationTemplate: {kind: machinedeletionremediationtemplate}}`, denied: []string{machineDeletion}},
	"machine deletion in a step": {
		base: escalatingSpec, changes: `{minHealthy: null, maxUnhealthy: 1, escalatingRemediations: [` +
			`{order: 1, timeout: 60s, remediationTemplate: {apiVersion: a/v1, kind: ATemplate, name: a}}, {order: 2, timeout: 60s, remediationTemplate: {apiVersion: a/v1, kind: MachineDeletionREMEDIATIONTemplate, name: a}}]}`,
		denied: []string{machineDeletions},
	},

	"dry run":      {base: classicSpec, changes: `{mode: DryRun}`},
	"enforced":     {base: classicSpec, changes: `{mode: Enforce}`},
	"another mode": {base: classicSpec, changes: `{mode: Never}`, denied: []string{`Unsupported value: "Never": supported values: "Enforce", "DryRun"`}},

	"no selector":                  {base: classicSpec, changes: `{selector: null}`, denied: []string{noSelector}},
	"empty selector":               {base: classicSpec, changes: `{selector: {}}`, denied: []string{noSelector}},
	"empty maps in the selector":   {base: classicSpec, changes: `{selector: {matchLabels: null, matchExpressions: []}}`, denied: []string{noSelector}},
	"labels and expressions":       {base: classicSpec, changes: `{selector: {matchLabels: {a: b}, matchExpressions: [{key: example.com/a, operator: NotIn, values: [b, ""]}]}}`},
	"unknown operator":             {base: classicSpec, changes: `{selector: {matchExpressions: [{key: a, operator: Equals, values: [b]}]}}`, denied: []string{badOperator}},
	"operator in lower case":       {base: classicSpec, changes: `{selector: {matchExpressions: [{key: a, operator: exists}]}}`, denied: []string{badOperator}},
	"In without values":            {base: classicSpec, changes: `{selector: {matchExpressions: [{key: a, operator: In}]}}`, denied: []string{badValues}},
	"NotIn with an empty list":     {base: classicSpec, changes: `{selector: {matchExpressions: [{key: a, operator: NotIn, values: []}]}}`, denied: []string{badValues}},
	"Exists with a value":          {base: classicSpec, changes: `{selector: {matchExpressions: [{key: a, operator: Exists, values: [b]}]}}`, denied: []string{badValues}},
	"Exists with an empty list":    {base: classicSpec, changes: `{selector: {matchExpressions: [{key: a, operator: Exists, values: []}]}}`},
	"invalid label key":            {base: classicSpec, changes: `{selector: {matchLabels: {"a b": c}}}`, denied: []string{badKey}},
	"invalid label value":          {base: classicSpec, changes: `{selector: {matchLabels: {a: -c}}}`, denied: []string{badValue}},
	"invalid key in an expression": {base: classicSpec, changes: `{selector: {matchExpressions: [{key: a/b/c, operator: Exists}]}}`, denied: []string{badKey}},
	"invalid value in an expression": {
		base: classicSpec, changes: `{selector: {matchExpressions: [{key: a, operator: In, values: [b, c/d]}]}}`, denied: []string{badValue},
	},

	"no template":                       {base: classicSpec, changes: `{remediationTemplate: null}`, denied: []string{noTemplate}},
	"no step":                           {base: escalatingSpec, changes: `{escalatingRemediations: []}`, denied: []string{noTemplate}},
	"template and an empty list":        {base: classicSpec, changes: `{escalatingRemediations: []}`},
	"template and steps":                {base: escalatingSpec, changes: `{remediationTemplate: {apiVersion: a/v1, kind: ATemplate, name: a}}`, denied: []string{bothTemplates}},
	"nothing is known of the kind":      {base: classicSpec, changes: `{remediationTemplate: {kind: Unusual, namespace: null, name: missing}}`},
	"O11 a template without name":       {base: classicSpec, changes: `{remediationTemplate: {name: null}}`, denied: []string{incompleteReference}},
	"O11 a template with an empty name": {base: classicSpec, changes: `{remediationTemplate: {name: ""}}`, denied: []string{incompleteReference}},
	"a template without apiVersion":     {base: classicSpec, changes: `{remediationTemplate: {apiVersion: null}}`, denied: []string{incompleteReference}},
	"a template without kind":           {base: classicSpec, changes: `{remediationTemplate: {kind: null}}`, denied: []string{incompleteReference}},
	"O11 a template of nothing":         {base: classicSpec, changes: `{remediationTemplate: {}}`, denied: []string{incompleteReference}},
	"a step without a name":             {base: escalatingSpec, changes: sameTemplates("", "name: null"), denied: []string{incompleteReference}},
	"orders in any order, negative":     {base: escalatingSpec, changes: steps("{order: 7, timeout: 1h}", "{order: -3, timeout: 1h}", "{order: 0, timeout: 1h}")},
	"duplicate order": {
		base: escalatingSpec, changes: steps("{order: 7, timeout: 1h}", "{order: -3, timeout: 1h}", "{order: 0, timeout: 1h}", "{order: -3, timeout: 1h}"),
		denied: []string{"EscalatingRemediation Order must be unique: found duplicate order -3"},
	},
	"order beyond 32 bits": {
		base: escalatingSpec, changes: steps("{order: 3000000000, timeout: 1h}"),
		denied: []string{
			"spec.escalatingRemediations[0].order in body should be less than or equal to 2147483647",
		},
	},
	"the same template twice": {
		base: escalatingSpec, changes: sameTemplates("", "", "apiVersion: example.com/v2"),
		denied: []string{"EscalatingRemediation RemediationTemplate must be unique: found duplicate ATemplate remediators/a"},
	},
	"the same template twice, without its namespace": {
		base: escalatingSpec, changes: sameTemplates("namespace: null", "namespace: null", ""),
		denied: []string{"EscalatingRemediation RemediationTemplate must be unique: found duplicate ATemplate /a"},
	},
	"the same template except one field": {base: escalatingSpec, changes: sameTemplates("kind: BTemplate", "namespace: b", "name: b", "namespace: null", "")},
	"timeout of a minute":                {base: escalatingSpec, changes: steps("{order: 1, timeout: 60s}", "{order: 2, timeout: 1m}", "{order: 3, timeout: 0.1h0.5ms}", "{order: 4, timeout: 59999999µs1000ns}")},
	"timeout too short": {
		base: escalatingSpec, changes: steps("{order: 1, timeout: 1h}", "{order: 2, timeout: 59.999999999s}"),
		denied: []string{"EscalatingRemediation Timeout must be at least one minute: found timeout 59.999999999s"},
	},
	"timeout too short in microseconds": {
		base: escalatingSpec, changes: steps("{order: 2, timeout: 12µs}"),
		denied: []string{"EscalatingRemediation Timeout must be at least one minute: found timeout 12µs"},
	},
	"no timeout at all": {
		base: escalatingSpec, changes: steps("{order: 2, timeout: 0s}"),
		denied: []string{"EscalatingRemediation Timeout must be at least one minute: found timeout 0s"},
	},
	"timeout is no duration": {
		base: escalatingSpec, changes: steps("{order: 2, timeout: 5min}"),
		denied: []string{`spec.escalatingRemediations[0].timeout in body should match '^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$'`},
	},
	"all rules at once": {
		base: escalatingSpec, changes: `{minHealthy: -1, maxUnhealthy: -2, remediationTemplate: {kind: MachineDeletionRemediationTemplate}, ` +
			`selector: {matchLabels: {a b: a b}, matchExpressions: [{key: a, operator: In}, {key: a, operator: Is}]}, escalatingRemediations: [` +
			`{order: 4, timeout: 1s, remediationTemplate: {kind: MachineDeletionRemediationTemplate}}, {order: 4, timeout: 1h, remediationTemplate: {kind: MachineDeletionRemediationTemplate}}], ` +
			`unhealthyConditions: []}`,
		denied: []string{
			bothLimits, "minHealthy must not be negative: -1", "maxUnhealthy must not be negative: -2", machineDeletion, machineDeletions, incompleteReference, incompleteReference,
			badOperator, badValues, badKey, badValue, bothTemplates,
			"EscalatingRemediation Order must be unique: found duplicate order 4",
			"EscalatingRemediation Timeout must be at least one minute: found timeout 1s",
			"EscalatingRemediation RemediationTemplate must be unique: found duplicate MachineDeletionRemediationTemplate /",
			noConditions,
		},
	},
	"largest history limit":   {base: classicSpec, changes: `{remediationHistoryLimit: 100}`},
	"history limit too large": {base: classicSpec, changes: `{remediationHistoryLimit: 101}`, denied: []string{"spec.remediationHistoryLimit in body should be less than or equal to 100"}},
	"negative history limit":  {base: classicSpec, changes: `{remediationHistoryLimit: -1}`, denied: []string{"spec.remediationHistoryLimit in body should be greater than or equal to 0"}},
	"no condition":            {base: classicSpec, changes: `{unhealthyConditions: []}`, denied: []string{noConditions}},
	"nothing in the spec":     {changes: `{pauseRequests: []}`, denied: []string{noLimit, noSelector, noTemplate}},
	"no spec":                 {changes: `null`, denied: []string{noLimit + "; " + noSelector + "; " + noTemplate}},

	"durations":        {base: classicSpec, changes: `{healthyDelay: -1.5h, stormCooldownDuration: 1h2m3s4ms5us6ns, stormRecoveryThreshold: 0, unhealthyConditions: [{type: a, status: "True", duration: 0s}]}`},
	"longest duration": {base: classicSpec, changes: `{healthyDelay: -2562047h47m16s, stormCooldownDuration: 2562047h47m15.999s, unhealthyConditions: [{type: a, status: b, duration: 9223372035854775µs}]}`},
	"durations that no client can read": {
		base: classicSpec, changes: `{healthyDelay: -2562048h, stormCooldownDuration: 9999999999999999999s, unhealthyConditions: [{type: a, status: b, duration: 1281024h1281024h}]}`,
		denied: []string{tooLong, tooLong, tooLong},
	},
	"a timeout that no client can read": {base: escalatingSpec, changes: steps("{order: 2, timeout: 10000000000000ms99999999h}"), denied: []string{tooLong}},
	"negative cooldown": {
		base: classicSpec, changes: `{stormCooldownDuration: -1s}`,
		denied: []string{`spec.stormCooldownDuration in body should match '^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$'`},
	},
	"negative threshold": {
		base: classicSpec, changes: `{stormRecoveryThreshold: -1}`, denied: []string{"spec.stormRecoveryThreshold in body should be greater than or equal to 0"},
	},
	"threshold beyond 32 bits": {
		base: classicSpec, changes: `{stormRecoveryThreshold: 3000000000}`, denied: []string{
			"spec.stormRecoveryThreshold in body should be less than or equal to 2147483647",
		},
	},
	"the same condition twice": {
		base: classicSpec, changes: `{unhealthyConditions: [{type: a, status: b, duration: 1s}, {type: a, status: b, duration: 2s}]}`,
		denied: []string{"Duplicate value"},
	},
	"two statuses of a condition": {base: classicSpec, changes: `{unhealthyConditions: [{type: a, status: b, duration: 1s}, {type: a, status: c, duration: 2s}]}`},
	"empty condition": {
		base: classicSpec, changes: `{unhealthyConditions: [{type: "", status: "", duration: 1s}]}`, denied: []string{
			"spec.unhealthyConditions[0].status in body should be at least 1 chars long",
			"spec.unhealthyConditions[0].type in body should be at least 1 chars long",
		},
	},
}

// steps returns a change of the steps, each with an unimportant template.
func steps(list ...string) string {
	for i, step := range list {
		list[i] = strings.TrimSuffix(step, "}") + fmt.Sprintf(", remediationTemplate: {apiVersion: a/v1, kind: ATemplate, name: t%d}}", i)
	}
	return "{escalatingRemediations: [" + strings.Join(list, ", ") + "]}"
}

// sameTemplates returns a change to steps whose templates are the same, except the
// fields that are given.
func sameTemplates(changes ...string) string {
	for i, change := range changes {
		template := map[string]string{"apiVersion": "example.com/v1", "kind": "ATemplate", "namespace": "remediators", "name": "a"}
		if field, value, changed := strings.Cut(change, ": "); changed {
			template[field] = value
		}
		fields, _ := json.Marshal(template) //nolint:errchkjson // A map of strings has a JSON form.
		changes[i] = fmt.Sprintf("{order: %d, timeout: 1h, remediationTemplate: %s}", i, strings.ReplaceAll(string(fields), `"null"`, "null"))
	}
	return "{escalatingRemediations: [" + strings.Join(changes, ", ") + "]}"
}

// TestAdmission runs without a controller, so that it can write statuses (spec 4.1, 4.3).
func TestAdmission(t *testing.T) {
	t.Parallel()
	c := exclusiveCluster(t)
	// Replaces the CRD for a while, the others use it.
	t.Run("stored before", func(t *testing.T) { testStoredBefore(newAdmission(t, c)) })
	t.Run("spec", func(t *testing.T) { testSpecRules(newAdmission(t, c)) })
	t.Run("lint", func(t *testing.T) { testLintOfSpecs(newAdmission(t, c)) })
	t.Run("selector", func(t *testing.T) { testSelectors(newAdmission(t, c)) })
	t.Run("defaults", func(t *testing.T) { testDefaults(newAdmission(t, c)) })
	t.Run("updates", func(t *testing.T) { testUpdateWhileRemediating(newAdmission(t, c)) })
	t.Run("deletion", func(t *testing.T) { testDeletion(newAdmission(t, c)) })
	t.Run("cost", func(t *testing.T) { testCost(newAdmission(t, c)) })
	t.Run("columns", func(t *testing.T) { testColumns(newAdmission(t, c)) })
}

// testSpecRules tests 4.3 and the bounds of section 23, for create and update, and
// that the controller judges stored specs by the same rules.
func testSpecRules(a *admission) {
	stored := a.store("valid", a.spec(classicSpec, `{}`), "")
	for name, tc := range specRules {
		a.Run(name, func(t *testing.T) {
			a := newAdmission(t, a.cluster)
			spec := a.spec(tc.base, tc.changes)
			want := slices.Sorted(slices.Values(tc.denied))
			require.Equal(t, want, a.create(spec), "create")
			require.Equal(t, want, a.update(stored, spec), "update")

			var typed v1alpha1.NodeHealthCheckSpec
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(spec, &typed); err != nil {
				require.NotEmpty(t, want, "accepted, but typed clients cannot read it: %v", err)
				return
			}
			if typed.UnhealthyConditions == nil {
				typed.UnhealthyConditions = []v1alpha1.UnhealthyCondition{{}} // The default.
			}
			problem := remediation.SpecProblem(&typed)
			switch {
			case len(want) == 0:
				require.Empty(t, problem)
			case spec == nil:
				require.Contains(t, want[0], problem)
			case strings.HasPrefix(problem, "Invalid selector"):
				require.True(t, slices.ContainsFunc(want, func(denial string) bool { return strings.HasPrefix(denial, "Invalid selector") }), "%v", want)
			case strings.HasPrefix(problem, "mode must be"): // The enum of the schema says it in its own words.
				require.Contains(t, want[0], "Unsupported value")
			case problem != "":
				require.Contains(t, want, problem)
			default: // Rules about single fields, and the one rule that does not stop a stored object.
				for _, message := range want {
					require.True(t, message == noSelector || message == tooLong || message == tooMany ||
						strings.Contains(message, "spec.") || strings.HasPrefix(message, "Duplicate value"), "%s", message)
				}
			}
		})
	}
}

// testSelectors compares the rules about selectors with the parser of Kubernetes.
func testSelectors(a *admission) {
	accepted := 0
	for _, selector := range candidateSelectors() {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&selector)
		require.NoError(a, err)
		spec := a.spec(classicSpec, `{}`)
		spec["selector"] = content
		_, invalid := metav1.LabelSelectorAsSelector(&selector)
		denials := a.create(spec)
		if invalid == nil {
			accepted++
			require.Empty(a, denials, "%v", selector)
			continue
		}
		require.NotEmpty(a, denials, "%v: %v", selector, invalid)
		for _, denial := range denials {
			require.True(a, strings.HasPrefix(denial, "Invalid selector"), denial)
		}
	}
	require.Greater(a, accepted, 20, "some are valid")
}

// candidateSelectors are selectors with valid and invalid keys and values. None is longer than
// the CRD permits.
func candidateSelectors() []metav1.LabelSelector {
	long := func(n int) string { return strings.Repeat("a", n) }
	words := []string{
		"", "a", "A", "7", "a/b", "A/b", "a/B", "a/", "/b", "a/b/c", "a.b/c", "a..b/c", "a-b.c-d/e", "-a/b", "a-/b", "a_b/c",
		"-a", "a-", "_a", "a_", ".a", "a.", "a_b.c-D", "a b", " a", "a ", "ä", "a\nb", "a\n", "ſ", "K",
		long(63), long(64), long(100), "b/" + long(63), "b/" + long(64), long(253) + "/b", long(254) + "/b", long(300) + "/b", "a/" + long(300),
	}
	var selectors []metav1.LabelSelector
	for _, word := range words {
		selectors = append(selectors,
			metav1.LabelSelector{MatchLabels: map[string]string{word: ""}},
			metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: word, Operator: metav1.LabelSelectorOpExists}}})
		if len(word) <= 128 { // The bound of a value: what is longer is denied as too long.
			selectors = append(selectors,
				metav1.LabelSelector{MatchLabels: map[string]string{"key": word}},
				metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "key", Operator: metav1.LabelSelectorOpIn, Values: []string{"a", word}}}})
		}
	}
	return selectors
}

// ofLaterVersion is a status with values that a later version may have: it must be able
// to write them where the CRD is still that of today (section 23).
const ofLaterVersion = `
phase: Later
unhealthyNodes: [{name: a, decision: {type: Later, reason: Later, since: "2026-01-02T03:04:05Z"}}]
remediationHistory: [{node: a, detected: "2026-01-02T03:04:05Z", outcome: Later, steps: [{kind: A, started: "2026-01-02T03:04:05Z", result: Later}]}]
`

// testDefaults tests 4.2.
func testDefaults(a *admission) {
	for _, base := range []string{classicSpec, escalatingSpec} {
		spec := a.spec(base, `{}`)
		created, err := a.client.Create(a.Context(), a.object("defaults", spec), metav1.CreateOptions{DryRun: dryRun})
		require.NoError(a, err)
		want := merge(spec, a.parse(`mode: Enforce
unhealthyConditions: [{type: Ready, status: "False", duration: 300s}, {type: Ready, status: Unknown, duration: 300s}]`))
		require.Equal(a, want, created.Object["spec"])
		require.NotContains(a, created.Object, "status")
	}
	// A status may have any one field, or none.
	stored := a.store("status", a.spec(classicSpec, `{}`), "")
	for _, status := range []string{`{}`, `{phase: Paused}`, `{unhealthyNodes: [{name: a}]}`, `{observedNodes: 0}`, ofLaterVersion, `{inFlightRemediations: {a: "2026-01-02T03:04:05Z"}}`} {
		stored = a.writeStatus(stored, status)
	}
	data, err := json.Marshal(stored.Object["status"])
	require.NoError(a, err)
	require.JSONEq(a, `{"inFlightRemediations":{"a":"2026-01-02T03:04:05Z"}}`, string(data))
}
