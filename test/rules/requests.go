// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
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

// requestLog has the times of the requests that had success.
type requestLog struct {
	// times are those at which they arrived, by verb, resource and object.
	times map[string][]time.Time
	// denied are those at which patches arrived that had no success.
	denied map[string][]time.Time
}

func newRequestLog(requests []Request) requestLog {
	log := requestLog{times: map[string][]time.Time{}, denied: map[string][]time.Time{}}
	log.add(requests)
	return log
}

// add adds requests that arrived later than those before.
func (l requestLog) add(requests []Request) {
	for i := range requests {
		r := &requests[i]
		key := requestKey(r.Verb, r.Resource, r.Namespace, r.Name)
		if r.Verb == "patch" && !r.Succeeded() {
			l.denied[key] = append(l.denied[key], r.Time)
		}
		if !r.Succeeded() || r.Subresource != "" {
			continue
		}
		l.times[key] = append(l.times[key], r.Time)
	}
}

// wasDenied reports whether a patch of an object was refused after an instant.
func (l requestLog) wasDenied(resource, namespace, name string, since time.Time) bool {
	times := l.denied[requestKey("patch", resource, namespace, name)]
	return len(times) > 0 && times[len(times)-1].After(since)
}

func requestKey(verb, resource, namespace, name string) string {
	return verb + " " + resource + " " + namespace + "/" + name
}

// last returns when the last of such requests arrived that is not after an instant,
// and false if there is none between that and since.
func (l requestLog) last(key string, since, until time.Time) (time.Time, bool) {
	for _, at := range slices.Backward(l.times[key]) {
		if !at.After(until) {
			return at, at.After(since)
		}
	}
	return time.Time{}, false
}

// lastOf returns when the n-th last one arrived that is not after an instant, or the
// first if there are not so many; and false if there is none.
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
