// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/kubectl/cluster"
)

// finished is what a pause alone means for what runs.
const finished = ", and remediations that run are finished"

// Pause adds a reason to the pause requests of a NodeHealthCheck (spec 10.1). Those of others stay.
func (i *Intervener) Pause(ctx context.Context, name, reason string) (Result, error) {
	return i.setPauseRequests(ctx, name, func(requests []string) ([]string, string, error) {
		if slices.Contains(requests, reason) {
			return requests, "is paused for this reason already", nil
		}
		return append(slices.Clone(requests), reason), "is paused. Nothing new begins" + finished, nil
	})
}

// Resume removes a reason from the pause requests of a NodeHealthCheck, or the only one if no
// reason is given. With all, it removes all of them.
func (i *Intervener) Resume(ctx context.Context, name, reason string, all bool) (Result, error) {
	return i.setPauseRequests(ctx, name, func(requests []string) ([]string, string, error) {
		var left []string
		switch {
		case len(requests) == 0:
			return requests, "is not paused", nil
		case all:
		case reason == "" && len(requests) > 1:
			return nil, "", &cluster.Error{Sentence: fmt.Sprintf("NodeHealthCheck %s has %d pause requests: name one with --reason, or use --all-reasons: %s.", name, len(requests), quoted(requests))}
		case reason != "" && !slices.Contains(requests, reason):
			return requests, "is not paused for this reason, but still for " + quoted(requests), nil
		case reason != "":
			left = slices.DeleteFunc(slices.Clone(requests), func(request string) bool { return request == reason })
		}
		if len(left) > 0 {
			return left, "is still paused for " + quoted(left), nil
		}
		return nil, "goes on. It was paused for " + quoted(requests), nil
	})
}

func quoted(texts []string) string {
	all := make([]string, 0, len(texts))
	for _, text := range texts {
		all = append(all, fmt.Sprintf("%q", text))
	}
	return strings.Join(all, ", ")
}

// setPauseRequests writes the pause requests that change makes of those that are there. The list is
// replaced as a whole, so the write is bound to the version that was read.
func (i *Intervener) setPauseRequests(ctx context.Context, name string, change func([]string) (requests []string, text string, err error)) (Result, error) {
	client := i.NHC.RemediationV1alpha1().NodeHealthChecks()
	return untilCurrent(ctx, func(ctx context.Context) (Result, error) {
		nhc, err := client.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return Result{}, cluster.Explain(err, "get", v1alpha1.Plural)
		}
		result := Result{Resource: v1alpha1.Resource(v1alpha1.Plural), Name: name, Object: nhc}
		requests, text, err := change(nhc.Spec.PauseRequests)
		if err != nil {
			return Result{}, err
		}
		result.Text, result.Changed = text, !slices.Equal(requests, nhc.Spec.PauseRequests)
		if !result.Changed {
			return result, nil
		}
		if i.DryRun == DryRunClient {
			nhc.Spec.PauseRequests = requests
			return result, nil
		}
		var value any // Without any request, the field goes.
		if len(requests) > 0 {
			value = requests
		}
		body, err := patch{"spec": map[string]any{"pauseRequests": value}}.onVersion(nhc).encode()
		if err != nil {
			return Result{}, err
		}
		patched, err := client.Patch(ctx, name, types.MergePatchType, body, i.patchOptions())
		if err != nil {
			return Result{}, explainWrite(err, "patch", v1alpha1.Plural)
		}
		result.Object = patched
		return result, nil
	})
}
