// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"cmp"
	"slices"
	"strings"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
)

// MaxSize is how many bytes of JSON the history may take in the stored object. Etcd
// takes 1.5 MiB by default, and the entries of the nodes have a bound of their own;
// both together leave room for the spec and the metadata.
const MaxSize = 200_000

// maxEnded is the largest limit that the API accepts. It accepts twice as many episodes.
const maxEnded = 100

// List returns the history as status shows it, newest detected first, or nil if there is
// none. It has three limits (spec 23b.3):
//   - limit episodes that have ended, by default [v1alpha1.DefaultRemediationHistoryLimit].
//     Those without a CR get only the room that the others leave.
//   - limit open episodes. Those without a CR are left out first, then those that were
//     detected longest ago.
//   - [MaxSize] bytes. Episodes that have ended without a CR are left out first, then open
//     ones, then those that finished longest ago.
//
// Equal ledgers give equal lists. The result shares memory with the ledger and must
// not be changed.
func (l *Ledger) List(limit *int32) []v1alpha1.Episode {
	if l == nil {
		return nil
	}
	count := v1alpha1.DefaultRemediationHistoryLimit
	if limit != nil {
		count = max(0, min(int(*limit), maxEnded))
	}
	closed := l.closed[:min(len(l.closed), count)]
	open := l.newestOpen()
	open = open[:min(len(open), count)]
	remediated := 0
	for remediated < len(closed) && closed[remediated].Started != nil {
		remediated++
	}
	list := slices.Concat(closed[:remediated], open, closed[remediated:])
	list = list[:object.Fitting(list, MaxSize)]
	slices.SortStableFunc(list, newestFirst)
	return list
}

// newestOpen returns the open episodes, those with a CR first.
func (l *Ledger) newestOpen() []v1alpha1.Episode {
	open := make([]v1alpha1.Episode, 0, len(l.open))
	for _, episode := range l.open {
		open = append(open, *episode)
	}
	slices.SortFunc(open, func(a, b v1alpha1.Episode) int { return cmp.Or(remediatedFirst(a, b), detectedLast(a, b)) })
	return open
}

// latest returns the episodes that ended last, as many as the largest limit allows,
// because the limit may be raised later.
func latest(closed, over []v1alpha1.Episode) []v1alpha1.Episode {
	if len(over) == 0 {
		return closed
	}
	all := slices.Concat(closed, over)
	slices.SortStableFunc(all, keptLongest)
	return slices.Clip(all[:min(len(all), maxEnded)])
}

// newestFirst sorts a list. If a node has two episodes from the same second, the open one
// is the newest, then the one that ended last.
func newestFirst(a, b v1alpha1.Episode) int {
	if c := detectedLast(a, b); c != 0 {
		return c
	}
	switch {
	case hasEnded(&a) && hasEnded(&b):
		return b.Finished.Compare(a.Finished.Time)
	case hasEnded(&a):
		return 1
	case hasEnded(&b):
		return -1
	default:
		return 0
	}
}

// remediatedFirst sorts episodes with a CR before those without.
func remediatedFirst(a, b v1alpha1.Episode) int {
	switch {
	case (a.Started != nil) == (b.Started != nil):
		return 0
	case a.Started != nil:
		return -1
	default:
		return 1
	}
}

// detectedLast sorts episodes, the newest first.
func detectedLast(a, b v1alpha1.Episode) int {
	return cmp.Or(b.Detected.Compare(a.Detected.Time), byNode(a, b))
}

// keptLongest sorts episodes that have ended, those with a CR first, and of these the
// last to end.
func keptLongest(a, b v1alpha1.Episode) int {
	return cmp.Or(remediatedFirst(a, b), b.Finished.Compare(a.Finished.Time), detectedLast(a, b))
}

func byNode(a, b v1alpha1.Episode) int { return strings.Compare(a.Node, b.Node) }
