// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	nhcv1alpha1 "github.com/nhc-controller/nhc-controller/pkg/apis/nhc/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/kubectl/view"
)

// Error is one sentence: what is wrong, and what to do about it.
type Error struct {
	Sentence string
	// Cause is the underlying error, nil if there is none.
	Cause error
}

// Error returns the sentence.
func (e *Error) Error() string { return e.Sentence }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// roles are the shipped ClusterRoles that permit reading and writing a resource.
var roles = map[string]struct{ read, write string }{
	v1alpha1.Plural:          {"nhc-view", "nhc-edit, or nhc-operate to pause and resume"},
	nhcv1alpha1.BudgetPlural: {"nhc-view", "nhc-edit, or nhc-operate to pause and resume"},
	machineHealthChecks:      {"nhc-view", "nhc-edit"},
	nodes:                    {"nhc-view", "nhc-operate"},
	leaderLeases:             {read: "nhc-view"},
	leases:                   {read: "nhc-operate"},
	events:                   {read: "nhc-operate"},
}

// ours are the resources that come with nhc-controller.
var ours = map[string]bool{v1alpha1.Plural: true, nhcv1alpha1.BudgetPlural: true, machineHealthChecks: true}

const (
	nodes               = "nodes"
	leaderLeases        = "leases of the leader"
	machineHealthChecks = "machinehealthchecks"
	leases              = "leases"
	events              = "events"
)

// miss adds once to what is missing in a snapshot that a resource cannot be read. It only returns an error if nothing
// more can be read.
func (c *Clients) miss(snapshot *view.Snapshot, verb, resource string, err error) error {
	if ctxEnded(err) {
		return Explain(err, verb, resource)
	}
	if !slices.ContainsFunc(snapshot.Missing, func(missing view.Missing) bool { return missing.Resource == resource }) {
		snapshot.Missing = append(snapshot.Missing, view.Missing{Resource: resource, Reason: c.explain(err, verb, resource).Error()})
	}
	return nil
}

// Explain returns an error of a request as an *Error. The verb and the plural name of the
// resource are those of the request.
func Explain(err error, verb, resource string) error {
	if err == nil {
		return nil
	}
	if known, ok := errors.AsType[*Error](err); ok {
		return known
	}
	sentence := fmt.Sprintf("Cannot %s %s: %s.", verb, resource, message(err))
	switch {
	case errors.Is(err, context.Canceled):
		sentence = "Interrupted."
	case clientcmd.IsEmptyConfig(err):
		sentence = "No cluster is configured: there is no kubeconfig, or it is empty. Set KUBECONFIG, or give --kubeconfig or --server."
	case Denied(err):
		role := roles[resource].write
		if slices.Contains([]string{"get", "list", "watch"}, verb) {
			role = roles[resource].read
		}
		advice := "no role of nhc-controller permits it, ask for one that does"
		if role != "" {
			advice = "ask for the ClusterRole " + role
		}
		sentence = fmt.Sprintf("You may not %s %s: %s.", verb, resource, advice)
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err), apierrors.IsConflict(err):
		sentence = fmt.Sprintf("The API server refuses to %s %s: %s.", verb, resource, message(err))
	case NotServed(err) && ours[resource]:
		sentence = fmt.Sprintf("This cluster has no %s: install the CustomResourceDefinitions of nhc-controller.", resource)
	case NotServed(err):
		sentence = fmt.Sprintf("This cluster has no %s.", resource)
	}
	return &Error{Sentence: sentence, Cause: err}
}

// denied is the form of the message about a missing permission.
var denied = regexp.MustCompile(`User ".*" cannot [a-z]+ resource "`)

// Denied reports whether the user lacks a permission, in contrast to what admission refuses.
func Denied(err error) bool {
	var status apierrors.APIStatus
	return apierrors.IsForbidden(err) && errors.As(err, &status) && denied.MatchString(status.Status().Message)
}

// NotServed reports whether the API server does not have a resource at all.
func NotServed(err error) bool {
	if !apierrors.IsNotFound(err) {
		return false
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	details := status.Status().Details
	// Where the whole kind is unknown, the answer is no Status, and the client makes one with the name.
	return details == nil || details.Name == "" || slices.ContainsFunc(details.Causes, func(cause metav1.StatusCause) bool { return cause.Type == metav1.CauseTypeUnexpectedServerResponse })
}

// message returns what the API server says, or why there is no answer, without a full stop.
func message(err error) string {
	if request, ok := errors.AsType[*url.Error](err); ok {
		err = request.Err
	}
	return strings.TrimRight(err.Error(), ".")
}
