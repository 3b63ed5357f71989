// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package evaluation

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
	"github.com/nhc-controller/nhc-controller/test/objecttest"
)

// TestSettleStorm: a storm begins with the CRs that reach the maximum (spec 9.2). Of five
// nodes two may be unhealthy, two are, and one had its CR before.
func TestSettleStorm(t *testing.T) {
	t.Parallel()
	result := func(node string, own, created *object.CR) remediation.NodeResult {
		plan, outcome := &remediation.NodePlan{Node: &remediation.Node{Name: node}}, &remediation.Outcome{}
		if own != nil {
			plan.Node.Own = []*object.CR{own}
		}
		if created != nil {
			outcome.Result, outcome.CR = remediation.Created, created
		}
		return remediation.NodeResult{Plan: plan, Outcome: outcome}
	}
	first := result("a", objecttest.CR("a"), nil)
	active := func(since time.Time) health.Storm { return health.Storm{Active: true, Since: since} }
	tests := map[string]struct {
		before  health.Storm
		results []remediation.NodeResult
		want    health.Storm
	}{
		"9.2 the other one gets its first CR":      {results: []remediation.NodeResult{first, result("b", nil, objecttest.CR("b"))}, want: active(epoch)},
		"9.2 it gets none":                         {results: []remediation.NodeResult{first, result("b", nil, nil)}},
		"9.2 a next step is no other node":         {results: []remediation.NodeResult{result("a", objecttest.CR("a"), objecttest.CR("a-2")), result("b", nil, nil)}},
		"9.2 a CR that is there is counted before": {results: []remediation.NodeResult{first, result("b", objecttest.CR("b"), nil)}},
		"9.2 one that has begun goes on":           {before: active(epoch.Add(-time.Minute)), results: []remediation.NodeResult{first, result("b", nil, nil)}, want: active(epoch.Add(-time.Minute))},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := &v1alpha1.NodeHealthCheckSpec{StormRecoveryThreshold: new(int32(1))}
			r := Evaluated{Gate: health.Gate{Open: true, Observed: 5, Healthy: 3, Required: 3}, Storm: tc.before}
			r.Summary.Unhealthy, r.Summary.Remediated = 2, 1
			r.SettleStorm(spec, tc.results, epoch.Add(300*time.Millisecond))
			require.Equal(t, tc.want, r.Storm)
			require.Equal(t, tc.want, r.Policy.Context.Storm, "and so says the decision")
			require.Equal(t, tc.want.Active, r.Policy.Context.Constraints.Storm)
		})
	}
}
