// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package execute

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
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
)

// FieldManager is the name under which the controller writes.
const FieldManager = "nhc-controller"

// Executor carries out plans. It is the only writer of CRs. All fields are
// required; its methods may be called from several goroutines.
type Executor struct {
	Client dynamic.Interface
	// Mapping returns where CRs of a kind are served.
	Mapping func(schema.GroupVersionKind) (*meta.RESTMapping, error)
	// Confirm reads the Node live, or the Machine, and judges it again.
	Confirm func(ctx context.Context, node *remediation.Node) (Confirmation, error)
	// Kube writes the leases, in LeaseNamespace, and removes confirmations from Nodes.
	Kube           kubernetes.Interface
	LeaseNamespace string
	// Now reads the clock for latencies.
	Now func() time.Time
	// OnWrite gets the resource version of every CR and lease that was written.
	OnWrite func(resource schema.GroupResource, resourceVersion string)
}

// Confirmation is the result of a live read.
type Confirmation struct {
	// Refusal is why the plan must not go on: DecidedRecovering for a node that is no longer
	// unhealthy, the reason of a constraint, or nothing.
	Refusal v1alpha1.DecisionReason
	// Relapsed means that the live read contradicts a plan for a recovered or deleted node. Then nothing may be
	// deleted.
	Relapsed bool
	// MachineVersion is the resourceVersion of the Machine that was read, if one was.
	MachineVersion string
}

// Execute carries out the actions of one plan of the owner, one after the other.
func (e *Executor) Execute(ctx context.Context, owner object.Owner, plan *remediation.NodePlan) remediation.Outcome {
	logger := klog.LoggerWithValues(klog.FromContext(ctx), "node", plan.Node.Name)
	ctx = klog.NewContext(ctx, logger)
	outcome := pendingOutcome{Outcome: remediation.Outcome{LeaseBefore: plan.Node.Lease}}
	deletions := 0
	for _, action := range plan.Actions {
		switch action.(type) {
		case remediation.Delete:
			deletions++
		case remediation.ReleaseLease:
			if len(outcome.Deleted)+len(outcome.Gone) < deletions {
				continue // A CR is left, and the outcome says why: the lease is kept for it (spec 14.9).
			}
		}
		if !e.carryOutAction(ctx, owner, plan, action, &outcome) {
			break
		}
	}
	return outcome.Outcome
}

// pendingOutcome is the outcome of the actions so far. The first result counts.
type pendingOutcome struct {
	remediation.Outcome
	// lease is the lease that was written, as it is now.
	lease *coordinationv1.Lease
	// machineVersion is the resourceVersion at which the Machine was confirmed.
	machineVersion string
}

// set records the result, unless there is one.
func (o *pendingOutcome) set(result remediation.Result) {
	if o.Result == "" {
		o.Result = result
	}
}

func (o *pendingOutcome) timedOut(cr *object.CR, at time.Time) {
	if o.TimedOut == nil {
		o.TimedOut = map[types.UID]time.Time{}
	}
	o.TimedOut[cr.UID] = at
}

func (o *pendingOutcome) fail(err error) { o.Err = errors.Join(o.Err, err) }

// carryOutAction carries out one action, and records the reason for the decision if it fails. It
// reports whether the later actions of the plan may follow.
func (e *Executor) carryOutAction(ctx context.Context, owner object.Owner, plan *remediation.NodePlan, action remediation.Action, outcome *pendingOutcome) bool {
	before := outcome.Err
	outcome.Err = nil
	klog.FromContext(ctx).V(4).Info("Carrying out", "action", fmt.Sprintf("%T", action), "healthCheckVersion", owner.ResourceVersion,
		"nodeVersion", plan.Node.ResourceVersion, "leaseVersion", plan.Node.LeaseVersion(), "machineVersion", outcome.machineVersion)
	stop := e.send(ctx, owner, plan.Node, action, outcome)
	if stop != nil {
		klog.FromContext(ctx).V(4).Info("Skipped the rest of a plan", "cause", stop.Error())
		if !errors.Is(stop, errStop) {
			outcome.fail(stop)
		}
	}
	if reason := plan.FailureReason(action); outcome.Err != nil && reason != "" {
		outcome.set(remediation.Failed)
		outcome.Reason = cmp.Or(outcome.Reason, reason)
	}
	outcome.Err = errors.Join(before, outcome.Err)
	return stop == nil
}

// errStop ends a plan without a failure. The outcome says why.
var errStop = errors.New("the rest of the plan must not follow")

// actionTimeout bounds an action. A kind that does not answer, because its webhook or its
// API server hangs, must not hold up the leases of other nodes (spec 21.3).
const actionTimeout = 10 * time.Second

// send sends the requests of one action. It returns an error if the later actions of the
// plan must not follow. Other failures are only in the outcome.
func (e *Executor) send(ctx context.Context, owner object.Owner, node *remediation.Node, action remediation.Action, outcome *pendingOutcome) error {
	ctx, cancel := context.WithTimeout(ctx, actionTimeout)
	defer cancel()
	switch action := action.(type) {
	case remediation.Confirm:
		return e.confirm(ctx, node, outcome)
	case remediation.Create:
		e.create(ctx, owner, node, action, outcome)
	case remediation.Delete:
		e.delete(ctx, action, outcome)
	case remediation.MarkTimedOut:
		at, err := e.markTimedOut(ctx, action)
		switch {
		case err == nil || (action.EndsStep && denied(err)):
			if action.EndsStep {
				outcome.timedOut(action.CR, at)
				klog.FromContext(ctx).Info("Step ended", "kind", action.CR.Kind, "remediation", klog.KObj(action.CR), "failed", action.CR.Succeeded == corev1.ConditionFalse)
			}
		case action.EndsStep:
			return fmt.Errorf("ending a step for node %s: %w", node.Name, err)
		case !errors.Is(err, errNotThere):
			outcome.fail(fmt.Errorf("telling the remediation of node %s to stop: %w", node.Name, err))
		}
	case remediation.WriteLease:
		return e.writeLease(ctx, action.Lease, outcome)
	case remediation.ReleaseLease:
		return e.releaseLease(ctx, action.Lease, outcome)
	case remediation.RemoveConfirmation:
		return e.removeConfirmation(ctx, action)
	case remediation.DeleteMachine:
		return e.deleteMachine(ctx, action.Machine, outcome)
	case remediation.RequestExternal:
		return e.requestExternal(ctx, action.Machine, outcome)
	case remediation.EndExternal:
		return e.endExternal(ctx, action.Machine)
	default:
		return fmt.Errorf("unknown action %T", action)
	}
	return nil
}

// errNotThere is returned for a CR that is gone, or was replaced by another object of its name.
var errNotThere = errors.New("the remediation no longer exists")

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

// confirm reads the node right before an action that cannot be undone.
func (e *Executor) confirm(ctx context.Context, node *remediation.Node, outcome *pendingOutcome) error {
	confirmation, err := e.Confirm(ctx, node)
	refusal := confirmation.Refusal
	outcome.machineVersion = confirmation.MachineVersion
	switch {
	case err != nil:
		return fmt.Errorf("reading node %s again: %w", node.Name, err)
	case confirmation.Relapsed:
		outcome.set(remediation.Relapsed)
	case refusal == "":
		return nil
	default:
		result := remediation.Refused
		if refusal == v1alpha1.DecidedRecovering {
			result = remediation.Recovered
		}
		outcome.set(result)
		outcome.Reason = refusal
	}
	klog.FromContext(ctx).V(2).Info("Stopped acting on the node: the Node has changed", "reason", refusal, "relapsed", confirmation.Relapsed)
	return errStop
}

func (e *Executor) create(ctx context.Context, owner object.Owner, node *remediation.Node, action remediation.Create, outcome *pendingOutcome) {
	desired := action.Object
	client, mapping, err := e.client(desired.GroupVersionKind(), desired.GetNamespace())
	if err != nil {
		outcome.fail(err)
		return
	}
	created, err := client.Create(ctx, desired, metav1.CreateOptions{FieldManager: FieldManager})
	if apierrors.IsAlreadyExists(err) {
		e.adopt(ctx, client, mapping.Resource.GroupResource(), owner, node, desired, outcome)
		return
	}
	if err != nil {
		noteUncertain(err, outcome)
		outcome.fail(fmt.Errorf("creating remediation for node %s: %w", node.Name, err))
		return
	}
	e.OnWrite(mapping.Resource.GroupResource(), created.GetResourceVersion())
	outcome.set(remediation.Created)
	outcome.CR, outcome.CreatedAt = object.ParseCR(created), e.Now()
	klog.FromContext(ctx).Info("Created remediation", "kind", created.GetKind(), "remediation", klog.KObj(created))
}

// noteUncertain records that a remediation may have begun although the request for it has failed.
func noteUncertain(err error, outcome *pendingOutcome) {
	if !refused(err) {
		outcome.set(remediation.Unknown)
	}
}

// refused reports whether the API server has certainly not carried out a request. That is so
// after a client error, and if a webhook could not be asked.
func refused(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	code := status.Status().Code
	return (code >= http.StatusBadRequest && code < http.StatusInternalServerError && code != http.StatusRequestTimeout) ||
		strings.Contains(err.Error(), "failed calling webhook")
}

// adopt reads the object that has the name of the CR to create. If an answer was lost or a
// cache lags, it is the CR of this step and is adopted. A CR of another step, or of a step
// that is over, is never adopted: its time is up already (P9).
func (e *Executor) adopt(ctx context.Context, client dynamic.ResourceInterface, resource schema.GroupResource, owner object.Owner, node *remediation.Node, desired *unstructured.Unstructured, outcome *pendingOutcome) {
	logger := klog.FromContext(ctx)
	live, err := client.Get(ctx, desired.GetName(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		outcome.set(remediation.StillDeleting)
		logger.V(2).Info("Created no remediation: the previous one has just gone", "kind", desired.GetKind(), "remediation", klog.KObj(desired))
		return
	}
	if err != nil {
		outcome.set(remediation.Unknown)
		outcome.fail(fmt.Errorf("reading the existing remediation of node %s: %w", node.Name, err))
		return
	}
	cr, wanted := object.ParseCR(live), object.ParseCR(desired)
	own := cr.OwnedBy(owner) && cr.Node() == wanted.Node()
	if own {
		// The cache may not show it yet. A sync that does not know it would release its lease.
		e.OnWrite(resource, cr.ResourceVersion)
	}
	switch {
	case !own:
		outcome.set(remediation.Blocked)
		outcome.CR = cr
		logger.V(2).Info("Created no remediation: a foreign one has its name", "kind", cr.Kind, "remediation", klog.KObj(cr))
	case cr.Deleting():
		outcome.set(remediation.StillDeleting)
		logger.V(2).Info("Created no remediation: the previous one is still being deleted", "kind", cr.Kind, "remediation", klog.KObj(cr))
	case cr.TimedOut() || !sameTemplate(cr, wanted) || knows(node, cr.UID):
		outcome.set(remediation.Blocked)
		outcome.CR = cr
		logger.V(2).Info("Created no remediation: that of another step has its name", "kind", cr.Kind, "remediation", klog.KObj(cr))
	default:
		outcome.set(remediation.Adopted)
		outcome.CR, outcome.CreatedAt = cr, e.Now()
		logger.Info("Found remediation created earlier", "kind", cr.Kind, "remediation", klog.KObj(cr))
	}
}

// sameTemplate reports whether two CRs were made from the same template, as far as they
// say so.
func sameTemplate(a, b *object.CR) bool {
	nameOfA, known := a.Template()
	nameOfB, _ := b.Template()
	return !known || nameOfA == nameOfB
}

// knows reports whether the CR was known when the plan was made.
func knows(n *remediation.Node, uid types.UID) bool {
	return slices.ContainsFunc(n.Own, func(cr *object.CR) bool { return cr.UID == uid })
}

func (e *Executor) delete(ctx context.Context, action remediation.Delete, outcome *pendingOutcome) {
	cr := action.CR
	client, _, err := e.client(cr.GroupVersionKind(), cr.Namespace)
	if err != nil {
		outcome.fail(err)
		return
	}
	err = client.Delete(ctx, cr.Name, *metav1.NewPreconditionDeleteOptions(string(cr.UID)))
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		outcome.Gone = append(outcome.Gone, cr) // Gone, or gone and replaced by another one.
	case err != nil:
		outcome.fail(fmt.Errorf("deleting %s %s: %w", cr.Kind, klog.KObj(cr), err))
	default:
		outcome.Deleted = append(outcome.Deleted, cr)
		klog.FromContext(ctx).Info("Deleted remediation", "kind", cr.Kind, "remediation", klog.KObj(cr))
	}
}
