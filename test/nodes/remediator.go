// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package nodes

import (
	"context"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"

	"github.com/nhc-controller/nhc-controller/test/remediator"
)

const (
	finalizer = "demo.nhc-controller.io/power"

	remediatorInterval = 300 * time.Millisecond
	// emptyTimeout is how long the pods and volumes of a node that is off may take to go.
	emptyTimeout = 4 * time.Minute
)

// outOfService says that nothing runs on a node. Then Kubernetes deletes its pods, and detaches its volumes.
var outOfService = corev1.Taint{Key: corev1.TaintNodeOutOfService, Value: "nodeshutdown", Effect: corev1.TaintEffectNoExecute}

// Remediator is an example of one that has the power of the nodes in its hand, as through a BMC. It
// power-cycles the node of each PowerCycleRemediation, and lets its pods run elsewhere meanwhile. The
// kinds are those of package remediator.
type Remediator struct {
	Cluster *Cluster
	// Say receives what it does with which node. It may be nil.
	Say func(node, what string)
	// OffFor is how long a node is off at least: real ones take minutes to boot.
	OffFor time.Duration
}

// Run remediates until ctx is done.
func (r *Remediator) Run(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	started := map[types.UID]bool{}
	_ = r.poll(ctx, func() (bool, error) {
		list, err := r.Cluster.Dynamic.Resource(remediator.Resource).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		for i := range list.Items {
			cr := &list.Items[i]
			if started[cr.GetUID()] {
				continue
			}
			started[cr.GetUID()] = true
			wg.Go(func() {
				if err := r.remediate(ctx, cr); err != nil && ctx.Err() == nil {
					r.say(remediator.NodeOf(cr), "the remediation failed: "+err.Error())
				}
			})
		}
		return false, nil
	})
}

// poll asks until something is so, and takes errors for a no: the API server may be away.
func (r *Remediator) poll(ctx context.Context, ask func() (bool, error)) error {
	var last error
	err := wait.PollUntilContextCancel(ctx, remediatorInterval, true, func(context.Context) (done bool, _ error) {
		done, last = ask()
		return done, nil
	})
	if err != nil && last != nil {
		return last
	}
	return err
}

func (r *Remediator) say(node, what string) {
	if r.Say != nil {
		r.Say(node, what)
	}
}

// remediate does all that a remediation asks for, in this order: each step is safe because the one
// before it is done.
func (r *Remediator) remediate(ctx context.Context, cr *unstructured.Unstructured) error {
	name := remediator.NodeOf(cr)
	node := r.Cluster.Node(name)
	wanted, err := r.claim(ctx, cr)
	if err != nil || !wanted {
		return err
	}
	if err := r.fence(ctx, node); err != nil {
		return err
	}
	if err := r.awaitEmpty(ctx, name); err != nil {
		r.say(name, "pods or volumes stay: "+err.Error()) // The node comes back all the same.
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(r.OffFor):
	}
	if err := node.PowerOn(); err != nil {
		return err
	}
	r.say(name, "has its power back")
	if err := remediator.Report(ctx, r.Cluster.Dynamic, cr, "True", "PoweredOn"); err != nil {
		return err
	}
	return r.release(ctx, cr, name)
}

// claim makes sure that the remediation does not go before release has cleaned up. It returns false
// if it is not wanted any more, and nothing has been done yet.
func (r *Remediator) claim(ctx context.Context, cr *unstructured.Unstructured) (wanted bool, err error) {
	err = r.update(ctx, cr, func(current *unstructured.Unstructured) bool {
		wanted = current.GetDeletionTimestamp() == nil
		if wanted {
			current.SetFinalizers(append(current.GetFinalizers(), finalizer))
		}
		return wanted
	})
	if err != nil || !wanted {
		return false, err
	}
	return true, remediator.Report(ctx, r.Cluster.Dynamic, cr, "Unknown", "PoweringOff")
}

// fence switches the node off. Only then it says so.
func (r *Remediator) fence(ctx context.Context, node *Node) error {
	if err := node.PowerOff(); err != nil {
		return err
	}
	r.say(node.Name, "is off")
	if err := r.setTaint(ctx, node.Name, true); err != nil {
		return err
	}
	r.say(node.Name, "has the taint "+outOfService.Key)
	return nil
}

// awaitEmpty returns when pods of the node run elsewhere or can do so: no volume is attached to it, and
// no pod on it is about to go.
func (r *Remediator) awaitEmpty(ctx context.Context, node string) error {
	ctx, cancel := context.WithTimeout(ctx, emptyTimeout)
	defer cancel()
	return r.poll(ctx, func() (bool, error) {
		attachments, err := r.Cluster.Kube.StorageV1().VolumeAttachments().List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		for i := range attachments.Items {
			if attachments.Items[i].Spec.NodeName == node {
				return false, nil
			}
		}
		pods, err := r.Cluster.Kube.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + node})
		if err != nil {
			return false, err
		}
		leaving := slices.ContainsFunc(pods.Items, func(pod corev1.Pod) bool { return pod.DeletionTimestamp != nil })
		return !leaving, nil
	})
}

// release waits until the remediation is deleted, which means that the node is healthy, and then undoes
// the taint.
func (r *Remediator) release(ctx context.Context, cr *unstructured.Unstructured, node string) error {
	client := r.Cluster.Dynamic.Resource(remediator.Resource).Namespace(cr.GetNamespace())
	err := r.poll(ctx, func() (bool, error) {
		current, err := client.Get(ctx, cr.GetName(), metav1.GetOptions{})
		return err == nil && current.GetDeletionTimestamp() != nil, err
	})
	if err != nil {
		return err
	}
	if err := r.setTaint(ctx, node, false); err != nil {
		return err
	}
	r.say(node, "has no taint any more")
	return r.update(ctx, cr, func(current *unstructured.Unstructured) bool {
		current.SetFinalizers(slices.DeleteFunc(current.GetFinalizers(), func(f string) bool { return f == finalizer }))
		return true
	})
}

// update changes a remediation, if change returns true.
func (r *Remediator) update(ctx context.Context, cr *unstructured.Unstructured, change func(*unstructured.Unstructured) bool) error {
	client := r.Cluster.Dynamic.Resource(remediator.Resource).Namespace(cr.GetNamespace())
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		current, err := client.Get(ctx, cr.GetName(), metav1.GetOptions{})
		if apierrors.IsNotFound(err) || err == nil && !change(current) {
			return nil
		}
		if err == nil {
			_, err = client.Update(ctx, current, metav1.UpdateOptions{})
		}
		return err
	})
}

// setTaint adds or removes the taint out-of-service.
func (r *Remediator) setTaint(ctx context.Context, name string, want bool) error {
	nodes := r.Cluster.Kube.CoreV1().Nodes()
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		node, err := nodes.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == outOfService.Key })
		if want {
			node.Spec.Taints = append(node.Spec.Taints, outOfService)
		}
		_, err = nodes.Update(ctx, node, metav1.UpdateOptions{})
		return err
	})
}
