// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
)

// Policy is what an owner, such as a NodeHealthCheck, wants done about its nodes.
type Policy struct {
	Owner object.Owner
	// Steps are in ascending order.
	Steps []Step
	// Templates are those of the steps, nil where they cannot be used at the moment: such
	// a step does not begin, and the one before it does not end.
	Templates []*object.Template
	// HealthyDelay is how long a node must stay healthy before its CRs are deleted. Zero
	// means no delay, a negative value until a user confirms the node (spec 16.4).
	HealthyDelay time.Duration
	// DryRun has everything planned except the first CR, the next step and the end of the last
	// step (spec 5.6).
	DryRun bool
	// Context explains the constraints that hold for all nodes.
	Context Context
}

// Context has the numbers and texts behind the constraints that hold for all nodes. It only
// explains plans: no plan depends on it.
type Context struct {
	// Constraints are those that hold for all nodes. For the gate and the storm, Gate and
	// Storm decide, because they may be newer.
	Constraints Constraints
	Gate        health.Gate
	// Storm is the state of storm recovery, and StormEnd when it ends if it stays calm,
	// zero if time alone does not end it.
	Storm    health.Storm
	StormEnd time.Time
	// SpecProblem is the rule of admission that the stored spec breaks, if any.
	SpecProblem string
	// TemplateProblem is the message of condition Disabled, empty if it is not known
	// whether there is a problem.
	TemplateProblem string
	// Unread names the step whose template or remediation objects cannot be read.
	Unread string
	// PauseRequests are those of the owner.
	PauseRequests []string
	// Stop names the budget that stops everything, if any does.
	Stop string
}

// Allowance says in one sentence whether a node may get its first CR, and why not, by the
// constraints of all nodes (spec 18.5).
func (c *Context) Allowance() (allowed bool, reason, message string) {
	constraints, noNodes := c.Constraints, c.Gate.Observed == 0
	// Gate and storm count nodes. Without nodes they say nothing.
	constraints.GateClosed, constraints.Storm = !c.Gate.Open && !noNodes, c.Storm.Active && !noNodes
	switch refusal := constraints.Refusal(true); {
	case refusal == v1alpha1.DecidedGateClosed:
		return false, v1alpha1.ReasonClosed, c.explainGate()
	case refusal != "":
		return false, string(refusal), ruleOf(refusal).message(c)
	case noNodes:
		return false, v1alpha1.ReasonNoNodes, v1alpha1.MessageNoNodes
	case c.Stop != "":
		return false, v1alpha1.ReasonStopped, c.Stop
	default:
		return true, v1alpha1.ReasonOpen, c.explainGate()
	}
}

func (c *Context) explainDisabled() string {
	return cmp.Or(c.TemplateProblem, c.Unread, "The templates could not be read yet")
}

func (c *Context) explainPause() string { return "Paused: " + strings.Join(c.PauseRequests, ",") }

func (c *Context) explainGate() string {
	return fmt.Sprintf("%d of %d nodes are healthy, at least %d have to be", c.Gate.Healthy, c.Gate.Observed, max(0, c.Gate.Required))
}

func (c *Context) explainStorm() string {
	if c.StormEnd.IsZero() {
		return fmt.Sprintf("Storm recovery is active while %d of %d nodes are not healthy", c.Gate.Observed-c.Gate.Healthy, c.Gate.Observed)
	}
	return "Storm recovery is active until " + c.StormEnd.UTC().Format(time.RFC3339) + ", if it stays calm"
}
