// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealth

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// Strategy is how Machines are remediated.
type Strategy string

const (
	// Delete deletes the Machine, so that its owner makes another one (spec M10).
	Delete Strategy = "Delete"
	// Annotate asks another controller by annotations of the Machine (spec M11).
	Annotate Strategy = "Annotate"
	// Template asks another controller by a remediation object (spec M12).
	Template Strategy = "Template"
)

// defaultStartupTimeout and defaultMaxUnhealthy hold where the stored spec has none.
const (
	defaultStartupTimeout = 10 * time.Minute
	defaultMaxUnhealthy   = "100%"
)

// Criteria are the content of a MachineHealthCheck, as far as it can be understood.
type Criteria struct {
	name string
	// Selector matches Machines of API in the namespace of the MachineHealthCheck.
	Selector labels.Selector
	// API is the group of the Machines.
	API string
	// Conditions are those that make a Node unhealthy.
	Conditions []v1alpha1.UnhealthyCondition
	// StartupTimeout is how long a Machine may be without a Node. Zero means without limit.
	StartupTimeout time.Duration
	// MaxUnhealthy is the field, or its default.
	MaxUnhealthy intstr.IntOrString
	Strategy     Strategy
	// Template is the reference of the strategy Template, nil for others.
	Template *corev1.ObjectReference
	// Paused means that nothing is remediated (spec M9.1).
	Paused bool
	// Problem is the first rule of admission that the stored object breaks, empty if there is
	// none. Nothing is remediated then (spec M3.4).
	Problem string
	// onlyTermination means that the only condition of the spec is Terminating.
	onlyTermination bool
}

// NewCriteria reads a MachineHealthCheck. It always returns usable criteria: it leaves out
// what cannot be understood, and names it in Problem.
func NewCriteria(check *v1beta1.MachineHealthCheck) Criteria {
	c := Criteria{name: check.Name, Selector: labels.Nothing(), API: v1beta1.MachineAPIOpenShift, Strategy: Delete}
	_, c.Paused = check.Annotations[v1beta1.AnnotationPaused]
	if selector, err := metav1.LabelSelectorAsSelector(&check.Spec.Selector); err != nil {
		c.fail("Invalid selector: " + err.Error())
	} else {
		c.Selector = selector
	}
	c.readConditions(check.Spec.UnhealthyConditions)
	c.readStartupTimeout(check.Spec.NodeStartupTimeout)
	c.readMaxUnhealthy((*intstr.IntOrString)(check.Spec.MaxUnhealthy))
	c.readStrategy(check)
	return c
}

// fail records a part that cannot be understood. The first one is reported.
func (c *Criteria) fail(problem string) {
	if c.Problem == "" {
		c.Problem = problem
	}
}

func (c *Criteria) readConditions(conditions []v1beta1.UnhealthyCondition) {
	c.onlyTermination = len(conditions) == 1 && conditions[0].Type == conditionTerminating
	for i := range conditions {
		condition := &conditions[i]
		timeout, ok := duration(condition.Timeout)
		switch {
		case condition.Type == "" || condition.Status == "":
			c.fail("unhealthyConditions need type and status")
		case !ok:
			c.fail("timeout must be a duration: " + condition.Timeout)
		default:
			c.Conditions = append(c.Conditions, v1alpha1.UnhealthyCondition{Type: condition.Type, Status: condition.Status, Duration: metav1.Duration{Duration: timeout}})
		}
	}
}

// duration reads an unsigned duration.
func duration(value string) (time.Duration, bool) {
	d, err := time.ParseDuration(value)
	if err != nil || d < 0 || strings.ContainsAny(value, "+-") {
		return 0, false
	}
	return d, true
}

func (c *Criteria) readStartupTimeout(value *string) {
	c.StartupTimeout = defaultStartupTimeout
	if value == nil {
		return
	}
	timeout, ok := duration(*value) // It takes a plain 0, too.
	if !ok {
		c.fail("nodeStartupTimeout must be 0 or a duration: " + *value)
		return
	}
	c.StartupTimeout = timeout
}

func (c *Criteria) readMaxUnhealthy(value *intstr.IntOrString) {
	c.MaxUnhealthy = intstr.FromString(defaultMaxUnhealthy)
	if value == nil {
		return
	}
	c.MaxUnhealthy = *value
	if _, ok := allowedUnhealthy(*value, 0); !ok {
		c.fail("maxUnhealthy must be a number or a percentage: " + value.String())
	}
}

// allowedUnhealthy returns how many of the Machines may be unhealthy (spec M7.2). Percentages are
// rounded down, and a numeric string counts as its number. It returns false for anything else.
func allowedUnhealthy(value intstr.IntOrString, total int) (int, bool) {
	if value.Type == intstr.Int {
		return max(0, int(value.IntVal)), true
	}
	digits, isPercentage := strings.CutSuffix(value.StrVal, "%")
	n, err := strconv.ParseUint(digits, 10, 31)
	if err != nil || strings.HasPrefix(digits, "+") || (isPercentage && n > 100) {
		return 0, false
	}
	if isPercentage {
		return int(n) * total / 100, true
	}
	return int(n), true
}

func (c *Criteria) readStrategy(check *v1beta1.MachineHealthCheck) {
	if api, set := check.Annotations[v1beta1.AnnotationMachineAPI]; set {
		switch api {
		case v1beta1.MachineAPIOpenShift, v1beta1.MachineAPICluster:
			c.API = api
		default:
			c.fail("unknown machine API: " + api)
		}
	}
	strategy, annotated := check.Annotations[v1beta1.AnnotationRemediationStrategy]
	switch template := check.Spec.RemediationTemplate; {
	case template != nil: // With both, the template wins (spec M3.4).
		c.Strategy, c.Template = Template, template
		c.checkTemplate(template)
	case !annotated:
	case strategy != v1beta1.StrategyExternalBaremetal:
		c.fail("unknown remediation strategy: " + strategy)
	case c.API == v1beta1.MachineAPICluster:
		c.fail("remediation strategy external-baremetal needs Machines of machine.openshift.io")
	default:
		c.Strategy = Annotate
	}
}

func (c *Criteria) checkTemplate(template *corev1.ObjectReference) {
	switch {
	case template.APIVersion == "" || template.Kind == "" || template.Name == "":
		c.fail("remediationTemplate must have apiVersion, kind and name")
	case !strings.HasSuffix(template.Kind, v1alpha1.TemplateKindSuffix) || template.Kind == v1alpha1.TemplateKindSuffix:
		c.fail(fmt.Sprintf("remediationTemplate kind must end in %s: %s", v1alpha1.TemplateKindSuffix, template.Kind))
	}
}

// conditionTerminating is the condition of the Node of a spot instance that is about to end.
const conditionTerminating = "Terminating"

// OnlyTermination reports whether the MachineHealthCheck only replaces terminating Machines: its
// only condition is Terminating, also if other parts of it cannot be understood (spec M1.4). Such a
// MachineHealthCheck claims no Node.
func (c *Criteria) OnlyTermination() bool { return c.onlyTermination }

// deletes reports whether the MachineHealthCheck remediates a Machine by deleting it. A reboot does not help a
// failed Machine (spec M10.1).
func (c *Criteria) deletes(machine *Machine) bool {
	return c.Strategy == Delete || (c.Strategy == Annotate && machine.Failed())
}

// unable returns why the strategy cannot be used for a Machine, empty if it can.
func (c *Criteria) unable(machine *Machine, controlPlane, template bool) v1alpha1.DecisionReason {
	switch deletes := c.deletes(machine); {
	case deletes && machine.Owner() == nil:
		return v1beta1.DecidedNoController
	case deletes && controlPlane && machine.API() == v1beta1.MachineAPICluster:
		return v1beta1.DecidedControlPlaneProvider
	case c.Strategy == Template && !template:
		return v1beta1.DecidedTemplateUnavailable
	}
	return ""
}

// Selects reports whether the MachineHealthCheck selects the Machine, which is in its namespace.
func (c *Criteria) Selects(machine *Machine) bool {
	return machine.API() == c.API && c.Selector.Matches(labels.Set(machine.Labels))
}

// Precedes reports whether a MachineHealthCheck keeps another one, of a later name, from remediating a target
// that both select: the first by name works. One that only replaces terminating Machines comes after all others,
// but no other keeps it from a Machine that is terminating (spec M7.4).
func (c *Criteria) Precedes(other *Criteria, t *Target) bool {
	switch {
	case !c.Selects(t.Machine):
		return false
	case c.OnlyTermination() != other.OnlyTermination():
		return other.OnlyTermination() && t.Verdict.Trigger != v1beta1.TriggerUnhealthyCondition
	}
	return c.name < other.name
}
