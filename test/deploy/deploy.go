// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package deploy puts the controller into a local control plane as a user would:
// it applies manifests/install.yaml, and runs the executable as the ServiceAccount
// of that manifest, with the arguments and the environment of its Deployment. What
// the manifest forgets to permit, the controller cannot do.
package deploy

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/nhc-controller/nhc-controller/test/localkube"
)

// Names in the manifest.
const (
	Namespace      = "nhc-system"
	ServiceAccount = "nhc-controller"
	// User is the ServiceAccount as the API server names it.
	User = "system:serviceaccount:" + Namespace + ":" + ServiceAccount
	// LeaderLease is the name of the lease of the leader, in Namespace.
	LeaderLease = "nhc-controller"
)

// Install applies the manifest and waits until the ServiceAccount exists.
func Install(ctx context.Context, cluster *localkube.ControlPlane) error {
	root, err := ModuleRoot()
	if err != nil {
		return err
	}
	if _, err := cluster.Kubectl(ctx, "apply", "-f", filepath.Join(root, "manifests", "install.yaml")); err != nil {
		return fmt.Errorf("applying install.yaml: %w", err)
	}
	if _, err := cluster.Kubectl(ctx, "wait", "--for=condition=Established", "--timeout=60s", "crd/nodehealthchecks.remediation.medik8s.io", "crd/remediationbudgets.nhc-controller.io"); err != nil {
		return fmt.Errorf("waiting for the CRDs: %w", err)
	}
	return nil
}

// InstallOverlay applies one of manifests/overlays. The API server compares it with what exists:
// for kubectl that is a second of work, because most of it is in install.yaml.
func InstallOverlay(ctx context.Context, cluster *localkube.ControlPlane, name string) error {
	root, err := ModuleRoot()
	if err != nil {
		return err
	}
	if _, err := cluster.Kubectl(ctx, "apply", "--server-side", "--force-conflicts", "-k", filepath.Join(root, "manifests", "overlays", name)); err != nil {
		return fmt.Errorf("applying the overlay %s: %w", name, err)
	}
	return nil
}

// Controller says how to run the controller.
type Controller struct {
	// Name tells processes apart in logs; it is also the pod name.
	Name string
	// Namespace is where it is installed; empty means Namespace.
	Namespace string
	// Executable is the path of the controller; empty means the one of Executable.
	Executable string
	// Args are added after those of the Deployment and override them.
	Args []string
	// Env is added to its environment.
	Env []string
	// Through changes how the controller reaches the API server, nil for nothing.
	Through func(*rest.Config) *rest.Config
}

// Start starts the controller as its ServiceAccount.
func Start(ctx context.Context, cluster *localkube.ControlPlane, controller Controller) (*localkube.Process, error) {
	executable := controller.Executable
	if executable == "" {
		var err error
		if executable, err = Executable(); err != nil {
			return nil, err
		}
	}
	namespace := cmp.Or(controller.Namespace, Namespace)
	config, err := cluster.ServiceAccountConfig(ctx, namespace, ServiceAccount)
	if err != nil {
		return nil, fmt.Errorf("asking for a token: %w", err)
	}
	if controller.Through != nil {
		config = controller.Through(config)
	}
	kubeconfig := filepath.Join(cluster.Dir(), controller.Name+".kubeconfig")
	if err := localkube.WriteKubeconfig(kubeconfig, config); err != nil {
		return nil, fmt.Errorf("writing a kubeconfig: %w", err)
	}
	container, err := deploymentContainer(ctx, cluster, namespace)
	if err != nil {
		return nil, err
	}
	args := slices.Concat(container.Args, []string{
		"--kubeconfig=" + kubeconfig,
		"--metrics-bind-address=127.0.0.1:0",
		"--health-probe-bind-address=127.0.0.1:0",
	}, controller.Args)
	process, err := cluster.StartProcess(localkube.Command{
		Name: controller.Name,
		Path: executable,
		Args: args,
		Env:  slices.Concat(fixedEnv(container), []string{"POD_NAME=" + controller.Name, "DEPLOYMENT_NAMESPACE=" + namespace}, controller.Env),
	})
	if err != nil {
		return nil, fmt.Errorf("starting the controller: %w", err)
	}
	return process, nil
}

// deploymentContainer returns the container in the Deployment of the manifest.
func deploymentContainer(ctx context.Context, cluster *localkube.ControlPlane, namespace string) (*corev1.Container, error) {
	kube, err := kubernetes.NewForConfig(cluster.AdminConfig())
	if err != nil {
		return nil, err
	}
	deployment, err := kube.AppsV1().Deployments(namespace).Get(ctx, ServiceAccount, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading the Deployment: %w", err)
	}
	containers := deployment.Spec.Template.Spec.Containers
	if len(containers) != 1 {
		return nil, fmt.Errorf("the Deployment has %d containers, not one", len(containers))
	}
	return &containers[0], nil
}

// Environment returns the environment of the Deployment, such as the settings of the garbage
// collector, without what depends on its pod.
func Environment(ctx context.Context, cluster *localkube.ControlPlane) ([]string, error) {
	container, err := deploymentContainer(ctx, cluster, Namespace)
	if err != nil {
		return nil, err
	}
	return fixedEnv(container), nil
}

// MemoryLimit returns that of the Deployment, in bytes.
func MemoryLimit(ctx context.Context, cluster *localkube.ControlPlane) (int64, error) {
	container, err := deploymentContainer(ctx, cluster, Namespace)
	if err != nil {
		return 0, err
	}
	return container.Resources.Limits.Memory().Value(), nil
}

// fixedEnv returns the environment of a container without what depends on its pod.
func fixedEnv(container *corev1.Container) []string {
	var env []string
	for _, variable := range container.Env {
		if variable.ValueFrom == nil {
			env = append(env, variable.Name+"="+variable.Value)
		}
	}
	return env
}

// AwaitRBAC waits until the aggregated role has rules for an API group, which is a
// moment after a labelled ClusterRole was created.
func AwaitRBAC(ctx context.Context, cluster *localkube.ControlPlane, group string) error {
	kube, err := kubernetes.NewForConfig(cluster.AdminConfig())
	if err != nil {
		return err
	}
	return wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		role, err := kube.RbacV1().ClusterRoles().Get(ctx, "nhc-controller-aggregation", metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		for _, rule := range role.Rules {
			if slices.Contains(rule.APIGroups, group) {
				return true, nil
			}
		}
		return false, nil
	})
}

// Executable returns the path of the controller: env NHC_CONTROLLER, or
// bin/nhc-controller of the module.
func Executable() (string, error) {
	if path := os.Getenv("NHC_CONTROLLER"); path != "" {
		return path, nil
	}
	root, err := ModuleRoot()
	if err != nil {
		return "", err
	}
	path := filepath.Join(root, "bin", "nhc-controller")
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("the controller is not built, run `make build`: %w", err)
	}
	return path, nil
}

// ModuleRoot returns the directory of go.mod.
func ModuleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		content, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && strings.HasPrefix(string(content), "module github.com/nhc-controller/nhc-controller\n") {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", fmt.Errorf("this is not inside of the module: %w", os.ErrNotExist)
		}
		dir = parent
	}
}
