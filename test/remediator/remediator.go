// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package remediator is a remediator for simulated nodes. It "power-cycles" them:
// for each PowerCycleRemediation it waits for the time that the node stays off, and
// then makes the node heartbeat again. It behaves as real remediators do: it finds
// the node by annotation, reports conditions, and knows nothing of the controller
// that created its object.
package remediator

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// The manifests of the remediator: its kinds and the ClusterRole for the
// controller, a template, and a NodeHealthCheck that refers to it.
var (
	//go:embed manifests/remediator.yaml
	Manifest string
	//go:embed manifests/template.yaml
	TemplateManifest string
	//go:embed manifests/nodehealthcheck.yaml
	NodeHealthCheckManifest string
)

// Resource is that of the PowerCycleRemediations.
var Resource = schema.GroupVersionResource{Group: "demo.nhc-controller.io", Version: "v1alpha1", Resource: "powercycleremediations"}

// Remediator power-cycles simulated nodes. All fields are required.
type Remediator struct {
	Kube    kubernetes.Interface
	Dynamic dynamic.Interface
	// HeartbeatLabel and HeartbeatValue make a simulated node heartbeat.
	HeartbeatLabel, HeartbeatValue string
}

// Run remediates until ctx is done. The kinds must be installed.
func (r *Remediator) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	informer := dynamicinformer.NewFilteredDynamicInformer(r.Dynamic, Resource, metav1.NamespaceAll, 0, cache.Indexers{}, nil).Informer()
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(object any) {
		wg.Go(func() {
			cr := object.(*unstructured.Unstructured).DeepCopy()
			if err := r.remediate(ctx, cr); err != nil && ctx.Err() == nil {
				klog.FromContext(ctx).Error(err, "Remediation failed", "remediation", klog.KObj(cr))
			}
		})
	}})
	if err != nil {
		return fmt.Errorf("watching remediations: %w", err)
	}
	informer.RunWithContext(ctx)
	return nil
}

func (r *Remediator) remediate(ctx context.Context, cr *unstructured.Unstructured) error {
	if cr.GetDeletionTimestamp() != nil {
		return nil
	}
	if err := Report(ctx, r.Dynamic, cr, "Unknown", "PoweringOff"); err != nil {
		return err
	}
	off, _, err := unstructured.NestedInt64(cr.Object, "spec", "offSeconds")
	if err != nil {
		return Report(ctx, r.Dynamic, cr, "False", "InvalidSpec")
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(time.Duration(off) * time.Second):
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": map[string]string{r.HeartbeatLabel: r.HeartbeatValue}}})
	if err != nil {
		return err
	}
	if _, err := r.Kube.CoreV1().Nodes().Patch(ctx, NodeOf(cr), types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("powering on: %w", err)
	}
	return Report(ctx, r.Dynamic, cr, "True", "PoweredOn")
}

// NodeOf returns the name of the node that a remediation is about.
func NodeOf(cr *unstructured.Unstructured) string {
	if node, ok := cr.GetAnnotations()[v1alpha1.AnnotationNodeName]; ok {
		return node
	}
	return cr.GetName()
}

// Report writes the condition Succeeded. A CR that is gone needs none.
func Report(ctx context.Context, client dynamic.Interface, cr *unstructured.Unstructured, succeeded, reason string) error {
	condition := map[string]any{
		"type": v1alpha1.RemediationSucceeded, "status": succeeded, "reason": reason, "message": "",
		"lastTransitionTime": metav1.Now().UTC().Format(time.RFC3339),
	}
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": []any{condition}}})
	if err != nil {
		return err
	}
	_, err = client.Resource(Resource).Namespace(cr.GetNamespace()).Patch(ctx, cr.GetName(), types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
