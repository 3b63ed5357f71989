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
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
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

// admission asks the API server for its judgement of NodeHealthChecks. Where a
// request is a dry run, nothing is stored.
type admission struct {
	*testing.T
	cluster *cluster
	client  dynamic.ResourceInterface
}

func newAdmission(t *testing.T, c *cluster) *admission {
	t.Helper()
	config := c.AdminConfig()
	config.WarningHandlerWithContext = rest.NoWarnings{} // What is stored in spite of a rule causes many.
	client, err := dynamic.NewForConfig(config)
	require.NoError(t, err)
	return &admission{T: t, cluster: c, client: client.Resource(v1alpha1.SchemeGroupVersion.WithResource(v1alpha1.Plural))}
}

var dryRun = []string{metav1.DryRunAll}

// object returns a NodeHealthCheck. An empty spec is no spec at all.
func (a *admission) object(name string, spec map[string]any) *unstructured.Unstructured {
	nhc := &unstructured.Unstructured{Object: map[string]any{}}
	nhc.SetAPIVersion(v1alpha1.SchemeGroupVersion.String())
	nhc.SetKind(v1alpha1.Kind)
	nhc.SetName(name)
	if spec != nil {
		nhc.Object["spec"] = spec
	}
	return nhc
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

// store creates a NodeHealthCheck that is deleted at the end of the test.
func (a *admission) store(name string, spec map[string]any, status string) *unstructured.Unstructured {
	a.Helper()
	nhc, err := a.client.Create(a.Context(), a.object(name, spec), metav1.CreateOptions{})
	require.NoError(a, err)
	a.Cleanup(func() { a.remove(name) })
	if status == "" {
		return nhc
	}
	return a.writeStatus(nhc, status)
}

func (a *admission) writeStatus(nhc *unstructured.Unstructured, status string) *unstructured.Unstructured {
	a.Helper()
	nhc = nhc.DeepCopy()
	nhc.Object["status"] = a.parse(status)
	nhc, err := a.client.UpdateStatus(a.Context(), nhc, metav1.UpdateOptions{})
	require.NoError(a, err)
	return nhc
}

// remove deletes a NodeHealthCheck, whatever its status is.
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
	nhc := stored.DeepCopy()
	delete(nhc.Object, "spec")
	if spec != nil {
		nhc.Object["spec"] = spec
	}
	_, err := a.client.Update(a.Context(), nhc, metav1.UpdateOptions{DryRun: dryRun})
	return a.denials(err)
}

// invalidValue begins the message of every cause; older API servers name the type
// of the value, too.
var invalidValue = regexp.MustCompile(`^Invalid value: (("[^"]*"|-?[0-9]+): )?`)

// repeatedType begins a message with which newer API servers say twice that a type is wrong.
const repeatedType = "Checked value must be of type integer"

func (a *admission) denials(err error) []string {
	a.Helper()
	if err == nil {
		return nil
	}
	require.True(a, apierrors.IsInvalid(err), "%v", err)
	status, _ := errors.AsType[*apierrors.StatusError](err)
	var messages []string
	for _, cause := range status.ErrStatus.Details.Causes {
		message := invalidValue.ReplaceAllString(cause.Message, "")
		if strings.HasPrefix(message, repeatedType) {
			continue
		}
		if strings.HasPrefix(message, "Duplicate value") {
			message = "Duplicate value" // Each version writes the value in its own way.
		}
		messages = append(messages, message)
	}
	slices.Sort(messages)
	return messages
}
