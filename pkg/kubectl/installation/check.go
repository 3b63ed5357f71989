// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package installation checks whether the controller is installed, and works. It changes nothing, and assumes
// nothing that it cannot read.
package installation

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/apimachinery/pkg/util/intstr"

	machinev1beta1 "github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	nhcv1alpha1 "github.com/nhc-controller/nhc-controller/pkg/apis/nhc/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/kubectl/cluster"
)

const (
	// name is that of the Deployment.
	name = "nhc-controller"
	// apply is the advice about an object of the manifests.
	apply = "Apply the manifests."
	// maxAhead is by how much a clock may be ahead before the controller starts nothing (spec 23d.2).
	maxAhead = 30 * time.Second
)

// checker looks at one installation.
type checker struct {
	*cluster.Clients
	// now is the time of the API server, as far as it is known.
	now time.Time
}

// Check looks at the installation once. There is an error only if the cluster cannot be asked at all.
func Check(ctx context.Context, clients *cluster.Clients, leaseNamespace string, now time.Time) (*Report, error) {
	c := &checker{Clients: clients, now: now}
	version, err := clients.Kube.Discovery().ServerVersion()
	if err != nil {
		return nil, cluster.Explain(err, "ask", "the cluster")
	}
	report := &Report{Parts: []*Part{{Name: "API server", Found: version.GitVersion}, c.crds(ctx), c.namespace(ctx, leaseNamespace), c.deployment(ctx)}}
	creation := c.creation(ctx) // Which also tells the time.
	report.Parts = append(report.Parts, c.leader(ctx), c.healthChecks(ctx), creation)
	if err := ctx.Err(); err != nil {
		return nil, cluster.Explain(err, "ask", "the cluster")
	}
	return report, nil
}

// crds asks whether the API server serves the kinds. All users may ask that.
func (c *checker) crds(ctx context.Context) *Part {
	part := &Part{Name: "CustomResourceDefinitions", Found: "served"}
	for _, wanted := range []schema.GroupVersionResource{
		v1alpha1.SchemeGroupVersion.WithResource(v1alpha1.Plural), nhcv1alpha1.SchemeGroupVersion.WithResource(nhcv1alpha1.BudgetPlural),
	} {
		served, err := c.Kube.Discovery().ServerResourcesForGroupVersionWithContext(ctx, wanted.GroupVersion().String())
		switch {
		case apierrors.IsNotFound(err),
			err == nil && !slices.ContainsFunc(served.APIResources, func(resource metav1.APIResource) bool { return resource.Name == wanted.Resource }):
			part.problem("%s is missing. %s", wanted.GroupResource(), apply)
		case err != nil:
			part.unknown(err, "discover", wanted.Group)
		}
	}
	return part
}

// namespace looks for the namespace that operators share.
func (c *checker) namespace(ctx context.Context, namespace string) *Part {
	part := &Part{Name: "Leases of nodes", Found: "namespace " + namespace}
	switch found, err := c.Kube.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{}); {
	case apierrors.IsNotFound(err):
		part.problem("Namespace %s is missing: without leases, no remediation begins. %s", namespace, apply)
	case err != nil:
		part.unknown(err, "get", "namespaces")
	case found.DeletionTimestamp != nil:
		part.problem("Namespace %s is being deleted: without leases, no remediation begins. Apply the manifests when it is gone.", namespace)
	}
	return part
}

// deployment looks whether all replicas are ready, in whichever namespace they are.
func (c *checker) deployment(ctx context.Context) *Part {
	part := &Part{Name: "Deployment"}
	named := fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
	found, err := c.Kube.AppsV1().Deployments(metav1.NamespaceAll).List(ctx, metav1.ListOptions{FieldSelector: named})
	if err != nil {
		part.unknown(err, "list", "deployments")
		return part
	}
	if len(found.Items) == 0 {
		part.problem("There is no Deployment %s. %s", name, apply)
	}
	for i := range found.Items {
		deployment := &found.Items[i]
		ready, wanted := deployment.Status.ReadyReplicas, *cmp.Or(deployment.Spec.Replicas, new(int32(1)))
		if ready == 0 || ready < wanted {
			part.problem("%d of %d replicas are ready in namespace %s. Look for their pods: kubectl -n %[3]s get pods", ready, wanted, deployment.Namespace)
		}
		part.Found = fmt.Sprintf("%d of %d replicas are ready in namespace %s", ready, wanted, deployment.Namespace)
	}
	return part
}

// creation lets the API server judge a NodeHealthCheck that selects no node, without storing it, and takes the time from
// its answer.
func (c *checker) creation(ctx context.Context) *Part {
	part := &Part{Name: "Dry run of a NodeHealthCheck", Found: "accepted"}
	created, err := c.NHC.RemediationV1alpha1().NodeHealthChecks().Create(ctx, &v1alpha1.NodeHealthCheck{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "nhc-check-"},
		Spec: v1alpha1.NodeHealthCheckSpec{
			Selector:   metav1.LabelSelector{MatchLabels: map[string]string{"nhc-check.medik8s.io/nothing": ""}},
			MinHealthy: new(intstr.FromString("51%")),
			RemediationTemplate: &corev1.ObjectReference{
				APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "CheckRemediationTemplate", Namespace: metav1.NamespaceDefault, Name: "nhc-check",
			},
		},
	}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	switch {
	case err == nil:
		if difference := created.CreationTimestamp.Sub(c.now).Abs(); difference > maxAhead {
			part.Found += fmt.Sprintf("; the clock of this computer differs from the API server's by %s, so ages that kubectl nhc shows are wrong", duration.HumanDuration(difference))
		}
		c.now = created.CreationTimestamp.Time
	case !cluster.Denied(err) && (apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsInternalError(err) || apierrors.IsBadRequest(err)):
		part.problem("%s Look for webhooks and policies of other operators: kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations", cluster.Explain(err, "create", v1alpha1.Plural))
	default:
		part.unknown(err, "create", v1alpha1.Plural)
	}
	return part
}

// leader looks whether a controller is at work, by the clock of the API server.
func (c *checker) leader(ctx context.Context) *Part {
	part := &Part{Name: "Leader"}
	leader, err := cluster.ReadLeader(ctx, c.Clients)
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

// healthChecks repeats what the controller says of health checks and budgets that wait for a correction, as for a
// template or a permission (spec 18.7, B5.2, M16.4).
func (c *checker) healthChecks(ctx context.Context) *Part {
	part := &Part{Name: "Health checks"}
	snapshot, err := cluster.Read(ctx, c.Clients, cluster.Kinds{Budgets: true, MachineHealthChecks: true})
	if err != nil {
		part.unknown(err, "list", v1alpha1.Plural)
		return part
	}
	for _, missing := range snapshot.Missing {
		part.Unread = append(part.Unread, missing.Reason)
	}
	for _, nhc := range snapshot.NodeHealthChecks {
		part.stalled("NodeHealthCheck "+nhc.Name, nhc.Status.ObservedGeneration < nhc.Generation, nhc.Status.Conditions)
	}
	for _, mhc := range snapshot.MachineHealthChecks {
		name := fmt.Sprintf("MachineHealthCheck %s/%s", mhc.Namespace, mhc.Name)
		for _, condition := range mhc.Status.Conditions {
			if condition.Type == machinev1beta1.ConditionStalled && condition.Status == corev1.ConditionTrue {
				part.problem("%s: %s", name, condition.Message)
			}
		}
	}
	for _, budget := range snapshot.Budgets {
		part.stalled("RemediationBudget "+budget.Name, budget.Status.ObservedGeneration < budget.Generation, budget.Status.Conditions)
	}
	part.Found = fmt.Sprintf("%d, and %d budgets", len(snapshot.NodeHealthChecks)+len(snapshot.MachineHealthChecks), len(snapshot.Budgets))
	return part
}

// stalled records that an object waits for the controller, or for a correction.
func (p *Part) stalled(name string, outdated bool, conditions []metav1.Condition) {
	stalled := meta.FindStatusCondition(conditions, v1alpha1.ConditionStalled)
	switch {
	case outdated:
		p.problem("%s: the controller has not taken in its spec yet.", name)
	case stalled != nil && stalled.Status == metav1.ConditionTrue:
		p.problem("%s: %s", name, stalled.Message)
	}
}
