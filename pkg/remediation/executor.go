// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
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
	// CreatedAt is when that was known.
	CreatedAt time.Time
	// Unknown tells that a CR may exist for the node, though nobody could say so.
	Unknown bool
	// Deleted are the CRs whose deletion was requested by this call.
	Deleted []*CR
	// Gone are CRs that were found to exist no longer.
	Gone []*CR
	// TimedOut holds the CRs whose step has ended by this call, and when.
	TimedOut map[types.UID]time.Time
	// Blocker is a CR that has the name that was needed, and is none of this step.
	Blocker *CR
	// StillDeleting means that the CR that has the needed name is about to go.
	StillDeleting bool
	// LeaseLost means that the lease of the node was written by another client since it
	// was observed, so that the rest of the plan was left out.
	LeaseLost bool
	// ReleaseFailed means that the lease was not deleted: it has changed since it was
	// observed, which is no failure, or Err says why.
	ReleaseFailed bool
	// Recovered means that a live read found the node not unhealthy, so that nothing
	// began or ended.
	Recovered bool
	// Outdated means that what the plan was made by does not hold any more, so that
	// nothing began or ended.
	Outdated bool
	// lease is the lease as this call has written it, nil if it has not.
	lease *coordinationv1.Lease
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
	// StillUnhealthy reads the node live and judges it again, for Confirm. The error is
	// ErrOutdated if nothing may begin or end that was planned.
	StillUnhealthy func(ctx context.Context, node string) (bool, error)
	// Kube writes the leases, in LeaseNamespace, and removes confirmations from Nodes.
	Kube           kubernetes.Interface
	LeaseNamespace string
	// Now reads the clock that latencies are measured by.
	Now func() time.Time
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
		if !e.perform(ctx, nhc, &plan, action, &outcome) {
			break
		}
	}
	return outcome
}

// perform carries out one action, and records as what its failure counts. It reports
// whether the later actions of the plan may follow.
func (e *Executor) perform(ctx context.Context, nhc string, plan *NodePlan, action Action, outcome *Outcome) bool {
	before := outcome.Err
	outcome.Err = nil
	stop := e.execute(ctx, nhc, &plan.Node, action, outcome)
	if stop != nil {
		klog.FromContext(ctx).V(4).Info("Left out the rest of a plan", "cause", stop.Error())
		if !errors.Is(stop, errStop) {
			outcome.fail(stop)
		}
	}
	if outcome.Err != nil {
		outcome.Failed = cmp.Or(outcome.Failed, plan.failedAs(action))
	}
	outcome.Err = errors.Join(before, outcome.Err)
	return stop == nil
}

// errStop ends a plan without a failure: the outcome says why.
var errStop = errors.New("the rest of the plan must not follow")

// actionTimeout bounds an action. A kind that never answers, because its webhook or its
// API server hangs, must not hold a worker for ever. It is longer than the API server
// waits for a webhook.
const actionTimeout = 35 * time.Second

// execute carries out one action. It returns an error if the later actions of the
// plan must not follow; what fails without that consequence is in the outcome.
func (e *Executor) execute(ctx context.Context, nhc string, node *Node, action Action, outcome *Outcome) error {
	ctx, cancel := context.WithTimeout(ctx, actionTimeout)
	defer cancel()
	switch action := action.(type) {
	case Confirm:
		return e.confirm(ctx, node.Name, outcome)
	case Create:
		e.create(ctx, nhc, node, action, outcome)
	case Delete:
		e.delete(ctx, action, outcome)
	case MarkTimedOut:
		err := e.markTimedOut(ctx, action)
		switch {
		case err == nil || (action.EndsStep && denied(err)):
			if action.EndsStep {
				outcome.timedOut(action)
				klog.FromContext(ctx).Info("Step ended", "kind", action.CR.Kind, "remediation", klog.KObj(action.CR), "failed", action.CR.Succeeded == corev1.ConditionFalse)
			}
		case action.EndsStep:
			return fmt.Errorf("ending a step for node %s: %w", node.Name, err)
		case !errors.Is(err, errNotThere):
			outcome.fail(fmt.Errorf("telling the remediation of node %s to stop: %w", node.Name, err))
		}
	case WriteLease:
		return e.writeLease(ctx, action.Lease, outcome)
	case ReleaseLease:
		return e.releaseLease(ctx, action.Lease, outcome)
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

// confirm looks at the node right before something that cannot be undone.
func (e *Executor) confirm(ctx context.Context, node string, outcome *Outcome) error {
	unhealthy, err := e.StillUnhealthy(ctx, node)
	switch {
	case errors.Is(err, ErrOutdated):
		outcome.Outdated = true
		return errStop
	case err != nil:
		return fmt.Errorf("reading node %s again: %w", node, err)
	case !unhealthy:
		outcome.Recovered = true
		klog.FromContext(ctx).V(2).Info("Went no further: the node is no longer unhealthy")
		return errStop
	}
	return nil
}

func (e *Executor) create(ctx context.Context, nhc string, node *Node, action Create, outcome *Outcome) {
	object := action.Object
	client, mapping, err := e.client(object.GroupVersionKind(), object.GetNamespace())
	if err != nil {
		outcome.fail(err)
		return
	}
	created, err := client.Create(ctx, object, metav1.CreateOptions{FieldManager: FieldManager})
	if apierrors.IsAlreadyExists(err) {
		e.adopt(ctx, client, nhc, node, object, outcome)
		return
	}
	if err != nil {
		outcome.Unknown = !refused(err)
		outcome.fail(fmt.Errorf("creating remediation for node %s: %w", node.Name, err))
		return
	}
	e.OnWrite(mapping.Resource.GroupResource(), created.GetResourceVersion())
	outcome.Created, outcome.CreatedAt = ParseCR(created), e.Now()
	klog.FromContext(ctx).Info("Created remediation", "kind", created.GetKind(), "remediation", klog.KObj(created))
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

// adopt looks at the object that has the name of the CR to create. It is the CR of this
// step if an answer was lost or a cache lags, and then all is well. A CR of another step,
// or one whose step is over, is never adopted: its time is up already (P9).
func (e *Executor) adopt(ctx context.Context, client dynamic.ResourceInterface, nhc string, node *Node, object *unstructured.Unstructured, outcome *Outcome) {
	logger := klog.FromContext(ctx)
	live, err := client.Get(ctx, object.GetName(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		outcome.StillDeleting = true
		logger.V(2).Info("Created no remediation: the previous one has just gone", "kind", object.GetKind(), "remediation", klog.KObj(object))
		return
	}
	if err != nil {
		outcome.Unknown = true
		outcome.fail(fmt.Errorf("reading the remediation that stands for node %s: %w", node.Name, err))
		return
	}
	switch cr := ParseCR(live); {
	case !cr.OwnedBy(nhc) || cr.Node() != node.Name:
		outcome.Blocker = cr
		logger.V(2).Info("Created no remediation: a foreign one has its name", "kind", cr.Kind, "remediation", klog.KObj(cr))
	case cr.Deleting():
		outcome.StillDeleting = true
		logger.V(2).Info("Created no remediation: the previous one is still being deleted", "kind", cr.Kind, "remediation", klog.KObj(cr))
	case cr.TimedOut() || !sameTemplate(cr, ParseCR(object)) || node.knows(cr.UID):
		outcome.Blocker = cr
		logger.V(2).Info("Created no remediation: that of another step has its name", "kind", cr.Kind, "remediation", klog.KObj(cr))
	default:
		outcome.Created, outcome.CreatedAt = cr, e.Now()
		logger.Info("Found remediation created earlier", "kind", cr.Kind, "remediation", klog.KObj(cr))
	}
}

// sameTemplate reports whether two CRs were made from the same template, as far as they
// say so.
func sameTemplate(a, b *CR) bool {
	nameOfA, known := a.Template()
	nameOfB, _ := b.Template()
	return !known || nameOfA == nameOfB
}

// knows reports whether the CR was known when the plan was made.
func (n *Node) knows(uid types.UID) bool {
	return slices.ContainsFunc(n.Own, func(cr *CR) bool { return cr.UID == uid })
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
		klog.FromContext(ctx).Info("Deleted remediation", "kind", cr.Kind, "remediation", klog.KObj(cr))
	}
}
