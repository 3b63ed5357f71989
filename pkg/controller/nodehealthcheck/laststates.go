// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
)

// lastStates holds the last state of every own CR, also one whose creation has just been answered, by the NodeHealthChecks
// that own it, until a report has used the state of a CR that is gone. A CR may succeed and be deleted
// between two syncs, and the history still needs its state. A state is recorded before any
// cache shows it, so a sync that misses a CR in the cache finds it here. The zero value is
// ready to use, from any goroutine. A restart loses it.
type lastStates struct {
	mu     sync.Mutex
	byName map[string]map[types.UID]*object.CR
}

// recordCR keeps a version of a CR as the last state for its owners, before the cache shows it.
func (c *Controller) recordCR(cr *object.CR) {
	for _, owner := range cr.Owners() {
		if c.index.Has(owner) {
			c.lastStates.record(owner, cr, true)
		}
	}
}

// record records a state. If it does not come from a watch, it is not the latest where there is another.
func (s *lastStates) record(nhc string, cr *object.CR, latest bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byName == nil {
		s.byName = map[string]map[types.UID]*object.CR{}
	}
	crs := s.byName[nhc]
	if crs == nil {
		crs = map[types.UID]*object.CR{}
		s.byName[nhc] = crs
	}
	if latest || crs[cr.UID] == nil {
		crs[cr.UID] = cr
	}
}

// gone returns the CRs of a NodeHealthCheck that are not there. They may include a CR that the
// cache does not show yet.
func (s *lastStates) gone(nhc string, there func(*object.CR) bool) []*object.CR {
	s.mu.Lock()
	defer s.mu.Unlock()
	var gone []*object.CR
	for _, cr := range s.byName[nhc] {
		if !there(cr) {
			gone = append(gone, cr)
		}
	}
	return gone
}

// used drops states that a report has used, unless there is a later one.
func (s *lastStates) used(nhc string, crs []*object.CR) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, cr := range crs {
		if s.byName[nhc][cr.UID] == cr {
			delete(s.byName[nhc], cr.UID)
		}
	}
}

func (s *lastStates) forget(nhc string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byName, nhc)
}
