// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealth

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nhc-controller/nhc-controller/pkg/health"
)

// Summary counts the targets of a MachineHealthCheck, and says whether remediations may
// begin because few enough of them are unhealthy (spec M7).
type Summary struct {
	// Expected is the number of targets, Healthy the number of healthy ones. Ignored are
	// Machines of other clusters, which are no targets.
	Expected, Healthy, Ignored int
	// MaxUnhealthy is the limit as the spec has it, and Limit its value as a number.
	MaxUnhealthy intstr.IntOrString
	Limit        int
	// Recheck is the next instant at which time alone changes a verdict, zero if none does.
	Recheck time.Time
}

// Summarize counts verdicts. A limit that cannot be understood lets nothing begin.
func Summarize(maxUnhealthy intstr.IntOrString, verdicts []Verdict, ignored int, now time.Time) Summary {
	s := Summary{Ignored: ignored, MaxUnhealthy: maxUnhealthy}
	for i := range verdicts {
		s.add(&verdicts[i], now)
	}
	s.setLimit()
	return s
}

func (s *Summary) add(verdict *Verdict, now time.Time) {
	s.Expected++
	if verdict.State == Healthy {
		s.Healthy++
	}
	if verdict.Deadline.After(now) {
		s.Recheck = health.Earliest(s.Recheck, verdict.Deadline)
	}
}

func (s *Summary) setLimit() { s.Limit, _ = allowedUnhealthy(s.MaxUnhealthy, s.Expected) }

// Unhealthy returns the number of targets that are not healthy.
func (s *Summary) Unhealthy() int { return s.Expected - s.Healthy }

// Allowed reports whether remediations may begin.
func (s *Summary) Allowed() bool { return s.Unhealthy() <= s.Limit }

// RemediationsAllowed returns how many more targets may become unhealthy. Without targets that is
// none (spec M7.3).
func (s *Summary) RemediationsAllowed() int {
	if s.Expected == 0 {
		return 0
	}
	return max(0, s.Limit-s.Unhealthy())
}

// Explain says why remediations are blocked: in OpenShift's words, with the number for a percentage (spec M7.3).
func (s *Summary) Explain() string {
	message := fmt.Sprintf("Remediation is not allowed, the number of not started or unhealthy machines exceeds maxUnhealthy (total: %d, unhealthy: %d, maxUnhealthy: %s)",
		s.Expected, s.Unhealthy(), s.MaxUnhealthy.String())
	if value := s.MaxUnhealthy.String(); strings.HasSuffix(value, "%") {
		message += fmt.Sprintf(". %s of %d allows %d.", value, s.Expected, s.Limit)
	}
	return message
}
