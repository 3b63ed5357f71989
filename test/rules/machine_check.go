// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// MHC is a MachineHealthCheck, and what it says as far as it can be understood.
type MHC struct {
	*v1beta1.MachineHealthCheck
	selector   labels.Selector
	conditions []v1alpha1.UnhealthyCondition
	startup    time.Duration
	// broken is set if a rule of admission is broken that lets nothing begin (spec M3.4).
	broken bool
	// foreign means that the status was written by another client than the controller.
	foreign bool
}

// refersTo reports whether the template is one of the kind of a CR.
func (m *MHC) refersTo(cr *CR) bool {
	return m.Spec.RemediationTemplate != nil && m.Spec.RemediationTemplate.Kind == cr.Kind+"Template"
}

// lists reports whether the status says that there may be CRs of the kind of this one.
func (m *MHC) lists(cr *CR) bool {
	return slices.Contains(m.Status.RemediationKinds, v1beta1.RemediationKind{APIVersion: cr.APIVersion, Kind: cr.Kind})
}

// strategy is how Machines are remediated.
type strategy int

const (
	byDeletion strategy = iota
	byAnnotation
	byTemplate
)

// NewMHC returns a MachineHealthCheck that is ready to be asked.
func NewMHC(object *v1beta1.MachineHealthCheck) *MHC {
	m := &MHC{MachineHealthCheck: object, selector: labels.Nothing(), startup: 10 * time.Minute}
	if selector, err := metav1.LabelSelectorAsSelector(&object.Spec.Selector); err == nil {
		m.selector = selector
	} else {
		m.broken = true
	}
	for _, condition := range object.Spec.UnhealthyConditions {
		timeout, valid := unsignedDuration(condition.Timeout)
		if !valid || condition.Type == "" || condition.Status == "" {
			m.broken = true
			continue
		}
		m.conditions = append(m.conditions, v1alpha1.UnhealthyCondition{Type: condition.Type, Status: condition.Status, Duration: metav1.Duration{Duration: timeout}})
	}
	if value := object.Spec.NodeStartupTimeout; value != nil {
		timeout, valid := unsignedDuration(*value)
		if valid {
			m.startup = timeout
		}
		m.broken = m.broken || !valid
	}
	_, valid := m.limit(0)
	m.broken = m.broken || !valid || !m.strategyValid()
	return m
}

var durationForm = regexp.MustCompile(`^(0|([0-9.]+(ns|us|µs|ms|s|m|h))+)$`)

func unsignedDuration(value string) (time.Duration, bool) {
	d, err := time.ParseDuration(value)
	return d, err == nil && durationForm.MatchString(value)
}

func (m *MHC) strategyValid() bool {
	if api := m.api(); api != v1beta1.MachineAPIOpenShift && api != v1beta1.MachineAPICluster {
		return false
	}
	if template := m.Spec.RemediationTemplate; template != nil {
		return template.APIVersion != "" && template.Name != "" && strings.HasSuffix(template.Kind, "Template") && template.Kind != "Template"
	}
	value, set := m.Annotations[v1beta1.AnnotationRemediationStrategy]
	return !set || (value == "external-baremetal" && m.api() == v1beta1.MachineAPIOpenShift)
}

// api returns the group of the Machines that it is about (spec M5.2).
func (m *MHC) api() string {
	if api, set := m.Annotations[v1beta1.AnnotationMachineAPI]; set {
		return api
	}
	return v1beta1.MachineAPIOpenShift
}

func (m *MHC) strategy() strategy {
	if m.Spec.RemediationTemplate != nil {
		return byTemplate
	}
	if _, set := m.Annotations[v1beta1.AnnotationRemediationStrategy]; set {
		return byAnnotation
	}
	return byDeletion
}

// deletes reports whether a Machine is remediated by its deletion (spec M10.1).
func (m *MHC) deletes(machine *Machine) bool {
	return m.strategy() == byDeletion || (m.strategy() == byAnnotation && machine.Failed())
}

func (m *MHC) paused() bool {
	_, paused := m.Annotations[v1beta1.AnnotationPaused]
	return paused
}

// forTermination reports whether it is a termination MHC (spec M1.4).
func (m *MHC) forTermination() bool {
	return len(m.Spec.UnhealthyConditions) == 1 && m.Spec.UnhealthyConditions[0].Type == "Terminating"
}

// Key is the namespace and the name.
func (m *MHC) Key() string { return key(m.Namespace, m.Name) }

// Selects reports whether the Machine is a target.
func (m *MHC) Selects(machine *Machine) bool {
	return machine != nil && machine.API == m.api() && machine.Namespace == m.Namespace && m.selector.Matches(machine.Labels)
}

// limit returns how many of the targets may be unhealthy (spec M7.2).
func (m *MHC) limit(targets int) (int, bool) {
	if m.Spec.MaxUnhealthy == nil {
		return targets, true
	}
	value := intstr.IntOrString(*m.Spec.MaxUnhealthy)
	if value.Type == intstr.Int {
		return max(0, int(value.IntVal)), true
	}
	digits, percent := strings.CutSuffix(value.StrVal, "%")
	n, err := strconv.ParseUint(digits, 10, 31)
	if err != nil || (percent && n > 100) {
		return 0, false
	}
	if percent {
		return int(n) * targets / 100, true
	}
	return int(n), true
}

func parseMHC(object *unstructured.Unstructured) (*MHC, error) {
	mhc := &v1beta1.MachineHealthCheck{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, mhc); err != nil {
		return nil, err
	}
	return NewMHC(mhc), nil
}
