// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"fmt"
	"slices"
	"time"
)

// Tenure is a time in which the leader lease names a process.
type Tenure struct {
	Leader string
	// Taken is when it decided to take the lease, before it was written. Until is when the
	// last renewal ends for other processes, and Lost when the lease was seen to name
	// another process, or none; zero if it never was. The leader itself begins no write
	// after its renew deadline, which is earlier than Until: the difference is the time
	// that a write may take to arrive.
	Taken, Until, Lost time.Time
}

// Led tells that a process of the controller began to lead.
func (j *Judge) Led(now time.Time) { j.terms = append(j.terms, now) }

// ledSince reports whether a process began to lead after an instant.
func (h *history) ledSince(at time.Time) bool { return slices.ContainsFunc(h.terms, at.Before) }

// end returns when the last write of the tenure may arrive.
func (t *Tenure) end() time.Time {
	if !t.Lost.IsZero() && t.Lost.Before(t.Until) {
		return t.Lost
	}
	return t.Until
}

// LateWrites returns the writes that began when the lease of their process was not valid:
// they arrived before its tenure, or after its end. Writer returns the process that made a
// request, empty for one that does not count.
//
// A process that is stopped between its last check and the system call sends the request
// when it continues. Whether a request is of that kind cannot be seen from outside. Each
// worker makes one request at a time, so as many late ones as it has workers are permitted
// for each process. They are harmless only if they are bound to the name, the uid or the
// resourceVersion of their objects, which other rules check.
func LateWrites(requests []Request, tenures []Tenure, workers int, writer func(Request) string) []string {
	var found []string
	permitted := map[string]int{}
	for _, request := range requests {
		name := writer(request)
		if name == "" {
			continue
		}
		led := func(t Tenure) bool { return t.Leader == name }
		inTime := func(t Tenure) bool {
			return led(t) && !request.Time.Before(t.Taken) && !request.Time.After(t.end())
		}
		late := func(t Tenure) bool { return led(t) && request.Time.After(t.end()) }
		if slices.ContainsFunc(tenures, inTime) {
			continue
		}
		if slices.ContainsFunc(tenures, late) && permitted[name] < workers {
			permitted[name]++
			continue
		}
		found = append(found, fmt.Sprintf("%s by %s at %s", request, name, request.Time.Format("15:04:05.000000")))
	}
	return found
}
