// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Request is a request of the controller that the API server has answered, or begun to
// answer if it is a watch.
type Request struct {
	Time      time.Time // When it arrived.
	Answered  time.Time // When it was, or began to be if it is a watch.
	User      string
	UserAgent string
	Verb      string // As in RBAC: get, list, watch, create, update, patch, delete, deletecollection.
	URI       string

	// Empty if the request is not about a resource.
	Group, Resource, Subresource, Namespace, Name string

	Code int32 // The HTTP status code.

	// UID and ResourceVersion are those of the object in the answer to a write. The answer
	// to a deletion has no resourceVersion if nothing is left of the object.
	UID             types.UID
	ResourceVersion string
}

// Succeeded reports whether the API server did what the request asks for.
func (r *Request) Succeeded() bool {
	return r.Code >= http.StatusOK && r.Code < http.StatusMultipleChoices
}

// Reads reports whether the request changes nothing.
func (r *Request) Reads() bool {
	review := strings.HasSuffix(r.Group, "authorization.k8s.io") || strings.HasSuffix(r.Group, "authentication.k8s.io")
	return review || r.Resource == "" || slices.Contains([]string{"get", "list", "watch"}, r.Verb)
}

// String returns the request as it is best read in a failed test.
func (r Request) String() string {
	if r.Resource == "" {
		return fmt.Sprintf("%s %s: %d", r.Verb, r.URI, r.Code)
	}
	resource := r.Resource
	if r.Group != "" {
		resource += "." + r.Group
	}
	if r.Subresource != "" {
		resource += "/" + r.Subresource
	}
	return fmt.Sprintf("%s %s %s: %d", r.Verb, resource, key(r.Namespace, r.Name), r.Code)
}

// lastOf returns when the n-th last request until an instant arrived, or the first one if
// there are fewer. It returns false if there is none.
func (l requestLog) lastOf(key string, n int, until time.Time) (time.Time, bool) {
	var found time.Time
	for _, at := range slices.Backward(l.times[key]) {
		if n == 0 {
			break
		}
		if !at.After(until) {
			found = at
			n--
		}
	}
	return found, !found.IsZero()
}
