// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package installation

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/kubectl/cluster"
	"github.com/nhc-controller/nhc-controller/pkg/kubectl/lint"
	"github.com/nhc-controller/nhc-controller/pkg/kubectl/view"
)

// maxAhead is by how much a clock may be ahead before the controller starts nothing (spec 23d.2).
const maxAhead = 30 * time.Second

// atWork reports whether a controller is at work, by the clock of the API server.
func (c *checker) atWork(leader *view.Leader, err error) *Part {
	part := &Part{Name: "Leader"}
	switch {
	case err != nil:
		part.unknown(err, "list", "leases of the leader")
	case leader.Problem(c.now) != "":
		part.problem("%s", leader.Problem(c.now))
	default:
		part.Found = leader.Holder
		if ahead := leader.Renewed.Sub(c.now); ahead > maxAhead {
			part.problem("The clock of %s is %s ahead of the API server's: no remediation begins. Correct the time on its node.", leader.Holder, duration.HumanDuration(ahead))
		}
	}
	return part
}

// references looks for the templates that the health checks of the cluster refer to, and for the permissions that their
// remediation takes (spec 6.1, 6.6).
func (c *checker) references(ctx context.Context) *Part {
	part := &Part{Name: "Templates"}
	stored, missing, err := cluster.ReadObjects(ctx, c.Clients)
	if err != nil {
		part.unknown(err, "list", v1alpha1.Plural)
		return part
	}
	var checks []lint.Object
	for _, object := range stored {
		if accepted, err := lint.NewAccepted(object); err == nil && accepted.RemediationBudget == nil {
			checks = append(checks, lint.Object{Kind: object.GetKind(), Name: object.GetName(), Accepted: accepted})
		}
	}
	facts, err := cluster.ReadFacts(ctx, c.Clients, checks, c.Account)
	if err != nil {
		part.unknown(err, "list", v1alpha1.Plural)
		return part
	}
	for _, kind := range slices.Concat(missing, facts.Missing) {
		part.unread(kind.Reason)
	}
	for reference, template := range facts.Templates {
		name := reference.Kind + " " + strings.TrimPrefix(reference.Namespace+"/"+reference.Name, "/")
		if template.Problem != "" {
			part.problem("%s: %s. Install the remediator, or correct the reference.", name, template.Problem)
		}
		for _, forbidden := range template.Forbidden {
			part.problem("%s: %s.", name, forbidden)
		}
	}
	slices.Sort(part.Problems)
	part.Found = fmt.Sprintf("%d, of %d health checks", len(facts.Templates), len(checks))
	return part
}

// creation has the API server judge a NodeHealthCheck that selects no node, without storing it, and takes the time from
// its answer.
func (c *checker) creation(ctx context.Context) *Part {
	part := &Part{Name: "Dry run of a NodeHealthCheck"}
	part.Found = "accepted"
	created, err := c.NHC.RemediationV1alpha1().NodeHealthChecks().Create(ctx, &v1alpha1.NodeHealthCheck{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "nhc-check-"},
		Spec: v1alpha1.NodeHealthCheckSpec{
			Selector:   metav1.LabelSelector{MatchLabels: map[string]string{"nhc-check.medik8s.io/nothing": ""}},
			MinHealthy: new(intstr.FromString("51%")),
			RemediationTemplate: &corev1.ObjectReference{
				APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "CheckRemediationTemplate", Namespace: c.Account.Namespace, Name: "nhc-check",
			},
		},
	}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	switch {
	case err == nil:
		if difference := created.CreationTimestamp.Sub(c.now).Abs(); difference > maxAhead {
			part.Found += fmt.Sprintf("; the clock of this computer differs from the API server's by %s, so ages that kubectl nhc shows are wrong", duration.HumanDuration(difference))
		}
		c.now = created.CreationTimestamp.Time
	case cluster.Denied(err):
		part.unknown(err, "create", v1alpha1.Plural)
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err), apierrors.IsInvalid(err), apierrors.IsInternalError(err), apierrors.IsBadRequest(err):
		part.problem("%s Look for webhooks and policies of other operators: kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations", cluster.Explain(err, "create", v1alpha1.Plural))
	default:
		part.unknown(err, "create", v1alpha1.Plural)
	}
	return part
}

// accountOf returns the ServiceAccount that was asked for, or the one of the manifests in the namespace of the leader.
func accountOf(asked cluster.ServiceAccount, leader *view.Leader) cluster.ServiceAccount {
	if asked.Name != "" {
		return asked
	}
	namespace := "nhc-system"
	if leader != nil {
		namespace = cmp.Or(leader.Namespace, namespace)
	}
	return cluster.ServiceAccount{Namespace: namespace, Name: "nhc-controller"}
}
