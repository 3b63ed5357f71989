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
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/test/memapi"
	"github.com/nhc-controller/nhc-controller/test/rules"
)

// createNode creates a Node. Those of the control plane have names of their own.
// Without a status of Ready its kubelet has not reported yet.
func (c *cluster) createNode(name string, ready corev1.ConditionStatus) {
	node := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Node", "metadata": map[string]any{"name": name}}}
	labels := map[string]string{"pool": "a"}
	if zone := oneOf(c, "a", "a", "b", ""); zone != "" {
		labels[zoneKey] = zone
	}
	if strings.HasPrefix(name, "master") {
		labels["node-role.kubernetes.io/"+oneOf(c, "control-plane", "control-plane", "etcd")] = ""
	}
	node.SetLabels(labels)
	if ready != "" {
		setCondition(node, string(corev1.NodeReady), string(ready))
	}
	_, _ = c.server.Create("kubelet", nodes, node) // It may exist.
}

func (c *cluster) deleteNode(name string) { c.server.Delete("cloud", nodes, memapi.Key{Name: name}) }

func (c *cluster) changeNode(name string, change func(*unstructured.Unstructured)) {
	c.server.Modify("kubelet", nodes, memapi.Key{Name: name}, change)
}

// setReady sets condition Ready of a node.
func (c *cluster) setReady(name string, status corev1.ConditionStatus) {
	c.changeNode(name, func(node *unstructured.Unstructured) { setCondition(node, string(corev1.NodeReady), string(status)) })
}

// misreport has the kubelet of a node give a time by a clock that is wrong (spec 7.2).
func (c *cluster) misreport(name string) {
	wrong := oneOf(c, -time.Hour, -time.Minute, 10*time.Second, 2*time.Minute, time.Hour)
	c.log("the clock of %s is wrong by %s", name, wrong)
	c.changeNode(name, func(node *unstructured.Unstructured) {
		conditions, _, _ := unstructured.NestedSlice(node.Object, "status", "conditions")
		for _, condition := range conditions {
			if condition := condition.(map[string]any); condition["type"] == string(corev1.NodeReady) {
				at := time.Now().Add(wrong).UTC().Format(time.RFC3339)
				condition["lastTransitionTime"] = at
				c.misreported.Insert(name + " " + at)
			}
		}
		_ = unstructured.SetNestedSlice(node.Object, conditions, "status", "conditions")
	})
}

// updateConfig lets the machine config operator begin to change the configuration of a node, or end (spec 10.2).
func (c *cluster) updateConfig(name string) {
	c.changeNode(name, func(node *unstructured.Unstructured) {
		setEntry(node, "annotations", remediation.AnnotationDesiredConfig, oneOf(c, "", "new", "new"))
		setEntry(node, "annotations", remediation.AnnotationCurrentConfig, oneOf(c, "new", "old"))
	})
}

// heal makes a node healthy, if it exists.
func (c *cluster) heal(name string) {
	c.changeNode(name, func(node *unstructured.Unstructured) {
		setCondition(node, string(corev1.NodeReady), "True")
		setCondition(node, diskPressure, "False")
	})
}

// diskPressure is a condition by which a node may be unhealthy although it is Ready.
const diskPressure = "DiskPressure"

// setLabel sets a label of a node, or an annotation.
func setEntry(object *unstructured.Unstructured, field, key, value string) {
	_ = unstructured.SetNestedField(object.Object, value, "metadata", field, key)
}

// maintainer is another operator that uses the leases of nodes.
const maintainer = "node-maintenance"

// maintainer returns the holder that it writes: in some clusters that of the upstream operator's own controller of
// MachineHealthChecks, which has no namespace (spec M4.3).
func (c *cluster) maintainer() string {
	if c.seed%4 == 3 {
		return "MachineHealthCheck-east"
	}
	return maintainer
}

func (c *cluster) lease(node string) *coordinationv1.Lease {
	object := c.server.Get(leases, leaseKey(node))
	if object == nil {
		return nil
	}
	return as[coordinationv1.Lease](object)
}

func leaseKey(node string) memapi.Key {
	return memapi.Key{Namespace: leaseNamespace, Name: "node-" + strings.ToLower(node)}
}

// maintain is the other operator, by the rules.
func (c *cluster) maintain(node string) {
	lease, now := c.lease(node), metav1.NewMicroTime(time.Now())
	term := oneOf(c, int32(30), 300, 3600)
	change := func(change func(*coordinationv1.Lease)) {
		c.server.Modify(maintainer, leases, leaseKey(node), func(object *unstructured.Unstructured) {
			typed := as[coordinationv1.Lease](object)
			change(typed)
			object.Object = from(typed).Object
		})
	}
	holder := ""
	if lease != nil && lease.Spec.HolderIdentity != nil {
		holder = *lease.Spec.HolderIdentity
	}
	switch {
	case lease == nil:
		created := &coordinationv1.Lease{
			TypeMeta:   metav1.TypeMeta{APIVersion: "coordination.k8s.io/v1", Kind: "Lease"},
			ObjectMeta: metav1.ObjectMeta{Namespace: leaseNamespace, Name: leaseKey(node).Name},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: new(c.maintainer()), AcquireTime: &now, RenewTime: &now, LeaseDurationSeconds: &term, LeaseTransitions: new(int32(0))},
		}
		_, _ = c.server.Create(maintainer, leases, from(created)) // Somebody may be faster.
		c.log("%s takes the lease of %s for %d s", maintainer, node, term)
	case holder == c.maintainer() && c.chance(50):
		c.server.Delete(maintainer, leases, leaseKey(node))
	case holder == c.maintainer() && c.chance(20):
		change(func(lease *coordinationv1.Lease) { lease.Spec.HolderIdentity = oneOf(c, nil, new("")) })
	case holder == c.maintainer():
		change(func(lease *coordinationv1.Lease) { lease.Spec.RenewTime = &now })
	case !rules.LeaseValid(lease, time.Now()):
		change(func(lease *coordinationv1.Lease) {
			lease.Spec = coordinationv1.LeaseSpec{HolderIdentity: new(c.maintainer()), AcquireTime: &now, RenewTime: &now, LeaseDurationSeconds: &term, LeaseTransitions: new(int32(1))}
		})
		c.log("%s takes the lease of %s from %q", maintainer, node, holder)
	}
}

// spoil damages the lease of a node, or deletes it.
func (c *cluster) spoil(node string) {
	if c.chance(30) {
		c.server.Delete("somebody", leases, leaseKey(node))
		return
	}
	c.server.Modify("somebody", leases, leaseKey(node), func(object *unstructured.Unstructured) {
		lease := as[coordinationv1.Lease](object)
		switch c.random.IntN(5) {
		case 0:
			lease.Spec.RenewTime = nil
		case 1:
			lease.Spec.AcquireTime = nil
		case 2:
			lease.Spec.LeaseDurationSeconds = nil
		case 3:
			lease.Spec.LeaseTransitions = nil
		case 4:
			lease.Spec.RenewTime = new(metav1.NewMicroTime(time.Now().Add(time.Minute)))
		}
		object.Object = from(lease).Object
	})
}

// collectGarbage deletes the dependents of deleted Nodes and NodeHealthChecks. If a dependent has further
// owners, it only removes the references to the deleted ones.
func (c *cluster) collectGarbage() {
	for _, lease := range c.server.List(leases) {
		for _, owner := range lease.GetOwnerReferences() {
			if node := c.node(owner.Name); node == nil || node.GetUID() != owner.UID {
				c.server.Delete("garbage-collector", leases, memapi.Key{Namespace: lease.GetNamespace(), Name: lease.GetName()})
				break
			}
		}
	}
	for i := range c.kinds {
		for _, object := range c.server.List(c.kinds[i].crs()) {
			c.collectCR(c.kinds[i].crs(), object)
		}
	}
}

// collectCR does nothing to CRs that are being deleted, like the garbage collector of
// Kubernetes.
func (c *cluster) collectCR(gvr schema.GroupVersionResource, cr *unstructured.Unstructured) {
	owners, key := cr.GetOwnerReferences(), memapi.Key{Namespace: cr.GetNamespace(), Name: cr.GetName()}
	solid := slices.DeleteFunc(slices.Clone(owners), func(owner metav1.OwnerReference) bool {
		stored := c.ownerOf(cr.GetNamespace(), owner.Kind, owner.Name)
		return stored == nil || stored.GetUID() != owner.UID
	})
	switch {
	case len(solid) == len(owners), cr.GetDeletionTimestamp() != nil:
	case len(solid) > 0:
		c.server.Modify("garbage-collector", gvr, key, func(object *unstructured.Unstructured) { object.SetOwnerReferences(solid) })
		c.count("owner collected")
	default:
		c.server.Delete("garbage-collector", gvr, key)
	}
}

// ownerOf returns the owner of a CR, nil if there is none.
func (c *cluster) ownerOf(namespace, kind, name string) *unstructured.Unstructured {
	switch kind {
	case "Node":
		return c.node(name)
	case "Machine":
		return c.server.Get(c.machines.gvr(), memapi.Key{Namespace: namespace, Name: name})
	case v1beta1.Kind:
		return c.server.Get(mhcs, memapi.Key{Namespace: namespace, Name: name})
	default:
		return c.server.Get(nhcs, memapi.Key{Name: name})
	}
}
