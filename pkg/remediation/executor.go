// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// FieldManager is the name under which the controller writes.
const FieldManager = "nhc-controller"

// Outcome is what became of a NodePlan.
type Outcome struct {
	// Created is the CR that exists now for the node, whether this call created it
	// or an earlier one whose answer was lost. Nil if nothing was to be created or
	// nothing could be.
	Created *CR
	// Unknown tells that a CR may exist for the node, though nobody could say so.
	Unknown bool
	// Deleted are the CRs whose deletion was requested by this call.
	Deleted []*CR
	// Gone are CRs that were found to exist no longer.
	Gone []*CR
	// TimedOut holds the CRs whose step has ended by this call, and when.
	TimedOut map[types.UID]time.Time
	// Blocker is a foreign CR that has the name that was needed.
	Blocker *CR
	// Recovered tells that the last look at the node found it not unhealthy, so
	// that nothing was created.
	Recovered bool
	// Outdated tells that what the plan was made by does not hold any more, so that
	// the remediation did not begin.
	Outdated bool
	// Failed is as what the first failure counts that the node waits for. It is empty
	// if nothing has failed, or only what the decision does not depend on.
	Failed v1alpha1.DecisionReason
	// Err joins what failed. The other fields tell what was done all the same.
	Err error
}

// ErrOutdated is the answer of a last look when what a plan was made by does not hold
// any more.
var ErrOutdated = errors.New("the plan is outdated")

// Executor carries out plans. It is the only writer of CRs. All fields are
// required; its methods may be called from several goroutines.
type Executor struct {
	Client dynamic.Interface
	// Mapping returns where CRs of a kind are served.
	Mapping func(schema.GroupVersionKind) (*meta.RESTMapping, error)
	// StillUnhealthy reads the node live and judges it again. It is the last look
	// before a CR is created. The error is ErrOutdated if nothing may begin that was
	// planned.
	StillUnhealthy func(ctx context.Context, node string) (bool, error)
	// Kube writes the leases, in LeaseNamespace, and removes confirmations from Nodes.
	Kube           kubernetes.Interface
	LeaseNamespace string
	// OnWrite is told the resource version of every CR and lease that was written.
	OnWrite func(resource schema.GroupResource, resourceVersion string)
}

// Execute carries out the actions of one plan of the NodeHealthCheck with this
// name, one after the other.
func (e *Executor) Execute(ctx context.Context, nhc string, plan NodePlan) Outcome {
	logger := klog.LoggerWithValues(klog.FromContext(ctx), "node", plan.Node.Name)
	ctx = klog.NewContext(ctx, logger)
	var outcome Outcome
	deletions := 0
	for _, action := range plan.Actions {
		switch action.(type) {
		case Delete:
			deletions++
		case ReleaseLease:
			if len(outcome.Deleted)+len(outcome.Gone) < deletions {
				continue // A CR is left, and the outcome says why: the lease is kept for it (spec 14.9).
			}
		}
		before := outcome.Err
		outcome.Err = nil
		stop := e.execute(ctx, nhc, plan.Node.Name, action, &outcome)
		if stop != nil {
			logger.V(4).Info("Left out the rest of a plan", "cause", stop.Error())
			outcome.fail(stop)
		}
		if outcome.Err != nil {
			outcome.Failed = cmp.Or(outcome.Failed, plan.failedAs(action))
		}
		outcome.Err = errors.Join(before, outcome.Err)
		if stop != nil {
			break
		}
	}
	return outcome
}

// actionTimeout bounds an action. A kind that never answers, because its webhook or its
// API server hangs, must not hold a worker for ever. It is longer than the API server
// waits for a webhook.
const actionTimeout = 35 * time.Second

// execute carries out one action. It returns an error if the later actions of the
// plan must not follow; what fails without that consequence is in the outcome.
func (e *Executor) execute(ctx context.Context, nhc, node string, action Action, outcome *Outcome) error {
	ctx, cancel := context.WithTimeout(ctx, actionTimeout)
	defer cancel()
	switch action := action.(type) {
	case Create:
		e.create(ctx, nhc, node, action, outcome)
	case Delete:
		e.delete(ctx, action, outcome)
	case MarkTimedOut:
		err := e.markTimedOut(ctx, action)
		switch {
		case err == nil || (action.EndsStep && action.CR.Succeeded == corev1.ConditionFalse && denied(err)):
			if action.EndsStep {
				outcome.timedOut(action)
			}
		case action.EndsStep:
			return fmt.Errorf("ending a step for node %s: %w", node, err)
		case !errors.Is(err, errNotThere):
			outcome.fail(fmt.Errorf("telling the remediation of node %s to stop: %w", node, err))
		}
	case WriteLease:
		return e.writeLease(ctx, action.Lease)
	case ReleaseLease:
		return e.releaseLease(ctx, action.Lease)
	case RemoveConfirmation:
		return e.removeConfirmation(ctx, action)
	default:
		return fmt.Errorf("unknown action %T", action)
	}
	return nil
}

// errNotThere is returned for a CR that is gone, or was replaced by a namesake.
var errNotThere = errors.New("the remediation is not there any more")

func (o *Outcome) timedOut(action MarkTimedOut) {
	if o.TimedOut == nil {
		o.TimedOut = map[types.UID]time.Time{}
	}
	o.TimedOut[action.CR.UID] = action.At
}

func (o *Outcome) fail(err error) { o.Err = errors.Join(o.Err, err) }

func (e *Executor) client(gvk schema.GroupVersionKind, namespace string) (dynamic.ResourceInterface, *meta.RESTMapping, error) {
	mapping, err := e.Mapping(gvk)
	if err != nil {
		return nil, nil, fmt.Errorf("locating %s: %w", gvk.Kind, err)
	}
	if mapping.Scope.Name() == meta.RESTScopeNameRoot {
		return e.Client.Resource(mapping.Resource), mapping, nil
	}
	return e.Client.Resource(mapping.Resource).Namespace(namespace), mapping, nil
}

func (e *Executor) create(ctx context.Context, nhc, node string, action Create, outcome *Outcome) {
	object := action.Object
	client, mapping, err := e.client(object.GroupVersionKind(), object.GetNamespace())
	if err != nil {
		outcome.fail(err)
		return
	}
	unhealthy, err := e.StillUnhealthy(ctx, node)
	if errors.Is(err, ErrOutdated) {
		outcome.Outdated = true
		return
	}
	if err != nil {
		outcome.fail(fmt.Errorf("reading node %s before its remediation: %w", node, err))
		return
	}
	if !unhealthy {
		outcome.Recovered = true
		klog.FromContext(ctx).V(2).Info("Created no remediation: the node is no longer unhealthy")
		return
	}
	created, err := client.Create(ctx, object, metav1.CreateOptions{FieldManager: FieldManager})
	if apierrors.IsAlreadyExists(err) {
		e.adopt(ctx, client, nhc, node, object, outcome)
		return
	}
	if err != nil {
		outcome.Unknown = !refused(err)
		outcome.fail(fmt.Errorf("creating remediation for node %s: %w", node, err))
		return
	}
	e.OnWrite(mapping.Resource.GroupResource(), created.GetResourceVersion())
	outcome.Created = ParseCR(created)
	klog.FromContext(ctx).V(2).Info("Created remediation", "kind", created.GetKind(), "remediation", klog.KObj(created))
}

// refused tells whether the API server has certainly not created an object: a client
// error says so, and so does a webhook that could not be asked.
func refused(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	code := status.Status().Code
	return (code >= http.StatusBadRequest && code < http.StatusInternalServerError && code != http.StatusRequestTimeout) ||
		strings.Contains(err.Error(), "failed calling webhook")
}

// adopt looks at the object that has the name of the CR to create. It is our own
// one if an answer was lost or a cache lags, and then all is well.
func (e *Executor) adopt(ctx context.Context, client dynamic.ResourceInterface, nhc, node string, object *unstructured.Unstructured, outcome *Outcome) {
	live, err := client.Get(ctx, object.GetName(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		outcome.fail(fmt.Errorf("creating remediation for node %s: a namesake was just deleted", node))
		return
	}
	if err != nil {
		outcome.Unknown = true
		outcome.fail(fmt.Errorf("reading the remediation that stands for node %s: %w", node, err))
		return
	}
	cr := ParseCR(live)
	switch {
	case !cr.OwnedBy(nhc) || cr.Node() != node:
		outcome.Blocker = cr
		klog.FromContext(ctx).V(2).Info("Created no remediation: a foreign one has its name", "kind", cr.Kind, "remediation", klog.KObj(cr))
	case cr.Deleting():
		klog.FromContext(ctx).V(2).Info("Created no remediation: the previous one is still going", "kind", cr.Kind, "remediation", klog.KObj(cr))
	default:
		outcome.Created = cr
		klog.FromContext(ctx).V(2).Info("Found remediation created earlier", "kind", cr.Kind, "remediation", klog.KObj(cr))
	}
}

func (e *Executor) delete(ctx context.Context, action Delete, outcome *Outcome) {
	cr := action.CR
	client, _, err := e.client(cr.GroupVersionKind(), cr.Namespace)
	if err != nil {
		outcome.fail(err)
		return
	}
	err = client.Delete(ctx, cr.Name, *metav1.NewPreconditionDeleteOptions(string(cr.UID)))
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		outcome.Gone = append(outcome.Gone, cr) // Gone, or gone and replaced by a namesake.
	case err != nil:
		outcome.fail(fmt.Errorf("deleting %s %s: %w", cr.Kind, klog.KObj(cr), err))
	default:
		outcome.Deleted = append(outcome.Deleted, cr)
		klog.FromContext(ctx).V(2).Info("Requested deletion of remediation", "kind", cr.Kind, "remediation", klog.KObj(cr))
	}
}

// denied tells whether the API server has refused a write, for which it may have
// asked a webhook that does not answer. Any other failure says nothing about what a
// further attempt brings (P5).
func denied(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	switch code := status.Status().Code; code {
	case http.StatusUnauthorized, http.StatusNotFound, http.StatusRequestTimeout, http.StatusConflict, http.StatusTooManyRequests:
		return false
	default:
		return (code >= http.StatusBadRequest && code < http.StatusInternalServerError) || apierrors.IsInternalError(err)
	}
}

// markTimedOut writes the annotation, unless the live object already has it, has
// succeeded or is another one. The live object decides because the annotation
// turns a success into a failure with some remediators. They write to it too, so it
// is looked at again if somebody was faster.
func (e *Executor) markTimedOut(ctx context.Context, action MarkTimedOut) error {
	cr := action.CR
	client, mapping, err := e.client(cr.GroupVersionKind(), cr.Namespace)
	if err != nil {
		return err
	}
	for range markAttempts {
		if err = e.mark(ctx, client, mapping, action); !apierrors.IsConflict(err) {
			break
		}
	}
	return err
}

// markAttempts is how often the annotation is tried while others write to the CR.
const markAttempts = 5

// mark is one attempt to write the annotation.
func (e *Executor) mark(ctx context.Context, client dynamic.ResourceInterface, mapping *meta.RESTMapping, action MarkTimedOut) error {
	cr := action.CR
	object, err := client.Get(ctx, cr.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return errNotThere
	}
	if err != nil {
		return fmt.Errorf("reading %s %s: %w", cr.Kind, klog.KObj(cr), err)
	}
	live := ParseCR(object)
	if live.UID != cr.UID {
		return errNotThere
	}
	if !live.mayTimeOut() {
		return nil
	}
	patch, err := timedOutPatch(cr.UID, object.GetResourceVersion(), action.At)
	if err != nil {
		return err
	}
	patched, err := client.Patch(ctx, cr.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: FieldManager})
	if apierrors.IsNotFound(err) {
		return errNotThere
	}
	if err != nil {
		return fmt.Errorf("annotating %s %s: %w", cr.Kind, klog.KObj(cr), err)
	}
	e.OnWrite(mapping.Resource.GroupResource(), patched.GetResourceVersion())
	klog.FromContext(ctx).V(2).Info("Told the remediator to stop", "kind", cr.Kind, "remediation", klog.KObj(cr), "endsStep", action.EndsStep)
	return nil
}

// timedOutPatch returns the patch of the one annotation. The resource version
// binds it to the object that was looked at: a success that is reported in
// between turns it into a conflict.
func timedOutPatch(uid types.UID, resourceVersion string, at time.Time) ([]byte, error) {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid":             uid,
		"resourceVersion": resourceVersion,
		"annotations":     map[string]string{v1alpha1.AnnotationTimedOut: at.UTC().Format(time.RFC3339)},
	}})
	if err != nil {
		return nil, fmt.Errorf("encoding the patch: %w", err)
	}
	return patch, nil
}
