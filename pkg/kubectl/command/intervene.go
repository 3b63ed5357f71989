// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/retry"

	"github.com/nhc-controller/nhc-controller/pkg/kubectl/cluster"
)

// FieldManager is the name under which the API server records the changes.
const FieldManager = "kubectl-nhc"

// DryRun says how far a change goes.
type DryRun string

const (
	// DryRunNone makes the change.
	DryRunNone DryRun = "none"
	// DryRunClient sends nothing that changes anything.
	DryRunClient DryRun = "client"
	// DryRunServer has the API server check the change, and not store it.
	DryRunServer DryRun = "server"
)

// Intervener makes changes as the user.
type Intervener struct {
	*cluster.Clients
	DryRun DryRun
}

// Result is what has become of an intervention.
type Result struct {
	// Resource and Name are those of the object.
	Resource schema.GroupResource
	Name     string
	// Object is the object as it is now, or would be. It is nil if it does not exist.
	Object runtime.Object
	// Changed is false if nothing had to be done.
	Changed bool
	// Text says in a sentence or two what was done, and what it does not do.
	Text string
}

// sent returns the value of the field dryRun of the options of a write.
func (i *Intervener) sent() []string {
	if i.DryRun == DryRunServer {
		return []string{metav1.DryRunAll}
	}
	return nil
}

func (i *Intervener) patchOptions() metav1.PatchOptions {
	return metav1.PatchOptions{DryRun: i.sent(), FieldManager: FieldManager}
}

// patch is a merge patch of one object, which is refused if the object is another one by now.
type patch map[string]any

// onVersion has the patch refused if the object has changed since it was read, too.
func (p patch) onVersion(object metav1.Object) patch {
	p.metadata()["uid"], p.metadata()["resourceVersion"] = object.GetUID(), object.GetResourceVersion()
	return p
}

// onUID has the patch refused if it is another object of the same name.
func (p patch) onUID(object metav1.Object) patch {
	p.metadata()["uid"] = object.GetUID()
	return p
}

func (p patch) metadata() map[string]any {
	metadata, ok := p["metadata"].(map[string]any)
	if !ok {
		metadata = map[string]any{}
		p["metadata"] = metadata
	}
	return metadata
}

func (p patch) encode() ([]byte, error) {
	encoded, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("encoding the patch: %w", err)
	}
	return encoded, nil
}

// untilCurrent repeats an attempt, which reads the object first, as long as another client changes it
// in between.
func untilCurrent(ctx context.Context, attempt func(context.Context) (Result, error)) (result Result, err error) {
	err = retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		result, err = attempt(ctx)
		return err
	})
	return result, err
}

// explainWrite explains the error of a write, except a conflict, which is tried again.
func explainWrite(err error, verb, resource string) error {
	if apierrors.IsConflict(err) {
		return err
	}
	return cluster.Explain(err, verb, resource)
}
