// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterapi

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2/textlogger"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/cluster-api/core/reconcilers/machine"
	"sigs.k8s.io/cluster-api/core/reconcilers/machineset"
	"sigs.k8s.io/cluster-api/core/setup"
	"sigs.k8s.io/cluster-api/util/index"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// managerName is the user agent and the field manager that Cluster API's own manager has.
const managerName = "cluster-api-controller-manager"

// logTail is how much of their log is shown if a test fails.
const logTail = 20_000

// startControllers runs Cluster API's controllers of Machines and MachineSets, with their
// connections to workload clusters, until the end of the test.
func startControllers(t *testing.T, config *rest.Config) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "cluster-api.log")
	logs, err := os.Create(path)
	require.NoError(t, err)
	ctrl.SetLogger(textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(logs), textlogger.Verbosity(2))))

	scheme := runtime.NewScheme()
	require.NoError(t, clientgoscheme.AddToScheme(scheme))
	require.NoError(t, clusterv1.AddToScheme(scheme))
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:  scheme,
		Metrics: metricsserver.Options{BindAddress: "0"},
		Cache:   setup.ManagerCacheOptions(scheme, managerName, "", 10*time.Minute),
		Client:  setup.ManagerClientOptions(),
	})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	require.NoError(t, errors.Join(index.AddDefaultIndexes(ctx, manager), setUp(ctx, manager)))

	ended := make(chan error, 1)
	go func() { ended <- manager.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-ended)
		require.NoError(t, logs.Close())
		if t.Failed() {
			content, err := os.ReadFile(path)
			require.NoError(t, err)
			t.Logf("log of Cluster API's controllers:\n%s", content[max(0, len(content)-logTail):])
		}
	})
}

func setUp(ctx context.Context, manager ctrl.Manager) error {
	secrets, err := setup.CreateSecretCachingClient(manager)
	if err != nil {
		return err
	}
	options := controller.Options{MaxConcurrentReconciles: 2}
	clusters, err := clustercache.SetupWithManager(ctx, manager, clustercache.Options{
		SecretClient: secrets,
		Cache:        setup.ClusterCacheCacheOptions(),
		Client:       setup.ClusterCacheClientOptions(managerName, 20, 30),
	}, options)
	if err != nil {
		return err
	}
	owned := client.WithFieldOwner(manager.GetClient(), "manager")
	return errors.Join(
		(&machine.Reconciler{
			Client: owned, APIReader: manager.GetAPIReader(), ClusterCache: clusters, RemoteConditionsGracePeriod: 5 * time.Minute,
		}).SetupWithManager(ctx, manager, options),
		(&machineset.Reconciler{
			Client: owned, APIReader: manager.GetAPIReader(), ClusterCache: clusters,
		}).SetupWithManager(ctx, manager, options),
	)
}
