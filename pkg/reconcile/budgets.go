// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/nhc-controller/nhc-controller/pkg/evaluation"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
)

// AskBudgets lets withhold decide again about the candidates of a health check that a RemediationBudget refuses (spec B1,
// M8.5). The others that begin have a reservation until EndReservations. AskBudgets returns their names, and the
// revision of the budgets.
func (s *Shell) AskBudgets(check metav1.Object, plans []*remediation.NodePlan, withhold func(i int, withheld *remediation.Withholding)) (reserved []string, revision int64) {
	refusals, revision := s.Budgets.Admit(s.Asker(cache.MetaObjectToName(check).String()), evaluation.Requests(plans))
	return evaluation.WithholdRefused(plans, refusals, withhold), revision
}

// EndReservations tells the budgets the outcomes of the admitted candidates.
func (s *Shell) EndReservations(check metav1.Object, reserved []string, results []remediation.NodeResult) {
	if len(reserved) == 0 {
		return
	}
	usages := evaluation.Usages(results)
	for _, name := range reserved {
		s.Budgets.End(s.Asker(cache.MetaObjectToName(check).String()), name, usages[name])
	}
}
