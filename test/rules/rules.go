// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import "slices"

// allRules are the rules that a judge checks.
var allRules = []string{
	"4.8", "5.4", "5.6", "6.1", "6.2", "6.3", "6.4", "6.7", "7.3", "7.6", "7.8", "8.5", "9.2", "9.5", "9.6", "9.8", "9.9", "9.10", "10.1", "10.2",
	"11.1", "11.2", "11.3", "11.4", "12.2", "12.5", "13.1", "13.2", "13.3", "13.5", "13.8",
	"14.1", "14.2", "14.4", "14.5", "14.6", "14.7", "14.9", "15.1", "16.1", "16.2", "16.4", "16.6", "16.7", "17.1", "17.2", "17.3", "17.4", "17.5",
	"18.1", "18.2", "18.3", "18.4", "18.5", "18.6", "18.7", "19.1", "22.3", "23b.5", "P9", "P12",
}

// Unchecked returns the rules that were not checked once: a run that has such rules says
// nothing about them.
func Unchecked(checked map[string]int) []string {
	return slices.DeleteFunc(slices.Clone(allRules), func(rule string) bool { return checked[rule] > 0 })
}

// machineRules are the rules that are checked besides where Machines are followed.
var machineRules = []string{
	"M3.4", "M3.5", "M4.2", "M5.1", "M5.4", "M6.2", "M7.1", "M7.3", "M7.4", "M8.1", "M8.3", "M8.4", "M9.1", "M9.2", "M10.1", "M10.2", "M10.3",
	"M11.1", "M11.2", "M12.1", "M12.2", "M12.5", "M13.1", "M13.3", "M14.2", "M15.1", "M15.2", "M16.1", "M16.2", "M16.3", "M16.4", "M20.3", "P3",
}

// UncheckedOfMachines returns those of Machines that were not checked once.
func UncheckedOfMachines(checked map[string]int) []string {
	return slices.DeleteFunc(slices.Clone(machineRules), func(rule string) bool { return checked[rule] > 0 })
}

// budgetRules are the rules that are checked besides where there are RemediationBudgets.
var budgetRules = []string{"B1.2", "B2.2", "B3.2", "B3.3", "B3.4", "B3.5", "B3.6", "B4.1", "B5.2"}

// UncheckedOfBudgets returns those of RemediationBudgets that were not checked once.
func UncheckedOfBudgets(checked map[string]int) []string {
	return slices.DeleteFunc(slices.Clone(budgetRules), func(rule string) bool { return checked[rule] > 0 })
}
