// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	nhcv1alpha1 "github.com/nhc-controller/nhc-controller/pkg/apis/nhc/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/budget"
)

// budgetSpec is a spec that admission accepts; tests change one thing about it.
const budgetSpec = `{nodeSelector: {}, maxConcurrent: 1}`

// What admission says of RemediationBudgets: the field, and the rule (spec B2).
const (
	noBound        = "spec: one of maxUnhealthy, maxConcurrent and minInterval should be specified"
	oneSelector    = "spec.nodeSelector: exactly one of nodeSelector and machineSelector must be specified; nodeSelector: {} selects all Nodes"
	badNodes       = "spec.nodeSelector: Invalid nodeSelector: "
	badMachines    = "spec.machineSelector.selector: Invalid machineSelector: "
	badNamespace   = "spec.machineSelector.namespace: namespace must be the name of a namespace"
	badTopologyKey = "spec.topologyKey: topologyKey must be a label key, a name of at most 63 characters after an optional DNS subdomain and a slash"

	noUnhealthyNumber  = "spec.maxUnhealthy: spec.maxUnhealthy in body should match '^((100|[0-9]{1,2})%|[0-9]+)$'"
	noConcurrentNumber = "spec.maxConcurrent: spec.maxConcurrent in body should match '^((100|[0-9]{1,2})%|[0-9]+)$'"
	noInterval         = `spec.minInterval: spec.minInterval in body should match '^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$'`
	noWindowDuration   = `spec.activeDuring[0].duration: spec.activeDuring[0].duration in body should match '^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$'`

	notFiveFields = "spec.activeDuring[0].cron: cron must have five fields with spaces in between: minute, hour, day of the month, month and day of the week"
	badMinute     = "spec.activeDuring[0].cron: cron: the minute must be * or a list of numbers and ranges from 0 to 59, each with a step such as /2 if need be"
	badHour       = "spec.activeDuring[0].cron: cron: the hour must be * or a list of numbers and ranges from 0 to 23, each with a step such as /2 if need be"
	badDay        = "spec.activeDuring[0].cron: cron: the day of the month must be * or a list of numbers and ranges from 1 to 31, each with a step such as /2 if need be"
	badMonth      = "spec.activeDuring[0].cron: cron: the month must be * or a list of numbers and ranges from 1 to 12, or JAN to DEC, each with a step such as /2 if need be"
	badWeekday    = "spec.activeDuring[0].cron: cron: the day of the week must be * or a list of numbers and ranges from 0, which is Sunday, to 6, or SUN to SAT, each with a step such as /2 if need be"
	badRange      = "spec.activeDuring[0].cron: cron: ranges must be ascending, such as 1-5"
	badNameRange  = "spec.activeDuring[0].cron: cron: ranges must be ascending, such as MON-FRI"
)

// budgetRules has a spec, valid and invalid, for each rule about RemediationBudgets.
var budgetRules = map[string]struct {
	changes string
	denied  []string // Fields and messages, all of them.
	// problem is what the controller says of a spec that is accepted.
	problem string
	// lenient says that the controller may make the best of a stored one.
	lenient bool
}{
	"all Nodes":                     {},
	"only maxUnhealthy":             {changes: `{maxConcurrent: null, maxUnhealthy: 30%}`},
	"only minInterval":              {changes: `{maxConcurrent: null, minInterval: 5m}`},
	"all bounds":                    {changes: `{maxUnhealthy: 4, minInterval: 1h30m}`},
	"every field":                   {changes: `{nodeSelector: {matchLabels: {a: b}}, topologyKey: topology.kubernetes.io/zone, maxUnhealthy: 1, maxConcurrent: 50%, minInterval: 1s, reason: why, activeDuring: [{cron: "0 8 * * 1-5", timeZone: Europe/Berlin, duration: 10h}]}`},
	"no bound":                      {changes: `{maxConcurrent: null}`, denied: []string{noBound}},
	"no bound but a schedule":       {changes: `{maxConcurrent: null, topologyKey: a, reason: why, activeDuring: [{cron: "* * * * *", duration: 1s}]}`, denied: []string{noBound}},
	"no selector":                   {changes: `{nodeSelector: null}`, denied: []string{oneSelector}},
	"two selectors":                 {changes: `{machineSelector: {namespace: machines, selector: {}}}`, denied: []string{oneSelector}},
	"nothing in the spec":           {changes: `{nodeSelector: null, maxConcurrent: null}`, denied: []string{noBound, oneSelector}},
	"all Machines of a namespace":   {changes: `{nodeSelector: null, machineSelector: {namespace: machines, selector: {}}}`},
	"Machines by labels":            {changes: `{nodeSelector: null, topologyKey: pool, machineSelector: {namespace: openshift-machine-api, selector: {matchLabels: {a: b}, matchExpressions: [{key: c, operator: Exists}]}}}`},
	"Machines without selector":     {changes: `{nodeSelector: null, machineSelector: {namespace: machines}}`, denied: []string{"spec.machineSelector.selector: Required value"}, lenient: true},
	"Machines without namespace":    {changes: `{nodeSelector: null, machineSelector: {selector: {}}}`, denied: []string{"spec.machineSelector.namespace: Required value"}},
	"empty namespace":               {changes: `{nodeSelector: null, machineSelector: {namespace: "", selector: {}}}`, denied: []string{badNamespace}},
	"namespace is no name":          {changes: `{nodeSelector: null, machineSelector: {namespace: Machines, selector: {}}}`, denied: []string{badNamespace}, lenient: true},
	"long namespace":                {changes: `{nodeSelector: null, machineSelector: {namespace: ` + strings.Repeat("a", 64) + `, selector: {}}}`, denied: []string{"spec.machineSelector.namespace: Too long: may not be more than 63 bytes"}, lenient: true},
	"operator for Machines":         {changes: `{nodeSelector: null, machineSelector: {namespace: machines, selector: {matchExpressions: [{key: a, operator: Equals, values: [b]}]}}}`, denied: []string{badMachines + "an operator must be In, NotIn, Exists or DoesNotExist"}},
	"no spec":                       {changes: `null`, denied: []string{"spec: Required value"}},
	"labels and expressions":        {changes: `{nodeSelector: {matchLabels: {a: b}, matchExpressions: [{key: example.com/a, operator: NotIn, values: [b, ""]}]}}`},
	"unknown operator":              {changes: `{nodeSelector: {matchExpressions: [{key: a, operator: Equals, values: [b]}]}}`, denied: []string{badNodes + "an operator must be In, NotIn, Exists or DoesNotExist"}},
	"In without values":             {changes: `{nodeSelector: {matchExpressions: [{key: a, operator: In}]}}`, denied: []string{badNodes + "In and NotIn need at least one value, Exists and DoesNotExist take none"}},
	"Exists with a value":           {changes: `{nodeSelector: {matchExpressions: [{key: a, operator: Exists, values: [b]}]}}`, denied: []string{badNodes + "In and NotIn need at least one value, Exists and DoesNotExist take none"}},
	"label key":                     {changes: `{nodeSelector: {matchLabels: {"a b": c}}}`, denied: []string{badNodes + "a key must be a label key, a name of at most 63 characters after an optional DNS subdomain and a slash"}},
	"label value":                   {changes: `{nodeSelector: {matchLabels: {a: -c}}}`, denied: []string{badNodes + "a value must be a label value, empty or at most 63 characters"}},
	"key of an expression":          {changes: `{nodeSelector: {matchExpressions: [{key: a/b/c, operator: Exists}]}}`, denied: []string{badNodes + "a key must be a label key, a name of at most 63 characters after an optional DNS subdomain and a slash"}},
	"value of an expression":        {changes: `{nodeSelector: {matchExpressions: [{key: a, operator: In, values: [b, c/d]}]}}`, denied: []string{badNodes + "a value must be a label value, empty or at most 63 characters"}},
	"too many expressions":          {changes: `{nodeSelector: {matchExpressions: [` + strings.Repeat(`{key: a, operator: Exists},`, 17) + `]}}`, denied: []string{"spec.nodeSelector.matchExpressions: Too many: 17: must have at most 16 items"}, lenient: true},
	"topologyKey":                   {changes: `{topologyKey: topology.kubernetes.io/zone}`},
	"topologyKey without a slash":   {changes: `{topologyKey: rack}`},
	"empty topologyKey":             {changes: `{topologyKey: ""}`, denied: []string{badTopologyKey}, lenient: true},
	"topologyKey of two parts":      {changes: `{topologyKey: a b}`, denied: []string{badTopologyKey}, lenient: true},
	"long name in topologyKey":      {changes: `{topologyKey: a/` + strings.Repeat("a", 64) + `}`, denied: []string{badTopologyKey}, lenient: true},
	"topologyKey that is far off":   {changes: `{topologyKey: ` + strings.Repeat("a", 318) + `}`, denied: []string{"spec.topologyKey: Too long: may not be more than 317 bytes"}, lenient: true},
	"zero":                          {changes: `{maxConcurrent: 0}`},
	"zero percent":                  {changes: `{maxConcurrent: 0%}`},
	"everything in percent":         {changes: `{maxUnhealthy: 100%}`},
	"numeric string":                {changes: `{maxUnhealthy: "12"}`},
	"largest numbers":               {changes: `{maxUnhealthy: 2147483647, maxConcurrent: "2147483647"}`},
	"negative maxUnhealthy":         {changes: `{maxUnhealthy: -1}`, denied: []string{"spec.maxUnhealthy: maxUnhealthy must not be negative"}},
	"negative maxConcurrent":        {changes: `{maxConcurrent: -20}`, denied: []string{"spec.maxConcurrent: maxConcurrent must not be negative"}},
	"negative strings":              {changes: `{maxUnhealthy: "-1", maxConcurrent: -1%}`, denied: []string{noConcurrentNumber, noUnhealthyNumber}},
	"more than everything":          {changes: `{maxUnhealthy: 101%, maxConcurrent: 200%}`, denied: []string{noConcurrentNumber, noUnhealthyNumber}, lenient: true},
	"no numbers":                    {changes: `{maxUnhealthy: half, maxConcurrent: ""}`, denied: []string{noConcurrentNumber, noUnhealthyNumber}},
	"beyond 32 bits":                {changes: `{maxUnhealthy: 2147483648, maxConcurrent: 3000000000}`, denied: []string{"spec.maxConcurrent: maxConcurrent must not exceed 2147483647", "spec.maxUnhealthy: maxUnhealthy must not exceed 2147483647"}},
	"strings beyond 32 bits":        {changes: `{maxUnhealthy: "2147483648", maxConcurrent: "99999999999999999999"}`, denied: []string{"spec.maxConcurrent: maxConcurrent must not exceed 2147483647", "spec.maxUnhealthy: maxUnhealthy must not exceed 2147483647"}, lenient: true},
	"shortest interval":             {changes: `{minInterval: 1ns}`},
	"longest interval":              {changes: `{minInterval: 2562047h47m16s}`},
	"cooldown":                      {changes: `{maxUnhealthy: 30%, cooldown: 10m}`},
	"cooldown without a limit":      {changes: `{cooldown: 10m}`, denied: []string{"spec.cooldown: cooldown needs maxUnhealthy"}},
	"no cooldown at all":            {changes: `{maxUnhealthy: 1, cooldown: 0s}`, denied: []string{"spec.cooldown: cooldown must be positive"}},
	"no interval at all":            {changes: `{minInterval: 0s}`, denied: []string{"spec.minInterval: minInterval must be positive"}},
	"interval that is rounded away": {changes: `{minInterval: 0.9ns}`, denied: []string{"spec.minInterval: minInterval must be positive"}},
	"negative interval":             {changes: `{minInterval: -1s}`, denied: []string{noInterval}},
	"interval without unit":         {changes: `{minInterval: "5"}`, denied: []string{noInterval}},
	"interval is no duration":       {changes: `{minInterval: 5min}`, denied: []string{noInterval}},
	"interval too long":             {changes: `{minInterval: 2562048h}`, denied: []string{"spec.minInterval: minInterval must not be longer than 2562047h47m16s"}},
	"reason":                        {changes: `{reason: "` + strings.Repeat("ä", 256) + `"}`},
	"no reason":                     {changes: `{reason: ""}`},
	"long reason":                   {changes: `{reason: "` + strings.Repeat("a", 257) + `"}`, denied: []string{"spec.reason: Too long: may not be more than 256 bytes"}, lenient: true},

	"no schedules":           {changes: `{activeDuring: []}`},
	"most schedules":         {changes: `{activeDuring: [` + strings.Repeat(`{cron: "0 8 * * 1-5", duration: 10h},`, 16) + `]}`},
	"too many schedules":     {changes: `{activeDuring: [` + strings.Repeat(`{cron: "0 8 * * 1-5", duration: 10h},`, 17) + `]}`, denied: []string{"spec.activeDuring: Too many: 17: must have at most 16 items"}, lenient: true},
	"no cron":                {changes: `{activeDuring: [{duration: 10h}]}`, denied: []string{"spec.activeDuring[0].cron: Required value"}},
	"no duration":            {changes: `{activeDuring: [{cron: "0 8 * * 1-5"}]}`, denied: []string{"spec.activeDuring[0].duration: Required value"}},
	"second schedule":        {changes: `{activeDuring: [{cron: "0 8 * * 1-5", duration: 10h}, {cron: "0 8 * * 7", duration: 0s}]}`, denied: []string{strings.Replace(badWeekday, "[0]", "[1]", 1), "spec.activeDuring[1].duration: duration must be positive"}},
	"no time at all":         {changes: `{activeDuring: [{cron: "0 8 * * *", duration: 0h0m}]}`, denied: []string{"spec.activeDuring[0].duration: duration must be positive"}},
	"negative duration":      {changes: `{activeDuring: [{cron: "0 8 * * *", duration: -1h}]}`, denied: []string{noWindowDuration}},
	"duration too long":      {changes: `{activeDuring: [{cron: "0 8 * * *", duration: 2562048h}]}`, denied: []string{"spec.activeDuring[0].duration: duration must not be longer than 2562047h47m16s"}},
	"time zone":              {changes: `{activeDuring: [{cron: "0 8 * * *", timeZone: America/Argentina/Buenos_Aires, duration: 10h}]}`},
	"UTC":                    {changes: `{activeDuring: [{cron: "0 8 * * *", timeZone: "", duration: 10h}]}`},
	"unknown time zone":      {changes: `{activeDuring: [{cron: "0 8 * * *", timeZone: Mars/Olympus, duration: 10h}]}`, problem: "schedule 1: unknown time zone Mars/Olympus"},
	"local time":             {changes: `{activeDuring: [{cron: "0 8 * * *", timeZone: Local, duration: 10h}]}`, problem: "schedule 1: unknown time zone Local"},
	"long time zone":         {changes: `{activeDuring: [{cron: "0 8 * * *", timeZone: ` + strings.Repeat("a", 65) + `, duration: 10h}]}`, denied: []string{"spec.activeDuring[0].timeZone: Too long: may not be more than 64 bytes"}},
	"a day that never comes": {changes: `{activeDuring: [{cron: "0 8 31 2 *", duration: 10h}]}`, problem: `schedule 1: cron "0 8 31 2 *" names no moment`},

	"every minute":             {changes: cron(`* * * * *`)},
	"lists, ranges and steps":  {changes: cron(`0,15-30,45/5,*/7 00-23/2 1,31 1-12/3 ?`)},
	"names":                    {changes: cron(`0 0 * JAN,mar-Dec/2 Sun-SAT`)},
	"numbers and names":        {changes: cron(`0 0 1-01 3,MAY MON,5`)},
	"many spaces":              {changes: cron(`  0   0 *  * *  `)},
	"no cron at all":           {changes: cron(``), denied: []string{notFiveFields}},
	"four fields":              {changes: cron(`0 8 * *`), denied: []string{notFiveFields}},
	"with seconds":             {changes: cron(`0 0 8 * * 1-5`), denied: []string{notFiveFields}},
	"descriptor":               {changes: cron(`@daily`), denied: []string{notFiveFields}},
	"time zone in cron":        {changes: cron(`TZ=Europe/Berlin 0 8 * * *`), denied: []string{notFiveFields}},
	"longest cron":             {changes: cron(`*` + strings.Repeat(" ", 184) + `* * * *`)},
	"cron too long":            {changes: cron(`*` + strings.Repeat(" ", 185) + `* * * *`), denied: []string{"spec.activeDuring[0].cron: Too long: may not be more than 192 bytes"}, lenient: true},
	"tabs":                     {changes: cron(`0\t8\t*\t*\t*`), denied: []string{notFiveFields}},
	"all fields wrong":         {changes: cron(`60 24 0 13 7`), denied: []string{badDay, badWeekday, badHour, badMinute, badMonth}},
	"words":                    {changes: cron(`at eight o clock today`), denied: []string{badDay, badWeekday, badHour, badMinute, badMonth}},
	"descending numbers":       {changes: cron(`30-0 23-8 31-1 12-1 5-1`), denied: []string{badRange}},
	"one descending range":     {changes: cron(`* 8-10,17-08 * * *`), denied: []string{badRange}},
	"descending months":        {changes: cron(`* * * feb-Mar,DEC-Jan *`), denied: []string{badNameRange}},
	"descending days":          {changes: cron(`* * * * FRI-mon`), denied: []string{badNameRange}},
	"numbers to names":         {changes: cron(`0 8 * 1-Nov Mon-5`), denied: []string{badWeekday, badMonth}, lenient: true},
	"steps of nothing":         {changes: cron(`*/0 */00 1/0 */- */`), denied: []string{badDay, badWeekday, badHour, badMinute, badMonth}},
	"empty items":              {changes: cron(`, 8, ,1 1,,2 ,`), denied: []string{badDay, badWeekday, badHour, badMinute, badMonth}},
	"other languages of cron":  {changes: cron(`0 8 L 1W 5#2`), denied: []string{badDay, badWeekday, badMonth}},
	"names of the wrong field": {changes: cron(`0 MON * FRI JAN`), denied: []string{badWeekday, badHour, badMonth}},
	"signs":                    {changes: cron(`-5 +8 1--2 * *`), denied: []string{badDay, badHour, badMinute}},
	"numbers beyond 64 bits":   {changes: cron(`0 8 1-99999999999999999999 */99999999999999999999 *`), denied: []string{badDay, badMonth}},
}

// cron returns a change to a schedule.
func cron(text string) string {
	return `{activeDuring: [{cron: "` + text + `", duration: 10h}]}`
}

// TestBudgetAdmission tests section B2 without a controller.
func TestBudgetAdmission(t *testing.T) {
	t.Parallel()
	c := exclusiveCluster(t)
	run := func(name string, test func(*budgetAdmission)) {
		t.Run(name, func(t *testing.T) { test(newBudgetAdmission(t, c)) })
	}
	run("rules", testBudgetRules)
	run("lint", testLintOfBudgets)
	run("durations", testBudgetDurations)
	run("selectors", testBudgetSelectors)
	run("cron", testBudgetCron)
	run("defaults", testBudgetDefaults)
	run("status", testBudgetStatus)
	run("cost", testBudgetCost)
	run("columns", testBudgetColumns)
	run("stored before", testBudgetsStoredBefore) // Replaces the CRD for a while, the others use it.
}

// budgetAdmission asks the API server for its judgement of RemediationBudgets.
type budgetAdmission struct {
	*admission
}

func newBudgetAdmission(t *testing.T, c *cluster) *budgetAdmission {
	t.Helper()
	return &budgetAdmission{newAdmissionOf(t, c, nhcv1alpha1.SchemeGroupVersion, nhcv1alpha1.BudgetKind, nhcv1alpha1.BudgetPlural)}
}

// judge returns why a spec may not be created, and requires that it may not be written to a
// stored object for the same reasons.
func (a *budgetAdmission) judge(stored *unstructured.Unstructured, spec map[string]any) []string {
	a.Helper()
	_, err := a.client.Create(a.Context(), a.object("created", spec), metav1.CreateOptions{DryRun: dryRun})
	created := fieldsAndMessages(a.causes(err))
	object := a.object(stored.GetName(), spec)
	object.SetResourceVersion(stored.GetResourceVersion())
	_, err = a.client.Update(a.Context(), object, metav1.UpdateOptions{DryRun: dryRun})
	require.Equal(a, created, fieldsAndMessages(a.causes(err)), "update")
	return created
}

// problemOf returns what the controller says of a stored spec, and false if typed clients cannot
// read it.
func problemOf(spec map[string]any) (problem string, readable bool) {
	var typed nhcv1alpha1.RemediationBudget
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(map[string]any{"spec": spec}, &typed); err != nil {
		return err.Error(), false
	}
	return budget.Parse(&typed).Problem, true
}

// testBudgetRules: admission denies specs, and the controller finds a problem in the same specs.
func testBudgetRules(a *budgetAdmission) {
	stored := a.store("valid", a.parse(budgetSpec), "")
	for name, tc := range budgetRules {
		a.Run(name, func(t *testing.T) {
			a := newBudgetAdmission(t, a.cluster)
			spec := a.budget(tc.changes)
			require.Equal(t, slices.Sorted(slices.Values(tc.denied)), a.judge(stored, spec))
			problem, readable := problemOf(spec)
			switch {
			case len(tc.denied) == 0:
				require.True(t, readable)
				require.Equal(t, tc.problem, problem)
			case !tc.lenient:
				require.NotEmpty(t, problem)
			}
		})
	}
}

// budget returns the spec with changes, and none for null.
func (a *budgetAdmission) budget(changes string) map[string]any {
	a.Helper()
	if changes == "null" {
		return nil
	}
	return a.spec(budgetSpec, changes)
}
