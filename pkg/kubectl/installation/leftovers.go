// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package installation

import (
	"context"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"

	machinev1beta1 "github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
)

// leftovers looks for remediation objects whose health check is gone. Garbage collection leaves objects with a
// further owner, and only a running controller deletes them (spec 4.8).
func (c *checker) leftovers(ctx context.Context) *Part {
	part := &Part{Name: "Remediation objects"}
	part.Found = "none is left over"
	nhcs, err := c.NHC.RemediationV1alpha1().NodeHealthChecks().List(ctx, metav1.ListOptions{})
	if err != nil {
		part.unknown(err, "list", v1alpha1.Plural)
		return part
	}
	existing := sets.New[string]()
	for i := range nhcs.Items {
		existing.Insert(nhcs.Items[i].Name)
	}
	served, err := c.Kube.Discovery().ServerPreferredResourcesWithContext(ctx)
	if err != nil { // The kinds that it has found are checked.
		part.unknown(err, "discover", "all kinds")
	}
	for _, resource := range remediationResources(served) {
		ours := metav1.ListOptions{LabelSelector: v1alpha1.LabelPartOf + "=" + v1alpha1.PartOf}
		list, err := c.Dynamic.Resource(resource).List(ctx, ours)
		if err != nil {
			part.unknown(err, "list", resource.GroupResource().String())
			continue
		}
		left := map[string][]string{}
		for i := range list.Items {
			if cr := object.ParseCR(&list.Items[i]); leftOver(cr, existing) {
				left[cr.Namespace] = append(left[cr.Namespace], cr.Name)
			}
		}
		for _, namespace := range sets.List(sets.KeySet(left)) {
			command := "kubectl delete " + resource.GroupResource().String()
			if namespace != "" {
				command += " -n " + namespace
			}
			part.problem("No health check owns %d %s any more, and they keep others from their nodes. If you need them no longer: %s %s",
				len(left[namespace]), resource.Resource, command, strings.Join(left[namespace], " "))
		}
	}
	return part
}

// leftOver reports whether the health check of a remediation object of ours is gone. An object that is being deleted
// does not count: it waits for its remediator.
func leftOver(cr *object.CR, existing sets.Set[string]) bool {
	ofMachines := slices.ContainsFunc(cr.OwnerReferences, func(owner metav1.OwnerReference) bool { return owner.Kind == machinev1beta1.Kind })
	return !cr.Deleting() && !ofMachines && !existing.HasAny(cr.Owners()...)
}

// remediationResources returns the resources of the kinds that have a kind of templates beside them. Those of Kubernetes
// itself, as Pods, are no remediation objects.
func remediationResources(served []*metav1.APIResourceList) (resources []schema.GroupVersionResource) {
	byKind := map[schema.GroupKind]schema.GroupVersionResource{}
	for _, list := range served {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil || version.Group == "" {
			continue
		}
		for i := range list.APIResources {
			if resource := &list.APIResources[i]; !strings.Contains(resource.Name, "/") {
				byKind[schema.GroupKind{Group: version.Group, Kind: resource.Kind}] = version.WithResource(resource.Name)
			}
		}
	}
	for kind, resource := range byKind {
		if _, has := byKind[schema.GroupKind{Group: kind.Group, Kind: kind.Kind + v1alpha1.TemplateKindSuffix}]; has {
			resources = append(resources, resource)
		}
	}
	slices.SortFunc(resources, func(a, b schema.GroupVersionResource) int { return strings.Compare(a.String(), b.String()) })
	return resources
}
