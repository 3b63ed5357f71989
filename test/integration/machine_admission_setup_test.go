// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/nhc-controller/nhc-controller/test/patience"
)

const (
	// healthCheckPolicy has the rules about MachineHealthChecks, machinePolicy those about what
	// the controller may do with Machines.
	healthCheckPolicy = "nhc-controller-machinehealthchecks"
	machinePolicy     = "nhc-controller-machines"

	openShiftOverlay = "openshift-machine-health-check"
	ownOverlay       = "machine-health-check"
)

// mhcAdmission asks the API server for its judgement of MachineHealthChecks, as dry runs.
type mhcAdmission struct {
	*admission
}

func newMHCAdmission(t *testing.T, c *cluster) *mhcAdmission {
	t.Helper()
	a := newAdmission(t, c)
	a.client = c.dynamic.Resource(machineHealthCheck.resource).Namespace(machineNamespace)
	return &mhcAdmission{a}
}

// mhc returns a MachineHealthCheck with annotations and a spec, both YAML. An empty spec is no
// spec at all.
func (a *mhcAdmission) mhc(name, annotations, spec string) *unstructured.Unstructured {
	a.Helper()
	object := &unstructured.Unstructured{Object: map[string]any{}}
	object.SetGroupVersionKind(machineHealthCheck.resource.GroupVersion().WithKind(machineHealthCheck.kind))
	object.SetName(name)
	if annotations != "" {
		require.NoError(a, unstructured.SetNestedMap(object.Object, a.parse(annotations), "metadata", "annotations"))
	}
	if spec != "" {
		object.Object["spec"] = a.parse(spec)
	}
	return object
}

// create and update return why the API server denies a request, and nothing if it accepts it:
// what the schema says, in order and joined, or the message of the policy.
func (a *mhcAdmission) create(object *unstructured.Unstructured) string {
	a.Helper()
	_, err := a.client.Create(a.Context(), object, metav1.CreateOptions{DryRun: dryRun})
	return a.denial(err)
}

func (a *mhcAdmission) update(object *unstructured.Unstructured) string {
	a.Helper()
	_, err := a.client.Update(a.Context(), object, metav1.UpdateOptions{DryRun: dryRun})
	return a.denial(err)
}

func (a *mhcAdmission) denial(err error) string {
	a.Helper()
	if err == nil {
		return ""
	}
	require.True(a, apierrors.IsInvalid(err), "%v", err)
	status, _ := errors.AsType[*apierrors.StatusError](err)
	const denied = "ValidatingAdmissionPolicy '" + healthCheckPolicy + "' with binding '" + healthCheckPolicy + "' denied request: "
	if _, message, byPolicy := strings.Cut(status.ErrStatus.Message, denied); byPolicy {
		return message
	}
	return strings.Join(fieldsAndMessages(a.causes(err)), "; ")
}

// servedCRD is what serves MachineHealthChecks.
type servedCRD struct {
	name    string
	install func(t *testing.T, c *cluster)
	probe   string // A spec that it refuses by its schema, with these words. Empty if it has none.
	refuses string
}

var (
	// schemalessCRD stores everything, so that each rule of the policy is reached.
	schemalessCRD = servedCRD{name: "without a schema", install: installSchemaless}
	openShiftCRD  = servedCRD{
		name: "of OpenShift",
		install: func(t *testing.T, c *cluster) {
			t.Helper()
			_, err := c.Kubectl(t.Context(), "apply", "-f", filepath.Join(remediatorManifests, machineHealthCheck.file))
			require.NoError(t, err)
		},
		probe: `{maxUnhealthy: half}`, refuses: "spec.maxUnhealthy",
	}
	ownCRD = servedCRD{
		name:    "of this project",
		install: func(t *testing.T, c *cluster) { c.applyOverlay(t, ownOverlay) },
		probe:   `{nodeStartupTimeout: x10m}`, refuses: "spec.nodeStartupTimeout",
	}
)

// installSchemaless installs OpenShift's CRD without what it says about spec and status.
func installSchemaless(t *testing.T, c *cluster) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(remediatorManifests, machineHealthCheck.file))
	require.NoError(t, err)
	var crd unstructured.Unstructured
	require.NoError(t, yaml.Unmarshal(content, &crd.Object))
	versions, _, err := unstructured.NestedSlice(crd.Object, "spec", "versions")
	require.NoError(t, err)
	version, _ := versions[0].(map[string]any)
	anything := map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}
	version["schema"] = map[string]any{"openAPIV3Schema": map[string]any{
		"type": "object", "properties": map[string]any{"spec": anything, "status": maps.Clone(anything)},
	}}
	require.NoError(t, unstructured.SetNestedSlice(crd.Object, versions, "spec", "versions"))
	manifest, err := yaml.Marshal(crd.Object)
	require.NoError(t, err)
	_, err = c.KubectlInput(t.Context(), strings.NewReader(string(manifest)), "apply", "-f", "-")
	require.NoError(t, err)
}

// serve installs a CRD in place of the one before, and waits until it is in force.
func (a *mhcAdmission) serve(crd servedCRD) {
	a.Helper()
	crd.install(a.T, a.cluster)
	a.cluster.eventuallyServed(a.T, machineHealthCheck, true)
	if crd.probe != "" {
		patience.Eventually(a.T, "the CRD "+crd.name+" is in force", func() bool {
			return strings.Contains(a.create(a.mhc("probe", "", crd.probe)), crd.refuses)
		})
	}
}

// createNamespaces creates the namespaces that OpenShift has.
func (c *cluster) createNamespaces(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		_, err := c.Kubectl(t.Context(), "create", "namespace", name)
		require.NoError(t, err)
	}
}
