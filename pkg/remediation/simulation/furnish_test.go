// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
)

// furnish provides the kinds and the templates.
func (w *world) furnish() {
	for kind := range remediators {
		w.remediations[kind] = newTable(strings.ToLower(kind) + "s")
	}
	template := func(name, kind string, multiple bool) {
		w.templates[name] = &object.Template{
			TypeMeta:   metav1.TypeMeta{APIVersion: simulatedGroup, Kind: kind + "Template"},
			ObjectMeta: metav1.ObjectMeta{Namespace: "remediators", Name: name, UID: types.UID(name)},
			Spec:       map[string]any{"strategy": name},
		}
		if multiple {
			supportsMultiple(w.templates[name])
		}
	}
	template("delete", "MachineDeletionRemediation", false)
	template("bmc", "FenceAgentsRemediation", true)
	template("pdu", "FenceAgentsRemediation", true)
	template("reboot", "SelfNodeRemediation", true)
	template("script", "CustomizedUserRemediation", true)
	template("storage", "StorageBasedRemediation", false)
	template("metal", "Metal3Remediation", false)
}

// populate provides nodes and NodeHealthChecks.
func (w *world) populate() {
	for i := range 2 + w.random.IntN(3) {
		w.createNode(fmt.Sprintf("worker-%d", i), corev1.ConditionTrue)
	}
	for i := range w.random.IntN(3) {
		w.createNode(fmt.Sprintf("master-%d", i), corev1.ConditionTrue)
	}
	for _, name := range []string{"blue", "green", "red"}[:1+w.random.IntN(3)] {
		nhc := &v1alpha1.NodeHealthCheck{ObjectMeta: metav1.ObjectMeta{Name: name, UID: w.newUID(), Generation: 1}}
		w.randomSteps(&nhc.Spec)
		w.randomGate(&nhc.Spec)
		w.randomDelay(&nhc.Spec)
		if w.chance(60) {
			w.randomStorm(&nhc.Spec)
		}
		if w.chance(30) {
			nhc.Spec.Selector.MatchLabels = map[string]string{"pool": "a"}
		}
		for _, status := range []corev1.ConditionStatus{corev1.ConditionFalse, corev1.ConditionUnknown} {
			nhc.Spec.UnhealthyConditions = append(nhc.Spec.UnhealthyConditions, v1alpha1.UnhealthyCondition{
				Type: corev1.NodeReady, Status: status, Duration: metav1.Duration{Duration: oneOf(w, 0, 30*time.Second, 90*time.Second)},
			})
		}
		w.log("", "%s", w.describeSpec(name, &nhc.Spec))
		w.putNHC(nhc)
	}
}

func (w *world) reference(template string) corev1.ObjectReference {
	t := w.templates[template]
	return corev1.ObjectReference{APIVersion: t.APIVersion, Kind: t.Kind, Namespace: t.Namespace, Name: template}
}

func (w *world) randomSteps(spec *v1alpha1.NodeHealthCheckSpec) {
	spec.RemediationTemplate, spec.EscalatingRemediations = nil, nil
	names := sorted(w.templates)
	w.random.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	if w.chance(30) {
		spec.RemediationTemplate = new(w.reference(names[0]))
		return
	}
	orders := w.random.Perm(5)
	for i := range 1 + w.random.IntN(3) {
		spec.EscalatingRemediations = append(spec.EscalatingRemediations, v1alpha1.EscalatingRemediation{
			RemediationTemplate: w.reference(names[i]), Order: int32(orders[i] - 2),
			Timeout: metav1.Duration{Duration: oneOf(w, time.Minute, time.Minute, 90*time.Second, 5*time.Minute, 20*time.Minute)},
		})
	}
}

func (w *world) randomGate(spec *v1alpha1.NodeHealthCheckSpec) {
	limit := new(intstr.FromInt32(int32(w.random.IntN(4))))
	spec.MinHealthy, spec.MaxUnhealthy = limit, nil
	if w.chance(30) && !slices.ContainsFunc(remediation.Steps(spec), func(s remediation.Step) bool { return s.Reference.Kind == "MachineDeletionRemediationTemplate" }) {
		spec.MinHealthy, spec.MaxUnhealthy = nil, limit
	}
}

func (w *world) randomDelay(spec *v1alpha1.NodeHealthCheckSpec) {
	spec.HealthyDelay = oneOf(w, nil, nil, &metav1.Duration{}, &metav1.Duration{Duration: 45 * time.Second}, &metav1.Duration{Duration: 5 * time.Minute}, &metav1.Duration{Duration: -1})
}

func (w *world) describeSpec(name string, spec *v1alpha1.NodeHealthCheckSpec) string {
	var steps []string
	for _, step := range remediation.Steps(spec) {
		text := strings.TrimSuffix(step.Reference.Kind, "RemediationTemplate") + "/" + step.Reference.Name
		if step.Escalating() {
			text += " for " + step.Timeout.String()
		}
		steps = append(steps, text)
	}
	text := fmt.Sprintf("spec of %s: steps [%s]", name, strings.Join(steps, ", "))
	if spec.MinHealthy != nil {
		text += " minHealthy " + spec.MinHealthy.String()
	}
	if spec.MaxUnhealthy != nil {
		text += " maxUnhealthy " + spec.MaxUnhealthy.String()
	}
	if spec.HealthyDelay != nil {
		text += " healthyDelay " + spec.HealthyDelay.Duration.String()
	}
	if spec.StormRecoveryThreshold != nil {
		text += fmt.Sprintf(" stormRecoveryThreshold %d", *spec.StormRecoveryThreshold)
	}
	if spec.StormCooldownDuration != nil {
		text += " stormCooldownDuration " + spec.StormCooldownDuration.Duration.String()
	}
	if len(spec.PauseRequests) > 0 {
		text += " paused"
	}
	if len(spec.Selector.MatchLabels) > 0 {
		text += fmt.Sprintf(" selector %v", spec.Selector.MatchLabels)
	}
	return text
}
