// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/test/memapi"
)

// largeCluster is the number of workers in one of fifty clusters.
const largeCluster = 150

func isLarge(seed uint64) bool { return seed%50 == 25 }

// populate creates nodes and NodeHealthChecks.
func (c *cluster) populate() {
	workers := 2 + c.random.IntN(3)
	if isLarge(c.seed) {
		workers = largeCluster
	}
	for i := range workers {
		c.createNode(fmt.Sprintf("worker-%d", i), corev1.ConditionTrue)
	}
	for i := range oneOf(c, 0, 1, 3, 3) {
		c.createNode(fmt.Sprintf("master-%d", i), corev1.ConditionTrue)
	}
	for _, name := range []string{"blue", "green", "red"}[:1+c.random.IntN(3)] {
		c.createNHC(name)
	}
}

// createNHC creates a NodeHealthCheck with a spec of chance.
func (c *cluster) createNHC(name string) {
	nhc := &v1alpha1.NodeHealthCheck{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: v1alpha1.Kind},
		ObjectMeta: metav1.ObjectMeta{Name: name},
	}
	c.randomSteps(&nhc.Spec)
	c.randomGate(&nhc.Spec)
	c.randomDelay(&nhc.Spec)
	if c.chance(60) {
		c.randomStorm(&nhc.Spec)
	}
	nhc.Spec.Selector = selectorOf("")
	if c.chance(30) {
		nhc.Spec.Selector = selectorOf("a")
	}
	for _, status := range []corev1.ConditionStatus{corev1.ConditionFalse, corev1.ConditionUnknown} {
		nhc.Spec.UnhealthyConditions = append(nhc.Spec.UnhealthyConditions, v1alpha1.UnhealthyCondition{
			Type: corev1.NodeReady, Status: status, Duration: metav1.Duration{Duration: oneOf(c, 0, 30*time.Second, 90*time.Second)},
		})
	}
	if c.chance(30) {
		nhc.Spec.UnhealthyConditions = append(nhc.Spec.UnhealthyConditions, v1alpha1.UnhealthyCondition{
			Type: diskPressure, Status: corev1.ConditionTrue, Duration: metav1.Duration{Duration: 10 * time.Second},
		})
	}
	c.mayCreate(nhcs, from(nhc))
	c.describe(nhcs, memapi.Key{Name: name})
}

// selectorOf selects the nodes of a pool, or all.
func selectorOf(pool string) metav1.LabelSelector {
	if pool == "" { // An empty selector is not permitted.
		return metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "pool", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"none"}}}}
	}
	return metav1.LabelSelector{MatchLabels: map[string]string{"pool": pool}}
}

// mayCreate creates an object of a user, unless it exists.
func (c *cluster) mayCreate(gvr schema.GroupVersionResource, object *unstructured.Unstructured) {
	if _, err := c.server.Create("user", gvr, object); err != nil && !apierrors.IsAlreadyExists(err) {
		panic(err)
	}
}

// deleteNHC deletes a NodeHealthCheck. Something may hold it for a while.
func (c *cluster) deleteNHC(name string) {
	key := memapi.Key{Name: name}
	setFinalizers := func(finalizers ...string) {
		c.server.Modify("user", nhcs, key, func(object *unstructured.Unstructured) { object.SetFinalizers(finalizers) })
	}
	if c.nhc(name).DeletionTimestamp != nil {
		c.log("%s is let go", name)
		setFinalizers()
		return
	}
	if c.chance(50) {
		setFinalizers("example.com/backup")
	}
	c.log("%s is deleted", name)
	c.server.Delete("user", nhcs, key)
}

// changeSpec changes a spec, as far as admission permits.
func (c *cluster) changeSpec(name string, change func(*v1alpha1.NodeHealthCheckSpec)) {
	changed := c.server.Modify("user", nhcs, memapi.Key{Name: name}, func(object *unstructured.Unstructured) {
		nhc := as[v1alpha1.NodeHealthCheck](object)
		change(&nhc.Spec)
		object.Object["spec"] = from(nhc).Object["spec"]
	})
	if changed {
		c.describe(nhcs, memapi.Key{Name: name})
	}
}

// describe logs the spec of an object that exists.
func (c *cluster) describe(resource schema.GroupVersionResource, key memapi.Key) {
	if object := c.server.Get(resource, key); object != nil {
		spec, err := json.Marshal(object.Object["spec"])
		require.NoError(c.t, err)
		c.log("spec of %s %s: %s, annotations %v", object.GetKind(), key.Name, spec, object.GetAnnotations())
	}
}

func (c *cluster) randomSteps(spec *v1alpha1.NodeHealthCheckSpec) {
	spec.RemediationTemplate, spec.EscalatingRemediations = nil, nil
	templates := c.references()
	c.random.Shuffle(len(templates), func(i, j int) { templates[i], templates[j] = templates[j], templates[i] })
	if c.chance(30) {
		spec.RemediationTemplate = &templates[0]
		return
	}
	orders := c.random.Perm(5)
	for i := range 1 + c.random.IntN(min(3, len(templates))) {
		spec.EscalatingRemediations = append(spec.EscalatingRemediations, v1alpha1.EscalatingRemediation{
			RemediationTemplate: templates[i], Order: int32(orders[i] - 2),
			Timeout: metav1.Duration{Duration: oneOf(c, time.Minute, time.Minute, 90*time.Second, 5*time.Minute, 20*time.Minute)},
		})
	}
}

func deletesMachines(spec *v1alpha1.NodeHealthCheckSpec) bool {
	const kind = "MachineDeletionRemediationTemplate"
	return (spec.RemediationTemplate != nil && spec.RemediationTemplate.Kind == kind) ||
		slices.ContainsFunc(spec.EscalatingRemediations, func(e v1alpha1.EscalatingRemediation) bool { return e.RemediationTemplate.Kind == kind })
}

func (c *cluster) randomGate(spec *v1alpha1.NodeHealthCheckSpec) {
	limit := intstr.FromInt32(int32(c.random.IntN(4)))
	if c.chance(30) {
		limit = intstr.FromString(oneOf(c, "0%", "30%", "51%", "100%"))
	}
	spec.MinHealthy, spec.MaxUnhealthy = &limit, nil
	if c.chance(30) && !deletesMachines(spec) {
		spec.MinHealthy, spec.MaxUnhealthy = nil, &limit
	}
}

func (c *cluster) randomDelay(spec *v1alpha1.NodeHealthCheckSpec) {
	spec.HealthyDelay = oneOf(c, nil, nil, nil, &metav1.Duration{}, &metav1.Duration{Duration: 45 * time.Second}, &metav1.Duration{Duration: 5 * time.Minute}, &metav1.Duration{Duration: -1})
}

func (c *cluster) randomStorm(spec *v1alpha1.NodeHealthCheckSpec) {
	spec.StormRecoveryThreshold, spec.StormCooldownDuration = nil, nil
	if c.chance(60) {
		spec.StormRecoveryThreshold = new(oneOf(c, int32(0), 1, 2))
	}
	if c.chance(60) {
		spec.StormCooldownDuration = &metav1.Duration{Duration: oneOf(c, 0, 10*time.Second, time.Minute, 5*time.Minute)}
	}
}

// changeRandomly changes a spec. What a running remediation forbids is refused.
func (c *cluster) changeRandomly(name string) {
	n := c.random.IntN(10)
	c.changeSpec(name, func(spec *v1alpha1.NodeHealthCheckSpec) {
		switch n {
		case 0, 1:
			spec.PauseRequests = nil
			if c.chance(30) {
				spec.PauseRequests = []string{"maintenance"}
			}
		case 2:
			c.randomDelay(spec)
		case 3:
			spec.UnhealthyConditions[c.random.IntN(2)].Duration.Duration = oneOf(c, 0, 30*time.Second, 90*time.Second)
		case 4:
			c.randomGate(spec)
		case 5, 6:
			c.randomStorm(spec)
		case 7:
			c.randomSteps(spec)
			c.randomGate(spec)
		case 9:
			spec.Mode = oneOf(c, "", "", v1alpha1.ModeEnforce, v1alpha1.ModeDryRun)
		case 8:
			spec.Selector = selectorOf(oneOf(c, "", "a", "b"))
		}
	})
}

// createForeign creates a CR that no NodeHealthCheck owns, or a CR of an earlier operator.
func (c *cluster) createForeign(node, name string) {
	r := &c.kinds[c.random.IntN(len(c.kinds))]
	template := oneOf(c, r.templated...)
	object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": remediators.String(), "kind": r.kind, "metadata": map[string]any{}}}
	object.SetNamespace(templateNamespace)
	object.SetName(oneOf(c, node, node+"-old"))
	object.SetAnnotations(oneOf(c, nil,
		map[string]string{v1alpha1.AnnotationNodeName: node},
		map[string]string{v1alpha1.AnnotationNodeName: node, v1alpha1.AnnotationTemplateName: template}))
	refersTo := func(reference corev1.ObjectReference) bool {
		return reference.Kind == r.kind+v1alpha1.TemplateKindSuffix
	} // Others are not looked for.
	if nhc := c.nhc(name); nhc != nil && c.chance(30) && slices.ContainsFunc(referencesOf(nhc), refersTo) {
		object.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: v1alpha1.Kind, Name: name, UID: nhc.UID}})
	}
	if _, err := c.server.Create("somebody", r.crs(), object); err == nil {
		c.log("somebody creates %s %s for %s, owners %d", r.kind, object.GetName(), node, len(object.GetOwnerReferences()))
	}
}

// referencesOf returns the templates that a NodeHealthCheck refers to.
func referencesOf(nhc *v1alpha1.NodeHealthCheck) []corev1.ObjectReference {
	if nhc.Spec.RemediationTemplate != nil {
		return []corev1.ObjectReference{*nhc.Spec.RemediationTemplate}
	}
	var all []corev1.ObjectReference
	for _, step := range nhc.Spec.EscalatingRemediations {
		all = append(all, step.RemediationTemplate)
	}
	return all
}
