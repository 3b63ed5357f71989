// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
)

func (m *machineAPI) mhc(name string) *v1beta1.MachineHealthCheck {
	object := m.server.Get(mhcs, machineKey(name))
	if object == nil {
		return nil
	}
	return as[v1beta1.MachineHealthCheck](object)
}

// mhcNames are those of the MachineHealthChecks to which something may happen.
func (m *machineAPI) mhcNames() []string {
	return namesOf(slices.DeleteFunc(m.server.List(mhcs), func(mhc *unstructured.Unstructured) bool { return mhc.GetNamespace() != machineNamespace }))
}

// anyMHC returns the name of a MachineHealthCheck, empty if there is none.
func (m *machineAPI) anyMHC() string {
	if names := m.mhcNames(); len(names) > 0 {
		return oneOf(m.cluster, names...)
	}
	return ""
}

// createMHC creates a MachineHealthCheck with a spec of chance.
func (m *machineAPI) createMHC(name string) {
	mhc := &v1beta1.MachineHealthCheck{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1beta1.SchemeGroupVersion.String(), Kind: v1beta1.Kind},
		ObjectMeta: metav1.ObjectMeta{Namespace: machineNamespace, Name: name, Annotations: m.api.checkAnnotations()},
	}
	m.randomSelector(mhc)
	m.randomConditions(mhc)
	m.randomThreshold(mhc)
	m.randomStartup(mhc)
	m.randomStrategy(mhc)
	m.mayCreate(mhcs, from(mhc))
	m.describe(mhcs, machineKey(name))
}

func (m *machineAPI) randomSelector(mhc *v1beta1.MachineHealthCheck) {
	mhc.Spec.Selector = metav1.LabelSelector{MatchLabels: oneOf(m.cluster, nil, map[string]string{"pool": "a"}, map[string]string{"pool": "b"}, map[string]string{"role": "worker"})}
}

func (m *machineAPI) randomConditions(mhc *v1beta1.MachineHealthCheck) {
	mhc.Spec.UnhealthyConditions = nil
	if m.chance(10) {
		mhc.Spec.UnhealthyConditions = []v1beta1.UnhealthyCondition{{Type: "Terminating", Status: corev1.ConditionTrue, Timeout: "0s"}}
		return
	}
	for _, status := range []corev1.ConditionStatus{corev1.ConditionFalse, corev1.ConditionUnknown} {
		mhc.Spec.UnhealthyConditions = append(mhc.Spec.UnhealthyConditions, v1beta1.UnhealthyCondition{
			Type: corev1.NodeReady, Status: status, Timeout: oneOf(m.cluster, "0s", "30s", "1m30s", "5m"),
		})
	}
	if m.chance(20) {
		mhc.Spec.UnhealthyConditions = append(mhc.Spec.UnhealthyConditions, v1beta1.UnhealthyCondition{Type: diskPressure, Status: corev1.ConditionTrue, Timeout: "10s"})
	}
}

func (m *machineAPI) randomThreshold(mhc *v1beta1.MachineHealthCheck) {
	mhc.Spec.MaxUnhealthy = nil
	if value := oneOf(m.cluster, "", "", "100%", "100%", "60%", "40%", "0%", "2", "1"); value != "" {
		mhc.Spec.MaxUnhealthy = (*v1beta1.IntOrString)(new(intstr.Parse(value)))
	}
}

func (m *machineAPI) randomStartup(mhc *v1beta1.MachineHealthCheck) {
	mhc.Spec.NodeStartupTimeout = oneOf(m.cluster, nil, new("0"), new("2m"), new("2m"), new("10m"))
}

// randomStrategy decides how Machines are remediated.
func (m *machineAPI) randomStrategy(mhc *v1beta1.MachineHealthCheck) {
	mhc.Spec.RemediationTemplate = nil
	delete(mhc.Annotations, v1beta1.AnnotationRemediationStrategy)
	switch n := m.random.IntN(10); {
	case n < 5, n < 7 && !m.api.handsOver:
	case n < 7:
		mhc.Annotations[v1beta1.AnnotationRemediationStrategy] = v1beta1.StrategyExternalBaremetal
	default:
		template := oneOf(m.cluster, m.references()...)
		mhc.Spec.RemediationTemplate = &template
	}
}

// changeMHC changes a MachineHealthCheck, whatever its status is. What admission denies is from before it was validated.
func (m *machineAPI) changeMHC(name string, change func(*v1beta1.MachineHealthCheck)) {
	m.server.ModifyUnchecked("user", mhcs, machineKey(name), func(object *unstructured.Unstructured) {
		mhc := as[v1beta1.MachineHealthCheck](object)
		if mhc.Annotations == nil {
			mhc.Annotations = map[string]string{}
		}
		change(mhc)
		object.Object["spec"] = from(mhc).Object["spec"]
		object.SetAnnotations(mhc.Annotations)
	})
	m.describe(mhcs, machineKey(name))
}

// mhcEvent is something that users do to a MachineHealthCheck.
func (m *machineAPI) mhcEvent(name string) {
	n := m.random.IntN(20)
	switch {
	case n < 2:
		m.deleteMHC(name)
		return
	case n < 3:
		m.log("the status of MachineHealthCheck %s is lost", name)
		m.server.Modify("somebody", mhcs, machineKey(name), func(object *unstructured.Unstructured) { delete(object.Object, "status") })
		return
	}
	m.changeMHC(name, func(mhc *v1beta1.MachineHealthCheck) {
		switch {
		case n < 6:
			delete(mhc.Annotations, v1beta1.AnnotationPaused)
			if m.chance(30) {
				mhc.Annotations[v1beta1.AnnotationPaused] = ""
			}
		case n < 9:
			m.randomThreshold(mhc)
		case n < 11:
			m.randomSelector(mhc)
		case n < 13:
			m.randomConditions(mhc)
		case n < 15:
			m.randomStartup(mhc)
		case n < 17:
			m.randomStrategy(mhc)
		case n < 18:
			m.breakMHC(mhc)
		default:
			m.randomThreshold(mhc)
			m.randomStartup(mhc)
			m.randomConditions(mhc)
			m.randomStrategy(mhc)
		}
	})
}

// breakMHC changes a MachineHealthCheck so that admission would deny it.
func (m *machineAPI) breakMHC(mhc *v1beta1.MachineHealthCheck) {
	switch m.random.IntN(4) {
	case 0:
		mhc.Spec.MaxUnhealthy = (*v1beta1.IntOrString)(new(intstr.FromString("many")))
	case 1:
		mhc.Spec.NodeStartupTimeout = new("0x")
	case 2:
		mhc.Annotations[v1beta1.AnnotationRemediationStrategy] = "prayer"
		mhc.Spec.RemediationTemplate = nil
	case 3:
		mhc.Spec.UnhealthyConditions[0].Timeout = ""
	}
}

// deleteMHC deletes a MachineHealthCheck. Something may hold it for a while, or it is created again, also while
// the controller ends what it had.
func (m *machineAPI) deleteMHC(name string) {
	setFinalizers := func(finalizers ...string) {
		m.server.Modify("user", mhcs, machineKey(name), func(object *unstructured.Unstructured) { object.SetFinalizers(finalizers) })
	}
	if m.mhc(name).DeletionTimestamp != nil {
		m.log("MachineHealthCheck %s is let go", name)
		setFinalizers()
		return
	}
	if m.chance(50) {
		setFinalizers("example.com/backup")
	}
	m.log("MachineHealthCheck %s is deleted", name)
	m.server.Delete("user", mhcs, machineKey(name))
	if m.chance(50) {
		m.collectGarbage()
	}
	if m.chance(70) {
		m.sleep(oneOf(m.cluster, 0, time.Millisecond, 5*time.Millisecond, time.Second))
		m.createMHC(name)
		m.count("MachineHealthCheck created again")
	}
}
