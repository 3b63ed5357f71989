// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"net/http"
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
	// deletes are the deletions after which something was left.
	deletes []*Request
	// denied are the objects whose patch the API server refused.
	denied map[string]bool
}

func newRequestLog(requests []Request) requestLog {
	log := requestLog{times: map[string][]time.Time{}, writes: map[string]*Request{}, deletions: map[types.UID]*Request{}, denied: map[string]bool{}}
	log.add(requests)
	return log
}

// add adds requests that arrived later than those before.
func (l *requestLog) add(requests []Request) {
	for i := range requests {
		r := &requests[i]
		object := r.Resource + " " + key(r.Namespace, r.Name)
		switch {
		case r.Reads() && r.Verb != "get":
			continue
		case r.Verb == "get" && r.Code == http.StatusNotFound: // An answer, too.
		case !r.Succeeded():
			if r.Verb == "patch" {
				l.denied[object] = true
			}
			continue
		case r.Verb == "delete" && r.ResourceVersion == "":
			l.deletions[r.UID] = r
		case !r.Reads():
			l.writes[object+" "+r.ResourceVersion] = r
		}
		if r.Verb == "delete" && r.ResourceVersion != "" {
			l.deletes = append(l.deletes, r)
		}
		if r.Subresource == "" {
			key := requestKey(r.Verb, r.Resource, r.Namespace, r.Name)
			l.times[key] = append(l.times[key], r.Time)
		}
	}
}

// author returns the request of the controller that made a change, or nil if another
// client made it. Before is the uid of the object that is gone by it.
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
