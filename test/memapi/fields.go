// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package memapi

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// serverFields are fields of metadata that nobody manages.
var serverFields = map[string]bool{
	"managedFields": true, "resourceVersion": true, "generation": true, "uid": true, "creationTimestamp": true,
	"deletionTimestamp": true, "name": true, "namespace": true,
}

// manage records in managedFields who has changed what: a manager has the fields that it
// was the last one to change. Lists are one field. Before is nil for a new object.
func manage(before, after *unstructured.Unstructured, manager string) {
	owned := map[string]map[string]any{}
	var old any
	if before != nil {
		old = before.Object
		for _, entry := range before.GetManagedFields() {
			fields := map[string]any{}
			if err := json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields); err != nil {
				panic(fmt.Sprintf("reading managed fields: %v", err)) // They are ours.
			}
			owned[entry.Manager] = fields
		}
	}
	for _, path := range differences(old, after.Object, nil) {
		if len(path) < 2 && path[0] != "spec" && path[0] != "status" {
			continue
		}
		for _, fields := range owned {
			disown(fields, path)
		}
		if _, found, _ := unstructured.NestedFieldNoCopy(after.Object, path...); !found {
			continue
		}
		if owned[manager] == nil {
			owned[manager] = map[string]any{}
		}
		own(owned[manager], path)
	}
	var entries []metav1.ManagedFieldsEntry
	for _, name := range sortedKeys(owned) {
		if len(owned[name]) > 0 {
			entries = append(entries, metav1.ManagedFieldsEntry{Manager: name, Operation: metav1.ManagedFieldsOperationUpdate, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(string(encode(owned[name])))})
		}
	}
	after.SetManagedFields(entries)
}

// differences returns the paths of the fields that differ.
func differences(before, after any, at []string) [][]string {
	old, isMap := before.(map[string]any)
	young, isMapToo := after.(map[string]any)
	if (!isMap && before != nil) || (!isMapToo && after != nil) || (before == nil && after == nil) {
		if len(at) == 0 || equality.Semantic.DeepEqual(before, after) {
			return nil
		}
		return [][]string{at}
	}
	if len(old)+len(young) == 0 && (before == nil) != (after == nil) {
		return [][]string{at}
	}
	keys := copyMap(old)
	for key, value := range young {
		keys[key] = value
	}
	var paths [][]string
	for _, key := range sortedKeys(keys) {
		if len(at) == 1 && at[0] == "metadata" && serverFields[key] {
			continue
		}
		var was, is any
		if value, ok := old[key]; ok {
			was = value
		}
		if value, ok := young[key]; ok {
			is = value
		}
		paths = append(paths, differences(was, is, append(at[:len(at):len(at)], key))...)
	}
	return paths
}

func own(fields map[string]any, path []string) {
	for _, key := range path {
		next, ok := fields["f:"+key].(map[string]any)
		if !ok {
			next = map[string]any{}
			fields["f:"+key] = next
		}
		fields = next
	}
}

func disown(fields map[string]any, path []string) {
	next, ok := fields["f:"+path[0]].(map[string]any)
	if !ok {
		return
	}
	if len(path) > 1 {
		disown(next, path[1:])
	}
	if len(path) == 1 || len(next) == 0 {
		delete(fields, "f:"+path[0])
	}
}
