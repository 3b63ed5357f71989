// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/kubectl/cluster"
)

// Running is a remediation object of a node.
type Running struct {
	Node string
	v1alpha1.Remediation
}

// String names the object and its node.
func (r *Running) String() string {
	return r.Resource.Kind + " " + r.Resource.Name + " of node " + r.Node
}

// Running returns the remediation objects that a NodeHealthCheck reports, without those that timed out.
func (i *Intervener) Running(ctx context.Context, name string) (running []Running, err error) {
	nhc, err := i.NHC.RemediationV1alpha1().NodeHealthChecks().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, cluster.Explain(err, "get", v1alpha1.Plural)
	}
	for j := range nhc.Status.UnhealthyNodes {
		node := &nhc.Status.UnhealthyNodes[j]
		for _, remediation := range node.Remediations {
			if remediation.TimedOut == nil {
				running = append(running, Running{Node: node.Name, Remediation: remediation})
			}
		}
	}
	return running, nil
}

// Abort pauses a NodeHealthCheck, because it would create the objects again, and then deletes the remediation
// objects. It reports each change that was made, also if another one has failed.
func (i *Intervener) Abort(ctx context.Context, name, reason string, running []Running) ([]Result, error) {
	paused, err := i.Pause(ctx, name, reason)
	if err != nil {
		return nil, err
	}
	paused.Text = strings.TrimSuffix(paused.Text, finished)
	results := []Result{paused}
	for j := range running {
		result, err := i.abort(ctx, &running[j])
		if err != nil {
			return results, err
		}
		results = append(results, result)
	}
	return results, nil
}

func (i *Intervener) abort(ctx context.Context, running *Running) (Result, error) {
	client, resource, err := i.Referred(&running.Resource)
	if err != nil {
		return Result{}, cluster.Explain(err, "delete", resource)
	}
	group := running.Resource.GroupVersionKind().Group
	result := Result{Resource: schema.GroupResource{Group: group, Resource: resource}, Name: running.Resource.Name, Changed: true, Text: "is deleted, for node " + running.Node}
	if i.DryRun == DryRunClient {
		return result, nil
	}
	err = client.Delete(ctx, running.Resource.Name, metav1.DeleteOptions{DryRun: i.sent(), Preconditions: &metav1.Preconditions{UID: &running.Resource.UID}})
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err): // Another one has its name by now.
		result.Changed, result.Text = false, "is gone already, for node "+running.Node
	case err != nil:
		return Result{}, cluster.Explain(err, "delete", resource)
	}
	return result, nil
}

// Irrevocable says what an abort cannot take back.
const Irrevocable = "What a remediator has done already is not taken back: a power-off or a reboot that was sent, evicted pods, taints, the deletion of a Machine. " +
	"An object with a finalizer stays until its remediator has let go of it"

// Nodes names the nodes of remediation objects, each once.
func Nodes(running []Running) []string {
	var names []string
	for i := range running {
		if !slices.Contains(names, running[i].Node) {
			names = append(names, running[i].Node)
		}
	}
	return names
}

// TooMany refuses an abort of more nodes than the user expects.
func TooMany(name string, running []Running, limit int) error {
	if nodes := len(Nodes(running)); nodes > limit {
		return &cluster.Error{Sentence: fmt.Sprintf("NodeHealthCheck %s remediates %d nodes, more than --limit %d: give a higher one if you mean all of them.", name, nodes, limit)}
	}
	return nil
}
