// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/serving"
)

func seconds(n int) metav1.Duration { return metav1.Duration{Duration: time.Duration(n) * time.Second} }

func TestOptionsDefaults(t *testing.T) {
	t.Setenv("LEASE_NAMESPACE", "")
	t.Setenv("DEPLOYMENT_NAMESPACE", "")
	options := NewOptions()
	require.GreaterOrEqual(t, options.QPS, float32(100), "22.4")
	require.GreaterOrEqual(t, options.Burst, 200, "22.4")
	require.Equal(t, 5, options.ConcurrentSyncs, "22.4")
	require.Equal(t, "medik8s-leases", options.LeaseNamespace, "22.4 3")
	require.Equal(t, ":8443", options.MetricsAddress, "22.4")
	require.Equal(t, ":8081", options.ProbeAddress, "22.4")
	require.Empty(t, options.Kubeconfig, "22.4: in-cluster")
	election := options.LeaderElection
	require.True(t, election.LeaderElect, "22.4")
	require.Equal(t, []metav1.Duration{seconds(15), seconds(10), seconds(2)}, []metav1.Duration{election.LeaseDuration, election.RenewDeadline, election.RetryPeriod}, "22.4")
	require.Equal(t, []string{"leases", "nhc-controller"}, []string{election.ResourceLock, election.ResourceName}, "22.4")
	require.Empty(t, election.ResourceNamespace, "22.4: outside of a pod")
}

func TestOptionsFromEnvironment(t *testing.T) {
	t.Setenv("LEASE_NAMESPACE", "from-env")
	t.Setenv("DEPLOYMENT_NAMESPACE", "deployment")
	options := NewOptions()
	require.Equal(t, "from-env", options.LeaseNamespace, "22.4")
	require.Equal(t, "deployment", options.LeaderElection.ResourceNamespace, "22.4")
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	options.AddFlags(flags)
	require.NoError(t, flags.Parse([]string{"--lease-namespace=from-flag"}))
	require.Equal(t, "from-flag", options.LeaseNamespace, "22.4: the flag wins")
}

func TestFlags(t *testing.T) {
	t.Parallel()
	options := NewOptions()
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	options.AddFlags(flags)
	for _, name := range []string{
		"kubeconfig", "kube-api-qps", "kube-api-burst", "concurrent-syncs", "lease-namespace", "metrics-bind-address", "health-probe-bind-address",
		"leader-elect", "leader-elect-lease-duration", "leader-elect-renew-deadline", "leader-elect-retry-period", "leader-elect-resource-lock",
		"leader-elect-resource-name", "leader-elect-resource-namespace",
	} {
		require.NotNil(t, flags.Lookup(name), "22.4 --%s", name)
	}
	require.NoError(t, flags.Parse([]string{"--leader-elect=false", "--kube-api-qps=7.5", "--metrics-bind-address=0"}))
	require.False(t, options.LeaderElection.LeaderElect)
	require.InDelta(t, 7.5, options.QPS, 0)
	require.Equal(t, serving.Off, options.MetricsAddress)
}

func TestValidate(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		change func(*Options)
		want   []string
	}{
		"the defaults in a pod":       {change: func(*Options) {}},
		"no qps":                      {change: func(o *Options) { o.QPS = 0 }, want: []string{"--kube-api-qps"}},
		"a certificate without key":   {change: func(o *Options) { o.TLS.CertFile = "tls.crt" }, want: []string{"--tls-private-key-file"}},
		"a key without certificate":   {change: func(o *Options) { o.TLS.PrivateKeyFile = "tls.key" }, want: []string{"--tls-cert-file"}},
		"a version that is weak":      {change: func(o *Options) { o.TLS.MinVersion = "VersionTLS10" }, want: []string{"--tls-min-version"}},
		"a negative burst":            {change: func(o *Options) { o.Burst = -1 }, want: []string{"--kube-api-burst"}},
		"no syncs":                    {change: func(o *Options) { o.ConcurrentSyncs = 0 }, want: []string{"--concurrent-syncs"}},
		"no lease namespace":          {change: func(o *Options) { o.LeaseNamespace = "" }, want: []string{"--lease-namespace"}},
		"no election namespace":       {change: func(o *Options) { o.LeaderElection.ResourceNamespace = "" }, want: []string{"--leader-elect-resource-namespace"}},
		"no election name":            {change: func(o *Options) { o.LeaderElection.ResourceName = "" }, want: []string{"--leader-elect-resource-name"}},
		"another lock":                {change: func(o *Options) { o.LeaderElection.ResourceLock = "endpoints" }, want: []string{"--leader-elect-resource-lock"}},
		"a lease as short as renewal": {change: func(o *Options) { o.LeaderElection.LeaseDuration = seconds(10) }, want: []string{"--leader-elect-lease-duration"}},
		"one attempt to renew":        {change: func(o *Options) { o.LeaderElection.RetryPeriod = seconds(6) }, want: []string{"--leader-elect-renew-deadline"}},
		"two attempts":                {change: func(o *Options) { o.LeaderElection.RetryPeriod = seconds(5) }},
		"no retry period":             {change: func(o *Options) { o.LeaderElection.RetryPeriod = seconds(0) }, want: []string{"--leader-elect-renew-deadline"}},
		"nothing of it matters without election": {change: func(o *Options) {
			o.LeaderElection.LeaderElect, o.LeaderElection.ResourceNamespace, o.LeaderElection.LeaseDuration = false, "", seconds(0)
		}},
		"all problems at once": {
			change: func(o *Options) { o.QPS, o.Burst, o.LeaseNamespace = 0, 0, "" },
			want:   []string{"--kube-api-qps", "--kube-api-burst", "--lease-namespace"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			options := NewOptions()
			options.LeaseNamespace, options.LeaderElection.ResourceNamespace = "medik8s-leases", "nhc-system"
			tc.change(options)
			var fields []string
			for _, problem := range options.Validate() {
				fields = append(fields, problem.Field)
			}
			require.Equal(t, tc.want, fields, "22.6")
		})
	}
}
