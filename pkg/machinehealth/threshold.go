// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealth

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
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

// patientUntil returns until when a target has to stay unhealthy that was so while the threshold allowed no
// remediations: it may be booting after an outage. It is zero for all others, and for what has no timeout (spec M7.6).
func (p *planner) patientUntil() time.Time {
	before, timeout := &p.Target.Decided, p.Criteria.timeout(&p.Target.Verdict)
	if before.Reason != v1alpha1.DecidedGateClosed || timeout == 0 {
		return time.Time{}
	}
	end := p.now.Add(timeout)
	switch next := before.NextCheckTime; {
	case next != nil && next.Time.Before(end): // It waits already. A threshold that flaps does not prolong that.
		end = next.Time
	case next == nil && !p.Summary.Allowed():
		return time.Time{}
	}
	if !p.now.Before(end) {
		return time.Time{}
	}
	return end
}

// timeout returns how long what makes a Machine unhealthy has to last, zero if it acts at once.
func (c *Criteria) timeout(v *Verdict) time.Duration {
	if v.Trigger == v1beta1.TriggerNodeStartupTimeout {
		return c.StartupTimeout
	}
	for i := range c.Conditions {
		if rule := &c.Conditions[i]; rule.Type == v.Type && rule.Status == v.Status {
			return rule.Duration.Duration
		}
	}
	return 0
}

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
