// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package watches

import (
	"errors"
	"fmt"
	"time"
)

// confirmAfter is the time between a refusal that is news and the question whether it
// is meant: an API server that has just started refuses everything until it has read
// who may do what.
const confirmAfter = 2 * time.Second

// errUnconfirmed is the state of a kind whose permissions were fine, and were refused
// since, once.
var errUnconfirmed = fmt.Errorf("%w: a permission was refused, which is not confirmed yet", ErrPending)

// doubts tells whether what was found is a refusal that has to be confirmed. Set.mu
// must be held.
func (k *kind) doubts(found found, now time.Time) bool {
	if !k.isNewlyRefused(found) {
		k.refusedAt = time.Time{}
		return false
	}
	if k.refusedAt.IsZero() {
		k.refusedAt = now
		return true
	}
	if now.Before(k.refusedAt.Add(confirmAfter)) {
		return true
	}
	k.refusedAt = time.Time{}
	return false
}

// isNewlyRefused tells whether something is forbidden that was not known to be.
func (k *kind) isNewlyRefused(found found) bool {
	if found.polled != nil && k.informer != nil {
		return true
	}
	for name, read := range found.polled {
		if isForbidden(read.err) && !isForbidden(k.polled[name].err) {
			return true
		}
	}
	return isForbidden(found.err) && (!isForbidden(k.err) || k.err.Error() != found.err.Error())
}

// withhold returns the state to go on with until a refusal is confirmed: what was fine
// is unknown now, and anything else stays as it was.
func (k *kind) withhold(refused found) found {
	if refused.polled == nil || k.informer != nil {
		kept := found{mapping: k.mapping, err: k.err, watchable: k.informer != nil, polled: k.polled}
		if kept.err == nil {
			kept.err = errUnconfirmed
		}
		return kept
	}
	for name, read := range refused.polled {
		last, known := k.polled[name]
		switch {
		case !isForbidden(read.err) || isForbidden(last.err): // No news.
		case !known:
			refused.polled[name] = reading{err: ErrPending}
		case last.err == nil:
			refused.polled[name] = reading{err: errUnconfirmed}
		default:
			refused.polled[name] = last
		}
	}
	return refused
}

func isForbidden(err error) bool {
	_, forbidden := errors.AsType[*ForbiddenError](err)
	return forbidden
}
