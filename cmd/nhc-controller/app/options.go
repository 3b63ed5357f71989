// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	componentbaseconfig "k8s.io/component-base/config"
	componentoptions "k8s.io/component-base/config/options"

	"github.com/nhc-controller/nhc-controller/pkg/machinehealth"
	"github.com/nhc-controller/nhc-controller/pkg/program"
	"github.com/nhc-controller/nhc-controller/pkg/serving"
)

// Options are the flags of the controller (spec 22.4).
type Options struct {
	// Kubeconfig is the path of a kubeconfig; empty means in-cluster.
	Kubeconfig string
	// QPS and Burst limit the requests of the client, per second and at once.
	QPS   float32
	Burst int
	// ConcurrentSyncs is the number of NodeHealthChecks synced at the same time.
	ConcurrentSyncs int
	// DryRun makes the mode of all NodeHealthChecks DryRun, and no Machine is remediated.
	DryRun bool
	// Controllers are those to run: names, names with a dash to leave one out, or * for those that
	// run by default.
	Controllers []string
	// MachineBackOff delays the deletion of Machines that never start.
	MachineBackOff machinehealth.BackOff
	// LeaseNamespace is where the leases of nodes are.
	LeaseNamespace string
	LeaderElection componentbaseconfig.LeaderElectionConfiguration
	// MetricsAddress is where /metrics is served, "0" for nowhere.
	MetricsAddress string
	// TLS is how that port encrypts.
	TLS serving.TLS
	// ProbeAddress is where /livez, /readyz and /healthz are served, "0" for nowhere.
	ProbeAddress string
}

// The client limits, in case the controller has a fault. In a mass failure every node needs
// three requests at once, 32 nodes at a time. The priority levels of the API server protect
// it: by measurement, it reaches its capacity before these limits.
const (
	defaultQPS   = 1000
	defaultBurst = 2000
)

// NewOptions returns the defaults, those from the environment among them.
func NewOptions() *Options {
	return &Options{
		QPS:             defaultQPS,
		Burst:           defaultBurst,
		ConcurrentSyncs: 5,
		Controllers:     []string{"*"},
		MachineBackOff:  machinehealth.BackOff{Base: machinehealth.DefaultBackOffBase, Cap: machinehealth.DefaultBackOffCap},
		LeaseNamespace:  program.Environment("LEASE_NAMESPACE", "medik8s-leases"),
		LeaderElection: componentbaseconfig.LeaderElectionConfiguration{
			LeaderElect:       true,
			LeaseDuration:     metav1.Duration{Duration: 15 * time.Second},
			RenewDeadline:     metav1.Duration{Duration: 10 * time.Second},
			RetryPeriod:       metav1.Duration{Duration: 2 * time.Second},
			ResourceLock:      resourcelock.LeasesResourceLock,
			ResourceName:      "nhc-controller",
			ResourceNamespace: program.Environment("DEPLOYMENT_NAMESPACE", podNamespace()),
		},
		MetricsAddress: ":8443",
		TLS:            serving.NewTLS(),
		ProbeAddress:   ":8081",
	}
}

// AddFlags adds the flags to a set.
func (o *Options) AddFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.Kubeconfig, "kubeconfig", o.Kubeconfig, "Path of a kubeconfig file. Without it the ServiceAccount of the pod is used.")
	flags.Float32Var(&o.QPS, "kube-api-qps", o.QPS, "Requests per second to the API server.")
	flags.IntVar(&o.Burst, "kube-api-burst", o.Burst, "Requests to the API server that may exceed --kube-api-qps in a burst.")
	flags.IntVar(&o.ConcurrentSyncs, "concurrent-syncs", o.ConcurrentSyncs, "Number of NodeHealthChecks synced at the same time.")
	flags.StringSliceVar(&o.Controllers, "controllers", o.Controllers, "Controllers to run, of "+strings.Join(knownControllers(), ", ")+". "+
		"A dash before a name leaves it out, * stands for those that run by default: "+strings.Join(defaultControllers, ", ")+".")
	flags.DurationVar(&o.MachineBackOff.Base, "machine-backoff-base", o.MachineBackOff.Base, "How long a Machine lives at least if the one before it has failed before it had a Node. Doubles with each one.")
	flags.DurationVar(&o.MachineBackOff.Cap, "machine-backoff-cap", o.MachineBackOff.Cap, "Longest delay of --machine-backoff-base. Keep it above --max-node-provision-time of the cluster autoscaler.")
	flags.BoolVar(&o.DryRun, "dry-run", o.DryRun, "Report what the controller would do, and remediate no node and no Machine, as if all NodeHealthChecks had mode DryRun.")
	flags.StringVar(&o.LeaseNamespace, "lease-namespace", o.LeaseNamespace, "Namespace of the leases of nodes. Env LEASE_NAMESPACE sets it too.")
	flags.StringVar(&o.MetricsAddress, "metrics-bind-address", o.MetricsAddress, "Address of /metrics, served over HTTPS to clients with permission. 0 turns it off.")
	o.TLS.AddFlags(flags, "the metrics port")
	flags.StringVar(&o.ProbeAddress, "health-probe-bind-address", o.ProbeAddress, "Address of /livez, /readyz and /healthz. 0 turns them off.")
	componentoptions.BindLeaderElectionFlags(&o.LeaderElection, flags)
}

// podNamespace returns the namespace of the pod. It is empty outside a pod.
func podNamespace() string {
	namespace, err := os.ReadFile("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(namespace))
}

func validateLeaderElection(config *componentbaseconfig.LeaderElectionConfiguration) field.ErrorList {
	var problems field.ErrorList
	if config.ResourceNamespace == "" {
		problems = append(problems, field.Required(field.NewPath("--leader-elect-resource-namespace"),
			"outside of a pod, name the namespace of the leader lease, or set --leader-elect=false"))
	}
	if config.ResourceName == "" {
		problems = append(problems, field.Required(field.NewPath("--leader-elect-resource-name"), "the leader lease needs a name"))
	}
	if config.ResourceLock != resourcelock.LeasesResourceLock {
		problems = append(problems, field.NotSupported(field.NewPath("--leader-elect-resource-lock"), config.ResourceLock, []string{resourcelock.LeasesResourceLock}))
	}
	if config.LeaseDuration.Duration <= config.RenewDeadline.Duration {
		problems = append(problems, field.Invalid(field.NewPath("--leader-elect-lease-duration"), config.LeaseDuration.Duration.String(), "must be greater than --leader-elect-renew-deadline"))
	}
	if config.RetryPeriod.Duration <= 0 || config.RenewDeadline.Duration < 2*config.RetryPeriod.Duration {
		problems = append(problems, field.Invalid(field.NewPath("--leader-elect-renew-deadline"), config.RenewDeadline.Duration.String(), "must be at least twice --leader-elect-retry-period"))
	}
	return problems
}
