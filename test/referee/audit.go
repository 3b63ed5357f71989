// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package referee

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/test/localkube"
)

// audit has the requests of the controller that had success.
type audit struct {
	// times are those at which they arrived, by verb, resource and object.
	times map[string][]time.Time
}

func newAudit(requests []localkube.Request) audit {
	a := audit{times: map[string][]time.Time{}}
	for _, r := range requests {
		if r.Code < http.StatusOK || r.Code >= http.StatusMultipleChoices || r.Subresource != "" {
			continue
		}
		key := requestKey(r.Verb, r.Resource, r.Namespace, r.Name)
		a.times[key] = append(a.times[key], r.Time)
	}
	return a
}

func requestKey(verb, resource, namespace, name string) string {
	return verb + " " + resource + " " + namespace + "/" + name
}

// last returns when the last of such requests arrived that is not after an instant,
// and false if there is none between that and since.
func (a audit) last(key string, since, until time.Time) (time.Time, bool) {
	for _, at := range slices.Backward(a.times[key]) {
		if !at.After(until) {
			return at, at.After(since)
		}
	}
	return time.Time{}, false
}

// lastOf returns when the n-th last one arrived that is not after an instant, or the
// first if there are not so many; and false if there is none.
func (a audit) lastOf(key string, n int, until time.Time) (time.Time, bool) {
	var found time.Time
	for _, at := range slices.Backward(a.times[key]) {
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

// list lists the resource of a follower, as of now.
func (r *Referee) list(ctx context.Context, f *follower) (versions map[string]uint64, version uint64, err error) {
	list, err := r.metadata.Resource(f.resource).Namespace(f.namespace).List(ctx, metav1.ListOptions{})
	if apierrors.IsNotFound(err) {
		return nil, 0, nil // Not installed.
	}
	if err != nil {
		return nil, 0, fmt.Errorf("listing %s: %w", f.resource.Resource, err)
	}
	if version, err = parseVersion(list.ResourceVersion); err != nil {
		return nil, 0, err
	}
	versions = map[string]uint64{}
	for i := range list.Items {
		if versions[keyOf(&list.Items[i])], err = parseVersion(list.Items[i].ResourceVersion); err != nil {
			return nil, 0, err
		}
	}
	return versions, version, nil
}
