// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// Specs that admission accepts; tests change one thing about them.
const (
	classicSpec = `
selector: {matchLabels: {node-role.kubernetes.io/worker: ""}}
minHealthy: 51%
remediationTemplate:
  apiVersion: self-node-remediation.medik8s.io/v1alpha1
  kind: SelfNodeRemediationTemplate
  namespace: remediators
  name: automatic
`
	escalatingSpec = `
selector: {matchExpressions: [{key: node-role.kubernetes.io/worker, operator: Exists}]}
minHealthy: 51%
escalatingRemediations:
- order: 1
  timeout: 60s
  remediationTemplate: {apiVersion: example.com/v1, kind: FirstTemplate, namespace: remediators, name: first}
- order: 2
  timeout: 5m0.5s
  remediationTemplate: {apiVersion: example.com/v1, kind: SecondTemplate, namespace: remediators, name: second}
`
	// remediatingStatus names a remediation object, idleStatus only a node.
	remediatingStatus = `
unhealthyNodes:
- name: idle
- name: broken
  remediations:
  - {started: "2026-01-02T03:04:05Z", templateName: automatic, resource: {kind: SelfNodeRemediation, name: broken}}
`
	idleStatus = `
phase: Enabled
unhealthyNodes: [{name: broken, remediations: []}, {name: excluded}]
`
)

// admission asks the API server for its judgement of the objects of one kind. Where a
// request is a dry run, nothing is stored.
type admission struct {
	*testing.T
	cluster      *cluster
	version      schema.GroupVersion
	kind, plural string
	client       dynamic.ResourceInterface
}

// newAdmission returns one for NodeHealthChecks.
func newAdmission(t *testing.T, c *cluster) *admission {
	t.Helper()
	return newAdmissionOf(t, c, v1alpha1.SchemeGroupVersion, v1alpha1.Kind, v1alpha1.Plural)
}

func newAdmissionOf(t *testing.T, c *cluster, version schema.GroupVersion, kind, plural string) *admission {
	t.Helper()
	return &admission{T: t, cluster: c, version: version, kind: kind, plural: plural, client: c.dynamic.Resource(version.WithResource(plural))}
}

var dryRun = []string{metav1.DryRunAll}

// object returns an object of the kind. An empty spec is no spec at all.
func (a *admission) object(name string, spec map[string]any) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{}}
	object.SetAPIVersion(a.version.String())
	object.SetKind(a.kind)
	object.SetName(name)
	if spec != nil {
		object.Object["spec"] = spec
	}
	return object
}

// spec returns base with the changes merged into it, both YAML. A null removes.
func (a *admission) spec(base, changes string) map[string]any {
	a.Helper()
	return merge(a.parse(base), a.parse(changes))
}

func (a *admission) parse(text string) map[string]any {
	a.Helper()
	// Through JSON as a client sends it: numbers become int64 or float64.
	var u unstructured.Unstructured
	data, err := yaml.YAMLToJSON([]byte(text))
	require.NoError(a, err)
	require.NoError(a, json.Unmarshal([]byte(`{"apiVersion":"v1","kind":"X","content":`+string(data)+`}`), &u))
	content, _ := u.Object["content"].(map[string]any)
	return content
}

func merge(base, changes map[string]any) map[string]any {
	if base = maps.Clone(base); base == nil && changes != nil {
		base = map[string]any{}
	}
	for key, change := range changes {
		old, isMap := base[key].(map[string]any)
		update, mergeable := change.(map[string]any)
		switch {
		case change == nil:
			delete(base, key)
		case isMap && mergeable && len(update) > 0:
			base[key] = merge(old, update)
		default:
			base[key] = change
		}
	}
	return base
}

// store creates an object that is deleted at the end of the test.
func (a *admission) store(name string, spec map[string]any, status string) *unstructured.Unstructured {
	a.Helper()
	object, err := a.client.Create(a.Context(), a.object(name, spec), metav1.CreateOptions{})
	require.NoError(a, err)
	a.Cleanup(func() { a.remove(name) })
	if status == "" {
		return object
	}
	return a.writeStatus(object, status)
}

func (a *admission) writeStatus(object *unstructured.Unstructured, status string) *unstructured.Unstructured {
	a.Helper()
	object = object.DeepCopy()
	object.Object["status"] = a.parse(status)
	object, err := a.client.UpdateStatus(a.Context(), object, metav1.UpdateOptions{})
	require.NoError(a, err)
	return object
}

// remove deletes an object. That of a NodeHealthCheck may depend on its status otherwise.
func (a *admission) remove(name string) {
	ctx := context.Background() // That of the test is done when its clean-up runs.
	patch := `{"metadata":{"annotations":{"` + v1alpha1.AnnotationAllowDelete + `":""}}}`
	_, err := a.client.Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	require.NoError(a, err)
	require.NoError(a, a.client.Delete(ctx, name, metav1.DeleteOptions{}))
}

// create and update return the messages of a denial, and nothing if the request is
// accepted.
func (a *admission) create(spec map[string]any) []string {
	a.Helper()
	_, err := a.client.Create(a.Context(), a.object("created", spec), metav1.CreateOptions{DryRun: dryRun})
	return a.denials(err)
}

func (a *admission) update(stored *unstructured.Unstructured, spec map[string]any) []string {
	a.Helper()
	object := stored.DeepCopy()
	delete(object.Object, "spec")
	if spec != nil {
		object.Object["spec"] = spec
	}
	_, err := a.client.Update(a.Context(), object, metav1.UpdateOptions{DryRun: dryRun})
	return a.denials(err)
}

// invalidValue begins the message of every cause; older API servers name the type
// of the value, too.
var invalidValue = regexp.MustCompile(`^Invalid value: (("[^"]*"|-?[0-9]+|null): )?`)

// longerThan is how older API servers say that a string is.
var longerThan = regexp.MustCompile(`^Too long: may not be longer than (\d+)$`)

const (
	// repeatedType begins a message with which newer API servers say twice that a type is wrong.
	repeatedType = "Checked value must be of type integer"
	// notChecked begins one which says that there may be more to correct.
	notChecked = "some validation rules were not checked"
)

// denials returns the messages of a denial, sorted.
func (a *admission) denials(err error) []string {
	a.Helper()
	var messages []string
	for _, cause := range a.causes(err) {
		messages = append(messages, cause.Message)
	}
	slices.Sort(messages)
	return messages
}

// causes returns why the schema denies a request, each with its field and without the value.
func (a *admission) causes(err error) []metav1.StatusCause {
	a.Helper()
	if err == nil {
		return nil
	}
	require.True(a, apierrors.IsInvalid(err), "%v", err)
	status, _ := errors.AsType[*apierrors.StatusError](err)
	return withoutValues(status.ErrStatus.Details.Causes)
}

// withoutValues returns causes as every version of the API server words them.
func withoutValues(all []metav1.StatusCause) (causes []metav1.StatusCause) {
	for _, cause := range all {
		cause.Message = invalidValue.ReplaceAllString(cause.Message, "")
		if strings.HasPrefix(cause.Message, repeatedType) || strings.HasPrefix(cause.Message, notChecked) {
			continue
		}
		cause.Message = longerThan.ReplaceAllString(cause.Message, "Too long: may not be more than $1 bytes")
		if strings.HasPrefix(cause.Message, "Duplicate value") {
			cause.Message = "Duplicate value" // Each version writes the value in its own way.
		}
		causes = append(causes, cause)
	}
	return causes
}
