// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	machinev1beta1 "github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/kubectl/lint"
	"github.com/nhc-controller/nhc-controller/pkg/kubectl/view"
	"github.com/nhc-controller/nhc-controller/pkg/machinehealth"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
)

// ReadFacts reads the facts that advice about these objects depends on. If the cluster does not answer
// at all, there are no facts, and Missing says why.
func ReadFacts(ctx context.Context, clients *Clients, objects []lint.Object) (*lint.Facts, error) {
	kinds := Kinds{Nodes: true, MachineHealthChecks: slices.ContainsFunc(objects, aboutMachines)}.of(clients)
	for i := range kinds {
		kinds[i].required = false // What is linted may be applied before anything is installed.
	}
	answers := clients.readAll(ctx, kinds)
	if reason := unreachable(answers); reason != nil {
		if ctx.Err() != nil {
			return nil, Explain(reason, "ask", "the cluster")
		}
		return NoFacts(Explain(reason, "ask", "the cluster")), nil
	}
	snapshot, err := clients.assemble(kinds, answers)
	if err != nil {
		return nil, err
	}
	facts := &lint.Facts{Asked: true, Snapshot: *snapshot, MachinesKnown: map[string]bool{}, Templates: map[lint.Reference]lint.Template{}}
	facts.NodesKnown = !slices.ContainsFunc(facts.Missing, func(missing view.Missing) bool { return missing.Resource == nodes })
	reader := &factsReader{Clients: clients, facts: facts}
	for i := range objects {
		if err := reader.readAbout(ctx, objects[i].Accepted); err != nil {
			return nil, err
		}
	}
	return facts, nil
}

func aboutMachines(object lint.Object) bool {
	_, is := object.Accepted.(*machinev1beta1.MachineHealthCheck)
	return is
}

// NoFacts are the facts about a cluster that does not answer.
func NoFacts(reason error) *lint.Facts {
	return &lint.Facts{Snapshot: view.Snapshot{Missing: []view.Missing{{Resource: "the cluster", Reason: reason.Error()}}}}
}

// unreachable returns why the cluster has not given a single answer, nil if it has.
func unreachable(answers []answer) (reason error) {
	for _, answer := range answers {
		if answer.err == nil || apierrors.IsForbidden(answer.err) || NotServed(answer.err) {
			return nil
		}
		reason = answer.err
	}
	return reason
}

// factsReader reads facts that only some objects need.
type factsReader struct {
	*Clients
	facts *lint.Facts
}

func (r *factsReader) readAbout(ctx context.Context, object any) error {
	switch object := object.(type) {
	case *v1alpha1.NodeHealthCheck:
		for _, step := range remediation.Steps(&object.Spec) {
			if err := r.readTemplate(ctx, step.Reference); err != nil {
				return err
			}
		}
	case *machinev1beta1.MachineHealthCheck:
		criteria := machinehealth.NewCriteria(object)
		if err := r.readMachines(ctx, criteria.API); err != nil {
			return err
		}
		if criteria.Template != nil {
			reference := *criteria.Template
			reference.Namespace = object.Namespace // Spec M12.1.
			return r.readTemplate(ctx, reference)
		}
	}
	return nil
}

// readMachines reads the Machines of an API once.
func (r *factsReader) readMachines(ctx context.Context, api string) error {
	if _, asked := r.facts.MachinesKnown[api]; asked {
		return nil
	}
	r.facts.MachinesKnown[api] = false
	resource := schema.GroupResource{Group: api, Resource: "machines"}.String()
	mapping, err := r.mapping(schema.GroupVersionKind{Group: api, Kind: "Machine"})
	if err != nil {
		return r.miss(resource, "find", err)
	}
	err = r.listing(mapping.Resource).each(ctx, func(machine runtime.Object) error {
		r.facts.Machines = append(r.facts.Machines, machinehealth.ParseMachine(machine.(*unstructured.Unstructured)))
		return nil
	})
	if err != nil {
		return r.miss(resource, "list", err)
	}
	r.facts.MachinesKnown[api] = true
	return nil
}

// miss records once that a kind cannot be read. It only returns an error if nothing more can be
// read.
func (r *factsReader) miss(resource, verb string, err error) error {
	if ctxEnded(err) {
		return Explain(err, verb, resource)
	}
	if !slices.ContainsFunc(r.facts.Missing, func(missing view.Missing) bool { return missing.Resource == resource }) {
		r.facts.Missing = append(r.facts.Missing, view.Missing{Resource: resource, Reason: Explain(err, verb, resource).Error()})
	}
	return nil
}
