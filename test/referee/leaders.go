// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package referee

import (
	"fmt"
	"slices"
	"time"

	"github.com/nhc-controller/nhc-controller/test/localkube"
)

// Tenure is a time in which the leader lease names a process.
type Tenure struct {
	Leader string
	// Taken is when the lease was seen to name it: it was written before. Until is when
	// the last renewal ends, and Lost when the lease was seen to name somebody else, or
	// nobody; zero if it never was.
	Taken, Until, Lost time.Time
}

// WritesOfOthers returns the writes that came from a process after the leader lease was
// seen to name another one. Writer tells which process has made a request, empty for one
// that does not count.
func WritesOfOthers(requests []localkube.Request, tenures []Tenure, writer func(localkube.Request) string) []string {
	var found []string
	for _, request := range requests {
		name := writer(request)
		if name == "" {
			continue
		}
		own := func(t Tenure) bool {
			return t.Leader == name && (t.Lost.IsZero() || !request.Time.After(t.Lost))
		}
		if !slices.ContainsFunc(tenures, own) {
			found = append(found, fmt.Sprintf("%s by %s at %s", request, name, request.Time.Format("15:04:05.000000")))
		}
	}
	return found
}

// WritesTooLate returns the writes that came after the last renewal of the writer's
// lease had ended: nobody else may have taken it, but could have.
func WritesTooLate(requests []localkube.Request, tenures []Tenure, writer func(localkube.Request) string) []string {
	var found []string
	for _, request := range requests {
		name := writer(request)
		if name == "" {
			continue
		}
		held := func(t Tenure) bool { return t.Leader == name && !request.Time.After(t.Until) }
		if !slices.ContainsFunc(tenures, held) {
			found = append(found, fmt.Sprintf("%s by %s at %s", request, name, request.Time.Format("15:04:05.000000")))
		}
	}
	return found
}
