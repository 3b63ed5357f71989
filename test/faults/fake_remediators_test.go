// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// manner is how a remediator deals with a CR.
type manner int

const (
	heals       manner = iota // It heals the node, and says so.
	healsSlowly               // The same with a finalizer, which it keeps for a while.
	fails                     // It gives up, and says so.
	lies                      // It says that it has succeeded.
	hangs                     // It does nothing, and keeps its finalizer until the end.
	babbles                   // Its status is garbage.
	deletes                   // It deletes the CR.
	sleeps                    // It does nothing.
	manners
)

// finalizer is that of the remediators.
const finalizer = "faults.test.nhc-controller.io/unfinished"

// fakeRemediators play the remediators of all kinds. Their actions on a CR only depend on the seed,
// the node, the kind and the number of CRs before.
type fakeRemediators struct {
	e         *environment
	cancel    context.CancelFunc
	wg        sync.WaitGroup
	informers map[schema.GroupVersionResource]cache.SharedIndexInformer

	mu        sync.Mutex
	releasing bool
	jobs      map[types.UID]*job
	counts    map[string]int
}

// job is what a remediator does with one CR.
type job struct {
	manner           manner
	acts, lets       time.Duration // After it was seen, and after it was being deleted.
	seen, deleted    time.Time
	acted, finalizes bool
}

func newFakeRemediators(e *environment) *fakeRemediators {
	ctx, cancel := context.WithCancel(context.WithoutCancel(e.t.Context()))
	s := &fakeRemediators{e: e, cancel: cancel, informers: map[schema.GroupVersionResource]cache.SharedIndexInformer{}, jobs: map[types.UID]*job{}, counts: map[string]int{}}
	for _, kind := range kindNames {
		informer := dynamicinformer.NewFilteredDynamicInformer(e.dynamic, remediationsOf(kind), namespace, 0, cache.Indexers{}, nil).Informer()
		require.NoError(e.t, informer.SetWatchErrorHandlerWithContext(func(context.Context, *cache.Reflector, error) {})) // There are many.
		s.informers[remediationsOf(kind)] = informer
		s.wg.Go(func() { informer.RunWithContext(ctx) })
	}
	s.wg.Go(func() {
		for ctx.Err() == nil {
			s.round(ctx)
			time.Sleep(50 * time.Millisecond)
		}
	})
	return s
}

func (s *fakeRemediators) stop() {
	s.cancel()
	s.wg.Wait()
}

// release has all remediators give up their finalizers and do nothing else any more.
func (s *fakeRemediators) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.releasing = true
}

func (s *fakeRemediators) round(ctx context.Context) {
	for gvr, informer := range s.informers {
		for _, object := range informer.GetStore().List() {
			if cr, ok := object.(*unstructured.Unstructured); ok {
				s.attend(ctx, gvr, cr)
			}
		}
	}
}

// jobOf returns the job of a CR, a new one if it is seen for the first time.
func (s *fakeRemediators) jobOf(cr *unstructured.Unstructured) (j *job, releasing bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	j, known := s.jobs[cr.GetUID()]
	if !known {
		key := cr.GetKind() + "/" + cr.GetName()
		s.counts[key]++
		hash := fnv.New64a()
		fmt.Fprintf(hash, "%d %s %d", s.e.seed, key, s.counts[key])
		random := rand.New(rand.NewPCG(hash.Sum64(), 2))
		j = &job{
			manner: manner(random.IntN(int(manners))), seen: time.Now(),
			acts: time.Duration(random.IntN(1500)) * time.Millisecond, lets: time.Duration(random.IntN(1500)) * time.Millisecond,
		}
		s.jobs[cr.GetUID()] = j
	}
	return j, s.releasing
}

func (s *fakeRemediators) attend(ctx context.Context, gvr schema.GroupVersionResource, cr *unstructured.Unstructured) {
	j, releasing := s.jobOf(cr)
	deleting, kept := cr.GetDeletionTimestamp() != nil, slices.Contains(cr.GetFinalizers(), finalizer)
	switch {
	case deleting && j.deleted.IsZero():
		j.deleted = time.Now()
	case deleting && kept && (releasing || (j.manner != hangs && time.Since(j.deleted) > j.lets)):
		s.finalizers(ctx, gvr, cr)
	case deleting || releasing:
	case !j.finalizes && (j.manner == healsSlowly || j.manner == hangs):
		j.finalizes = s.finalizers(ctx, gvr, cr, finalizer)
	case !j.acted && time.Since(j.seen) > j.acts:
		j.acted = true
		s.act(ctx, gvr, cr, j.manner)
	}
}

func (s *fakeRemediators) finalizers(ctx context.Context, gvr schema.GroupVersionResource, cr *unstructured.Unstructured, finalizers ...string) bool {
	// An empty patch for a CR that may be gone, bound to the uid.
	err := patchMetadata(map[string]any{"uid": cr.GetUID(), "finalizers": finalizers}, func(patch []byte) error {
		_, err := s.e.dynamic.Resource(gvr).Namespace(namespace).Patch(ctx, cr.GetName(), types.MergePatchType, patch, metav1.PatchOptions{FieldManager: loader})
		return err
	})
	return err == nil
}

func (s *fakeRemediators) act(ctx context.Context, gvr schema.GroupVersionResource, cr *unstructured.Unstructured, m manner) {
	switch m {
	case heals, healsSlowly:
		s.report(ctx, gvr, cr, conditions("True"))
		_ = s.e.setReady(ctx, cr.GetAnnotations()[v1alpha1.AnnotationNodeName], "True", time.Now()) // It may be gone.
	case fails:
		s.report(ctx, gvr, cr, conditions("False"))
	case lies:
		s.report(ctx, gvr, cr, conditions("True"))
	case babbles:
		s.report(ctx, gvr, cr, map[string]any{"conditions": []any{42, "x", map[string]any{"type": 7}, map[string]any{"type": "Succeeded"}}})
	case deletes:
		_ = s.e.dynamic.Resource(gvr).Namespace(namespace).Delete(ctx, cr.GetName(), *metav1.NewPreconditionDeleteOptions(string(cr.GetUID())))
	case hangs, sleeps, manners:
	}
}

func conditions(succeeded string) map[string]any {
	return map[string]any{"conditions": []any{
		map[string]any{"type": v1alpha1.RemediationSucceeded, "status": succeeded, "lastTransitionTime": time.Now().UTC().Format(time.RFC3339)},
	}}
}

// report writes the status of a CR. It may be gone.
func (s *fakeRemediators) report(ctx context.Context, gvr schema.GroupVersionResource, cr *unstructured.Unstructured, status any) {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": cr.GetUID()}, "status": status})
	if err != nil {
		return
	}
	_, _ = s.e.dynamic.Resource(gvr).Namespace(namespace).Patch(ctx, cr.GetName(), types.MergePatchType, patch, metav1.PatchOptions{FieldManager: loader}, "status")
}
