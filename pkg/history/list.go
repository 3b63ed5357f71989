// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// MaxSize is how many bytes of JSON the history may take in the stored object. Etcd
// takes 1.5 MiB by default, and the entries of the nodes have a bound of their own;
// both together leave room for the spec and the metadata.
const MaxSize = 200_000

// maxEpisodes is the number of episodes that the API accepts.
const maxEpisodes = 100

// List returns the history as status shows it, newest detected first. It holds at
// most limit episodes, by default [v1alpha1.DefaultRemediationHistoryLimit], and at
// most [MaxSize] bytes. If there are more, closed ones are left out first, beginning
// with those that finished longest ago, then open ones, beginning with those that
// were detected longest ago. Zero episodes are nil.
//
// Equal ledgers give equal lists. The result shares memory with the ledger and must
// not be changed.
func (l *Ledger) List(limit *int32) []v1alpha1.Episode {
	if l == nil {
		return nil
	}
	count := v1alpha1.DefaultRemediationHistoryLimit
	if limit != nil {
		count = min(int(*limit), maxEpisodes)
	}
	open := slices.SortedFunc(maps.Values(l.open), detectedLast)
	var list []v1alpha1.Episode
	size := len("[]")
	for _, episode := range slices.Concat(open, l.closed) {
		if len(list) >= count {
			break
		}
		encoded, err := json.Marshal(episode)
		if size += len(encoded) + len(","); err != nil || size > MaxSize {
			break
		}
		list = append(list, episode)
	}
	// Of a node that fell ill twice in the same second, the later one is first already.
	slices.SortStableFunc(list, detectedLast)
	return list
}

// latest returns the episodes that ended last, as many as can ever be listed. The
// limit may be raised again, so it is not asked here.
func latest(closed, ended []v1alpha1.Episode) []v1alpha1.Episode {
	if len(ended) == 0 {
		return closed
	}
	all := slices.Concat(closed, ended)
	slices.SortStableFunc(all, finishedLast)
	return slices.Clip(all[:min(len(all), maxEpisodes)])
}

// detectedLast sorts episodes, the newest first.
func detectedLast(a, b v1alpha1.Episode) int {
	return cmp.Or(b.Detected.Compare(a.Detected.Time), byNode(a, b))
}

// finishedLast sorts closed episodes, the last to end first.
func finishedLast(a, b v1alpha1.Episode) int {
	return cmp.Or(b.Finished.Compare(a.Finished.Time), detectedLast(a, b))
}

func byNode(a, b v1alpha1.Episode) int { return strings.Compare(a.Node, b.Node) }
