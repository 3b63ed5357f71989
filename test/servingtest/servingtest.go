// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package servingtest helps tests of servers whose clients have bearer tokens.
package servingtest

import (
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// Admit has the reviews of a fake clientset know one token, and permit its user the
// allowed accesses.
func Admit(kube *fake.Clientset, token string, allowed func(*authorizationv1.SubjectAccessReviewSpec) bool) {
	kube.PrependReactor("create", "tokenreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
		review := action.(clienttesting.CreateAction).GetObject().(*authenticationv1.TokenReview).DeepCopy()
		review.Status.Authenticated = review.Spec.Token == token
		return true, review, nil
	})
	kube.PrependReactor("create", "subjectaccessreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
		review := action.(clienttesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview).DeepCopy()
		review.Status.Allowed = allowed(&review.Spec)
		return true, review, nil
	})
}

// AdmitTo permits the user of a token to get one path.
func AdmitTo(kube *fake.Clientset, token, path string) {
	Admit(kube, token, func(asked *authorizationv1.SubjectAccessReviewSpec) bool {
		return asked.NonResourceAttributes != nil && asked.NonResourceAttributes.Verb == "get" && asked.NonResourceAttributes.Path == path
	})
}
