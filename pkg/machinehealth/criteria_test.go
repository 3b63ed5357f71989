// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealth

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

func withConditions(conditions ...v1beta1.UnhealthyCondition) func(*v1beta1.MachineHealthCheck) {
	return func(c *v1beta1.MachineHealthCheck) { c.Spec.UnhealthyConditions = conditions }
}

func withStartup(value string) func(*v1beta1.MachineHealthCheck) {
	return func(c *v1beta1.MachineHealthCheck) { c.Spec.NodeStartupTimeout = &value }
}

func withMax(value intstr.IntOrString) func(*v1beta1.MachineHealthCheck) {
	return func(c *v1beta1.MachineHealthCheck) { c.Spec.MaxUnhealthy = (*v1beta1.IntOrString)(&value) }
}

func withTemplate(apiVersion, kind, name string) func(*v1beta1.MachineHealthCheck) {
	return func(c *v1beta1.MachineHealthCheck) {
		c.Spec.RemediationTemplate = &corev1.ObjectReference{APIVersion: apiVersion, Kind: kind, Name: name}
	}
}

func withSelector(selector metav1.LabelSelector) func(*v1beta1.MachineHealthCheck) {
	return func(c *v1beta1.MachineHealthCheck) { c.Spec.Selector = selector }
}

func notReady(timeout string) v1beta1.UnhealthyCondition {
	return v1beta1.UnhealthyCondition{Type: corev1.NodeReady, Status: corev1.ConditionFalse, Timeout: timeout}
}

func understood(typ corev1.NodeConditionType, timeout time.Duration) v1alpha1.UnhealthyCondition {
	return v1alpha1.UnhealthyCondition{Type: typ, Status: corev1.ConditionFalse, Duration: metav1.Duration{Duration: timeout}}
}

func TestCriteria(t *testing.T) {
	t.Parallel()
	template := &corev1.ObjectReference{APIVersion: "example.com/v1", Kind: "RebootTemplate", Name: "reboot"}
	strategy := annotatedCheck(v1beta1.AnnotationRemediationStrategy, "external-baremetal")
	defaults := func(changes ...func(*Criteria)) Criteria {
		c := Criteria{Selector: labels.Everything(), API: "machine.openshift.io", StartupTimeout: 10 * time.Minute, MaxUnhealthy: intstr.FromString("100%"), Strategy: Delete}
		for _, change := range changes {
			change(&c)
		}
		return c
	}
	tests := map[string]struct {
		change []func(*v1beta1.MachineHealthCheck)
		want   func(*Criteria)
	}{
		"M2 defaults, and M5.1 an empty selector matches all": {want: func(*Criteria) {}},
		"M6.2 conditions": {
			change: []func(*v1beta1.MachineHealthCheck){withConditions(notReady("300s"), v1beta1.UnhealthyCondition{Type: "Disk", Status: "False", Timeout: "0s"})},
			want: func(c *Criteria) {
				c.Conditions = []v1alpha1.UnhealthyCondition{understood(corev1.NodeReady, 5*time.Minute), understood("Disk", 0)}
			},
		},
		"M6.2 the startup check is off":        {change: []func(*v1beta1.MachineHealthCheck){withStartup("0")}, want: func(c *Criteria) { c.StartupTimeout = 0 }},
		"M6.2 the startup check is off, as 0s": {change: []func(*v1beta1.MachineHealthCheck){withStartup("0s")}, want: func(c *Criteria) { c.StartupTimeout = 0 }},
		"M3.1 fractions and several units":     {change: []func(*v1beta1.MachineHealthCheck){withStartup("1h1.5m")}, want: func(c *Criteria) { c.StartupTimeout = 61*time.Minute + 30*time.Second }},
		"M3.1 a number":                        {change: []func(*v1beta1.MachineHealthCheck){withMax(intstr.FromInt32(2))}, want: func(c *Criteria) { c.MaxUnhealthy = intstr.FromInt32(2) }},
		"M3.4 a negative number is no problem": {change: []func(*v1beta1.MachineHealthCheck){withMax(intstr.FromInt32(-1))}, want: func(c *Criteria) { c.MaxUnhealthy = intstr.FromInt32(-1) }},
		"M9.1 paused by existence alone":       {change: []func(*v1beta1.MachineHealthCheck){annotatedCheck(v1beta1.AnnotationPaused, "false")}, want: func(c *Criteria) { c.Paused = true }},
		"M5.2 Cluster API":                     {change: []func(*v1beta1.MachineHealthCheck){annotatedCheck(v1beta1.AnnotationMachineAPI, "cluster.x-k8s.io")}, want: func(c *Criteria) { c.API = "cluster.x-k8s.io" }},
		"M5.2 OpenShift, by name":              {change: []func(*v1beta1.MachineHealthCheck){annotatedCheck(v1beta1.AnnotationMachineAPI, "machine.openshift.io")}, want: func(*Criteria) {}},
		"M11.1 the strategy annotation":        {change: []func(*v1beta1.MachineHealthCheck){strategy}, want: func(c *Criteria) { c.Strategy = Annotate }},
		"M12.1 a template":                     {change: []func(*v1beta1.MachineHealthCheck){withTemplate("example.com/v1", "RebootTemplate", "reboot")}, want: func(c *Criteria) { c.Strategy, c.Template = Template, template }},
		"M3.4 with both the template wins":     {change: []func(*v1beta1.MachineHealthCheck){strategy, withTemplate("example.com/v1", "RebootTemplate", "reboot")}, want: func(c *Criteria) { c.Strategy, c.Template = Template, template }},
		"M3.3 a selector that cannot be parsed": {change: []func(*v1beta1.MachineHealthCheck){withSelector(metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}})}, want: func(c *Criteria) {
			c.Selector, c.Problem = labels.Nothing(), `Invalid selector: "Near" is not a valid label selector operator`
		}},
		"M3.3 no timeout":                        {change: []func(*v1beta1.MachineHealthCheck){withConditions(notReady(""))}, want: func(c *Criteria) { c.Problem = "timeout must be a duration: " }},
		"M3.3 a negative timeout":                {change: []func(*v1beta1.MachineHealthCheck){withConditions(notReady("-5m"))}, want: func(c *Criteria) { c.Problem = "timeout must be a duration: -5m" }},
		"M3.3 a signed timeout":                  {change: []func(*v1beta1.MachineHealthCheck){withConditions(notReady("+5m"))}, want: func(c *Criteria) { c.Problem = "timeout must be a duration: +5m" }},
		"M3.3 a timeout without unit":            {change: []func(*v1beta1.MachineHealthCheck){withConditions(notReady("300"))}, want: func(c *Criteria) { c.Problem = "timeout must be a duration: 300" }},
		"M21 what OpenShift's pattern lets pass": {change: []func(*v1beta1.MachineHealthCheck){withConditions(notReady("0x"))}, want: func(c *Criteria) { c.Problem = "timeout must be a duration: 0x" }},
		"M3.4 what is understood of conditions": {
			change: []func(*v1beta1.MachineHealthCheck){withConditions(notReady("never"), notReady("1m"), notReady("later"))},
			want: func(c *Criteria) {
				c.Conditions, c.Problem = []v1alpha1.UnhealthyCondition{understood(corev1.NodeReady, time.Minute)}, "timeout must be a duration: never"
			},
		},
		"M3.3 a condition without type":           {change: []func(*v1beta1.MachineHealthCheck){withConditions(v1beta1.UnhealthyCondition{Status: "True", Timeout: "1m"})}, want: func(c *Criteria) { c.Problem = "unhealthyConditions need type and status" }},
		"M3.3 a condition without status":         {change: []func(*v1beta1.MachineHealthCheck){withConditions(v1beta1.UnhealthyCondition{Type: "Ready", Timeout: "1m"})}, want: func(c *Criteria) { c.Problem = "unhealthyConditions need type and status" }},
		"M3.3 an empty startup timeout":           {change: []func(*v1beta1.MachineHealthCheck){withStartup("")}, want: func(c *Criteria) { c.Problem = "nodeStartupTimeout must be 0 or a duration: " }},
		"M3.3 a negative startup timeout":         {change: []func(*v1beta1.MachineHealthCheck){withStartup("-1s")}, want: func(c *Criteria) { c.Problem = "nodeStartupTimeout must be 0 or a duration: -1s" }},
		"M3.3 a startup timeout that is too long": {change: []func(*v1beta1.MachineHealthCheck){withStartup("9999999h")}, want: func(c *Criteria) { c.Problem = "nodeStartupTimeout must be 0 or a duration: 9999999h" }},
		"M3.3 neither number nor percentage": {change: []func(*v1beta1.MachineHealthCheck){withMax(intstr.FromString("most"))}, want: func(c *Criteria) {
			c.MaxUnhealthy, c.Problem = intstr.FromString("most"), "maxUnhealthy must be a number or a percentage: most"
		}},
		"M3.3 beyond 100%": {change: []func(*v1beta1.MachineHealthCheck){withMax(intstr.FromString("101%"))}, want: func(c *Criteria) {
			c.MaxUnhealthy, c.Problem = intstr.FromString("101%"), "maxUnhealthy must be a number or a percentage: 101%"
		}},
		"M3.3 an unknown strategy": {change: []func(*v1beta1.MachineHealthCheck){annotatedCheck(v1beta1.AnnotationRemediationStrategy, "reboot")}, want: func(c *Criteria) { c.Problem = "unknown remediation strategy: reboot" }},
		"M3.3 an empty strategy":   {change: []func(*v1beta1.MachineHealthCheck){annotatedCheck(v1beta1.AnnotationRemediationStrategy, "")}, want: func(c *Criteria) { c.Problem = "unknown remediation strategy: " }},
		"M3.3 an unknown API":      {change: []func(*v1beta1.MachineHealthCheck){annotatedCheck(v1beta1.AnnotationMachineAPI, "example.com")}, want: func(c *Criteria) { c.Problem = "unknown machine API: example.com" }},
		"M3.3 the strategy with Cluster API": {
			change: []func(*v1beta1.MachineHealthCheck){strategy, annotatedCheck(v1beta1.AnnotationMachineAPI, "cluster.x-k8s.io")},
			want: func(c *Criteria) {
				c.API, c.Problem = "cluster.x-k8s.io", "remediation strategy external-baremetal needs Machines of machine.openshift.io"
			},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stored := check(tc.change...)
			before := stored.DeepCopy()
			require.Equal(t, defaults(tc.want), NewCriteria(stored))
			require.Equal(t, before, stored, "reading changes nothing")
		})
	}
	for name, tc := range map[string]struct{ apiVersion, kind, name, want string }{
		"M3.3 no apiVersion":       {"", "RebootTemplate", "reboot", "remediationTemplate must have apiVersion, kind and name"},
		"M3.3 no kind":             {"example.com/v1", "", "reboot", "remediationTemplate must have apiVersion, kind and name"},
		"M3.3 no name":             {"example.com/v1", "RebootTemplate", "", "remediationTemplate must have apiVersion, kind and name"},
		"M3.3 no suffix":           {"example.com/v1", "Reboot", "reboot", "remediationTemplate kind must end in Template: Reboot"},
		"M3.3 nothing but suffix":  {"example.com/v1", "Template", "reboot", "remediationTemplate kind must end in Template: Template"},
		"M3.3 the suffix in small": {"example.com/v1", "Reboottemplate", "reboot", "remediationTemplate kind must end in Template: Reboottemplate"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, NewCriteria(check(withTemplate(tc.apiVersion, tc.kind, tc.name))).Problem)
		})
	}
}

// TestAllowedUnhealthy is the table of M7.2, and what M3.3 says of the values.
func TestAllowedUnhealthy(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		value   intstr.IntOrString
		targets int
		want    int
		invalid bool
	}{
		"M7.2 50% of 10, the example":          {value: intstr.FromString("50%"), targets: 10, want: 5},
		"M7.2 40% of 10":                       {value: intstr.FromString("40%"), targets: 10, want: 4},
		"M7.2 60% of 7, rounded down":          {value: intstr.FromString("60%"), targets: 7, want: 4},
		"M7.2 40% of 5":                        {value: intstr.FromString("40%"), targets: 5, want: 2},
		"M7.2 49% of 3":                        {value: intstr.FromString("49%"), targets: 3, want: 1},
		"M7.2 10% of 5":                        {value: intstr.FromString("10%"), targets: 5, want: 0},
		"M7.2 0%":                              {value: intstr.FromString("0%"), targets: 5, want: 0},
		"M7.2 0":                               {value: intstr.FromInt32(0), targets: 5, want: 0},
		"M7.2 negative":                        {value: intstr.FromInt32(-3), targets: 5, want: 0},
		"M7.2 100%":                            {value: intstr.FromString("100%"), targets: 5, want: 5},
		"M7.2 9":                               {value: intstr.FromInt32(9), targets: 5, want: 9},
		"M7.2 a numeric string is that number": {value: intstr.FromString("9"), targets: 5, want: 9},
		"M7.2 1":                               {value: intstr.FromInt32(1), targets: 3, want: 1},
		"M7.2 1 as a string":                   {value: intstr.FromString("1"), targets: 3, want: 1},
		"M3.3 the largest number":              {value: intstr.FromString("2147483647"), targets: 3, want: 2147483647},
		"M3.3 a larger one":                    {value: intstr.FromString("2147483648"), invalid: true},
		"M3.3 beyond 100%":                     {value: intstr.FromString("101%"), invalid: true},
		"M3.3 a negative string":               {value: intstr.FromString("-1"), invalid: true},
		"M3.3 a negative percentage":           {value: intstr.FromString("-1%"), invalid: true},
		"M3.3 a signed number":                 {value: intstr.FromString("+1"), invalid: true},
		"M3.3 a fraction":                      {value: intstr.FromString("1.5%"), invalid: true},
		"M3.3 nothing":                         {value: intstr.FromString(""), invalid: true},
		"M3.3 a percent sign only":             {value: intstr.FromString("%"), invalid: true},
		"M3.3 two percent signs":               {value: intstr.FromString("5%%"), invalid: true},
		"M3.3 hexadecimal":                     {value: intstr.FromString("0x5"), invalid: true},
		"M3.3 underscores":                     {value: intstr.FromString("1_0"), invalid: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, ok := allowedUnhealthy(tc.value, tc.targets)
			require.Equal(t, !tc.invalid, ok)
			require.Equal(t, tc.want, got)
		})
	}
}

// TestOnlyTermination: a MachineHealthCheck is one for termination by its spec, whatever of that
// can be understood (spec M1.4): it says who owns the Nodes.
func TestOnlyTermination(t *testing.T) {
	t.Parallel()
	end := v1beta1.UnhealthyCondition{Type: "Terminating", Status: corev1.ConditionTrue, Timeout: "0s"}
	broken := end
	broken.Timeout = "soon"
	for name, tc := range map[string]struct {
		conditions []v1beta1.UnhealthyCondition
		want       bool
	}{
		"M1.4 exactly one of that type":           {[]v1beta1.UnhealthyCondition{end}, true},
		"M1.4 none":                               {nil, false},
		"M1.4 another type":                       {[]v1beta1.UnhealthyCondition{notReady("1m")}, false},
		"M1.4 another one besides":                {[]v1beta1.UnhealthyCondition{end, notReady("1m")}, false},
		"M1.4 twice":                              {[]v1beta1.UnhealthyCondition{end, end}, false},
		"M15.1 another one that is broken counts": {[]v1beta1.UnhealthyCondition{end, notReady("later")}, false},
		"M15.2 a broken one is still the one":     {[]v1beta1.UnhealthyCondition{broken}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			criteria := NewCriteria(check(withConditions(tc.conditions...)))
			require.Equal(t, tc.want, criteria.OnlyTermination())
		})
	}
}

func TestSelects(t *testing.T) {
	t.Parallel()
	labelled := func(m *Machine) { m.Labels = map[string]string{"role": "worker"} }
	workers := withSelector(metav1.LabelSelector{MatchLabels: map[string]string{"role": "worker"}})
	cluster := annotatedCheck(v1beta1.AnnotationMachineAPI, v1beta1.MachineAPICluster)
	for name, tc := range map[string]struct {
		check   *v1beta1.MachineHealthCheck
		machine *Machine
		want    bool
	}{
		"M5.1 an empty selector matches all":    {check(), machine("m"), true},
		"M5.1 labels match":                     {check(workers), machine("m", labelled), true},
		"M5.1 labels do not match":              {check(workers), machine("m"), false},
		"M5.2 of the other API":                 {check(), machine("m", ofClusterAPI), false},
		"M5.2 of Cluster API":                   {check(cluster), machine("m", ofClusterAPI), true},
		"M5.2 of OpenShift, for Cluster API":    {check(cluster), machine("m"), false},
		"M3.4 nothing by what cannot be parsed": {check(withSelector(metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}})), machine("m"), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			criteria := NewCriteria(tc.check)
			require.Equal(t, tc.want, criteria.Selects(tc.machine))
		})
	}
}

// TestUnable: for which Machine a strategy cannot be used.
func TestUnable(t *testing.T) {
	t.Parallel()
	of := func(strategy Strategy) func(*Criteria) { return func(c *Criteria) { c.Strategy = strategy } }
	for name, tc := range map[string]struct {
		criteria     func(*Criteria)
		change       func(*Machine)
		controlPlane bool
		noTemplate   bool
		want         v1alpha1.DecisionReason
	}{
		"M10.1 one that deletes":                          {criteria: of(Delete)},
		"M10.1 nothing would replace the Machine":         {criteria: of(Delete), change: noOwner, want: v1beta1.DecidedNoController},
		"M11.1 an annotation needs no owner":              {criteria: of(Annotate), change: noOwner},
		"M10.1 but one that has failed is deleted":        {criteria: of(Annotate), change: func(m *Machine) { noOwner(m); failedPhase(m) }, want: v1beta1.DecidedNoController},
		"M12 a template needs no owner":                   {criteria: of(Template), change: noOwner},
		"M12.1 there is no template":                      {criteria: of(Template), noTemplate: true, want: v1beta1.DecidedTemplateUnavailable},
		"M13.3 F7 a control plane Machine of Cluster API": {criteria: of(Delete), change: ofClusterAPI, controlPlane: true, want: v1beta1.DecidedControlPlaneProvider},
		"M13.3 for a template it is none":                 {criteria: of(Template), change: ofClusterAPI, controlPlane: true},
		"M13.1 a control plane Machine of OpenShift":      {criteria: of(Delete), controlPlane: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, m := Criteria{Strategy: Delete}, machine("m")
			tc.criteria(&c)
			if tc.change != nil {
				tc.change(m)
			}
			require.Equal(t, tc.want, c.unable(m, tc.controlPlane, !tc.noTemplate))
		})
	}
}

// TestPrecedes: of several MachineHealthChecks that select a Machine, which keeps another one from it (spec M7.4).
func TestPrecedes(t *testing.T) {
	t.Parallel()
	named := func(name string, termination bool) *Criteria {
		return &Criteria{name: name, API: v1beta1.MachineAPIOpenShift, Selector: labels.Everything(), onlyTermination: termination}
	}
	nothing := named("a", false)
	nothing.Selector = labels.Nothing()
	for name, tc := range map[string]struct {
		first, other *Criteria
		trigger      string
		want         bool
	}{
		"M7.4 the first by name":                      {first: named("a", false), other: named("b", false), want: true},
		"M7.4 the second":                             {first: named("b", false), other: named("a", false)},
		"M7.4 one that does not select it":            {first: nothing, other: named("b", false)},
		"M7.4 a termination MHC comes after":          {first: named("a", true), other: named("b", false)},
		"M7.4 so it waits, whatever its name is":      {first: named("b", false), other: named("a", true), trigger: v1beta1.TriggerMachineFailed, want: true},
		"M7.4 but not if the Machine is terminating":  {first: named("b", false), other: named("a", true), trigger: v1beta1.TriggerUnhealthyCondition},
		"M7.4 the first of several termination MHCs":  {first: named("a", true), other: named("b", true), trigger: v1beta1.TriggerUnhealthyCondition, want: true},
		"M7.4 the second of several termination MHCs": {first: named("b", true), other: named("a", true)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			target := &Target{Observed: Observed{Machine: machine("m")}, Verdict: Verdict{State: Unhealthy, Trigger: tc.trigger}}
			require.Equal(t, tc.want, tc.first.Precedes(tc.other, target))
		})
	}
}
