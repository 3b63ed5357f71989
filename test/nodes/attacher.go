// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package nodes

import (
	"context"
	"fmt"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// Driver is the name of the driver of volumes, which hack/localkube/csi has too.
const Driver = "shared.nodes.nhc-controller.io"

// attach attaches volumes to nodes until ctx is done, as the attacher of a storage does: it says so.
// They are detached when Kubernetes deletes the attachment.
func attach(ctx context.Context, kube kubernetes.Interface) error {
	informer := informers.NewSharedInformerFactory(kube, 0).Storage().V1().VolumeAttachments().Informer()
	see := func(object any) {
		attachment, ok := object.(*storagev1.VolumeAttachment)
		if !ok || attachment.Spec.Attacher != Driver || attachment.Status.Attached || attachment.DeletionTimestamp != nil {
			return
		}
		_, err := kube.StorageV1().VolumeAttachments().Patch(ctx, attachment.Name, types.MergePatchType,
			[]byte(`{"status":{"attached":true}}`), metav1.PatchOptions{}, "status")
		if err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Attaching a volume", "attachment", attachment.Name)
		}
	}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    see,
		UpdateFunc: func(_, object any) { see(object) },
	})
	if err != nil {
		return fmt.Errorf("watching attachments: %w", err)
	}
	informer.RunWithContext(ctx)
	return nil
}
