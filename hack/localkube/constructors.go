// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !full

package main

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsscheme "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/scheme"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/cel/openapi/resolver"
	"k8s.io/apiserver/pkg/quota/v1/generic"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/util/keyutil"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controller"
	"k8s.io/kubernetes/pkg/controller/clusterroleaggregation"
	"k8s.io/kubernetes/pkg/controller/deployment"
	"k8s.io/kubernetes/pkg/controller/garbagecollector"
	"k8s.io/kubernetes/pkg/controller/namespace"
	"k8s.io/kubernetes/pkg/controller/nodelifecycle"
	"k8s.io/kubernetes/pkg/controller/replicaset"
	"k8s.io/kubernetes/pkg/controller/resourcequota"
	serviceaccountcontroller "k8s.io/kubernetes/pkg/controller/serviceaccount"
	"k8s.io/kubernetes/pkg/controller/validatingadmissionpolicystatus"
	"k8s.io/kubernetes/pkg/generated/openapi"
	"k8s.io/kubernetes/pkg/quota/v1/install"
	"k8s.io/kubernetes/pkg/serviceaccount"
)

const (
	workers      = 5
	resyncPeriod = 5 * time.Minute
)

// constructor returns what runs a controller.
type constructor func(context.Context, *manager) (run func(context.Context), err error)

// controllers by the names that --controllers has.
var controllers = map[string]constructor{
	"clusterrole-aggregation-controller":          newClusterRoleAggregation,
	"deployment-controller":                       newDeployment,
	"garbage-collector-controller":                newGarbageCollector,
	"namespace-controller":                        newNamespace,
	"node-lifecycle-controller":                   newNodeLifecycle,
	"replicaset-controller":                       newReplicaSet,
	"resourcequota-controller":                    newResourceQuota,
	"serviceaccount-controller":                   newServiceAccount,
	"serviceaccount-token-controller":             newServiceAccountToken,
	"validatingadmissionpolicy-status-controller": newAdmissionPolicyStatus,
}

func newClusterRoleAggregation(_ context.Context, m *manager) (func(context.Context), error) {
	client, err := m.clients.Client("clusterrole-aggregation-controller")
	if err != nil {
		return nil, err
	}
	c := clusterroleaggregation.NewClusterRoleAggregation(m.informers.Rbac().V1().ClusterRoles(), client.RbacV1())
	return func(ctx context.Context) { c.Run(ctx, workers) }, nil
}

func newDeployment(ctx context.Context, m *manager) (func(context.Context), error) {
	client, err := m.clients.Client("deployment-controller")
	if err != nil {
		return nil, err
	}
	apps := m.informers.Apps().V1()
	c, err := deployment.NewDeploymentController(ctx, apps.Deployments(), apps.ReplicaSets(), m.informers.Core().V1().Pods(), client)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) { c.Run(ctx, workers) }, nil
}

func newReplicaSet(ctx context.Context, m *manager) (func(context.Context), error) {
	client, err := m.clients.Client("replicaset-controller")
	if err != nil {
		return nil, err
	}
	c := replicaset.NewReplicaSetController(ctx, m.informers.Apps().V1().ReplicaSets(), m.informers.Core().V1().Pods(), client, replicaset.BurstReplicas)
	return func(ctx context.Context) { c.Run(ctx, workers) }, nil
}

func newGarbageCollector(ctx context.Context, m *manager) (func(context.Context), error) {
	const name = "generic-garbage-collector"
	client, err := m.clients.Client(name)
	if err != nil {
		return nil, err
	}
	config, err := m.clients.Config(name)
	if err != nil {
		return nil, err
	}
	objects, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	graph := garbagecollector.NewDependencyGraphBuilder(ctx, m.metadata, m.mapper, garbagecollector.DefaultIgnoredResources(), m.all, m.started)
	c, err := garbagecollector.NewComposedGarbageCollector(ctx, client, objects, m.mapper, graph)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) {
		go c.Run(ctx, 4*workers, discoveryPeriod)
		c.Sync(ctx, client.Discovery(), discoveryPeriod)
	}, nil
}

func newNamespace(ctx context.Context, m *manager) (func(context.Context), error) {
	const name = "namespace-controller"
	client, err := m.clients.Client(name)
	if err != nil {
		return nil, err
	}
	config, err := m.clients.Config(name)
	if err != nil {
		return nil, err
	}
	objects, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	c := namespace.NewNamespaceController(ctx, client, objects, client.Discovery().ServerPreferredNamespacedResources,
		m.informers.Core().V1().Namespaces(), resyncPeriod, corev1.FinalizerKubernetes)
	return func(ctx context.Context) { c.Run(ctx, 2*workers) }, nil
}

func newNodeLifecycle(ctx context.Context, m *manager) (func(context.Context), error) {
	client, err := m.clients.Client("node-controller")
	if err != nil {
		return nil, err
	}
	// The defaults of kube-controller-manager.
	const (
		startupGracePeriod    = time.Minute
		evictionRate          = 0.1
		secondaryEvictionRate = 0.01
		largeCluster          = 50
		unhealthyZone         = 0.55
	)
	core := m.informers.Core().V1()
	c, err := nodelifecycle.NewNodeLifecycleController(ctx, m.informers.Coordination().V1().Leases(), core.Pods(), core.Nodes(),
		m.informers.Apps().V1().DaemonSets(), client, m.nodeMonitorPeriod, startupGracePeriod, m.nodeGracePeriod,
		evictionRate, secondaryEvictionRate, largeCluster, unhealthyZone)
	if err != nil {
		return nil, err
	}
	return c.Run, nil
}

func newResourceQuota(ctx context.Context, m *manager) (func(context.Context), error) {
	client, err := m.clients.Client("resourcequota-controller")
	if err != nil {
		return nil, err
	}
	discover := client.Discovery().ServerPreferredNamespacedResources
	quota, err := install.NewQuotaConfigurationForControllers(generic.ListerFuncForResourceFunc(m.informers.ForResource), m.informers)
	if err != nil {
		return nil, err
	}
	c, err := resourcequota.NewController(ctx, &resourcequota.ControllerOptions{
		QuotaClient:               client.CoreV1(),
		ResourceQuotaInformer:     m.informers.Core().V1().ResourceQuotas(),
		ResyncPeriod:              controller.StaticResyncPeriodFunc(resyncPeriod),
		InformerFactory:           m.all,
		ReplenishmentResyncPeriod: controller.StaticResyncPeriodFunc(resyncPeriod),
		DiscoveryFunc:             discover,
		IgnoredResourcesFunc:      quota.IgnoredResources,
		InformersStarted:          m.started,
		Registry:                  generic.NewRegistry(quota.Evaluators()),
		UpdateFilter:              install.DefaultUpdateFilter(),
	})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) {
		go c.Run(ctx, workers)
		c.Sync(ctx, discover, discoveryPeriod)
	}, nil
}

func newServiceAccount(ctx context.Context, m *manager) (func(context.Context), error) {
	client, err := m.clients.Client("service-account-controller")
	if err != nil {
		return nil, err
	}
	core := m.informers.Core().V1()
	c, err := serviceaccountcontroller.NewServiceAccountsController(klog.FromContext(ctx), core.ServiceAccounts(), core.Namespaces(), client,
		serviceaccountcontroller.DefaultServiceAccountsControllerOptions())
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) { c.Run(ctx, 1) }, nil
}

// newServiceAccountToken is no ServiceAccount of its own: it makes their tokens.
func newServiceAccountToken(ctx context.Context, m *manager) (func(context.Context), error) {
	key, err := keyutil.PrivateKeyFromFile(m.tokenKeyFile)
	if err != nil {
		return nil, err
	}
	generator, err := serviceaccount.JWTTokenGenerator(serviceaccount.LegacyIssuer, key)
	if err != nil {
		return nil, err
	}
	core := m.informers.Core().V1()
	c, err := serviceaccountcontroller.NewTokensController(klog.FromContext(ctx), core.ServiceAccounts(), core.Secrets(), m.client,
		serviceaccountcontroller.TokensControllerOptions{TokenGenerator: generator, RootCA: m.config.CAData})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) { c.Run(ctx, workers) }, nil
}

func newAdmissionPolicyStatus(_ context.Context, m *manager) (func(context.Context), error) {
	client, err := m.clients.Client("validatingadmissionpolicy-status-controller")
	if err != nil {
		return nil, err
	}
	policies := m.informers.Admissionregistration().V1().ValidatingAdmissionPolicies()
	schemas := resolver.NewDefinitionsSchemaResolver(openapi.GetOpenAPIDefinitions, scheme.Scheme, apiextensionsscheme.Scheme).
		Combine(&resolver.ClientDiscoveryResolver{Discovery: client.Discovery()})
	c, err := validatingadmissionpolicystatus.NewController(policies, client.AdmissionregistrationV1().ValidatingAdmissionPolicies(),
		&validating.TypeChecker{SchemaResolver: schemas, RestMapper: m.mapper})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) { c.Run(ctx, workers) }, nil
}
