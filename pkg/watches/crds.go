// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package watches

import (
	"strings"

	"k8s.io/client-go/tools/cache"
)

// crdsIn returns a function that returns the names of the CustomResourceDefinitions of an
// API group, <plural>.<group>, and false before their cache is filled.
func crdsIn(informer cache.SharedIndexInformer) func(group string) ([]string, bool) {
	return func(group string) (names []string, known bool) {
		if !informer.HasSynced() {
			return nil, false
		}
		for _, name := range informer.GetStore().ListKeys() {
			if _, of, ok := strings.Cut(name, "."); ok && of == group {
				names = append(names, name)
			}
		}
		return names, true
	}
}
