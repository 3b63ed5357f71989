// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/nhc-controller/nhc-controller/pkg/controller/machinehealthcheck"
	"github.com/nhc-controller/nhc-controller/pkg/controller/remediationbudget"
	"github.com/nhc-controller/nhc-controller/pkg/reconcile"
)

// nodeHealthCheckController is the name of the controller of NodeHealthChecks in --controllers.
const nodeHealthCheckController = "nodehealthcheck"

// defaultControllers are the controllers that run by default.
var defaultControllers = []string{nodeHealthCheckController, remediationbudget.Name}

// optionalControllers are the others.
var optionalControllers = []string{machinehealthcheck.Name}

func knownControllers() []string {
	return slices.Sorted(slices.Values(append(slices.Clone(defaultControllers), optionalControllers...)))
}

// enabledControllers returns the controllers that a value of --controllers names. A later name wins.
func enabledControllers(named []string) map[string]bool {
	enabled := map[string]bool{}
	for _, name := range named {
		switch without, excluded := strings.CutPrefix(name, "-"); {
		case name == "*":
			for _, name := range defaultControllers {
				enabled[name] = true
			}
		case excluded:
			delete(enabled, without)
		default:
			enabled[name] = true
		}
	}
	return enabled
}

// validateControllers returns what is wrong with a value of --controllers (spec M20.1).
func validateControllers(named []string) field.ErrorList {
	var problems field.ErrorList
	for _, name := range named {
		if name != "*" && !slices.Contains(knownControllers(), strings.TrimPrefix(name, "-")) {
			problems = append(problems, field.Invalid(field.NewPath("--controllers"), name, fmt.Sprintf("%q is not in the list of known controllers", name)))
		}
	}
	if len(problems) == 0 && len(enabledControllers(named)) == 0 {
		problems = append(problems, field.Required(field.NewPath("--controllers"), "no controller is left to run"))
	}
	return problems
}

// newMachineController makes the controller of MachineHealthChecks and starts nothing. The informers
// of the process must have been made.
func (p *process) newMachineController(ctx context.Context, config reconcile.Config) (*machinehealthcheck.Controller, error) {
	return machinehealthcheck.New(ctx, machinehealthcheck.Config{
		Config: config, Client: p.clients.nhc, Transform: stripManagedFields, BackOff: p.options.MachineBackOff,
	})
}
