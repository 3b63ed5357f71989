// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Truncate returns no more than so many bytes of a text, and does not cut a character.
func Truncate(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	const ellipsis = "..."
	return strings.ToValidUTF8(text[:limit-len(ellipsis)], "") + ellipsis
}

// First returns a list of the first names, and how many there are more.
func First(most int, names []string) string {
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

// Fitting returns how many of the first items fit into a JSON list of so many bytes. Where status has such a list, it is
// atomic, so metadata.managedFields does not name its items.
func Fitting[T any](items []T, limit int) int {
	size := written(len("["))
	encoder := json.NewEncoder(&size) // It keeps no copy of thousands of items. What it ends each with stands for the comma.
	for i := range items {
		// An error is a time whose year has five digits: the API server would refuse it, too.
		if err := encoder.Encode(&items[i]); err != nil || int(size) > limit {
			return i
		}
	}
	return len(items)
}

// written counts bytes.
type written int

func (w *written) Write(data []byte) (int, error) {
	*w += written(len(data))
	return len(data), nil
}
