// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package installation

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// apply is the advice about an object of the manifests.
const apply = "Apply the manifests of this version."

// crds compares the CustomResourceDefinitions with those of this version. That of MachineHealthChecks may be OpenShift's.
func (c *checker) crds(ctx context.Context) *Part {
	part := &Part{Name: "CustomResourceDefinitions"}
	part.Found = "as in " + c.Version
	client := c.Dynamic.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	for _, shipped := range c.shipped.crds {
		ours := strings.HasSuffix(shipped.GetName(), "."+v1alpha1.SchemeGroupVersion.Group)
		found, err := client.Get(ctx, shipped.GetName(), metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			part.problem("%s is missing. %s", shipped.GetName(), apply)
		case err != nil:
			part.unknown(err, "get", "customresourcedefinitions")
		case ours && !sameVersions(shipped, found):
			part.problem("%s is not that of %s. %s Or use the plugin of the version that is installed.", shipped.GetName(), c.Version, apply)
		}
	}
	return part
}

// namespace looks for the namespace that operators share.
func (c *checker) namespace(ctx context.Context) *Part {
	part := &Part{Name: "Leases of nodes"}
	part.Found = "namespace " + c.LeaseNamespace
	switch found, err := c.Kube.CoreV1().Namespaces().Get(ctx, c.LeaseNamespace, metav1.GetOptions{}); {
	case apierrors.IsNotFound(err):
		part.problem("Namespace %s is missing: without leases, no remediation begins. %s", c.LeaseNamespace, apply)
	case err != nil:
		part.unknown(err, "get", "namespaces")
	case found.DeletionTimestamp != nil:
		part.problem("Namespace %s is being deleted: without leases, no remediation begins. Apply the manifests when it is gone.", c.LeaseNamespace)
	}
	return part
}

// policies compares the admission policies and their bindings with those of this version. Labels and annotations are left to those who install
// them.
func (c *checker) policies(ctx context.Context) *Part {
	part := &Part{Name: "Admission policies"}
	part.Found = fmt.Sprintf("%d, as in %s", len(c.shipped.policies), c.Version)
	note := func(kind, name string, same bool, err error) {
		switch {
		case apierrors.IsNotFound(err):
			part.problem("%s %s is missing: what it denies is permitted. %s", kind, name, apply)
		case err != nil:
			part.unknown(err, "get", strings.ToLower(kind))
		case !same:
			part.problem("%s %s is not that of %s. %s", kind, name, c.Version, apply)
		}
	}
	client := c.Kube.AdmissionregistrationV1()
	for _, shipped := range c.shipped.policies {
		found, err := client.ValidatingAdmissionPolicies().Get(ctx, shipped.Name, metav1.GetOptions{})
		note("ValidatingAdmissionPolicy", shipped.Name, err == nil && apiequality.Semantic.DeepEqual(shipped.Spec, found.Spec), err)
	}
	for _, shipped := range c.shipped.bindings {
		found, err := client.ValidatingAdmissionPolicyBindings().Get(ctx, shipped.Name, metav1.GetOptions{})
		note("ValidatingAdmissionPolicyBinding", shipped.Name, err == nil && apiequality.Semantic.DeepEqual(shipped.Spec, found.Spec), err)
	}
	return part
}

// permissions checks the permissions that the controller needs.
func (c *checker) permissions(ctx context.Context) *Part {
	part := &Part{Name: "Permissions"}
	part.Found = fmt.Sprintf("ServiceAccount %s/%s", c.Account.Namespace, c.Account.Name)
	leases := schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}
	for _, needed := range []struct {
		resource  schema.GroupResource
		namespace string
		verbs     []string
	}{
		{corev1.Resource("nodes"), "", []string{"get", "list", "watch"}},
		{v1alpha1.Resource(v1alpha1.Plural), "", []string{"list", "watch"}},
		{v1alpha1.Resource(v1alpha1.Plural + "/status"), "", []string{"update"}},
		{leases, c.LeaseNamespace, []string{"list", "watch", "create", "update", "delete"}},
		{leases, c.Account.Namespace, []string{"create"}},
	} {
		verb, err := c.Refused(ctx, c.Account, needed.resource, needed.namespace, needed.verbs)
		switch {
		case err != nil:
			part.unknown(err, "create", "subjectaccessreviews")
		case verb != "":
			where := "in the cluster"
			if needed.namespace != "" {
				where = "in namespace " + needed.namespace
			}
			part.problem("ServiceAccount %s/%s may not %s %s %s. %s", c.Account.Namespace, c.Account.Name, verb, needed.resource, where, apply)
		}
	}
	return part
}

// release is the version of a release. Other builds are compared by what they contain.
var release = regexp.MustCompile(`^v[0-9]+\.[0-9]+\.[0-9]+$`)

// deployment reads which version is installed, and whether it remediates Machines.
func (c *checker) deployment(ctx context.Context) *Part {
	part := &Part{Name: "Deployment"}
	deployment, err := c.Kube.AppsV1().Deployments(c.Account.Namespace).Get(ctx, "nhc-controller", metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		part.problem("There is no Deployment nhc-controller in namespace %s. %s If it is elsewhere, give --service-account.", c.Account.Namespace, apply)
		return part
	}
	if err != nil {
		part.unknown(err, "get", "deployments")
		return part
	}
	for _, container := range deployment.Spec.Template.Spec.Containers {
		if container.Name != "nhc-controller" {
			continue
		}
		part.Found = container.Image
		image, _, _ := strings.Cut(container.Image, "@")
		if tag := image[strings.LastIndex(image, ":")+1:]; release.MatchString(tag) && release.MatchString(c.Version) && tag != c.Version {
			part.problem("The image is %s, and the plugin %s. Use the plugin of the version that is installed.", tag, c.Version)
		}
		c.machines = slices.ContainsFunc(container.Args, func(arg string) bool {
			return strings.HasPrefix(arg, "--controllers=") && strings.Contains(arg, "machinehealthcheck")
		})
	}
	return part
}
