// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
)

const (
	// release is the name that the tests install the chart with.
	release = "nodes"
	// digest is that of no image.
	digest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
)

var (
	root     = filepath.Join("..", "..")
	chartDir = filepath.Join(root, "charts", "nhc-controller")
)

// helm runs Helm and returns its standard output. The error has its standard error.
func helm(t *testing.T, args ...string) (string, error) {
	t.Helper()
	executable := os.Getenv("NHC_HELM")
	require.NotEmpty(t, executable, "NHC_HELM has to name Helm: run make verify-chart")
	command := exec.CommandContext(context.WithoutCancel(t.Context()), executable, args...)
	home := t.TempDir() // No settings of the user who runs the test.
	command.Env = append(os.Environ(), "HOME="+home, "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home)
	return run(command)
}

// kustomize renders a directory as users do, with kubectl.
func kustomize(t *testing.T, dir string) []*unstructured.Unstructured {
	t.Helper()
	kubectl := filepath.Join(cmp.Or(os.Getenv("LOCALKUBE_BIN"), filepath.Join(root, "bin")), "kubectl")
	output, err := run(exec.CommandContext(t.Context(), kubectl, "kustomize", dir))
	require.NoError(t, err)
	return parse(t, output)
}

func run(command *exec.Cmd) (string, error) {
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	command.WaitDelay = time.Minute
	if err := command.Run(); err != nil {
		return stdout.String(), fmt.Errorf("running %s: %w: %s", strings.Join(command.Args, " "), err, stderr.String())
	}
	return stdout.String(), nil
}

// parse returns the objects in a stream of documents.
func parse(t *testing.T, stream string) []*unstructured.Unstructured {
	t.Helper()
	var objects []*unstructured.Unstructured
	for decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(stream), 4096); ; {
		var object unstructured.Unstructured
		err := decoder.Decode(&object.Object)
		if errors.Is(err, io.EOF) {
			return objects
		}
		require.NoError(t, err)
		if len(object.Object) > 0 {
			objects = append(objects, &object)
		}
	}
}

// render returns what Helm would apply in a namespace, with values such as a.b=c.
func render(t *testing.T, namespace string, values ...string) []*unstructured.Unstructured {
	t.Helper()
	output, err := helm(t, append([]string{"template", release, chartDir, "--namespace", namespace}, set(values)...)...)
	require.NoError(t, err)
	return parse(t, output)
}

// set returns the arguments of Helm that set values.
func set(values []string) []string {
	var args []string
	for _, value := range values {
		args = append(args, "--set", value)
	}
	return args
}

// identity tells objects apart.
func identity(object *unstructured.Unstructured) string {
	return strings.Join([]string{object.GetAPIVersion(), object.GetKind(), object.GetNamespace(), object.GetName()}, " ")
}

// byIdentity requires that no two objects are the same.
func byIdentity(t *testing.T, objects []*unstructured.Unstructured) map[string]*unstructured.Unstructured {
	t.Helper()
	all := map[string]*unstructured.Unstructured{}
	for _, object := range objects {
		require.NotContains(t, all, identity(object))
		all[identity(object)] = object
	}
	return all
}
