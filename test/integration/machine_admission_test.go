// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/machinehealth"
	"github.com/nhc-controller/nhc-controller/test/patience"
)

// What the schemas say.
const (
	noPercentage = "spec.maxUnhealthy: spec.maxUnhealthy in body should match '^((100|[0-9]{1,2})%|[0-9]+)$'"
	noInteger    = `: "spec.maxUnhealthy" must validate at least one schema (anyOf); ` +
		`spec.maxUnhealthy: spec.maxUnhealthy in body must be of type integer,string: "number"; spec.maxUnhealthy: spec.maxUnhealthy in body must be of type integer: "number"`
	noTimeout        = `spec.unhealthyConditions[0].timeout: spec.unhealthyConditions[0].timeout in body should match '^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$'`
	noStartup        = `spec.nodeStartupTimeout: spec.nodeStartupTimeout in body should match '^(0|([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+)$'`
	noStartupAtAll   = `spec.nodeStartupTimeout: spec.nodeStartupTimeout in body should match '^0|([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$'`
	emptyType        = "spec.unhealthyConditions[0].type: spec.unhealthyConditions[0].type in body should be at least 1 chars long"
	emptyStatus      = "spec.unhealthyConditions[0].status: spec.unhealthyConditions[0].status in body should be at least 1 chars long"
	emptyList        = "spec.unhealthyConditions: spec.unhealthyConditions in body should have at least 1 items"
	externalStrategy = `{machine.openshift.io/remediation-strategy: external-baremetal}`

	templateIncomplete = "remediationTemplate must have apiVersion, kind and name"
	needTypeAndStatus  = "unhealthyConditions need type and status"
	strategyOrTemplate = "annotation machine.openshift.io/remediation-strategy and remediationTemplate are mutually exclusive"
	strategyOfCAPI     = "remediation strategy external-baremetal needs Machines of machine.openshift.io"

	snrReference = `remediationTemplate: {apiVersion: self-node-remediation.medik8s.io/v1alpha1, kind: SelfNodeRemediationTemplate, name: a}`
)

// mhcRules has MachineHealthChecks, valid and invalid, for each rule of spec M3.3.
var mhcRules = map[string]struct {
	annotations, spec string
	denied            string // The message of the policy.
	// What the schemas say where they refuse it before the policy is asked.
	openShift, own string
}{
	"no spec":                    {},
	"empty spec":                 {spec: `{}`},
	"number":                     {spec: `{maxUnhealthy: 3}`},
	"zero":                       {spec: `{maxUnhealthy: 0}`},
	"largest number":             {spec: `{maxUnhealthy: 2147483647}`},
	"numeric string":             {spec: `{maxUnhealthy: "9"}`},
	"percentage":                 {spec: `{maxUnhealthy: 40%}`},
	"nothing in percent":         {spec: `{maxUnhealthy: 0%}`},
	"everything in percent":      {spec: `{maxUnhealthy: 100%}`},
	"negative":                   {spec: `{maxUnhealthy: -7}`, denied: "maxUnhealthy must not be negative: -7"},
	"negative string":            {spec: `{maxUnhealthy: "-7"}`, denied: "maxUnhealthy must be a number or a percentage: -7", openShift: noPercentage, own: noPercentage},
	"more than everything":       {spec: `{maxUnhealthy: 101%}`, denied: "maxUnhealthy must be a number or a percentage: 101%", openShift: noPercentage, own: noPercentage},
	"no number":                  {spec: `{maxUnhealthy: half}`, denied: "maxUnhealthy must be a number or a percentage: half", openShift: noPercentage, own: noPercentage},
	"half a number":              {spec: `{maxUnhealthy: 1.5}`, denied: "maxUnhealthy must be a number or a percentage: 1.5", openShift: noInteger, own: noInteger},
	"beyond 32 bits":             {spec: `{maxUnhealthy: 3000000000}`, denied: "maxUnhealthy must be a number or a percentage: 3000000000"},
	"beyond 64 bits in a string": {spec: `{maxUnhealthy: "99999999999999999999"}`, denied: "maxUnhealthy must be a number or a percentage: 99999999999999999999"},

	"timeouts":        {spec: `{unhealthyConditions: [{type: Ready, status: Unknown, timeout: 300s}, {type: Terminating, status: "True", timeout: 0s}, {type: a, status: b, timeout: 1.5h2m3s4ms5us6µs7ns}]}`},
	"longest timeout": {spec: `{unhealthyConditions: [{type: a, status: b, timeout: 9223372035854775µs}]}`},
	"no timeout":      {spec: `{unhealthyConditions: [{type: a, status: b}]}`, denied: "timeout must be a duration:"},
	"empty timeout":   {spec: `{unhealthyConditions: [{type: a, status: b, timeout: ""}]}`, denied: "timeout must be a duration:", openShift: noTimeout, own: noTimeout},
	"second timeout": {
		spec:   `{unhealthyConditions: [{type: a, status: b, timeout: 1s}, {type: a, status: b, timeout: 2562048h}]}`,
		denied: "timeout must be a duration: 2562048h",
	},
	"timeout without unit": {spec: `{unhealthyConditions: [{type: a, status: b, timeout: "0"}]}`, denied: "timeout must be a duration: 0", openShift: noTimeout, own: noTimeout},
	"negative timeout":     {spec: `{unhealthyConditions: [{type: a, status: b, timeout: -1s}]}`, denied: "timeout must be a duration: -1s", openShift: noTimeout, own: noTimeout},
	"no type":              {spec: `{unhealthyConditions: [{status: b, timeout: 1s}]}`, denied: needTypeAndStatus},
	"no status":            {spec: `{unhealthyConditions: [{type: a, timeout: 1s}]}`, denied: needTypeAndStatus},
	"empty type":           {spec: `{unhealthyConditions: [{type: "", status: b, timeout: 1s}]}`, denied: needTypeAndStatus, openShift: emptyType, own: emptyType},
	"empty status":         {spec: `{unhealthyConditions: [{type: a, status: "", timeout: 1s}]}`, denied: needTypeAndStatus, openShift: emptyStatus, own: emptyStatus},
	"no conditions":        {spec: `{unhealthyConditions: []}`, openShift: emptyList},

	"no startup check":            {spec: `{nodeStartupTimeout: "0"}`},
	"no startup check, with unit": {spec: `{nodeStartupTimeout: 0s}`},
	"startup":                     {spec: `{nodeStartupTimeout: 1.5h}`},
	"startup with a rest":         {spec: `{nodeStartupTimeout: 0x}`, denied: "nodeStartupTimeout must be 0 or a duration: 0x", own: noStartup},
	"startup with a beginning":    {spec: `{nodeStartupTimeout: x10m}`, denied: "nodeStartupTimeout must be 0 or a duration: x10m", own: noStartup},
	"no startup":                  {spec: `{nodeStartupTimeout: soon}`, denied: "nodeStartupTimeout must be 0 or a duration: soon", openShift: noStartupAtAll, own: noStartup},
	"endless startup":             {spec: `{nodeStartupTimeout: 9999999999999999999s}`, denied: "nodeStartupTimeout must be 0 or a duration: 9999999999999999999s"},

	"empty selector":         {spec: `{selector: {}}`},
	"empty parts":            {spec: `{selector: {matchLabels: {}, matchExpressions: []}}`},
	"labels and expressions": {spec: `{selector: {matchLabels: {role: worker}, matchExpressions: [{key: example.com/role, operator: NotIn, values: [master, ""]}, {key: a, operator: Exists, values: []}]}}`},
	"unknown operator":       {spec: `{selector: {matchExpressions: [{key: a, operator: Equals, values: [b]}]}}`, denied: badOperator},
	"In without values":      {spec: `{selector: {matchExpressions: [{key: a, operator: In}]}}`, denied: badValues},
	"Exists with a value":    {spec: `{selector: {matchExpressions: [{key: a, operator: Exists, values: [b]}]}}`, denied: badValues},
	"label key":              {spec: `{selector: {matchLabels: {"a b": c}}}`, denied: badKey},
	"key of an expression":   {spec: `{selector: {matchExpressions: [{key: a/b/c, operator: Exists}]}}`, denied: badKey},
	"label value":            {spec: `{selector: {matchLabels: {a: -c}}}`, denied: badValue},
	"value of an expression": {spec: `{selector: {matchExpressions: [{key: a, operator: In, values: [b, c/d]}]}}`, denied: badValue},

	"template":                      {spec: `{` + snrReference + `}`},
	"template of another namespace": {spec: `{remediationTemplate: {apiVersion: a/v1, kind: BTemplate, name: c, namespace: d, uid: "1"}}`},
	"empty template":                {spec: `{remediationTemplate: {}}`, denied: templateIncomplete},
	"template without apiVersion":   {spec: `{remediationTemplate: {kind: BTemplate, name: c}}`, denied: templateIncomplete},
	"template without kind":         {spec: `{remediationTemplate: {apiVersion: a/v1, name: c}}`, denied: templateIncomplete},
	"template with an empty name":   {spec: `{remediationTemplate: {apiVersion: a/v1, kind: BTemplate, name: ""}}`, denied: templateIncomplete},
	"kind without suffix":           {spec: `{remediationTemplate: {apiVersion: a/v1, kind: Metal3Remediation, name: c}}`, denied: "remediationTemplate kind must end in Template: Metal3Remediation"},
	"kind that is the suffix":       {spec: `{remediationTemplate: {apiVersion: a/v1, kind: Template, name: c}}`, denied: "remediationTemplate kind must end in Template: Template"},

	"OpenShift's own, for spot instances": {spec: `{selector: {matchLabels: {machine.openshift.io/interruptible-instance: ""}}, maxUnhealthy: 100%, nodeStartupTimeout: "0",
		unhealthyConditions: [{type: Terminating, status: "True", timeout: 0s}]}`},

	"paused":                {annotations: `{cluster.x-k8s.io/paused: ""}`, spec: `{}`},
	"other annotations":     {annotations: `{a: b}`, spec: `{}`},
	"strategy":              {annotations: externalStrategy, spec: `{}`},
	"strategy, but no spec": {annotations: externalStrategy},
	"strategy and template": {annotations: externalStrategy, spec: `{` + snrReference + `}`, denied: strategyOrTemplate},
	"unknown strategy":      {annotations: `{machine.openshift.io/remediation-strategy: reboot}`, spec: `{}`, denied: "unknown remediation strategy: reboot"},
	"empty strategy":        {annotations: `{machine.openshift.io/remediation-strategy: ""}`, spec: `{}`, denied: "unknown remediation strategy:"},
	"unknown strategy, but no spec": {
		annotations: `{machine.openshift.io/remediation-strategy: reboot}`, denied: "unknown remediation strategy: reboot",
	},
	"default API":           {annotations: `{nhc-controller.io/machine-api: machine.openshift.io, machine.openshift.io/remediation-strategy: external-baremetal}`, spec: `{}`},
	"Cluster API":           {annotations: `{nhc-controller.io/machine-api: cluster.x-k8s.io}`, spec: `{` + snrReference + `}`},
	"unknown API":           {annotations: `{nhc-controller.io/machine-api: machine.sapcloud.io}`, spec: `{}`, denied: "unknown machine API: machine.sapcloud.io"},
	"empty API":             {annotations: `{nhc-controller.io/machine-api: ""}`, spec: `{}`, denied: "unknown machine API:"},
	"strategy, Cluster API": {annotations: `{nhc-controller.io/machine-api: cluster.x-k8s.io, machine.openshift.io/remediation-strategy: external-baremetal}`, spec: `{}`, denied: strategyOfCAPI},
	"rules in order": {
		annotations: `{nhc-controller.io/machine-api: a, machine.openshift.io/remediation-strategy: b}`,
		spec:        `{selector: {matchExpressions: [{key: a, operator: In}]}, remediationTemplate: {}}`, denied: badValues,
	},
}

// TestMachineHealthCheckAdmission: the rules hold whatever CRD serves MachineHealthChecks (spec
// M3.1, M3.3). No controller runs.
func TestMachineHealthCheckAdmission(t *testing.T) {
	t.Parallel()
	c := exclusiveCluster(t)
	c.createNamespaces(t, machineNamespace, "openshift-etcd")
	a := newMHCAdmission(t, c)

	a.serve(schemalessCRD)
	stored := a.storeBroken()
	c.applyOverlay(t, openShiftOverlay)
	patience.Eventually(t, "the policy is in force", func() bool { return a.create(a.mhc("probe", "", `{maxUnhealthy: -1}`)) != "" })
	for _, crd := range []servedCRD{schemalessCRD, openShiftCRD, ownCRD} {
		a.serve(crd)
		t.Run(crd.name, func(t *testing.T) {
			run := func(name string, test func(*mhcAdmission)) {
				t.Run(name, func(t *testing.T) { test(newMHCAdmission(t, c)) })
			}
			run("rules", func(a *mhcAdmission) { testMHCRules(a, crd) })
			run("stored before", func(a *mhcAdmission) { testMHCStoredBefore(a, crd, stored) })
			run("durations", testMHCDurations)
			run("selectors", testMHCSelectors)
			if crd.name == ownCRD.name {
				run("lint", testLintOfMHCs)
			}
			if crd.probe != "" {
				run("cost", testMHCCost)
				run("defaults", testMHCDefaults)
				run("added fields", func(a *mhcAdmission) { a.testAddedFields(crd) })
				run("columns", testMHCColumns)
			}
		})
	}
}

// expected is what a request is denied with where a CRD is served.
func expected(crd servedCRD, name string) string {
	tc := mhcRules[name]
	switch {
	case crd.name == openShiftCRD.name && tc.openShift != "":
		return tc.openShift
	case crd.name == ownCRD.name && tc.own != "":
		return tc.own
	}
	return tc.denied
}

// testMHCRules tests M3.3 for create and update.
func testMHCRules(a *mhcAdmission, crd servedCRD) {
	valid, err := a.client.Create(a.Context(), a.mhc("valid", "", `{maxUnhealthy: 1}`), metav1.CreateOptions{})
	require.NoError(a, err)
	defer a.delete("valid")
	for name, tc := range mhcRules {
		want := expected(crd, name)
		object := a.mhc("created", tc.annotations, tc.spec)
		require.Equal(a, want, a.create(object), "create: %s", name)
		object.SetName(valid.GetName())
		object.SetResourceVersion(valid.GetResourceVersion())
		require.Equal(a, want, a.update(object), "update: %s", name)
		requireSameProblem(a, name, object)
	}
}

// lenient are specs that admission denies, and how the controller handles them if they are stored:
// see spec M3.4.
var lenient = map[string]bool{"negative": true, "strategy and template": true, "timeout without unit": true}

// requireSameProblem requires that the controller finds the same problem in a stored
// MachineHealthCheck as admission.
func requireSameProblem(a *mhcAdmission, name string, object *unstructured.Unstructured) {
	a.Helper()
	var typed v1beta1.MachineHealthCheck
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &typed); err != nil {
		require.Contains(a, []string{"beyond 32 bits", "half a number"}, name, "%v", err)
		return
	}
	want, got := mhcRules[name].denied, strings.TrimSpace(machinehealth.NewCriteria(&typed).Problem)
	switch {
	case lenient[name]:
		require.Empty(a, got, name)
	case strings.HasPrefix(want, "Invalid selector"):
		require.True(a, strings.HasPrefix(got, "Invalid selector"), "%s: %s", name, got)
	default:
		require.Equal(a, want, got, name)
	}
}

func (a *mhcAdmission) delete(name string) {
	a.Helper()
	require.NoError(a, a.client.Delete(a.Context(), name, metav1.DeleteOptions{}))
}

// storeBroken stores what the rules deny, before there are rules. It returns the names by those
// of the rules.
func (a *mhcAdmission) storeBroken() map[string]string {
	a.Helper()
	stored := map[string]string{}
	for name, tc := range mhcRules {
		if tc.denied == "" {
			continue
		}
		object := a.mhc("", tc.annotations, tc.spec)
		object.SetGenerateName("broken-")
		object, err := a.client.Create(a.Context(), object, metav1.CreateOptions{})
		require.NoError(a, err)
		stored[name] = object.GetName()
	}
	require.Greater(a, len(stored), 20)
	return stored
}

// testMHCStoredBefore: only a change of what the rules are about is judged. All else of a
// MachineHealthCheck that breaks them can be changed; it can be paused, and deleted.
func testMHCStoredBefore(a *mhcAdmission, crd servedCRD, stored map[string]string) {
	for rule, name := range stored {
		object, err := a.client.Get(a.Context(), name, metav1.GetOptions{})
		require.NoError(a, err)
		paused := object.DeepCopy()
		paused.SetLabels(map[string]string{"served": strings.ReplaceAll(crd.name, " ", "-")})
		paused.SetFinalizers([]string{"example.com/hold"})
		annotations := paused.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations["cluster.x-k8s.io/paused"] = crd.name
		paused.SetAnnotations(annotations)
		object, err = a.client.Update(a.Context(), paused, metav1.UpdateOptions{})
		require.NoError(a, err, rule)
		object.SetFinalizers(nil)
		object, err = a.client.Update(a.Context(), object, metav1.UpdateOptions{})
		require.NoError(a, err, rule)
		object.Object["status"] = a.parse(fmt.Sprintf("{expectedMachines: %d, currentHealthy: 1}", time.Now().Unix()))
		object, err = a.client.UpdateStatus(a.Context(), object, metav1.UpdateOptions{})
		require.NoError(a, err, rule)
		require.NoError(a, a.client.Delete(a.Context(), name, metav1.DeleteOptions{DryRun: dryRun}), rule)

		// A change that leaves it broken is denied. A change that repairs it is not.
		tc := mhcRules[rule]
		changed := object.DeepCopy()
		if tc.annotations == "" || tc.spec != "" {
			require.NoError(a, unstructured.SetNestedField(changed.Object, "a", "spec", "selector", "matchLabels", "pool"))
		} else {
			annotations["nhc-controller.io/machine-api"] = "machine.openshift.io"
			changed.SetAnnotations(annotations)
		}
		require.NotEmpty(a, a.update(changed), rule)
		mended := a.mhc(name, "", `{}`)
		mended.SetResourceVersion(object.GetResourceVersion())
		require.Empty(a, a.update(mended), rule)
	}
}

// testMHCDurations compares the rules about durations with the parser of Go.
func testMHCDurations(a *mhcAdmission) {
	unsigned := regexp.MustCompile(`^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`) // As OpenShift's field texts say.
	accepted := 0
	for _, text := range []string{
		"0s", "1s", "00.5h", "1h1h", "3m2ms1us", "1m", "1ms", "1.5.5s", ".5s", "5.s", "1 s", "1s ", "1S", "1d", "s", "1", "+1s", "-1s", "1e3s", "1µs", "1μs",
		"2562047h47m16s", "2562047h47m15.9s", "2562047h48m", "9223372036s", "9223372037s", "153722867m", "153722868m", "1281023h1281024h", "1281024h1281024h",
		strings.Repeat("1s", 32), "0.00000000000000000000000000000000000000000001s",
	} {
		_, err := time.ParseDuration(text)
		valid := err == nil && unsigned.MatchString(text)
		for field, spec := range map[string]string{
			"timeout":            fmt.Sprintf("{unhealthyConditions: [{type: a, status: b, timeout: %q}]}", text),
			"nodeStartupTimeout": fmt.Sprintf("{nodeStartupTimeout: %q}", text),
		} {
			denial := a.create(a.mhc("created", "", spec))
			if valid {
				accepted++
				require.Empty(a, denial, text)
				continue
			}
			require.Contains(a, denial, field, text)
		}
	}
	require.Greater(a, accepted, 20, "some are valid")
}

// testMHCSelectors compares the rules about selectors with the parser of Kubernetes.
func testMHCSelectors(a *mhcAdmission) {
	accepted := 0
	for _, selector := range candidateSelectors() {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&selector)
		require.NoError(a, err)
		object := a.mhc("created", "", `{}`)
		object.Object["spec"] = map[string]any{"selector": content}
		denial := a.create(object)
		if _, invalid := metav1.LabelSelectorAsSelector(&selector); invalid == nil {
			accepted++
			require.Empty(a, denial, "%v", selector)
			continue
		}
		require.True(a, strings.HasPrefix(denial, "Invalid selector"), "%v: %s", selector, denial)
	}
	require.Greater(a, accepted, 20, "some are valid")
}
