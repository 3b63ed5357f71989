// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package intervention

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/kubectl/cluster"
)

// StopBudget is the name of the RemediationBudget that stops everything.
const StopBudget = "stop-all"

// DefaultStopReason is the reason of the budget if the user gives none.
const DefaultStopReason = "Stopped by kubectl nhc stop-all"

const stopped = "No remediation begins, of whichever health check. Those that run continue"

// StopAll creates a RemediationBudget that lets no remediation begin, or gives the one that is
// there another reason.
func (i *Intervener) StopAll(ctx context.Context, reason string) (Result, error) {
	client := i.NHC.RemediationV1alpha1().RemediationBudgets()
	return untilCurrent(ctx, func(ctx context.Context) (Result, error) {
		result := Result{Resource: v1alpha1.Resource(v1alpha1.BudgetPlural), Name: StopBudget}
		budget, err := client.Get(ctx, StopBudget, metav1.GetOptions{})
		if apierrors.IsNotFound(err) && !cluster.NotServed(err) {
			return i.createStop(ctx, result, reason)
		}
		if err != nil {
			return Result{}, cluster.Explain(err, "get", v1alpha1.BudgetPlural)
		}
		if !StopsAll(budget) {
			return Result{}, notOurs(budget)
		}
		result.Object, result.Text = budget, fmt.Sprintf("is there already, with the reason %q. %s", budget.Spec.Reason, stopped)
		if reason == "" || reason == budget.Spec.Reason {
			return result, nil
		}
		result.Changed, result.Text = true, fmt.Sprintf("was there already. Its reason was %q. %s", budget.Spec.Reason, stopped)
		if i.DryRun == DryRunClient {
			budget.Spec.Reason = reason
			return result, nil
		}
		body, err := patch{"spec": map[string]any{"reason": reason}}.onVersion(budget).encode()
		if err != nil {
			return Result{}, err
		}
		if result.Object, err = client.Patch(ctx, StopBudget, types.MergePatchType, body, i.patchOptions()); err != nil {
			return Result{}, explainWrite(err, "patch", v1alpha1.BudgetPlural)
		}
		return result, nil
	})
}

func (i *Intervener) createStop(ctx context.Context, result Result, reason string) (Result, error) {
	if reason == "" {
		reason = DefaultStopReason
	}
	budget := &v1alpha1.RemediationBudget{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: v1alpha1.BudgetKind},
		ObjectMeta: metav1.ObjectMeta{Name: StopBudget},
		Spec:       v1alpha1.RemediationBudgetSpec{NodeSelector: &metav1.LabelSelector{}, MaxConcurrent: new(intstr.FromInt32(0)), Reason: reason},
	}
	result.Object, result.Changed, result.Text = budget, true, "created. "+stopped
	if i.DryRun == DryRunClient {
		return result, nil
	}
	created, err := i.NHC.RemediationV1alpha1().RemediationBudgets().Create(ctx, budget, metav1.CreateOptions{DryRun: i.sent(), FieldManager: FieldManager})
	if apierrors.IsAlreadyExists(err) { // Another user created it first: look again.
		return Result{}, apierrors.NewConflict(result.Resource, StopBudget, err)
	}
	if err != nil {
		return Result{}, explainWrite(err, "create", v1alpha1.BudgetPlural)
	}
	result.Object = created
	return result, nil
}

// ResumeAll deletes the RemediationBudget of StopAll.
func (i *Intervener) ResumeAll(ctx context.Context) (Result, error) {
	client := i.NHC.RemediationV1alpha1().RemediationBudgets()
	return untilCurrent(ctx, func(ctx context.Context) (Result, error) {
		result := Result{Resource: v1alpha1.Resource(v1alpha1.BudgetPlural), Name: StopBudget, Text: "is not there: nothing was stopped by it"}
		budget, err := client.Get(ctx, StopBudget, metav1.GetOptions{})
		if apierrors.IsNotFound(err) && !cluster.NotServed(err) {
			return result, nil
		}
		if err != nil {
			return Result{}, cluster.Explain(err, "get", v1alpha1.BudgetPlural)
		}
		if !StopsAll(budget) {
			return Result{}, notOurs(budget)
		}
		result.Object, result.Changed, result.Text = budget, true, fmt.Sprintf("deleted. It stopped everything for the reason %q", budget.Spec.Reason)
		if i.DryRun == DryRunClient {
			return result, nil
		}
		err = client.Delete(ctx, StopBudget, metav1.DeleteOptions{DryRun: i.sent(), Preconditions: &metav1.Preconditions{UID: &budget.UID, ResourceVersion: &budget.ResourceVersion}})
		if err != nil && !apierrors.IsNotFound(err) {
			return Result{}, explainWrite(err, "delete", v1alpha1.BudgetPlural)
		}
		return result, nil
	})
}

// StopsAll reports whether a budget lets no remediation begin, at any time.
func StopsAll(budget *v1alpha1.RemediationBudget) bool {
	spec := &budget.Spec
	if spec.MachineSelector != nil || spec.NodeSelector == nil || len(spec.NodeSelector.MatchLabels)+len(spec.NodeSelector.MatchExpressions) > 0 || len(spec.Schedules) > 0 || spec.MaxConcurrent == nil {
		return false
	}
	most, ok := health.Scale(*spec.MaxConcurrent, 1)
	return ok && most == 0
}

// notOurs refuses to touch a budget that has the name and means something else.
func notOurs(budget *v1alpha1.RemediationBudget) error {
	return &cluster.Error{Sentence: fmt.Sprintf("RemediationBudget %s exists and does something else than to stop everything: rename it, or change it with kubectl edit.", budget.Name)}
}
