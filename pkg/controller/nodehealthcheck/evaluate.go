// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	"time"

	"github.com/nhc-controller/nhc-controller/pkg/evaluation"
)

// evaluate judges a snapshot at the instant now. It adds the verdict, the constraints of all
// nodes and the next attempt to each node of the snapshot. It depends on nothing else.
func evaluate(s *snapshot, now time.Time) *evaluation.Evaluated {
	result := evaluation.Evaluate(s.input(), now)
	if s.state.attempts.None() {
		return result
	}
	for i := range s.nodes {
		node := &s.nodes[i]
		attempt := s.state.attempts.Of(attemptOf(node))
		node.RetryAt, node.LastFailure, node.LastFailed = attempt.Due, attempt.Failure, attempt.Reason
	}
	return result
}

// input returns what the evaluation depends on. It shares the nodes with the snapshot.
func (s *snapshot) input() *evaluation.Input {
	return &evaluation.Input{
		NHC: s.nhc, Storm: s.state.stormOf(s.nhc), Observed: s.observed, Nodes: s.nodes, Objects: s.objects, Seen: s.seen,
		Platform: s.platform.evaluated(), Templates: s.templates,
		SpecProblem: s.specProblem, Stop: s.stop, ClockUntrusted: s.clockUntrusted, DryRun: s.dryRun,
	}
}

// evaluated returns the part of the platform that the evaluation reads.
func (s *platformState) evaluated() evaluation.Platform {
	return evaluation.Platform{Conflict: s.conflict, Unknown: s.unknown, MachineHealthChecks: s.machineHealthChecks, Upgrading: s.progressing}
}
