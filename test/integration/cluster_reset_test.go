// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// What tests create and change, in the order in which it is removed: first what may
// refuse a removal, then what the controller and the garbage collector work on, and the
// kinds after their objects.
var (
	admissionResources = []schema.GroupVersionResource{
		{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingwebhookconfigurations"},
		{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingadmissionpolicybindings"},
		{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingadmissionpolicies"},
	}
	otherResources = []schema.GroupVersionResource{
		{Version: "v1", Resource: "nodes"},
		{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterrolebindings"},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "rolebindings"},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles"},
		{Group: "apps", Version: "v1", Resource: "deployments"},
		{Group: "flowcontrol.apiserver.k8s.io", Version: "v1", Resource: "flowschemas"},
		{Group: "flowcontrol.apiserver.k8s.io", Version: "v1", Resource: "prioritylevelconfigurations"},
		{Version: "v1", Resource: "serviceaccounts"},
		{Version: "v1", Resource: "resourcequotas"},
		{Version: "v1", Resource: "pods"},
		{Group: "policy", Version: "v1", Resource: "poddisruptionbudgets"},
	}
	namespaceResource = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	eventResource     = schema.GroupVersionResource{Group: "events.k8s.io", Version: "v1", Resource: "events"}
)

// objectKey names an object.
type objectKey struct {
	resource        schema.GroupVersionResource
	namespace, name string
}

// snapshot has the objects of a cluster, without what the API server or a controller
// adds.
type snapshot map[objectKey]*unstructured.Unstructured

// snapshot reads the cluster.
func (c *cluster) snapshot(ctx context.Context) (snapshot, error) {
	found := snapshot{}
	if err := c.read(ctx, crdResource, found); err != nil {
		return nil, err
	}
	for _, resource := range slices.Concat(admissionResources, found.customResources(), otherResources, []schema.GroupVersionResource{namespaceResource}) {
		if err := c.read(ctx, resource, found); err != nil && !apierrors.IsNotFound(err) { // A kind that has just gone.
			return nil, err
		}
	}
	return found, nil
}

// read adds the objects of a resource.
func (c *cluster) read(ctx context.Context, resource schema.GroupVersionResource, found snapshot) error {
	list, err := c.dynamic.Resource(resource).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing %s: %w", resource.Resource, err)
	}
	for i := range list.Items {
		object := &list.Items[i]
		key := objectKey{resource, object.GetNamespace(), object.GetName()}
		if !ownedByControlPlane(key) {
			found[key] = object
		}
	}
	return nil
}

// customResources returns the resources of all CRDs, in a version that is served.
func (s snapshot) customResources() []schema.GroupVersionResource {
	var resources []schema.GroupVersionResource
	for key, crd := range s {
		if key.resource != crdResource {
			continue
		}
		group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
		plural, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "plural")
		versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
		for _, entry := range versions {
			version, _ := entry.(map[string]any)
			if name, _ := version["name"].(string); version["served"] == true {
				resources = append(resources, schema.GroupVersionResource{Group: group, Version: name, Resource: plural})
				break
			}
		}
	}
	return resources
}

// ownedByControlPlane reports whether an object is none of the tests' business.
func ownedByControlPlane(key objectKey) bool {
	switch key.resource.Resource {
	case "leases":
		return key.namespace == metav1.NamespaceSystem
	case "serviceaccounts":
		return key.namespace == metav1.NamespaceSystem || key.name == "default"
	case "namespaces":
		return scenarioName.MatchString(key.name) // Empty by then. To delete them takes the control plane long.
	}
	return false
}

// reset removes what was not there at first, and restores what was. Nobody may use the
// cluster meanwhile.
func (c *cluster) reset(ctx context.Context, initial snapshot) error {
	if err := c.ForgetProcesses(); err != nil {
		return err
	}
	// More than once: a CRD waits for its objects, and roles are aggregated a moment later.
	var left []string
	var last error
	err := wait.PollUntilContextCancel(ctx, 500*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		var current snapshot
		if current, last = c.snapshot(ctx); last != nil {
			return false, nil //nolint:nilerr // Tried again. The end reports the last one.
		}
		left, last = c.restore(ctx, initial, current)
		return len(left) == 0 && last == nil, nil
	})
	if err != nil {
		return errors.Join(fmt.Errorf("%w: not restored are %v", err, left), last)
	}
	return c.dynamic.Resource(eventResource).Namespace(metav1.NamespaceDefault).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
}

// restore makes one step from the current to the initial state, and returns what had to
// be done. Custom resources come after what may refuse their deletion, and their kinds
// after them.
func (c *cluster) restore(ctx context.Context, initial, current snapshot) (done []string, err error) {
	var errs []error
	for _, phase := range []func(schema.GroupVersionResource) bool{
		func(r schema.GroupVersionResource) bool { return slices.Contains(admissionResources, r) },
		func(r schema.GroupVersionResource) bool { return r.Resource == v1alpha1.Plural },
		func(r schema.GroupVersionResource) bool {
			return !slices.Contains(admissionResources, r) && r.Resource != v1alpha1.Plural && r != crdResource
		},
		func(r schema.GroupVersionResource) bool { return r == crdResource },
	} {
		for key, object := range current {
			if _, keep := initial[key]; !keep && phase(key.resource) {
				done = append(done, key.resource.Resource+" "+key.namespace+"/"+key.name)
				errs = append(errs, c.remove(ctx, key, object))
			}
		}
	}
	for key, want := range initial {
		if object := current[key]; !equivalent(want, object) {
			done = append(done, "changed "+key.resource.Resource+" "+key.namespace+"/"+key.name)
			errs = append(errs, c.recreate(ctx, key, want, object))
		}
	}
	return done, errors.Join(errs...)
}

func (c *cluster) client(key objectKey) dynamic.ResourceInterface {
	if key.namespace == "" {
		return c.dynamic.Resource(key.resource)
	}
	return c.dynamic.Resource(key.resource).Namespace(key.namespace)
}

// remove deletes an object, whoever would rather keep it.
func (c *cluster) remove(ctx context.Context, key objectKey, object *unstructured.Unstructured) error {
	client := c.client(key)
	patch := `{"metadata":{"finalizers":null}}`
	switch {
	case key.resource.Resource == v1alpha1.Plural:
		patch = `{"metadata":{"annotations":{"` + v1alpha1.AnnotationAllowDelete + `":""}}}`
	case key.resource == crdResource, key.resource == namespaceResource, len(object.GetFinalizers()) == 0:
		patch = "" // The API server's own finalizers are to be respected.
	}
	if patch != "" {
		if _, err := client.Patch(ctx, key.name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("preparing the deletion of %s %s: %w", key.resource.Resource, key.name, err)
		}
	}
	if object.GetDeletionTimestamp() != nil {
		return nil
	}
	err := client.Delete(ctx, key.name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting %s %s: %w", key.resource.Resource, key.name, err)
	}
	return nil
}

// recreate gives an object its initial content.
func (c *cluster) recreate(ctx context.Context, key objectKey, want, current *unstructured.Unstructured) error {
	object := want.DeepCopy()
	object.SetManagedFields(nil)
	object.SetUID("")
	object.SetResourceVersion("")
	var err error
	if current == nil {
		_, err = c.client(key).Create(ctx, object, metav1.CreateOptions{})
	} else {
		object.SetResourceVersion(current.GetResourceVersion())
		_, err = c.client(key).Update(ctx, object, metav1.UpdateOptions{})
	}
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		return nil // Looked at once more.
	}
	if err != nil {
		return fmt.Errorf("restoring %s %s: %w", key.resource.Resource, key.name, err)
	}
	return nil
}

// equivalent reports whether two objects have the same content, but for their status and
// for what the API server adds to the metadata.
func equivalent(want, got *unstructured.Unstructured) bool {
	if got == nil {
		return false
	}
	content := func(object *unstructured.Unstructured) map[string]any {
		rest := map[string]any{"labels": object.GetLabels(), "annotations": object.GetAnnotations()}
		for key, value := range object.Object {
			if key != "metadata" && key != "status" {
				rest[key] = value
			}
		}
		return rest
	}
	return got.GetDeletionTimestamp() == nil && apiequality.Semantic.DeepEqual(content(want), content(got))
}
