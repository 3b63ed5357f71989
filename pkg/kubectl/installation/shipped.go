// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package installation

import (
	"bytes"
	"fmt"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/nhc-controller/nhc-controller/pkg/kubectl/admission"
	"github.com/nhc-controller/nhc-controller/pkg/kubectl/cluster"
)

// shipped are objects of the manifests of this version, with what the API server adds to them.
type shipped struct {
	crds     []*unstructured.Unstructured
	policies []*admissionregistrationv1.ValidatingAdmissionPolicy
	bindings []*admissionregistrationv1.ValidatingAdmissionPolicyBinding
}

// shippedAccount is the user whom the policies of the manifests limit.
const shippedAccount = "system:serviceaccount:nhc-system:nhc-controller"

// newShipped reads the manifests for a controller with this ServiceAccount, and which remediates Machines
// or does not.
func newShipped(account cluster.ServiceAccount, machines bool) (*shipped, error) {
	s := &shipped{}
	user := fmt.Sprintf("system:serviceaccount:%s:%s", account.Namespace, account.Name)
	err := admission.Documents(func(path, kind string, document []byte) error {
		if !machines && strings.HasPrefix(path, "components/") {
			return nil
		}
		return s.add(kind, bytes.ReplaceAll(document, []byte(shippedAccount), []byte(user)))
	})
	if err != nil {
		return nil, fmt.Errorf("reading the manifests: %w", err)
	}
	return s, nil
}

func (s *shipped) add(kind string, document []byte) error {
	switch kind {
	case "CustomResourceDefinition":
		encoded, err := yaml.YAMLToJSON(document)
		if err != nil {
			return err
		}
		crd := &unstructured.Unstructured{}
		s.crds = append(s.crds, crd)
		return crd.UnmarshalJSON(encoded)
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
		s.bindings = append(s.bindings, binding)
		return yaml.UnmarshalStrict(document, binding)
	}
	return nil
}

// sameVersions reports whether a CustomResourceDefinition has the schemas of the shipped one.
func sameVersions(shipped, found *unstructured.Unstructured) bool {
	versions := func(crd *unstructured.Unstructured) any {
		value, _, _ := unstructured.NestedFieldNoCopy(crd.Object, "spec", "versions")
		return value
	}
	return apiequality.Semantic.DeepEqual(versions(shipped), versions(found))
}
