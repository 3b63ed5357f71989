// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterapi

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
)

var instances = schema.GroupVersionResource{Group: "infrastructure.cluster.x-k8s.io", Version: "v1", Resource: "testmachines"}

// provider gives each TestMachine an instance. The kubelet on it registers a Node that is
// ready, in the one cluster that there is.
type provider struct {
	kube    kubernetes.Interface
	dynamic dynamic.Interface
	// broken keeps the Nodes of new instances from joining.
	broken atomic.Bool
}

// start runs the provider until the end of the test.
func (p *provider) start(t *testing.T) {
	t.Helper()
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() {
		var last error
		for ctx.Err() == nil {
			if err := p.reconcile(ctx); err != nil && ctx.Err() == nil {
				last = err
			}
			select {
			case <-time.After(100 * time.Millisecond):
			case <-ctx.Done():
			}
		}
		ended <- last
	}()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-ended)
	})
}

func (p *provider) reconcile(ctx context.Context) error {
	list, err := p.dynamic.Resource(instances).Namespace(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range list.Items {
		instance := &list.Items[i]
		if instance.GetDeletionTimestamp() != nil || instance.Object["status"] != nil {
			continue
		}
		id := "test:///" + instance.GetName()
		if instance.GetLabels()[clusterNameLabel] == clusterName && !p.broken.Load() {
			if err := p.join(ctx, instance.GetName(), id); err != nil {
				return err
			}
		}
		if err := p.patch(ctx, instance.GetName(), map[string]any{"spec": map[string]any{"providerID": id}}); err != nil {
			return err
		}
		status := map[string]any{"initialization": map[string]any{"provisioned": true}}
		if err := p.patch(ctx, instance.GetName(), map[string]any{"status": status}, "status"); err != nil {
			return err
		}
	}
	return nil
}

func (p *provider) join(ctx context.Context, name, id string) error {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.NodeSpec{ProviderID: id},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{
			Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now(), LastHeartbeatTime: metav1.Now(),
		}}},
	}
	_, err := p.kube.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// patch merges a patch into a TestMachine. One that has gone needs none.
func (p *provider) patch(ctx context.Context, name string, change map[string]any, subresources ...string) error {
	patch, err := json.Marshal(change)
	if err != nil {
		return err
	}
	_, err = p.dynamic.Resource(instances).Namespace(namespace).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{}, subresources...)
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
