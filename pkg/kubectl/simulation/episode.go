// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/remediation"
)

// Episode is a time in which a node was unhealthy or under remediation for a NodeHealthCheck. Its
// times are those after the start.
type Episode struct {
	Node  string `json:"node"`
	Check string `json:"check"`
	// Detected is when the node became unhealthy.
	Detected metav1.Duration `json:"detected"`
	// Began is when its remediation began, absent if none has.
	Began *metav1.Duration `json:"began,omitempty"`
	// Ended is when the node was healthy again, or gone, and no remediation was left. It is absent for
	// an episode that has not ended.
	Ended *metav1.Duration `json:"ended,omitempty"`
	// Steps is the number of remediation objects that were created.
	Steps int `json:"steps"`
	// Waits is why the remediation has not begun, or did not begin at once: what was said last.
	Waits string `json:"waits,omitempty"`
}

// remediations returns how many episodes have a remediation.
func remediations(episodes []*Episode) (n int) {
	for _, episode := range episodes {
		if episode.Began != nil {
			n++
		}
	}
	return n
}

// after returns an instant as a time after the start.
func (w *world) after(now time.Time) metav1.Duration {
	return metav1.Duration{Duration: now.Sub(w.journal.start)}
}

// episode returns the episode of a node that has not ended. It begins one if there is none.
func (c *check) episode(node *remediation.Node, now time.Time) *Episode {
	open := c.open[node.Name]
	if open == nil {
		open = &Episode{Node: node.Name, Check: c.nhc.Name, Detected: c.after(now)}
		c.open[node.Name] = open
		c.journal.episodes = append(c.journal.episodes, open)
	}
	return open
}

// beginStep records that a remediation object was created.
func (c *check) beginStep(node *remediation.Node, now time.Time) {
	open := c.episode(node, now)
	open.Steps++
	if open.Began == nil {
		open.Began = new(c.after(now))
	}
}

// endEpisode ends the episode of a node, if it has one.
func (c *check) endEpisode(node string, now time.Time) {
	if open := c.open[node]; open != nil {
		open.Ended = new(c.after(now))
		delete(c.open, node)
	}
}
