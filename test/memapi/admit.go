// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package memapi

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/nhc-controller/nhc-controller/pkg/kubectl/admission"
)

// admit returns an object as it is stored: with defaults, and without unknown fields, if there are rules about its
// kind. It returns an error besides if they do not permit it, or Admit does not.
func (s *Server) admit(t *table, old, object *unstructured.Unstructured, status bool) (*unstructured.Unstructured, error) {
	if known, ruled := s.schemas[schema.GroupKind{Group: t.Group, Kind: t.Kind}]; ruled {
		answer, err := s.ask(known, old, object, status)
		if err != nil {
			return nil, err
		}
		if len(answer.Causes) > 0 {
			return answer.Object, s.invalid(t, object.GetName(), answer.Causes...)
		}
		object = answer.Object
	}
	if t.Admit != nil {
		return object, t.Admit(old, object)
	}
	return object, nil
}

// unbounded is the context of rules: they wait for nothing.
var unbounded = context.Background()

func (s *Server) ask(known *crdSchema, old, object *unstructured.Unstructured, status bool) (*admission.Answer, error) {
	if old == nil {
		return s.rules.Create(unbounded, object)
	}
	return known.update(old, object, status), nil
}

// invalid is the answer about an object that is not valid.
func (s *Server) invalid(t *table, name string, causes ...admission.Cause) error {
	err := apierrors.NewInvalid(schema.GroupKind{Group: t.Group, Kind: t.Kind}, name, nil)
	for _, cause := range causes {
		err.ErrStatus.Message += " " + cause.Field + ": " + cause.Message + ";"
		err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{Type: metav1.CauseTypeFieldValueInvalid, Field: cause.Field, Message: cause.Message})
	}
	return err
}
