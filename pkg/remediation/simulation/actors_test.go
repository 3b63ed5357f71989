// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
)

const (
	simulatedGroup = "remediators.example.com/v1"
	finalizer      = "example.com/remediator"
)

// A remediator makes one move about one of its CRs, in the manner of the remediators
// that users run. Reporting nothing is a move, too.
type remediator func(w *world, cr *object.CR)

// remediators are those that users run, by the kind of their CRs. The order in which
// they report, fail and forget is up to chance.
var remediators = map[string]remediator{
	"MachineDeletionRemediation": machineDeletion,
	"FenceAgentsRemediation":     fenceAgents,
	"SelfNodeRemediation":        selfNode,
	"CustomizedUserRemediation":  customized,
	"StorageBasedRemediation":    storageBased,
	"Metal3Remediation":          metal3,
}

// machineDeletion has no finalizer. It deletes the Node, and says so before, and gives
// up when told to.
func machineDeletion(w *world, cr *object.CR) {
	switch {
	case cr.TimedOut() && cr.Succeeded == "":
		w.report(cr, v1alpha1.RemediationSucceeded, corev1.ConditionFalse)
	case cr.Succeeded != "":
	case cr.PermanentNodeDeletionExpected == "":
		w.report(cr, v1alpha1.RemediationPermanentNodeDeletionExpected, oneOf(w, corev1.ConditionTrue, corev1.ConditionTrue, corev1.ConditionUnknown, corev1.ConditionFalse))
	case w.node(cr.Node()) != nil:
		w.deleteNode(cr.Node())
	default:
		w.report(cr, v1alpha1.RemediationSucceeded, corev1.ConditionTrue)
	}
}

// fenceAgents is quick in both directions, takes the annotation for a failure even
// after its success, and never lets a CR go whose Node is gone.
func fenceAgents(w *world, cr *object.CR) {
	switch {
	case cr.Deleting():
		if w.node(cr.Node()) != nil {
			w.letGo(cr)
		}
	case !w.holdsOn(cr):
	case cr.TimedOut() && cr.Succeeded != corev1.ConditionFalse:
		w.report(cr, v1alpha1.RemediationSucceeded, corev1.ConditionFalse)
	case cr.Succeeded == "" && w.chance(50):
		w.report(cr, v1alpha1.RemediationSucceeded, corev1.ConditionFalse)
	case cr.Succeeded == "":
		w.report(cr, v1alpha1.RemediationSucceeded, corev1.ConditionTrue)
		w.heal(cr.Node())
	}
}

// selfNode may never say anything. It lets a CR go whose Node is gone once it is told
// to stop.
func selfNode(w *world, cr *object.CR) {
	switch {
	case cr.Deleting():
		if w.node(cr.Node()) != nil || cr.TimedOut() {
			w.letGo(cr)
		}
	case !w.holdsOn(cr):
	case cr.TimedOut() && cr.Succeeded == "":
		w.report(cr, v1alpha1.RemediationSucceeded, corev1.ConditionFalse)
	case cr.Succeeded == "" && w.chance(30):
		w.heal(cr.Node())
		w.report(cr, v1alpha1.RemediationSucceeded, corev1.ConditionTrue)
	}
}

// customized runs a script and reports nothing.
func customized(w *world, cr *object.CR) {
	if !cr.TimedOut() && w.chance(30) {
		w.heal(cr.Node())
	}
}

// storageBased never reports whether it has succeeded.
func storageBased(w *world, cr *object.CR) {
	switch {
	case cr.Deleting():
		w.letGo(cr)
	case w.holdsOn(cr) && w.chance(30):
		w.report(cr, "FencingSucceeded", corev1.ConditionTrue)
		w.heal(cr.Node())
	}
}

// metal3 deletes the Node and creates it again.
func metal3(w *world, cr *object.CR) {
	switch node := w.node(cr.Node()); {
	case cr.Deleting():
		w.letGo(cr)
	case !w.holdsOn(cr):
	case node != nil && w.chance(50):
		w.deleteNode(node.Name)
	case node == nil:
		w.createNode(cr.Node(), oneOf(w, corev1.ConditionTrue, corev1.ConditionUnknown))
	}
}

// holdsOn puts the finalizer on a CR, and reports whether it was there before.
func (w *world) holdsOn(cr *object.CR) bool {
	raw := w.remediations[cr.Kind].live[crKey(cr)].raw
	if len(raw.GetFinalizers()) > 0 {
		return true
	}
	w.changeCR(cr, func(raw *unstructured.Unstructured) { raw.SetFinalizers([]string{finalizer}) })
	return false
}

// letGo removes the finalizer of a CR.
func (w *world) letGo(cr *object.CR) {
	w.log(cr.Node(), "the remediator lets %s %s go", cr.Kind, cr.Name)
	w.changeCR(cr, func(raw *unstructured.Unstructured) { raw.SetFinalizers(nil) })
}

// report sets a condition of a CR.
func (w *world) report(cr *object.CR, typ string, status corev1.ConditionStatus) {
	w.log(cr.Node(), "%s %s reports %s=%s", cr.Kind, cr.Name, typ, status)
	w.changeCR(cr, func(raw *unstructured.Unstructured) {
		list, _, _ := unstructured.NestedSlice(raw.Object, "status", "conditions")
		list = slices.DeleteFunc(list, func(c any) bool { return c.(map[string]any)["type"] == typ })
		list = append(list, map[string]any{"type": typ, "status": string(status)})
		_ = unstructured.SetNestedSlice(raw.Object, list, "status", "conditions")
	})
}

// heal makes a node ready, if it exists.
func (w *world) heal(node string) {
	if w.node(node) != nil {
		w.setReady(node, corev1.ConditionTrue)
	}
}

func (w *world) setReady(name string, status corev1.ConditionStatus) {
	if w.node(name).Status.Conditions[0].Status == status {
		return
	}
	w.log(name, "node %s: Ready=%s", name, status)
	w.changeNode(name, func(node *corev1.Node) {
		node.Status.Conditions[0].Status = status
		node.Status.Conditions[0].LastTransitionTime = w.seconds()
	})
}

func (w *world) createNode(name string, ready corev1.ConditionStatus, labels ...string) {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: w.newUID(), Labels: map[string]string{"pool": "a"}, Annotations: map[string]string{}},
		Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready, LastTransitionTime: w.seconds()}}},
	}
	for _, label := range labels {
		node.Labels[label] = ""
	}
	if strings.HasPrefix(name, "master") {
		node.Labels["node-role.kubernetes.io/control-plane"] = ""
	}
	w.log(name, "node %s is created, Ready=%s", name, ready)
	w.putNode(node)
}

func (w *world) deleteNode(name string) {
	w.log(name, "node %s is deleted", name)
	w.remove(w.nodes, name)
}

// collect is the garbage collector: leases go with their Node.
func (w *world) collect() {
	for _, name := range sorted(w.leases.live) {
		for _, owner := range w.leases.live[name].lease.OwnerReferences {
			if node := w.node(owner.Name); node == nil || node.UID != owner.UID {
				w.log(owner.Name, "the garbage collector removes lease %s", name)
				w.remove(w.leases, name)
				break
			}
		}
	}
}

const maintenance = "node-maintenance"

// maintain is another operator that uses the lease of a node, by the rules.
func (w *world) maintain(node string) {
	lease := w.lease(node)
	fresh := func(transitions int32) *coordinationv1.Lease {
		return &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Name: object.LeaseName(node)},
			Spec: coordinationv1.LeaseSpec{
				HolderIdentity: new(maintenance), AcquireTime: new(micro(w.now)), RenewTime: new(micro(w.now)),
				LeaseDurationSeconds: new(oneOf(w, int32(30), 300, 3600)), LeaseTransitions: &transitions,
			},
		}
	}
	switch {
	case lease == nil:
		w.log(node, "%s takes the lease", maintenance)
		created := fresh(0)
		created.UID = w.newUID()
		w.putLease(created)
	case leaseHolder(lease) == maintenance && w.chance(50):
		w.log(node, "%s releases the lease", maintenance)
		w.remove(w.leases, lease.Name)
	case leaseHolder(lease) == maintenance && w.chance(20):
		w.log(node, "%s leaves the lease without holder", maintenance)
		clone := lease.DeepCopy()
		clone.Spec.HolderIdentity = oneOf(w, nil, new(""))
		w.putLease(clone)
	case leaseHolder(lease) == maintenance:
		w.log(node, "%s renews the lease", maintenance)
		clone := lease.DeepCopy()
		clone.Spec.RenewTime = new(micro(w.now))
		w.putLease(clone)
	case !leaseValidReference(lease, w.now):
		w.log(node, "%s takes the lease over from %q", maintenance, leaseHolder(lease))
		taken := fresh(transitions(lease) + 1)
		taken.UID = lease.UID
		w.putLease(taken)
	}
}

// leaseValidReference says what leaseValid should (spec 14.3), in other words.
func leaseValidReference(lease *coordinationv1.Lease, now time.Time) bool {
	renewed, seconds := lease.Spec.RenewTime, lease.Spec.LeaseDurationSeconds
	if renewed == nil || seconds == nil || now.Sub(renewed.Time) < -leaseTolerance {
		return false
	}
	return now.Sub(renewed.Time) <= time.Duration(*seconds)*time.Second
}

// spoil damages the lease of a node.
func (w *world) spoil(node string) {
	lease := w.lease(node)
	if lease == nil {
		return
	}
	clone := lease.DeepCopy()
	switch w.random.IntN(6) {
	case 0:
		clone.Spec.RenewTime = nil
	case 1:
		clone.Spec.AcquireTime = nil
	case 2:
		clone.Spec.LeaseDurationSeconds = nil
	case 3:
		clone.Spec.LeaseTransitions = nil
	case 4:
		clone.Spec.RenewTime = new(micro(w.now.Add(time.Minute)))
	default:
		w.log(node, "somebody deletes lease %s", lease.Name)
		w.remove(w.leases, lease.Name)
		return
	}
	w.log(node, "somebody spoils lease %s %s", lease.Name, w.terms(clone))
	w.putLease(clone)
}

// createForeign creates a CR that a NodeHealthCheck does not own, or one that it owns
// and did not create, as the operator has that was here before.
func (w *world) createForeign(node, nhc string) {
	template := w.templates[oneOf(w, sorted(w.templates)...)]
	if w.chance(70) {
		template = w.templates[oneOf(w, remediation.Steps(&w.nhc(nhc).Spec)...).Reference.Name]
	}
	raw := object.Render(object.OwnerOf(w.nhc(nhc)), object.Target{Node: node}, template)
	raw.SetName(oneOf(w, raw.GetName(), node, node+"-old"))
	if w.chance(70) {
		raw.SetOwnerReferences(nil)
	} else if w.chance(30) {
		raw.SetAnnotations(map[string]string{v1alpha1.AnnotationNodeName: node})
	}
	if w.remediations[raw.GetKind()].live[crKey(raw)] != nil {
		return
	}
	raw.SetUID(w.newUID())
	raw.SetCreationTimestamp(w.seconds())
	w.log(node, "somebody creates %s %s, owned by %v", raw.GetKind(), raw.GetName(), object.ParseCR(raw).Owners())
	w.putCR(raw)
}
