// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/nhc-controller/nhc-controller/pkg/generated/clientset/versioned"
	"github.com/nhc-controller/nhc-controller/test/localkube"
)

// Cluster is a control plane, and clients of an admin.
type Cluster struct {
	*localkube.ControlPlane
	Kube    kubernetes.Interface
	NHC     versioned.Interface
	Dynamic dynamic.Interface
}

// Kinds are kinds of remediations.
type Kinds struct {
	Manifest string // Their CRDs, and a ClusterRole that is aggregated to the controller's.
	Group    string // Their API group.
}

// NewCluster starts a control plane, and installs the controller and kinds of
// remediations in it. If that fails, nothing is left of it.
func NewCluster(ctx context.Context, options localkube.Options, kinds Kinds) (_ *Cluster, err error) {
	controlPlane, err := localkube.Start(ctx, options)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, controlPlane.Stop()) // A component that has died may be why.
		}
	}()
	c, err := Connect(controlPlane)
	if err != nil {
		return nil, err
	}
	if err := Install(ctx, controlPlane); err != nil {
		return nil, err
	}
	if err := InstallKinds(ctx, controlPlane, kinds); err != nil {
		return nil, err
	}
	return c, nil
}

// Connect returns a control plane with clients of an admin.
func Connect(controlPlane *localkube.ControlPlane) (*Cluster, error) {
	c := &Cluster{ControlPlane: controlPlane}
	config := controlPlane.AdminConfig()
	var err error
	if c.Kube, err = kubernetes.NewForConfig(config); err != nil {
		return nil, err
	}
	if c.NHC, err = versioned.NewForConfig(config); err != nil {
		return nil, err
	}
	c.Dynamic, err = dynamic.NewForConfig(config)
	return c, err
}

// AwaitLeader waits until a controller of this name leads, and returns the lease of the leader.
func (c *Cluster) AwaitLeader(ctx context.Context, namespace, name string) (lease *coordinationv1.Lease, err error) {
	err = wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, 10*time.Minute, true, func(ctx context.Context) (bool, error) {
		lease, err = c.Kube.CoordinationV1().Leases(namespace).Get(ctx, LeaderLease, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return err == nil && lease.Spec.HolderIdentity != nil && strings.HasPrefix(*lease.Spec.HolderIdentity, name+"_"), err
	})
	return lease, err
}

// InstallKinds applies the manifest of kinds, and waits until they are served and the
// controller has their role.
func InstallKinds(ctx context.Context, cluster *localkube.ControlPlane, kinds Kinds) error {
	if _, err := cluster.KubectlInput(ctx, strings.NewReader(kinds.Manifest), "apply", "-f", "-"); err != nil {
		return fmt.Errorf("applying the kinds of remediations: %w", err)
	}
	if _, err := cluster.Kubectl(ctx, "wait", "--for=condition=Established", "--timeout=60s", "crd", "--all"); err != nil {
		return fmt.Errorf("waiting for the CRDs: %w", err)
	}
	if err := AwaitRBAC(ctx, cluster, kinds.Group); err != nil {
		return fmt.Errorf("waiting for the aggregated role: %w", err)
	}
	return nil
}

// LogFaults returns what must not be in the log of a controller: a data race, a panic.
func LogFaults(controller *localkube.Process) []string {
	log, err := os.ReadFile(controller.LogPath())
	if err != nil {
		return []string{err.Error()}
	}
	var faults []string
	for _, mark := range []string{"WARNING: DATA RACE", "panic: ", "Observed a panic"} {
		if i := bytes.Index(log, []byte(mark)); i >= 0 {
			faults = append(faults, "the controller's log has:\n"+string(log[i:min(len(log), i+8000)]))
		}
	}
	return faults
}
