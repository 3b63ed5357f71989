// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package nodes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/nhc-controller/nhc-controller/pkg/generated/clientset/versioned"
	"github.com/nhc-controller/nhc-controller/test/localkube"
	"github.com/nhc-controller/nhc-controller/test/nodes/cgroup"
	"github.com/nhc-controller/nhc-controller/test/nodes/machine"
)

// readyTimeout is how long nodes may take to be Ready. A busy machine needs some of it.
const readyTimeout = 3 * time.Minute

// Options says what differs between clusters.
type Options struct {
	// Nodes are the names of the nodes. They default to a, b and c.
	Nodes []string
	// GracePeriod is how long Kubernetes waits for a node that is silent. It defaults to 20 seconds;
	// that of Kubernetes is 50.
	GracePeriod time.Duration
	// Images are what the nodes have besides PodImage.
	Images []Image
	// KubeletArgs are arguments of the kubelets besides those that they need.
	KubeletArgs []string
	// Logs is a directory for all logs, which stays. Empty means one that goes with the cluster.
	Logs string
	// Log receives a line per step. It may be nil.
	Log io.Writer
}

// Image is an image that nodes have: a name, and an archive as `docker save` writes it.
type Image = machine.Image

// Cluster is a running cluster with real nodes.
type Cluster struct {
	*localkube.ControlPlane
	Kube    kubernetes.Interface
	NHC     versioned.Interface
	Dynamic dynamic.Interface

	opts     Options
	dir      string
	programs struct{ node, kubelet, csi string }
	images   []machine.Image
	group    cgroup.Group
	nodes    []*Node
	network  network

	keeper    *exec.Cmd
	holdOpen  io.Closer // The keeper cleans up when this is closed.
	forwarder *forwarder
	stopWork  func()
	work      sync.WaitGroup
	stop      func() error
}

// started counts the clusters of this process.
var started atomic.Int32

// Start starts a cluster, and returns when all nodes are Ready. If that fails nothing is left, except
// in Options.Logs. ctx limits the start only: the cluster ends with Stop, or with this process.
func Start(ctx context.Context, opts Options) (*Cluster, error) {
	if err := CheckRequirements(); err != nil {
		return nil, err
	}
	if len(opts.Nodes) == 0 {
		opts.Nodes = []string{"a", "b", "c"}
	}
	if opts.GracePeriod == 0 {
		opts.GracePeriod = 20 * time.Second
	}
	if opts.Log == nil {
		opts.Log = io.Discard
	}
	c := &Cluster{opts: opts}
	c.stop = sync.OnceValue(c.stopAll)
	if err := c.start(ctx); err != nil {
		err = fmt.Errorf("starting a cluster: %w", err)
		if !strings.HasPrefix(c.opts.Logs, c.dir) {
			err = fmt.Errorf("%w\nlogs are in %s", err, c.opts.Logs)
		}
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

func (c *Cluster) start(ctx context.Context) error {
	begin := time.Now()
	if err := c.prepare(); err != nil {
		return err
	}
	created := make(chan error, 1)
	go func() { created <- c.each((*Node).create) }()
	if err := errors.Join(c.startControlPlane(ctx), <-created); err != nil {
		return err
	}
	if err := c.each((*Node).PowerOn); err != nil {
		return err
	}
	if err := c.awaitReady(ctx, func() error { return c.each((*Node).check) }); err != nil {
		return err
	}
	fmt.Fprintf(c.opts.Log, "%d nodes are Ready after %s\n", len(c.nodes), time.Since(begin).Round(time.Second))
	return nil
}

// prepare finds the programs, removes what earlier clusters have left, and makes what all of this one
// have in common.
func (c *Cluster) prepare() error {
	var errs []error
	for name, path := range map[string]*string{"realnode": &c.programs.node, "kubelet": &c.programs.kubelet, "csi": &c.programs.csi} {
		var err error
		*path, err = localkube.Binary(name)
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("run `make nodes` first: %w", err)
	}
	swept, err := cgroup.SweepLeftovers(os.TempDir())
	if err != nil {
		return err
	}
	for _, name := range swept {
		fmt.Fprintf(c.opts.Log, "Removed what was left of %s\n", name)
	}
	name, err := cgroup.ClusterName()
	if err != nil {
		return err
	}
	name = fmt.Sprintf("%s%d", name, started.Add(1))
	c.dir, c.group = filepath.Join(os.TempDir(), name), cgroup.Group(name)
	if err := os.Mkdir(c.dir, 0o700); err != nil {
		return err
	}
	if err := os.Mkdir(c.shared(), 0o777); err != nil {
		return err
	}
	if c.opts.Logs == "" {
		c.opts.Logs = filepath.Join(c.dir, "logs")
	}
	if c.opts.Logs, err = filepath.Abs(c.opts.Logs); err != nil {
		return err
	}
	archive := filepath.Join(c.dir, "pod.tar")
	c.images = append([]machine.Image{{Name: PodImage, Archive: archive}}, c.opts.Images...)
	if err := packImage(archive, PodImage, c.programs.node); err != nil {
		return err
	}
	if err := c.startKeeper(); err != nil {
		return err
	}
	for i, name := range c.opts.Nodes {
		c.nodes = append(c.nodes, &Node{
			Name: name, cluster: c, index: i, dir: filepath.Join(c.dir, "node-"+name),
			logs: filepath.Join(c.opts.Logs, "node-"+name), group: c.group + cgroup.Group("/"+name),
		})
	}
	return c.network.prepareControlPlane(len(c.nodes))
}

// shared is the directory of the volumes.
func (c *Cluster) shared() string { return filepath.Join(c.dir, "shared") }

// startKeeper starts the process that cleans up, in the network of the control plane, which it holds.
func (c *Cluster) startKeeper() error {
	keeper := exec.Command(c.programs.node, "keeper", string(c.group), c.dir)
	keeper.Stderr = os.Stderr
	keeper.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Cloneflags: syscall.CLONE_NEWNET}
	hold, err := keeper.StdinPipe()
	if err != nil {
		return err
	}
	if err := keeper.Start(); err != nil {
		return fmt.Errorf("starting the keeper: %w", err)
	}
	c.keeper, c.holdOpen, c.network = keeper, hold, networkOf(keeper.Process.Pid)
	return c.group.Create()
}

func (c *Cluster) startControlPlane(ctx context.Context) (err error) {
	if c.forwarder, err = c.network.forward(); err != nil {
		return err
	}
	c.ControlPlane, err = localkube.Start(ctx, localkube.Options{
		NodeMonitorGracePeriod: c.opts.GracePeriod,
		Dir:                    filepath.Join(c.opts.Logs, "control-plane"),
		Log:                    c.opts.Log,
		Network:                &localkube.Network{Namespace: c.network.path, Address: bridgeAddress, Port: c.forwarder.port(), Nodes: c.opts.Nodes},
	})
	if err != nil {
		return err
	}
	if err := c.connect(); err != nil {
		return err
	}
	if err := c.Apply(ctx, storage); err != nil {
		return err
	}
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	c.stopWork = cancel
	c.work.Go(func() {
		if err := attach(work, c.Kube); err != nil {
			fmt.Fprintln(os.Stderr, "attaching volumes:", err)
		}
	})
	return nil
}

func (c *Cluster) connect() (err error) {
	config := c.AdminConfig()
	if c.Kube, err = kubernetes.NewForConfig(config); err != nil {
		return err
	}
	if c.NHC, err = versioned.NewForConfig(config); err != nil {
		return err
	}
	c.Dynamic, err = dynamic.NewForConfig(config)
	return err
}

// Apply applies a manifest.
func (c *Cluster) Apply(ctx context.Context, manifest string) error {
	_, err := c.KubectlInput(ctx, strings.NewReader(manifest), "apply", "-f", "-")
	return err
}

// each calls a method of all nodes, at the same time.
func (c *Cluster) each(do func(*Node) error) error {
	errs := make([]error, len(c.nodes))
	var wg sync.WaitGroup
	for i, node := range c.nodes {
		wg.Go(func() { errs[i] = do(node) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// Node returns the node of a name, which is one of Options.Nodes.
func (c *Cluster) Node(name string) *Node {
	for _, node := range c.nodes {
		if node.Name == name {
			return node
		}
	}
	panic("the cluster has no node " + name)
}

// AwaitReady returns when all nodes are Ready.
func (c *Cluster) AwaitReady(ctx context.Context) error {
	return c.awaitReady(ctx, func() error { return nil })
}

// awaitReady is AwaitReady that ends with an error if check returns one.
func (c *Cluster) awaitReady(ctx context.Context, check func() error) error {
	var ready int
	var last error // The API server may be busy.
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, readyTimeout, true, func(ctx context.Context) (bool, error) {
		ready, last = c.countReady(ctx)
		return ready == len(c.nodes), check()
	})
	if err != nil {
		return fmt.Errorf("%d of %d nodes are Ready: %w", ready, len(c.nodes), errors.Join(err, last))
	}
	return nil
}

func (c *Cluster) countReady(ctx context.Context) (int, error) {
	list, err := c.Kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, err
	}
	ready := 0
	for i := range list.Items {
		if IsReady(&list.Items[i]) {
			ready++
		}
	}
	return ready, nil
}

// IsReady is true if the kubelet says that the node is Ready.
func IsReady(node *corev1.Node) bool {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

// Network is the namespace of the control plane, which has the ends of all cables.
func (c *Cluster) Network() string { return c.network.path }

// Stop ends the cluster. Nothing is left of it, except in Options.Logs.
func (c *Cluster) Stop() error { return c.stop() }

func (c *Cluster) stopAll() error {
	var errs []error
	if c.stopWork != nil {
		c.stopWork()
		c.work.Wait()
	}
	errs = append(errs, c.each((*Node).PowerOff))
	if c.ControlPlane != nil {
		errs = append(errs, c.ControlPlane.Stop())
	}
	if c.forwarder != nil {
		c.forwarder.stop()
	}
	if c.keeper != nil {
		c.holdOpen.Close()
		errs = append(errs, c.keeper.Wait())
	} else if c.dir != "" {
		errs = append(errs, os.RemoveAll(c.dir))
	}
	return errors.Join(errs...)
}
