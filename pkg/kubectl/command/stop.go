// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	nhcv1alpha1 "github.com/nhc-controller/nhc-controller/pkg/apis/nhc/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/kubectl/cluster"
	"github.com/nhc-controller/nhc-controller/pkg/kubectl/view"
)

func (r *root) stopAll() *cobra.Command {
	var reason string
	command, c := r.intervention(&cobra.Command{
		Use:   "stop-all --reason TEXT",
		Short: "Have no health check begin anything",
		Long: `Creates the RemediationBudget stop-all, which selects all nodes and permits no remediation:
NodeHealthChecks and MachineHealthChecks begin nothing, also those that are created
later. Remediations that run continue, and no next step begins. Each reason has a budget of
its own.`,
		Example: `  kubectl nhc stop-all --reason "Incident 4711, ask the storage team"`,
		Args:    cobra.NoArgs,
	}, needsOperate)
	command.RunE = func(command *cobra.Command, _ []string) error {
		if reason == "" {
			return noReason("resume-all")
		}
		return c.each(command.Context(), []string{StopBudget}, nhcv1alpha1.BudgetKind, nil, func(i *Intervener, _ string) (Result, error) {
			return i.StopAll(command.Context(), reason)
		})
	}
	command.Flags().StringVar(&reason, "reason", "", "Why, and whom to ask")
	return command
}

func (r *root) resumeAll() *cobra.Command {
	var (
		reason     string
		allReasons bool
	)
	command, c := r.intervention(&cobra.Command{
		Use:   "resume-all [--reason TEXT]",
		Short: "End stop-all",
		Long: `Deletes the RemediationBudget of stop-all. If everything is stopped for several reasons, they are
listed: name one with --reason. Other budgets and pause requests stay as they are.`,
		Args: cobra.NoArgs,
	}, needsOperate)
	command.RunE = func(command *cobra.Command, _ []string) error {
		if reason != "" && allReasons {
			return errEitherReason
		}
		intervener, err := c.intervener()
		if err != nil {
			return err
		}
		results, err := intervener.ResumeAll(command.Context(), reason, allReasons)
		for _, result := range results {
			err = errors.Join(c.report(result), err)
		}
		c.warn(command.Context(), intervener.Clients)
		return c.needed(err)
	}
	command.Flags().StringVar(&reason, "reason", "", "Which one of the stops to end")
	command.Flags().BoolVar(&allReasons, "all-reasons", false, "End all stops, also those of others")
	return command
}

// StopBudget is the name of the RemediationBudget that stops everything. There is one for each reason: the
// second is stop-all-2.
const StopBudget = "stop-all"

const stopped = "No health check begins a remediation. Remediations that run continue"

// StopAll creates a RemediationBudget that lets no remediation begin, unless there is one for this reason.
// The stops of others stay.
func (i *Intervener) StopAll(ctx context.Context, reason string) (Result, error) {
	return untilCurrent(ctx, func(ctx context.Context) (Result, error) {
		budgets, err := i.NHC.NHCV1alpha1().RemediationBudgets().List(ctx, metav1.ListOptions{})
		if err != nil {
			return Result{}, cluster.Explain(err, "list", nhcv1alpha1.BudgetPlural)
		}
		taken, others := map[string]bool{}, []string{}
		for j := range budgets.Items {
			budget := &budgets.Items[j]
			taken[budget.Name] = true
			switch {
			case !isStop(budget):
			case budget.Spec.Reason == reason:
				return Result{Resource: budgetResource, Name: budget.Name, Object: budget, Text: "is there already, for this reason. " + stopped}, nil
			default:
				others = append(others, budget.Spec.Reason)
			}
		}
		name := StopBudget
		for number := 2; taken[name]; number++ {
			name = fmt.Sprintf("%s-%d", StopBudget, number)
		}
		text := "created. " + stopped
		if len(others) > 0 {
			text += ". Everything is also stopped for " + quoted(others)
		}
		return i.createStop(ctx, Result{Resource: budgetResource, Name: name, Changed: true, Text: text}, reason)
	})
}

var budgetResource = nhcv1alpha1.Resource(nhcv1alpha1.BudgetPlural)

func (i *Intervener) createStop(ctx context.Context, result Result, reason string) (Result, error) {
	budget := &nhcv1alpha1.RemediationBudget{
		TypeMeta:   metav1.TypeMeta{APIVersion: nhcv1alpha1.SchemeGroupVersion.String(), Kind: nhcv1alpha1.BudgetKind},
		ObjectMeta: metav1.ObjectMeta{Name: result.Name},
		Spec:       nhcv1alpha1.RemediationBudgetSpec{NodeSelector: &metav1.LabelSelector{}, MaxConcurrent: new(intstr.FromInt32(0)), Reason: reason},
	}
	result.Object = budget
	if i.DryRun == DryRunClient {
		return result, nil
	}
	created, err := i.NHC.NHCV1alpha1().RemediationBudgets().Create(ctx, budget, metav1.CreateOptions{DryRun: i.sent(), FieldManager: FieldManager})
	if apierrors.IsAlreadyExists(err) { // Another user created it first: look again.
		return Result{}, apierrors.NewConflict(result.Resource, result.Name, err)
	}
	if err != nil {
		return Result{}, explainWrite(err, "create", nhcv1alpha1.BudgetPlural)
	}
	result.Object = created
	return result, nil
}

// ResumeAll deletes the RemediationBudget that StopAll has created for a reason, or the only one if no reason
// is given. With all, it deletes those for all reasons.
func (i *Intervener) ResumeAll(ctx context.Context, reason string, all bool) ([]Result, error) {
	budgets, err := i.NHC.NHCV1alpha1().RemediationBudgets().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, cluster.Explain(err, "list", nhcv1alpha1.BudgetPlural)
	}
	var stops, chosen []*nhcv1alpha1.RemediationBudget
	var reasons, left, others []string
	for j := range budgets.Items {
		budget := &budgets.Items[j]
		if !isStop(budget) {
			if view.StopsAll(budget) {
				others = append(others, budget.Name)
			}
			continue
		}
		stops, reasons = append(stops, budget), append(reasons, budget.Spec.Reason)
		if all || reason == "" || budget.Spec.Reason == reason {
			chosen = append(chosen, budget)
		} else {
			left = append(left, budget.Spec.Reason)
		}
	}
	switch {
	case len(stops) == 0 && len(others) > 0:
		return nil, &cluster.Error{Sentence: fmt.Sprintf("stop-all has stopped nothing, but other budgets stop everything: kubectl delete remediationbudgets %s.", strings.Join(others, " "))}
	case len(stops) == 0:
		return []Result{{Resource: budgetResource, Name: StopBudget, Text: "is not there: nothing was stopped by it"}}, nil
	case len(chosen) == 0:
		return nil, &cluster.Error{Sentence: fmt.Sprintf("Nothing is stopped for this reason. What is stopped is for %s: name that with --reason.", quoted(reasons))}
	case !all && reason == "" && len(stops) > 1:
		return nil, &cluster.Error{Sentence: fmt.Sprintf("Everything is stopped for %d reasons: name one with --reason, or use --all-reasons: %s.", len(stops), quoted(reasons))}
	}
	var results []Result
	for _, budget := range chosen {
		result := Result{Resource: budgetResource, Name: budget.Name, Object: budget, Changed: true, Text: fmt.Sprintf("deleted. It stopped everything for the reason %q", budget.Spec.Reason)}
		if len(left) > 0 {
			result.Text += ". Everything is still stopped for " + quoted(left)
		}
		if i.DryRun != DryRunClient {
			err := i.NHC.NHCV1alpha1().RemediationBudgets().Delete(ctx, budget.Name,
				metav1.DeleteOptions{DryRun: i.sent(), Preconditions: &metav1.Preconditions{UID: &budget.UID, ResourceVersion: &budget.ResourceVersion}})
			if err != nil && !apierrors.IsNotFound(err) {
				return results, cluster.Explain(err, "delete", nhcv1alpha1.BudgetPlural)
			}
		}
		results = append(results, result)
	}
	return results, nil
}

// isStop reports whether a budget is one of those that StopAll creates. One with the name that means something
// else is not touched.
func isStop(budget *nhcv1alpha1.RemediationBudget) bool {
	return (budget.Name == StopBudget || strings.HasPrefix(budget.Name, StopBudget+"-")) && view.StopsAll(budget)
}
