// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"net/http"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// requestLog has the requests of the controller that the rules ask for.
type requestLog struct {
	// times are those at which requests that had success arrived, by verb, resource and
	// object. That an object was not found is an answer.
	times map[string][]time.Time
	// writes are those that made a version of an object, by resource, object and
	// resourceVersion, and deletions those after which nothing was left, by uid.
	writes    map[string]*Request
	deletions map[types.UID]*Request
	// denied are when the API server refused to patch an object, by resource and object.
	denied map[string][]time.Time
	// statuses are the writes of the status of a NodeHealthCheck, also failed ones.
	statuses map[string][]*Request
}

func newRequestLog(requests []Request) requestLog {
	log := requestLog{times: map[string][]time.Time{}, writes: map[string]*Request{}, deletions: map[types.UID]*Request{}, denied: map[string][]time.Time{}, statuses: map[string][]*Request{}}
	log.add(requests)
	return log
}

// add adds requests that arrived later than those before.
func (l *requestLog) add(requests []Request) {
	for i := range requests {
		r := &requests[i]
		object := r.Resource + " " + key(r.Namespace, r.Name)
		if r.Resource == NodeHealthChecks.Resource && r.Subresource == "status" {
			l.statuses[r.Name] = append(l.statuses[r.Name], r)
		}
		switch {
		case r.Reads() && r.Verb != "get":
			continue
		case r.Verb == "get" && r.Code == http.StatusNotFound: // An answer, too.
		case !r.Succeeded():
			if r.Verb == "patch" && r.denied() {
				l.denied[object] = append(l.denied[object], r.Time)
			}
			continue
		case r.Verb == "delete" && r.ResourceVersion == "":
			l.deletions[r.UID] = r
		case !r.Reads():
			l.writes[object+" "+r.ResourceVersion] = r
		}
		if r.Subresource == "" {
			key := requestKey(r.Verb, r.Resource, r.Namespace, r.Name)
			l.times[key] = append(l.times[key], r.Time)
		}
	}
}

// denied reports whether admission, or a missing permission, has refused the request (spec 13.5).
func (r *Request) denied() bool {
	return r.Code == http.StatusForbidden || r.Code == http.StatusUnprocessableEntity
}

// deniedSince reports whether a patch of an object has been refused between two instants.
func (l requestLog) deniedSince(object string, since, until time.Time) bool {
	return slices.ContainsFunc(l.denied[object], func(at time.Time) bool { return !at.Before(since) && !at.After(until) })
}

// deniedFrom returns the first write of a status in the unbroken row of refused writes until an instant. It does not
// count the last write that arrived. It returns nil if the last write was not refused.
func (l requestLog) deniedFrom(nhc string, until time.Time) (first *Request) {
	for _, r := range slices.Backward(l.statuses[nhc]) {
		if !r.Time.Before(until) {
			continue
		}
		if !r.denied() {
			break
		}
		first = r
	}
	return first
}

// failedLast reports whether the last write of a status that arrived before an instant has failed.
func (l requestLog) failedLast(nhc string, until time.Time) bool {
	for _, r := range slices.Backward(l.statuses[nhc]) {
		if r.Time.Before(until) {
			return r.Code != http.StatusOK
		}
	}
	return false
}

// author returns the request of the controller that made a change, or nil if another
// client made it. before is the uid of the object that the change removed.
func (l requestLog) author(event Change, before types.UID) *Request {
	if event.Object == nil {
		return l.deletions[before]
	}
	r := l.writes[event.Resource.Resource+" "+event.Key+" "+event.Object.GetResourceVersion()]
	if r == nil || (!event.Time.IsZero() && r.Time.After(event.Time)) {
		return nil // A request that changes nothing is answered with the version of an earlier one.
	}
	return r
}

func requestKey(verb, resource, namespace, name string) string {
	return verb + " " + resource + " " + namespace + "/" + name
}
