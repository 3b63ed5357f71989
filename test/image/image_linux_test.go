// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/nhc-controller/nhc-controller/test/deploy"
	"github.com/nhc-controller/nhc-controller/test/localkube"
	"github.com/nhc-controller/nhc-controller/test/patience"
)

const (
	// maxCompressed is how much a node may have to pull.
	maxCompressed = 40_000_000
	// maxController is how large the controller may be. If the linker keeps every method, as
	// for html/template, it is far larger.
	maxController = 45_000_000
	// secrets is where a pod has its token.
	secrets = "var/run/secrets/kubernetes.io/serviceaccount"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 3 && os.Args[1] == enterRoot {
		fmt.Fprintln(os.Stderr, enter(os.Args[2], os.Args[3:]))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// TestImage builds the image for this machine, twice, and runs it until it leads.
func TestImage(t *testing.T) {
	t.Parallel()
	first := build(t, "022", "UTC")
	// The second build is compared only. What differs from one machine to the next must
	// not be in the image.
	require.Equal(t, digests(t, first), digests(t, build(t, "077", "Pacific/Kiritimati")))

	image := readImage(t, first)
	dir := t.TempDir()
	for i, layer := range image.manifest.Layers {
		image.layout.unpack(t, layer, image.config.RootFS.DiffIDs[i], dir)
	}
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 2, "there is nothing in the image but the binaries")
	controller, err := os.Stat(filepath.Join(dir, image.config.Config.Entrypoint[0]))
	require.NoError(t, err)
	require.Less(t, controller.Size(), int64(maxController))

	cluster := startCluster(t)
	pod := shippedPod(t, cluster)
	require.Equal(t, pod.Containers[0].Image, image.tagged.Annotations["io.containerd.image.name"])
	require.Empty(t, pod.Containers[0].Command)
	require.Equal(t, fmt.Sprintf("%d:%d", *pod.SecurityContext.RunAsUser, *pod.SecurityContext.RunAsGroup), image.config.Config.User)
	mountToken(t, cluster, dir)
	r := newRoot(t, dir, int(*pod.SecurityContext.RunAsUser), slices.Concat(image.config.Config.Entrypoint, []string{"--version"})...)

	for _, name := range []string{"nhc-controller", "nhc-dashboard"} { // As TestClusterDashboard requires of its Deployment.
		version, err := r.command(t.Context(), nil, "/"+name, "--version").Output()
		require.NoError(t, err)
		require.Equal(t, name+" version "+image.config.Config.Labels["org.opencontainers.image.version"]+"\n", string(version))
	}
	requireLeads(t, cluster, r, pod, image.config)
}

// build builds the image for this machine as a user does, and returns the directory.
func build(t *testing.T, umask, zone string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "image")
	command := exec.CommandContext(t.Context(), "sh", "-c", `umask "$1" && exec make --no-print-directory -C ../.. image-oci IMAGE_DIR="$2" IMAGE_ARCHITECTURES="$3"`,
		"sh", umask, dir, runtime.GOARCH)
	// The make that runs the tests does not concern this one.
	command.Env = slices.DeleteFunc(os.Environ(), func(variable string) bool {
		return strings.HasPrefix(variable, "MAKE") || strings.HasPrefix(variable, "MFLAGS=")
	})
	command.Env = append(command.Env, "TZ="+zone)
	output, err := command.CombinedOutput()
	require.NoError(t, err, "%s", output)
	return dir
}

// digests returns the digests of all files below a directory, by their path.
func digests(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		files[strings.TrimPrefix(path, dir)] = digestOf(content)
		return err
	})
	require.NoError(t, err)
	for _, want := range []string{"/oci/index.json", "/oci.tar", "/docker-" + runtime.GOARCH + ".tar", "/reference"} {
		require.Contains(t, slices.Collect(maps.Keys(files)), want)
	}
	return files
}

// built is what a layout has for this machine.
type built struct {
	layout   layout
	tagged   descriptor
	manifest manifest
	config   imageConfig
}

// readImage reads the image for this machine, and checks what it says of itself.
func readImage(t *testing.T, dir string) built {
	t.Helper()
	l := layout(filepath.Join(dir, "oci"))
	image := built{layout: l, tagged: l.tagged(t)}
	name := image.tagged.Annotations["io.containerd.image.name"]
	require.Equal(t, name[strings.LastIndex(name, ":")+1:], image.tagged.Annotations["org.opencontainers.image.ref.name"])
	reference, err := os.ReadFile(filepath.Join(dir, "reference"))
	require.NoError(t, err)
	require.Equal(t, name+"@"+image.tagged.Digest+"\n", string(reference))

	var index manifest
	l.decode(t, image.tagged, typeIndex, &index)
	here := find(t, index.Manifests, func(d descriptor) bool { return d.Platform.OS == "linux" && d.Platform.Architecture == runtime.GOARCH })
	l.decode(t, here, typeManifest, &image.manifest)
	l.decode(t, image.manifest.Config, typeConfig, &image.config)
	require.Equal(t, "linux/"+runtime.GOARCH, image.config.OS+"/"+image.config.Architecture)
	require.Len(t, image.config.RootFS.DiffIDs, len(image.manifest.Layers))
	compressed := image.manifest.Config.Size
	for _, layer := range image.manifest.Layers {
		compressed += layer.Size
	}
	require.Less(t, compressed, int64(maxCompressed))
	for _, label := range []string{"title", "description", "source", "licenses", "version", "created"} {
		require.NotEmpty(t, image.config.Config.Labels["org.opencontainers.image."+label], label)
	}
	require.Equal(t, image.config.Config.Labels, image.manifest.Annotations)
	require.Equal(t, image.config.Created, image.config.Config.Labels["org.opencontainers.image.created"])
	requireSBOM(t, l, index, here)
	return image
}

// requireSBOM requires that the index has lists of what is in an image, one for each binary.
func requireSBOM(t *testing.T, l layout, index manifest, image descriptor) {
	t.Helper()
	attestation := find(t, index.Manifests, func(d descriptor) bool { return d.Annotations["vnd.docker.reference.digest"] == image.Digest })
	var m manifest
	l.decode(t, attestation, typeManifest, &m)
	require.Len(t, m.Layers, 2)
	for _, layer := range m.Layers {
		var statement struct {
			Subject   []struct{ Digest map[string]string }
			Predicate struct {
				BOMFormat  string
				Components []struct{ Name string }
			}
		}
		l.decode(t, layer, typeInToto, &statement)
		require.Len(t, statement.Subject, 1)
		require.Equal(t, image.Digest, "sha256:"+statement.Subject[0].Digest["sha256"])
		require.Equal(t, "CycloneDX", statement.Predicate.BOMFormat)
		require.Contains(t, statement.Predicate.Components, struct{ Name string }{"k8s.io/client-go"})
	}
}

func startCluster(t *testing.T) *localkube.ControlPlane {
	t.Helper()
	cluster, err := localkube.Start(t.Context(), localkube.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, cluster.Stop()) })
	require.NoError(t, deploy.Install(t.Context(), cluster))
	return cluster
}

// shippedPod returns a pod of the Deployment.
func shippedPod(t *testing.T, cluster *localkube.ControlPlane) corev1.PodSpec {
	t.Helper()
	kube, err := kubernetes.NewForConfig(cluster.AdminConfig())
	require.NoError(t, err)
	deployment, err := kube.AppsV1().Deployments(deploy.Namespace).Get(t.Context(), deploy.ServiceAccount, metav1.GetOptions{})
	require.NoError(t, err)
	require.Len(t, deployment.Spec.Template.Spec.Containers, 1)
	return deployment.Spec.Template.Spec
}

// mountToken puts the token of the ServiceAccount where a kubelet mounts it.
func mountToken(t *testing.T, cluster *localkube.ControlPlane, dir string) {
	t.Helper()
	config, err := cluster.ServiceAccountConfig(t.Context(), deploy.Namespace, deploy.ServiceAccount)
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(filepath.Join(dir, secrets), 0o755))
	for name, content := range map[string][]byte{"token": []byte(config.BearerToken), "ca.crt": config.CAData, "namespace": []byte(deploy.Namespace)} {
		path := filepath.Join(dir, secrets, name)
		require.NoError(t, os.WriteFile(path, content, 0o600))
		require.NoError(t, os.Chmod(path, 0o444))
	}
}

// environment returns that of a container in a pod of this name.
func environment(t *testing.T, config *rest.Config, container corev1.Container, name string) []string {
	t.Helper()
	server, err := url.Parse(config.Host)
	require.NoError(t, err)
	env := []string{"KUBERNETES_SERVICE_HOST=" + server.Hostname(), "KUBERNETES_SERVICE_PORT=" + server.Port()}
	fields := map[string]string{"metadata.name": name, "metadata.namespace": deploy.Namespace}
	for _, variable := range container.Env {
		value := variable.Value
		if variable.ValueFrom != nil {
			require.NotNil(t, variable.ValueFrom.FieldRef, variable.Name)
			require.Contains(t, fields, variable.ValueFrom.FieldRef.FieldPath)
			value = fields[variable.ValueFrom.FieldRef.FieldPath]
		}
		env = append(env, variable.Name+"="+value)
	}
	return env
}

// requireLeads runs the image as the container of a pod until it leads, then ends it.
func requireLeads(t *testing.T, cluster *localkube.ControlPlane, r root, pod corev1.PodSpec, config imageConfig) {
	t.Helper()
	const name = "from-the-image"
	container := pod.Containers[0]
	// The ports of the Deployment may be in use on this machine.
	args := slices.Concat(config.Config.Entrypoint, container.Args, []string{"--metrics-bind-address=127.0.0.1:0", "--health-probe-bind-address=127.0.0.1:0"})
	ctx, cancel := context.WithTimeout(t.Context(), patience.Limit)
	defer cancel()
	process := r.command(ctx, slices.Concat(config.Config.Env, environment(t, cluster.AdminConfig(), container, name)), args...)
	var log bytes.Buffer // To be read when the process has exited.
	process.Stdout, process.Stderr = &log, &log
	require.NoError(t, process.Start())
	exited := make(chan error, 1)
	go func() { exited <- process.Wait() }()

	kube, err := kubernetes.NewForConfig(cluster.AdminConfig())
	require.NoError(t, err)
	for leader := ""; leader != name; {
		select {
		case err := <-exited:
			t.Fatalf("it has exited: %v\n%s", err, log.String())
		case <-time.After(100 * time.Millisecond):
		}
		lease, err := kube.CoordinationV1().Leases(deploy.Namespace).Get(ctx, deploy.LeaderLease, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		require.NoError(t, err)
		if lease.Spec.HolderIdentity != nil {
			leader, _, _ = strings.Cut(*lease.Spec.HolderIdentity, "_")
		}
	}
	r.requireConfined(t, process.Process.Pid)
	require.NoError(t, process.Process.Signal(syscall.SIGTERM))
	require.NoError(t, <-exited, log.String())
	var first struct{ Version string }
	require.NoError(t, json.Unmarshal(bytes.SplitN(log.Bytes(), []byte("\n"), 2)[0], &first), log.String())
	require.Equal(t, config.Config.Labels["org.opencontainers.image.version"], first.Version)
}
