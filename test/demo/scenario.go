// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/client-go/tools/cache"

	"github.com/nhc-controller/nhc-controller/test/localkube"
)

// scenario is something that the demo can show. Each has a file of its own.
type scenario struct {
	name string
	// shows says in a few words what happens.
	shows string
	// options are those of the control plane.
	options localkube.Options
	// start returns the play of the scenario in a cluster.
	start func(*demo) play
}

// play is a scenario in a cluster.
type play interface {
	// install installs the controller, and what else the scenario needs.
	install(ctx context.Context) error
	// watches returns what the timeline shows.
	watches() []watch
	// simulate plays the other components of such a cluster until ctx is done.
	simulate(ctx context.Context) error
	// run plays the scenario.
	run(ctx context.Context) error
	// hints returns commands for a user who wants to look around. k is kubectl.
	hints() []string
}

// watch has a play see the objects of one kind. The lock of the timeline is held
// while it does.
type watch struct {
	informer cache.SharedIndexInformer
	see      func(object any, deleted bool)
}

// scenarios returns all of them, the default first.
func scenarios() []scenario { return []scenario{nodes, zone} }

// find returns the scenario that the arguments name.
func find(args []string) (scenario, error) {
	all := scenarios()
	switch {
	case len(args) == 0:
		return all[0], nil
	case len(args) > 1:
		return scenario{}, fmt.Errorf("one scenario at a time, not %q", args)
	}
	var list strings.Builder
	for _, s := range all {
		if s.name == args[0] {
			return s, nil
		}
		fmt.Fprintf(&list, "\n  %-10s %s", s.name, s.shows)
	}
	return scenario{}, fmt.Errorf("there is no scenario %q, but:%s", args[0], &list)
}
