// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package memapi

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"strconv"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/nhc-controller/nhc-controller/pkg/kubectl/admission"
)

// errNotServed is the answer for a resource that the server does not know.
func errNotServed(gvr schema.GroupVersionResource) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Code: 404, Reason: metav1.StatusReasonNotFound,
		Message: fmt.Sprintf("the server could not find the requested resource %s", gvr.GroupResource()),
	}}
}

// Create creates an object on behalf of a user, and returns it as stored.
func (s *Server) Create(user string, gvr schema.GroupVersionResource, object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tables[gvr]
	if t == nil {
		return nil, errNotServed(gvr)
	}
	change, err := s.create(t, user, object)
	if err != nil {
		return nil, err
	}
	return change.Object, nil
}

func (s *Server) create(t *table, user string, object *unstructured.Unstructured) (*Change, error) {
	if t.objects[keyOf(object)] != nil {
		return nil, apierrors.NewAlreadyExists(t.GroupResource(), object.GetName())
	}
	if object.GetResourceVersion() != "" {
		return nil, errors.New("resourceVersion should not be set on objects to be created")
	}
	object, err := s.admit(t, nil, object.DeepCopy(), false)
	if err != nil {
		return nil, err
	}
	object.SetUID(s.newUID())
	object.SetCreationTimestamp(seconds())
	object.SetDeletionTimestamp(nil)
	if t.Generations {
		object.SetGeneration(1)
	}
	return s.put(t, object, user), nil
}

// Modify changes an object on behalf of a user, status included. It returns false if there
// is no such object, or admission does not permit it.
func (s *Server) Modify(user string, gvr schema.GroupVersionResource, key Key, change func(*unstructured.Unstructured)) bool {
	return s.modify(user, gvr, key, change, false)
}

// ModifyUnchecked changes an object as Modify does, but nothing judges it: as if it had been written before
// there were the rules that it breaks. It returns false if there is no such object.
func (s *Server) ModifyUnchecked(user string, gvr schema.GroupVersionResource, key Key, change func(*unstructured.Unstructured)) bool {
	return s.modify(user, gvr, key, change, true)
}

func (s *Server) modify(user string, gvr schema.GroupVersionResource, key Key, change func(*unstructured.Unstructured), unchecked bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tables[gvr]
	if t == nil || t.objects[key] == nil {
		return false
	}
	stored, object := t.objects[key].Object, t.objects[key].Object.DeepCopy()
	change(object)
	keepServerFields(stored, object)
	admitted, err := s.admit(t, stored, object, false)
	if admitted == nil || (err != nil && !unchecked) {
		return false
	}
	s.replace(t, user, stored, admitted, false)
	return true
}

// update carries out an update or a patch of an object, or of its status alone.
func (s *Server) update(t *table, user string, object *unstructured.Unstructured, status bool) (*Change, error) {
	key := keyOf(object)
	stored := t.objects[key]
	if stored == nil {
		return nil, apierrors.NewNotFound(t.GroupResource(), key.Name)
	}
	if version := object.GetResourceVersion(); version != "" && version != stored.Object.GetResourceVersion() {
		return nil, apierrors.NewConflict(t.GroupResource(), key.Name, errors.New("the object has been modified; please apply your changes to the latest version and try again"))
	}
	if object.GetResourceVersion() == "" && !t.Unconditional {
		return nil, s.invalid(t, key.Name, admission.Cause{Field: "metadata.resourceVersion", Message: "Invalid value: 0: must be specified for an update"})
	}
	if uid := object.GetUID(); uid != "" && uid != stored.Object.GetUID() {
		return nil, apierrors.NewConflict(t.GroupResource(), key.Name, fmt.Errorf("Precondition failed: UID in precondition: %s, UID in object meta: %s", uid, stored.Object.GetUID())) //nolint:staticcheck // the words of the API server
	}
	if status {
		object = onlyStatusOf(stored.Object, object)
	} else {
		object = allButStatusOf(stored.Object, object)
	}
	keepServerFields(stored.Object, object)
	if object.GetDeletionTimestamp() != nil && !sets.New(stored.Object.GetFinalizers()...).HasAll(object.GetFinalizers()...) {
		return nil, s.invalid(t, key.Name, admission.Cause{Field: "metadata.finalizers", Message: "Forbidden: no new finalizers can be added if the object is being deleted"})
	}
	object, err := s.admit(t, stored.Object, object, status)
	if err != nil {
		return nil, err
	}
	return s.replace(t, user, stored.Object, object, status), nil
}

// onlyStatusOf returns the stored object with the status of the other one.
func onlyStatusOf(stored, object *unstructured.Unstructured) *unstructured.Unstructured {
	merged := &unstructured.Unstructured{Object: copyMap(stored.Object)}
	merged.Object["metadata"] = runtime.DeepCopyJSONValue(stored.Object["metadata"])
	setOrDelete(merged.Object, "status", object.Object["status"])
	return merged
}

// allButStatusOf returns the object with the stored status. Nodes have theirs written
// together with the rest, as kubelets of tests do.
func allButStatusOf(stored, object *unstructured.Unstructured) *unstructured.Unstructured {
	merged := &unstructured.Unstructured{Object: copyMap(object.Object)}
	merged.Object["metadata"] = runtime.DeepCopyJSONValue(object.Object["metadata"])
	setOrDelete(merged.Object, "status", stored.Object["status"])
	return merged
}

// copyMap returns a copy that is never nil.
func copyMap(object map[string]any) map[string]any {
	clone := make(map[string]any, len(object))
	maps.Copy(clone, object)
	return clone
}

func setOrDelete(object map[string]any, key string, value any) {
	if value == nil {
		delete(object, key)
		return
	}
	object[key] = value
}

// replace stores a new version of an object, unless nothing has changed. An object that is
// being deleted goes with its last finalizer.
func (s *Server) replace(t *table, user string, stored, object *unstructured.Unstructured, status bool) *Change {
	if equality.Semantic.DeepEqual(stored.Object, object.Object) {
		return t.objects[keyOf(stored)]
	}
	if t.Generations && !status && specChanged(stored, object) {
		object.SetGeneration(stored.GetGeneration() + 1)
	}
	if object.GetDeletionTimestamp() != nil && len(object.GetFinalizers()) == 0 {
		return s.remove(t, keyOf(stored), user)
	}
	return s.put(t, object, user)
}

// keepServerFields sets the fields that only the server writes to their stored values.
func keepServerFields(stored, object *unstructured.Unstructured) {
	object.SetUID(stored.GetUID())
	object.SetResourceVersion(stored.GetResourceVersion())
	object.SetGeneration(stored.GetGeneration())
	object.SetCreationTimestamp(stored.GetCreationTimestamp())
	object.SetDeletionTimestamp(stored.GetDeletionTimestamp())
	for _, field := range []string{"apiVersion", "kind"} {
		object.Object[field] = stored.Object[field]
	}
	metadata, _ := object.Object["metadata"].(map[string]any)
	for _, field := range []string{"labels", "annotations", "finalizers", "ownerReferences"} {
		if value := reflect.ValueOf(metadata[field]); value.IsValid() && value.Len() == 0 {
			delete(metadata, field) // What is empty is not stored.
		}
	}
}

// specChanged reports whether anything but metadata and status differs.
func specChanged(a, b *unstructured.Unstructured) bool {
	return !equality.Semantic.DeepEqual(withoutMetadata(a), withoutMetadata(b))
}

func withoutMetadata(object *unstructured.Unstructured) map[string]any {
	clone := copyMap(object.Object)
	delete(clone, "metadata")
	delete(clone, "status")
	return clone
}

// patch carries out a JSON merge patch (RFC 7386).
func (s *Server) patch(t *table, user string, key Key, patch map[string]any, status bool) (*Change, error) {
	stored := t.objects[key]
	if stored == nil {
		return nil, apierrors.NewNotFound(t.GroupResource(), key.Name)
	}
	if uid, found, _ := unstructured.NestedString(patch, "metadata", "uid"); found && types.UID(uid) != stored.Object.GetUID() {
		return nil, apierrors.NewInvalid(schema.GroupKind{Group: t.Group, Kind: t.Kind}, key.Name, nil)
	}
	object := &unstructured.Unstructured{Object: merge(stored.Object.Object, patch).(map[string]any)}
	return s.update(t, user, object, status)
}

// merge returns the target with a merge patch applied. Neither is modified.
func merge(target, patch any) any {
	changes, isMap := patch.(map[string]any)
	if !isMap {
		return patch
	}
	before, _ := target.(map[string]any)
	merged := copyMap(before)
	for key, value := range changes {
		if value == nil {
			delete(merged, key)
			continue
		}
		merged[key] = merge(merged[key], value)
	}
	return merged
}

// Delete deletes an object on behalf of a user: at once, or when its finalizers are gone. It
// returns false if there is no such object, or admission does not permit it.
func (s *Server) Delete(user string, gvr schema.GroupVersionResource, key Key) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tables[gvr]
	if t == nil {
		return false
	}
	_, err := s.delete(t, user, key, nil)
	return err == nil
}

func (s *Server) delete(t *table, user string, key Key, preconditions *metav1.Preconditions) (*Change, error) {
	stored := t.objects[key]
	if stored == nil {
		return nil, apierrors.NewNotFound(t.GroupResource(), key.Name)
	}
	object := stored.Object
	if preconditions != nil {
		if uid := preconditions.UID; uid != nil && *uid != object.GetUID() {
			return nil, apierrors.NewConflict(t.GroupResource(), key.Name, fmt.Errorf("the UID in the precondition (%s) does not match the UID in record (%s)", *uid, object.GetUID()))
		}
		if version := preconditions.ResourceVersion; version != nil && *version != object.GetResourceVersion() {
			return nil, apierrors.NewConflict(t.GroupResource(), key.Name, fmt.Errorf("the ResourceVersion in the precondition (%s) does not match the ResourceVersion in record (%s)", *version, object.GetResourceVersion()))
		}
	}
	if t.Admit != nil {
		if err := t.Admit(object, nil); err != nil {
			return nil, err
		}
	}
	if len(object.GetFinalizers()) == 0 {
		return s.remove(t, key, user), nil
	}
	if object.GetDeletionTimestamp() != nil {
		return stored, nil
	}
	going := object.DeepCopy()
	going.SetDeletionTimestamp(new(seconds()))
	if t.Generations {
		going.SetGeneration(object.GetGeneration() + 1)
	}
	return s.put(t, going, user), nil
}

// parseVersion returns a resourceVersion as a number, 0 for none.
func parseVersion(version string) (uint64, error) {
	if version == "" {
		return 0, nil
	}
	parsed, err := strconv.ParseUint(version, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("invalid resourceVersion: %w", err)
	}
	return parsed, nil
}
