// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
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

// ReadFacts reads the facts that advice about these objects depends on. It returns an error if the cluster does not answer.
func ReadFacts(ctx context.Context, clients *Clients, objects []lint.Object) (*lint.Facts, error) {
	if _, err := clients.Kube.Discovery().ServerVersion(); err != nil {
		return nil, Explain(err, "ask", "the cluster")
	}
	kinds := Kinds{Uninstalled: true, Nodes: true}
	for i := range objects {
		kinds.MachineHealthChecks = kinds.MachineHealthChecks || objects[i].Kind == machinev1beta1.Kind
	}
	snapshot, err := Read(ctx, clients, kinds)
	if err != nil {
		return nil, err
	}
	facts := &lint.Facts{Snapshot: *snapshot, MachinesKnown: map[string]bool{}, Templates: map[corev1.ObjectReference]lint.Template{}}
	facts.NodesKnown = !slices.ContainsFunc(facts.Missing, func(missing view.Missing) bool { return missing.Resource == nodes })
	reader := &factsReader{Clients: clients, facts: facts}
	for i := range objects {
		if err := reader.readAbout(ctx, objects[i].Accepted); err != nil {
			return nil, err
		}
	}
	return facts, nil
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
		return r.miss(&r.facts.Snapshot, "find", resource, err)
	}
	err = r.listing(mapping.Resource).each(ctx, func(machine runtime.Object) error {
		r.facts.Machines = append(r.facts.Machines, machinehealth.ParseMachine(machine.(*unstructured.Unstructured)))
		return nil
	})
	if err != nil {
		return r.miss(&r.facts.Snapshot, "list", resource, err)
	}
	r.facts.MachinesKnown[api] = true
	return nil
}
