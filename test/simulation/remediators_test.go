// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/test/memapi"
	"github.com/nhc-controller/nhc-controller/test/rules"
)

const (
	// templateNamespace has all templates and CRs. Metal3 demands this one beside Machines.
	templateNamespace = "openshift-machine-api"
	finalizer         = "example.com/remediator"
)

// remediator is the operator of one kind of CRs. Move is one move about a CR, in the manner
// of the remediators that users run; reporting nothing is a move, too.
type remediator struct {
	kind      string
	templated []string
	// multiple means that there may be several templates of the kind.
	multiple bool
	move     func(c *cluster, r *remediator, cr *rules.CR)
}

// allRemediators are those that users run. The order in which they report, fail and forget
// is up to chance.
var allRemediators = []remediator{
	{"MachineDeletionRemediation", []string{"delete"}, false, machineDeletion},
	{"FenceAgentsRemediation", []string{"bmc", "pdu"}, true, fenceAgents},
	{"SelfNodeRemediation", []string{"reboot"}, true, selfNode},
	{"CustomizedUserRemediation", []string{"script"}, true, customized},
	{"StorageBasedRemediation", []string{"storage"}, false, storageBased},
	{"Metal3Remediation", []string{"metal"}, false, metal3},
}

func (r *remediator) crs() schema.GroupVersionResource {
	return remediators.WithResource(strings.ToLower(r.kind) + "s")
}

func (r *remediator) templates() schema.GroupVersionResource {
	return remediators.WithResource(strings.ToLower(r.kind) + "templates")
}

// install serves the kinds and creates the templates.
func (r *remediator) install(c *cluster) {
	c.server.Install("admin", memapi.Resource{GroupVersionResource: r.crs(), Kind: r.kind, Namespaced: true})
	c.server.Install("admin", memapi.Resource{GroupVersionResource: r.templates(), Kind: r.kind + "Template", Namespaced: true})
	for _, name := range r.templated {
		r.createTemplate(c, name)
	}
}

func (r *remediator) createTemplate(c *cluster, name string) {
	metadata := map[string]any{"name": name, "namespace": templateNamespace}
	if r.multiple {
		metadata["annotations"] = map[string]any{v1alpha1.AnnotationMultipleTemplates: "true"}
	}
	_, _ = c.server.Create("admin", r.templates(), &unstructured.Unstructured{Object: map[string]any{ // It may exist.
		"apiVersion": remediators.String(), "kind": r.kind + "Template", "metadata": metadata,
		"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"strategy": name}}},
	}})
}

// references returns the references of all templates of the cluster.
func (c *cluster) references() []corev1.ObjectReference {
	var all []corev1.ObjectReference
	for _, r := range c.kinds {
		for _, name := range r.templated {
			all = append(all, corev1.ObjectReference{APIVersion: remediators.String(), Kind: r.kind + "Template", Namespace: templateNamespace, Name: name})
		}
	}
	return all
}

// of returns the remediator of a CR.
func (c *cluster) of(cr *rules.CR) *remediator {
	i := slices.IndexFunc(c.kinds, func(r remediator) bool { return r.kind == cr.Kind })
	return &c.kinds[i]
}

// machineDeletion has no finalizer. It deletes the Node, and says so before, and gives
// up when told to.
func machineDeletion(c *cluster, _ *remediator, cr *rules.CR) {
	switch {
	case cr.Marked && cr.Succeeded == "":
		c.report(cr, v1alpha1.RemediationSucceeded, corev1.ConditionFalse)
	case cr.Succeeded != "":
	case cr.Permanent == "":
		c.report(cr, v1alpha1.RemediationPermanentNodeDeletionExpected, oneOf(c, corev1.ConditionTrue, corev1.ConditionTrue, corev1.ConditionUnknown, corev1.ConditionFalse))
	case c.node(cr.Node) != nil:
		c.deleteNode(cr.Node)
	default:
		c.report(cr, v1alpha1.RemediationSucceeded, corev1.ConditionTrue)
	}
}

// fenceAgents is quick in both directions, takes the annotation for a failure even
// after its success, and never lets a CR go whose Node is gone.
func fenceAgents(c *cluster, _ *remediator, cr *rules.CR) {
	switch {
	case cr.Deleting:
		if c.node(cr.Node) != nil {
			c.letGo(cr)
		}
	case !c.holds(cr):
	case cr.Marked && cr.Succeeded != "False":
		c.report(cr, v1alpha1.RemediationSucceeded, corev1.ConditionFalse)
	case cr.Succeeded == "" && c.chance(50):
		c.report(cr, v1alpha1.RemediationSucceeded, corev1.ConditionFalse)
	case cr.Succeeded == "":
		c.report(cr, v1alpha1.RemediationSucceeded, corev1.ConditionTrue)
		c.heal(cr.Node)
	}
}

// selfNode may never say anything. It lets a CR go whose Node is gone once it is told
// to stop.
func selfNode(c *cluster, _ *remediator, cr *rules.CR) {
	switch {
	case cr.Deleting:
		if c.node(cr.Node) != nil || cr.Marked {
			c.letGo(cr)
		}
	case !c.holds(cr):
	case cr.Marked && cr.Succeeded == "":
		c.report(cr, v1alpha1.RemediationSucceeded, corev1.ConditionFalse)
	case cr.Succeeded == "" && c.chance(30):
		c.heal(cr.Node)
		c.report(cr, v1alpha1.RemediationSucceeded, corev1.ConditionTrue)
	}
}

// customized runs a script and reports nothing.
func customized(c *cluster, _ *remediator, cr *rules.CR) {
	if !cr.Marked && c.chance(30) {
		c.heal(cr.Node)
	}
}

// storageBased never reports whether it has succeeded.
func storageBased(c *cluster, _ *remediator, cr *rules.CR) {
	switch {
	case cr.Deleting:
		c.letGo(cr)
	case c.holds(cr) && c.chance(30):
		c.report(cr, "FencingSucceeded", corev1.ConditionTrue)
		c.heal(cr.Node)
	}
}

// metal3 deletes the Node and creates it again.
func metal3(c *cluster, _ *remediator, cr *rules.CR) {
	switch node := c.node(cr.Node); {
	case cr.Deleting:
		c.letGo(cr)
	case !c.holds(cr):
	case node != nil && c.chance(50):
		c.deleteNode(cr.Node)
	case node == nil:
		c.createNode(cr.Node, oneOf(c, corev1.ConditionTrue, corev1.ConditionUnknown))
	}
}

func keyOf(cr *rules.CR) memapi.Key { return memapi.Key{Namespace: cr.Namespace, Name: cr.Name} }

// changeCR changes a CR on behalf of its remediator.
func (c *cluster) changeCR(cr *rules.CR, change func(*unstructured.Unstructured)) {
	c.server.Modify("remediator", c.of(cr).crs(), keyOf(cr), change)
}

// holds puts the finalizer on a CR, and reports whether it was there before.
func (c *cluster) holds(cr *rules.CR) bool {
	held := false
	c.changeCR(cr, func(object *unstructured.Unstructured) {
		held = len(object.GetFinalizers()) > 0
		object.SetFinalizers([]string{finalizer})
	})
	return held
}

// letGo removes the finalizer of a CR.
func (c *cluster) letGo(cr *rules.CR) {
	c.changeCR(cr, func(object *unstructured.Unstructured) { object.SetFinalizers(nil) })
}

// report sets a condition of a CR.
func (c *cluster) report(cr *rules.CR, conditionType string, status corev1.ConditionStatus) {
	c.changeCR(cr, func(object *unstructured.Unstructured) { setCondition(object, conditionType, string(status)) })
}

// setCondition sets a condition of any object.
func setCondition(object *unstructured.Unstructured, conditionType, status string) {
	list, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	is := func(value any) bool { return value.(map[string]any)["type"] == conditionType }
	i := slices.IndexFunc(list, is)
	if i >= 0 && list[i].(map[string]any)["status"] == status {
		return
	}
	list = append(slices.DeleteFunc(list, is), map[string]any{
		"type": conditionType, "status": status, "lastTransitionTime": time.Now().UTC().Format(time.RFC3339),
	})
	_ = unstructured.SetNestedSlice(object.Object, list, "status", "conditions")
}
