// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	"cmp"
	"context"
	"maps"
	"slices"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	coordinationinformers "k8s.io/client-go/informers/coordination/v1"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	nhcinformers "github.com/nhc-controller/nhc-controller/pkg/generated/informers/externalversions/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/execute"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
	"github.com/nhc-controller/nhc-controller/pkg/watches"
)

// registerHandlers maps events to the NodeHealthChecks they concern (spec 21.1).
func (c *Controller) registerHandlers(ctx context.Context, config Config) error {
	s := watches.NewSubscription(ctx)
	watches.Subscribe(s, "NodeHealthChecks", config.NodeHealthChecks.TypedInformer(), c.nhcChanged,
		func(deleted nhcinformers.DeletedNodeHealthCheck) { c.nhcDeleted(deleted.GetObjectName().Name) })
	watches.Subscribe(s, "Nodes", config.Nodes.TypedInformer(), c.nodeChanged,
		func(deleted coreinformers.DeletedNode) { c.nodeDeleted(deleted.GetObjectName().Name) })
	watches.Subscribe(s, "Leases", config.Leases.TypedInformer(), c.leaseChanged, func(deleted coordinationinformers.DeletedLease) {
		c.Wake(c.waiters.all())
		if lease := deleted.OptionalObj; lease != nil {
			c.Wake(c.holderOf(lease))
		}
	})
	s.SubscribeCRDs(config.CRDs, c.crdChanged)
	c.Synced = s.Synced
	return s.Err
}

// nhcChanged handles a NodeHealthCheck that was created (old is nil) or updated.
func (c *Controller) nhcChanged(old, nhc *v1alpha1.NodeHealthCheck) {
	c.Sightings.Concern(nhc.Name, conditionTypes(nhc.Spec.UnhealthyConditions))
	c.Wake(c.index.SetCheck(checkOf(nhc)))
	templates, crs, recorded := wantedKinds(nhc)
	c.templates.Want(nhc.Name, templates)
	c.Remediations.Want(nhc.Name, crs, recorded)
	if old == nil || old.UID != nhc.UID || old.Generation != nhc.Generation {
		c.Budgets.NodesChanged()
	}
	if old != nil && old.ResourceVersion == nhc.ResourceVersion {
		return
	}
	specUnchanged := old != nil && old.UID == nhc.UID && old.Generation == nhc.Generation &&
		maps.Equal(old.Annotations, nhc.Annotations) && old.DeletionTimestamp.Equal(nhc.DeletionTimestamp)
	if specUnchanged && (c.Writes.IsLast(nhc.Name, nhcResource, nhc.ResourceVersion) || equality.Semantic.DeepEqual(old.Status, nhc.Status)) {
		return // Our own status write, or nothing that matters here.
	}
	c.Wake([]string{nhc.Name})
}

// conditionTypes returns the types of conditions by which nodes are judged.
func conditionTypes(rules []v1alpha1.UnhealthyCondition) []corev1.NodeConditionType {
	types := make([]corev1.NodeConditionType, 0, len(rules))
	for i := range rules {
		types = append(types, rules[i].Type)
	}
	return types
}

func (c *Controller) nhcDeleted(name string) {
	c.Sightings.Concern(name, nil)
	c.Wake(c.index.RemoveCheck(name))
	c.Budgets.NodesChanged()
	c.lastStates.forget(name)
	c.templates.Want(name, nil)
	c.Remediations.Want(name, nil, nil)
	c.Wake([]string{name})
}

// wantedKinds returns the kinds that a NodeHealthCheck needs: those of its templates, and those of its CRs,
// including CRs that only status still points to (spec 6.8). recorded are the latter.
func wantedKinds(nhc *v1alpha1.NodeHealthCheck) (templates sets.Set[schema.GroupVersionKind], crs, recorded sets.Set[schema.GroupKind]) {
	templates, crs, recorded = sets.New[schema.GroupVersionKind](), sets.New[schema.GroupKind](), sets.New[schema.GroupKind]()
	for _, step := range remediation.Steps(&nhc.Spec) {
		kind, ok := step.RemediationKind()
		if !ok {
			continue
		}
		crs.Insert(kind.GroupKind())
		if !step.Incomplete() {
			templates.Insert(step.TemplateKind())
		}
	}
	for _, node := range nhc.Status.UnhealthyNodes {
		for _, cr := range node.Remediations {
			recorded.Insert(cr.Resource.GroupVersionKind().GroupKind())
		}
	}
	return templates, crs.Union(recorded), recorded
}

// leaseChanged handles a lease that was created (old is nil) or updated. It concerns its
// old holder, its new holder, and the checks that wait for it.
func (c *Controller) leaseChanged(old, lease *coordinationv1.Lease) {
	if old != nil && old.ResourceVersion == lease.ResourceVersion {
		return
	}
	c.Wake(c.waiters.all())
	holders := c.holderOf(lease)
	if len(holders) == 0 || !c.Writes.IsLast(holders[0], execute.LeaseResource, lease.ResourceVersion) {
		c.Wake(holders) // Not our own write.
	}
	if old == nil {
		return
	}
	if before := c.holderOf(old); !slices.Equal(before, holders) {
		c.Wake(before)
	}
}

// holderOf returns the NodeHealthCheck that holds a lease, if one does.
func (c *Controller) holderOf(lease *coordinationv1.Lease) []string {
	if lease.Spec.HolderIdentity == nil {
		return nil
	}
	if name, ok := object.NHCOfHolder(*lease.Spec.HolderIdentity); ok {
		return []string{name}
	}
	return nil
}

// crdChanged handles any event of a CustomResourceDefinition.
func (c *Controller) crdChanged(name string) {
	c.templates.Refresh(name)
	c.platform.Refresh(name)
}

// templateHandler handles templates of all watched kinds.
func (c *Controller) templateHandler() cache.ResourceEventHandler {
	return watches.Handler(func(old, template *object.Template) { c.Wake(c.referringTo(cmp.Or(template, old))) })
}

func parseTemplate(obj *unstructured.Unstructured) runtime.Object {
	return object.ParseTemplate(obj)
}

// referringTo returns the NodeHealthChecks that refer to a template.
func (c *Controller) referringTo(template *object.Template) []string {
	nhcs, err := c.nhcs.List(labels.Everything())
	if err != nil {
		return nil // A cache in memory has no errors.
	}
	gvk := template.GroupVersionKind()
	var names []string
	for _, nhc := range nhcs {
		if slices.ContainsFunc(remediation.Steps(&nhc.Spec), func(step remediation.Step) bool {
			return step.TemplateKind() == gvk && step.Reference.Name == template.Name &&
				(step.Reference.Namespace == template.Namespace || template.Namespace == "")
		}) {
			names = append(names, nhc.Name)
		}
	}
	return names
}

// remediationChanged handles a CR of any kind. It wakes the owners, and those that wait.
func (c *Controller) remediationChanged(old, cr *object.CR) {
	if cr == nil {
		c.enqueueLeft() // It may be the last one for the lease of a node.
	}
	for _, version := range []*object.CR{old, cr} {
		if version != nil {
			c.Wake(version.Owners())
			c.Budgets.NodeChanged(version.Node())
		}
	}
	c.ControlPlaneChanged()
}
