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
	"k8s.io/apimachinery/pkg/runtime"
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

// snapshot reads the cluster. What a test has added has metadata only, unless it is a kind: to read
// everything as a whole, again and again, would cost more than most tests. Nor is anything read again
// that is in an earlier snapshot, in the same version. If only is set, resources without a
// key in it are not read, except the kinds: they are as they were. Without only, everything is read.
func (m *member) snapshot(ctx context.Context, earlier snapshot, only []objectKey) (snapshot, error) {
	isRead := func(resource schema.GroupVersionResource) bool {
		return len(only) == 0 || resource == crdResource || slices.ContainsFunc(only, func(key objectKey) bool { return key.resource == resource })
	}
	found := snapshot{}
	for key, object := range earlier {
		if !isRead(key.resource) {
			found[key] = object
		}
	}
	if err := m.read(ctx, crdResource, earlier, found); err != nil {
		return nil, err
	}
	for _, resource := range slices.Concat(admissionResources, found.customResources(), otherResources, []schema.GroupVersionResource{namespaceResource}) {
		if !isRead(resource) {
			continue
		}
		if err := m.read(ctx, resource, earlier, found); err != nil && !apierrors.IsNotFound(err) { // A kind that has just gone.
			return nil, err
		}
	}
	return found, nil
}

// read adds the objects of a resource.
func (m *member) read(ctx context.Context, resource schema.GroupVersionResource, earlier, found snapshot) error {
	list, err := m.metadata.Resource(resource).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing %s: %w", resource.Resource, err)
	}
	for i := range list.Items {
		item := &list.Items[i]
		key := objectKey{resource, item.Namespace, item.Name}
		if ownedByControlPlane(key) {
			continue
		}
		switch known, isInitial := earlier[key], m.initial == nil || m.initial[key] != nil; {
		case known != nil && known.GetResourceVersion() == item.ResourceVersion:
			found[key] = known
		case isInitial || resource == crdResource:
			if found[key], err = m.client(key).Get(ctx, key.name, metav1.GetOptions{}); err != nil {
				return fmt.Errorf("reading %s %s: %w", resource.Resource, key.name, err)
			}
		default:
			content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(item)
			if err != nil {
				return fmt.Errorf("converting the metadata of %s %s: %w", resource.Resource, key.name, err)
			}
			found[key] = &unstructured.Unstructured{Object: content}
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

// ownedByControlPlane reports whether the control plane owns an object, so that tests
// leave it alone.
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

// reset removes what was not there at first, and restores what was. No other test may use
// the cluster meanwhile.
func (m *member) reset(ctx context.Context) error {
	if err := m.ForgetProcesses(); err != nil {
		return err
	}
	// More than once: CRDs come after their objects, and roles are aggregated later, up to a minute if
	// the API server was away. Everything is read at the beginning and at the end only.
	current := m.initial
	var left []objectKey
	var last error
	err := wait.PollUntilContextCancel(ctx, 300*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		isWhole := len(left) == 0
		read, err := m.snapshot(ctx, current, left)
		if err != nil {
			last = err
			return false, nil //nolint:nilerr // Tried again. The end reports the last one.
		}
		current = read
		left, last = m.restore(ctx, current)
		return isWhole && len(left) == 0 && last == nil, nil
	})
	if err != nil {
		return errors.Join(fmt.Errorf("%w: not restored are %v", err, left), last)
	}
	return m.dynamic.Resource(eventResource).Namespace(metav1.NamespaceDefault).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
}

// restore makes one step from the current to the initial state, and returns what had to
// be done. Custom resources come after what may refuse their deletion. Kinds are removed in
// a later step than their last object: the API server takes seconds to remove one that has any.
func (m *member) restore(ctx context.Context, current snapshot) (done []objectKey, err error) {
	var errs []error
	removeAll := func(which func(schema.GroupVersionResource) bool) {
		for key, object := range current {
			if _, keep := m.initial[key]; !keep && which(key.resource) {
				done = append(done, key)
				errs = append(errs, m.remove(ctx, key, object))
			}
		}
	}
	isAdmission := func(r schema.GroupVersionResource) bool { return slices.Contains(admissionResources, r) }
	isNHC := func(r schema.GroupVersionResource) bool { return r.Resource == v1alpha1.Plural }
	isKind := func(r schema.GroupVersionResource) bool { return r == crdResource }
	removeAll(isAdmission)
	removeAll(isNHC)
	removeAll(func(r schema.GroupVersionResource) bool { return !isAdmission(r) && !isNHC(r) && !isKind(r) })
	if len(done) == 0 {
		removeAll(isKind)
	}
	for key, want := range m.initial {
		if object := current[key]; !equivalent(want, object) {
			done = append(done, key)
			errs = append(errs, m.recreate(ctx, key, want, object))
		}
	}
	return done, errors.Join(errs...)
}

func (m *member) client(key objectKey) dynamic.ResourceInterface {
	if key.namespace == "" {
		return m.dynamic.Resource(key.resource)
	}
	return m.dynamic.Resource(key.resource).Namespace(key.namespace)
}

// remove deletes an object, also if finalizers or admission policies keep it.
func (m *member) remove(ctx context.Context, key objectKey, object *unstructured.Unstructured) error {
	client := m.client(key)
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
func (m *member) recreate(ctx context.Context, key objectKey, want, current *unstructured.Unstructured) error {
	object := want.DeepCopy()
	object.SetManagedFields(nil)
	object.SetUID("")
	object.SetResourceVersion("")
	if object.Object["aggregationRule"] != nil {
		// The writer of an aggregated role owns its rules. It must not be the owner of the annotation of
		// kubectl: kubectl apply --server-side takes over all that this owner has, and the manifest has no rules.
		delete(object.Object, "rules")
		if current != nil && current.Object["rules"] != nil {
			object.Object["rules"] = current.Object["rules"]
		}
	}
	var err error
	if current == nil {
		_, err = m.client(key).Create(ctx, object, metav1.CreateOptions{})
	} else {
		object.SetResourceVersion(current.GetResourceVersion())
		_, err = m.client(key).Update(ctx, object, metav1.UpdateOptions{})
	}
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		return nil // Looked at once more.
	}
	if err != nil {
		return fmt.Errorf("restoring %s %s: %w", key.resource.Resource, key.name, err)
	}
	return nil
}

// equivalent reports whether two objects have the same content, except for their status and
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
