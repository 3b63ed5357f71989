// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package nodes

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/nhc-controller/nhc-controller/test/remediator"
)

// Timeline tells what happens to nodes, their remediations, volumes, and pods of the default namespace,
// with the time since its beginning.
type Timeline struct {
	output io.Writer

	mu      sync.Mutex
	quiet   bool // Until the first Restart.
	begin   time.Time
	facts   map[string]string        // What is so, by what it is about.
	seen    map[string]time.Duration // When each line was said first.
	changed chan struct{}            // Closed at the next line.
}

// NewTimeline begins now. Its lines go to output, which may be nil, from the first Restart on.
func NewTimeline(output io.Writer) *Timeline {
	if output == nil {
		output = io.Discard
	}
	t := &Timeline{output: output, facts: map[string]string{}}
	t.Restart()
	t.quiet = true
	return t
}

// Restart begins again now, and forgets what was said.
func (t *Timeline) Restart() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.begin, t.seen, t.changed, t.quiet = time.Now(), map[string]time.Duration{}, make(chan struct{}), false
}

// Say tells of something.
func (t *Timeline) Say(about, what string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.say(about, what)
}

func (t *Timeline) say(about, what string) {
	after := time.Since(t.begin)
	if !t.quiet {
		fmt.Fprintf(t.output, "%7.1fs  %-18s %s\n", after.Seconds(), about, what)
	}
	line := about + " " + what
	if _, ok := t.seen[line]; !ok {
		t.seen[line] = after
	}
	close(t.changed)
	t.changed = make(chan struct{})
}

// fact tells what is so about something, if it was not so before.
func (t *Timeline) fact(which, about, what string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	key := about + "/" + which
	if t.facts[key] == what {
		return
	}
	t.facts[key] = what
	if what != "" {
		t.say(about, what)
	}
}

// Await returns how long after the beginning a line was said that begins like this.
func (t *Timeline) Await(ctx context.Context, line string, timeout time.Duration) (time.Duration, error) {
	after, _, err := t.AwaitOther(ctx, line, "\x00", timeout)
	return after, err
}

// AwaitOther is Await for a line that does not contain something. It also returns the rest of it.
func (t *Timeline) AwaitOther(ctx context.Context, line, not string, timeout time.Duration) (after time.Duration, rest string, err error) {
	deadline := time.After(timeout)
	for {
		after, rest, ok, changed := t.find(line, not)
		if ok {
			return after, rest, nil
		}
		select {
		case <-changed:
		case <-deadline:
			return 0, "", fmt.Errorf("after %s there was no %q", timeout, line)
		case <-ctx.Done():
			return 0, "", context.Cause(ctx)
		}
	}
}

func (t *Timeline) find(line, not string) (after time.Duration, rest string, ok bool, changed chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for said, at := range t.seen {
		tail, match := strings.CutPrefix(said, line)
		if match && !strings.Contains(tail, not) && (!ok || at < after) {
			after, rest, ok = at, tail, true
		}
	}
	return after, rest, ok, t.changed
}

// Watch follows a cluster until ctx is done. It returns when it knows what is so now, and wait returns
// when it has ended. The kind of the remediations has to be installed.
func (t *Timeline) Watch(ctx context.Context, c *Cluster) (wait func(), err error) {
	kube := informers.NewSharedInformerFactory(c.Kube, 0)
	pods := informers.NewSharedInformerFactoryWithOptions(c.Kube, 0, informers.WithNamespace(metav1.NamespaceDefault))
	crs := dynamicinformer.NewFilteredDynamicInformer(c.Dynamic, remediator.Resource, metav1.NamespaceAll, 0, cache.Indexers{}, nil)
	watched := map[cache.SharedIndexInformer]func(object any, deleted bool){
		kube.Core().V1().Nodes().Informer():                t.seeNode,
		kube.Storage().V1().VolumeAttachments().Informer(): t.seeAttachment,
		pods.Core().V1().Pods().Informer():                 t.seePod,
		crs.Informer():                                     t.seeRemediation,
	}
	var wg sync.WaitGroup
	var synced []cache.InformerSynced
	for informer, see := range watched {
		registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(object any) { see(object, false) },
			UpdateFunc: func(_, object any) { see(object, false) },
			DeleteFunc: func(object any) {
				if unknown, ok := object.(cache.DeletedFinalStateUnknown); ok {
					object = unknown.Obj
				}
				see(object, true)
			},
		})
		if err != nil {
			return nil, err
		}
		synced = append(synced, registration.HasSynced)
		wg.Go(func() { informer.RunWithContext(ctx) })
	}
	if !cache.WaitForCacheSync(ctx.Done(), synced...) {
		return nil, context.Cause(ctx)
	}
	return wg.Wait, nil
}

func (t *Timeline) seeNode(object any, deleted bool) {
	node := object.(*corev1.Node)
	about := "node " + node.Name
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady || condition.Type == corev1.NodeDiskPressure && condition.Status == corev1.ConditionTrue {
			t.fact(string(condition.Type), about, fmt.Sprintf("%s=%s", condition.Type, condition.Status))
		}
	}
	tainted := ""
	for _, taint := range node.Spec.Taints {
		if taint.Key == outOfService.Key {
			tainted = "out of service"
		}
	}
	t.fact("taint", about, tainted)
	if deleted {
		t.fact("object", about, "deleted")
	}
}

func (t *Timeline) seePod(object any, deleted bool) {
	pod := object.(*corev1.Pod)
	about := "pod " + pod.Name
	what := "waits for a node"
	switch {
	case deleted:
		what = "gone from " + pod.Spec.NodeName
	case pod.DeletionTimestamp != nil:
		what = "Terminating on " + pod.Spec.NodeName
	case podIsReady(pod):
		what = "runs on " + pod.Spec.NodeName
	case pod.Status.Phase == corev1.PodRunning:
		what = "is not Ready on " + pod.Spec.NodeName
	case pod.Spec.NodeName != "":
		what = "starts on " + pod.Spec.NodeName
	}
	t.fact("pod", about, what)
}

func podIsReady(pod *corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

func (t *Timeline) seeAttachment(object any, deleted bool) {
	attachment := object.(*storagev1.VolumeAttachment)
	if attachment.Spec.Source.PersistentVolumeName == nil {
		return
	}
	what := "is to be attached to "
	switch {
	case deleted:
		what = "detached from "
	case attachment.Status.Attached:
		what = "attached to "
	}
	t.fact(attachment.Name, *attachment.Spec.Source.PersistentVolumeName, what+attachment.Spec.NodeName)
}

func (t *Timeline) seeRemediation(object any, deleted bool) {
	cr := object.(*unstructured.Unstructured)
	what := "created"
	switch {
	case deleted:
		what = "deleted"
	case cr.GetDeletionTimestamp() != nil:
		what = "being deleted"
	}
	t.fact(string(cr.GetUID()), "remediation "+remediator.NodeOf(cr), what)
}
