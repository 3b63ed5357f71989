// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealth

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
)

// BenchmarkSync is what a sync of 5,000 Machines decides and reports: verdicts, plans, entries and history.
// One Machine has failed. Each Machine has an owner of its own, or all have the same one.
func BenchmarkSync(b *testing.B) {
	now := epoch.Add(time.Hour)
	ready := []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(epoch)}}
	criteria := NewCriteria(benchmarkChecks(1)[0])
	for name, owners := range map[string]int{"one owner": 1, "owners": 5000} {
		var targets []Target
		var machines Machines
		for i := range 5000 {
			m := machine(fmt.Sprint("m-", i), ownedBy(types.UID(fmt.Sprint("set-", i%owners))))
			if i == 17 {
				failedPhase(m)
			}
			machines = append(machines, m)
			targets = append(targets, Target{Observed: Observed{Machine: m}, NodeUID: types.UID(m.Node)})
		}
		p := policy(func(p *Policy) { p.Criteria = &criteria })
		var verdicts []Verdict
		var plans []Plan
		var results []TargetResult
		var entries Entries
		run := func(part string, do func()) {
			do()
			b.Run(name+"/"+part, func(b *testing.B) {
				for b.Loop() {
					do()
				}
			})
		}
		run("verdicts", func() {
			verdicts = verdicts[:0]
			for i := range targets {
				targets[i].Verdict = criteria.Judge(targets[i].Machine, NodeExists, health.Evidence{Conditions: ready}, false, now)
				verdicts = append(verdicts, targets[i].Verdict)
			}
			p.Summary = Summarize(criteria.MaxUnhealthy, verdicts, 0, now)
		})
		run("plans", func() { plans = NewPlans(p, targets, now) })
		run("entries", func() {
			results = results[:0]
			for i := range plans {
				results = append(results, TargetResult{Plan: &plans[i], Outcome: &remediation.Outcome{}})
			}
			entries = p.NewEntries(results, nil, now)
		})
		run("history", func() {
			h := History{
				Results: results, Entries: entries, Machines: NewMachines(machines), Now: now,
				Known: func(string) bool { return true }, Healthy: func(string) bool { return true }, NodeExists: func(string) bool { return true },
			}
			h.Update()
		})
	}
}
