// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
)

// A CR takes the control plane's place if it carries the control plane label, or is for a
// control plane node, whoever owns it. It keeps the place until it is gone, also while it
// is being deleted and when its Node is gone: a remediator may delete the Node while the
// host is off (spec 12.2).

// takesPlace reports whether a CR takes the place from node.
func (c *Controller) takesPlace(cr *remediation.CR, node string) bool {
	if cr.Node() == node {
		return false
	}
	if hasKey(cr.Labels, v1alpha1.LabelControlPlane) {
		return true
	}
	other, err := c.nodes.Get(cr.Node())
	return err == nil && isControlPlane(other)
}

// placeTaken reports whether any other control plane node is under remediation, as the
// caches show it, or whether that cannot be told yet.
func (c *Controller) placeTaken(node string) bool {
	nhcs, err := c.nhcs.List(labels.Everything())
	if err != nil {
		return true
	}
	for kind := range c.placeKinds(nhcs) {
		indexer, err := c.remediations.Cache(kind)
		switch {
		case err == nil:
			if c.cacheHasPlace(indexer, node) {
				return true
			}
		case onlyPending(err):
			return true
		case c.remediations.Gone(kind): // And so are its CRs.
		default:
			if slices.ContainsFunc(nhcs, func(nhc *v1alpha1.NodeHealthCheck) bool { return c.statusHasPlace(nhc, kind, node) }) {
				return true
			}
		}
	}
	return false
}

// placeKinds returns the kinds whose CRs may have the place.
func (c *Controller) placeKinds(nhcs []*v1alpha1.NodeHealthCheck) sets.Set[schema.GroupVersionKind] {
	kinds := sets.KeySet(c.remediations.Wanted(placeOwner))
	for _, nhc := range nhcs {
		_, wanted := wantedKinds(nhc)
		kinds = kinds.Union(sets.KeySet(wanted))
	}
	return kinds
}

// cacheHasPlace reports whether a cache has a CR that takes the place from node.
func (c *Controller) cacheHasPlace(indexer cache.Indexer, node string) bool {
	takes := func(cr *remediation.CR) bool { return c.takesPlace(cr, node) }
	labelled, err := listCRs(indexer, byControlPlane, labelledControlPlane)
	if err != nil || slices.ContainsFunc(labelled, takes) {
		return true
	}
	controlPlane, err := c.nodeStore.ByIndex(nodesByRole, roleControlPlane)
	if err != nil {
		return true
	}
	for _, object := range controlPlane {
		name, err := cache.ObjectToName(object)
		if err != nil {
			continue
		}
		crs, err := listCRs(indexer, byNode, name.Name)
		if err != nil || slices.ContainsFunc(crs, takes) {
			return true
		}
	}
	return false
}

// statusHasPlace reports whether a NodeHealthCheck has a CR of a kind that cannot be read,
// for a control plane node other than this one. Of a Node that is gone it is not known what
// it was, so its CR counts.
func (c *Controller) statusHasPlace(nhc *v1alpha1.NodeHealthCheck, kind schema.GroupVersionKind, node string) bool {
	for i := range nhc.Status.UnhealthyNodes {
		entry := &nhc.Status.UnhealthyNodes[i]
		if entry.Name == node || !slices.ContainsFunc(entry.Remediations, func(cr v1alpha1.Remediation) bool { return cr.Resource.GroupVersionKind() == kind }) {
			continue
		}
		if other, err := c.nodes.Get(entry.Name); err != nil || isControlPlane(other) {
			return true
		}
	}
	return false
}

// placeTakenLive reports the same as placeTaken, from a list of all CRs: the caches of a
// process that has just become the leader may not show what the one before has begun. What
// cannot be listed takes the place. Kinds that are not served or forbidden are left to the
// caches and to status.
func (c *Controller) placeTakenLive(ctx context.Context, node string) bool {
	nhcs, err := c.nhcs.List(labels.Everything())
	if err != nil {
		return true
	}
	for kind := range c.placeKinds(nhcs) {
		taken, err := c.listHasPlace(ctx, kind, node)
		if err != nil {
			klog.FromContext(ctx).Error(err, "Refusing a control plane node, because it is not known whether another one is under remediation", "node", node)
		}
		if taken || err != nil {
			return true
		}
	}
	return false
}

// placePageSize is how many CRs are listed at once.
const placePageSize = 500

// listHasPlace reports whether a live list of a kind has a CR that takes the place from
// node.
func (c *Controller) listHasPlace(ctx context.Context, kind schema.GroupVersionKind, node string) (bool, error) {
	mapping, err := c.locate(kind)
	if isNoMatch(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	options := metav1.ListOptions{Limit: placePageSize}
	for {
		page, err := c.dynamic.Resource(mapping.Resource).List(ctx, options)
		if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) {
			return false, nil // Status has decided: see placeTaken.
		}
		if err != nil {
			return false, fmt.Errorf("listing %s: %w", mapping.Resource.GroupResource(), err)
		}
		takes := func(object unstructured.Unstructured) bool { return c.takesPlace(remediation.ParseCR(&object), node) }
		if slices.ContainsFunc(page.Items, takes) {
			return true, nil
		}
		if options.Continue = page.GetContinue(); options.Continue == "" {
			return false, nil
		}
	}
}

// placeOwner wants the kinds that no NodeHealthCheck refers to any more, as long as a CR of
// theirs has the place. It is the name of no NodeHealthCheck.
const placeOwner = "/control-plane"

// keepPlaceKinds has the kinds watched whose CRs may have the place. It is called
// before a NodeHealthCheck drops kinds, and when such a CR is gone.
func (c *Controller) keepPlaceKinds() {
	c.place.mu.Lock()
	c.dropSeenClaims() // By a cache that may be about to go.
	c.place.mu.Unlock()
	kept := map[schema.GroupVersionKind][]types.NamespacedName{}
	for kind := range c.remediations.Wanted(placeOwner) {
		if _, err := c.remediations.Cache(kind); err != nil && !isNoMatch(err) {
			kept[kind] = nil // It cannot be told at the moment.
		}
	}
	for kind, indexer := range c.remediations.Caches() {
		if labelled, err := listCRs(indexer, byControlPlane, labelledControlPlane); err != nil || len(labelled) > 0 {
			kept[kind] = nil
		}
	}
	c.remediations.Want(placeOwner, kept)
}
