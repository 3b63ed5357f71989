// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/nhc-controller/nhc-controller/manifests"
)

// The files of the admission policies: those of every installation, and those of one with
// MachineHealthChecks.
var (
	policyFiles        = []string{"base/admission.yaml", "base/admission-nodes.yaml", "base/admission-pause.yaml"}
	machinePolicyFiles = []string{
		"components/machine-health-check/without-crd/admission.yaml",
		"components/machine-health-check/without-crd/admission-machines.yaml",
	}
)

// shippedPolicies are the admission policies of the manifests, with what the API server adds
// to them.
type shippedPolicies struct {
	policies []*admissionregistrationv1.ValidatingAdmissionPolicy
	bindings []*admissionregistrationv1.ValidatingAdmissionPolicyBinding
}

const (
	userPrefix     = "system:serviceaccount:"
	shippedUser    = userPrefix + "nhc-system:nhc-controller"
	controllerName = ":nhc-controller"
)

// newShippedPolicies reads the policies for a controller whose ServiceAccount is in namespace,
// or in that of the manifests if it is empty, and which remediates Machines or does not.
func newShippedPolicies(namespace string, machines bool) (*shippedPolicies, error) {
	files := policyFiles
	if machines {
		files = slices.Concat(policyFiles, machinePolicyFiles)
	}
	shipped := &shippedPolicies{}
	for _, file := range files {
		content, err := manifests.Files.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("reading an admission policy: %w", err)
		}
		if namespace != "" {
			content = []byte(strings.ReplaceAll(string(content), shippedUser, userPrefix+namespace+controllerName))
		}
		for document := range strings.SplitSeq(string(content), "\n---\n") {
			if err := shipped.add([]byte(document)); err != nil {
				return nil, fmt.Errorf("reading %s: %w", file, err)
			}
		}
	}
	return shipped, nil
}

func (s *shippedPolicies) add(document []byte) error {
	var kind metav1.TypeMeta
	if err := yaml.Unmarshal(document, &kind); err != nil {
		return err
	}
	switch kind.Kind {
	case "ValidatingAdmissionPolicy":
		policy := &admissionregistrationv1.ValidatingAdmissionPolicy{}
		if err := yaml.UnmarshalStrict(document, policy); err != nil {
			return err
		}
		match := policy.Spec.MatchConstraints
		match.MatchPolicy = new(admissionregistrationv1.Equivalent)
		match.NamespaceSelector, match.ObjectSelector = &metav1.LabelSelector{}, &metav1.LabelSelector{}
		s.policies = append(s.policies, policy)
	case "ValidatingAdmissionPolicyBinding":
		binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{}
		if err := yaml.UnmarshalStrict(document, binding); err != nil {
			return err
		}
		s.bindings = append(s.bindings, binding)
	default:
		return fmt.Errorf("unexpected kind %q", kind.Kind)
	}
	return nil
}

// samePolicy reports whether a policy does what the shipped one does. Labels and annotations
// are left to those who install it.
func samePolicy(shipped, found *admissionregistrationv1.ValidatingAdmissionPolicy) bool {
	return apiequality.Semantic.DeepEqual(shipped.Spec, found.Spec)
}

// sameBinding is samePolicy for a binding.
func sameBinding(shipped, found *admissionregistrationv1.ValidatingAdmissionPolicyBinding) bool {
	return apiequality.Semantic.DeepEqual(shipped.Spec, found.Spec)
}
