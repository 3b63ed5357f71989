// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package nodes

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// Addresses, in namespaces.
const (
	serviceAddress = "10.0.0.1" // Of the API server for pods.
	bridgeAddress  = "10.77.0.1"
)

// nodeAddress returns the address of the node of an index.
func nodeAddress(i int) string { return fmt.Sprintf("10.77.0.%d", 10+i) }

// podRange returns the addresses of its pods.
func podRange(i int) string { return fmt.Sprintf("10.77.%d.0/24", 10+i) }

// network is a network namespace that some process holds.
type network struct{ path string }

func networkOf(pid int) network { return network{fmt.Sprintf("/proc/%d/ns/net", pid)} }

// ip runs commands of ip(8), one a line.
func (n network) ip(commands ...string) error {
	cmd := exec.Command("nsenter", "--net="+n.path, "ip", "-batch", "-")
	cmd.Stdin = strings.NewReader(strings.Join(commands, "\n") + "\n")
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("running ip: %w: %s", err, strings.TrimSpace(string(output)))
	}
	return nil
}

// prepareControlPlane makes the network of a control plane with a number of nodes.
func (n network) prepareControlPlane(nodes int) error {
	commands := []string{
		"link set lo up",
		"addr add " + serviceAddress + "/32 dev lo",
		// Otherwise its hardware address would change with its cables, and nodes would not find it for a while.
		"link add br0 address 02:00:00:00:00:01 type bridge",
		"addr add " + bridgeAddress + "/24 dev br0",
		"link set br0 up",
	}
	for i := range nodes {
		commands = append(commands, fmt.Sprintf("route add %s via %s", podRange(i), nodeAddress(i)))
	}
	return n.ip(commands...)
}

// plugIn connects a node with a cable. Its hardware address stays the same for ever, as others remember it.
func (n network) plugIn(node *Node, pid, nodes int) error {
	cable := node.cable()
	err := n.ip(
		fmt.Sprintf("link add %s type veth peer name eth0 address 02:00:00:00:00:%02x netns %d", cable, 10+node.index, pid),
		fmt.Sprintf("link set %s master br0", cable),
	)
	if err != nil {
		return err
	}
	commands := []string{
		"link set lo up",
		"link set eth0 up",
		"addr add " + nodeAddress(node.index) + "/24 dev eth0",
		"route add default via " + bridgeAddress,
	}
	for i := range nodes {
		if i != node.index {
			commands = append(commands, fmt.Sprintf("route add %s via %s", podRange(i), nodeAddress(i)))
		}
	}
	inside := networkOf(pid)
	if err := inside.ip(commands...); err != nil {
		return err
	}
	// The settings in /proc are those of the namespace of who opens them.
	if output, err := exec.Command("nsenter", "--net="+inside.path, "sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward").CombinedOutput(); err != nil {
		return fmt.Errorf("forwarding in the node: %w: %s", err, output)
	}
	return nil
}

// unplug removes a cable, which the kernel may have removed already, with the network of the node, or removes meanwhile.
func (n network) unplug(cable string) error {
	err := n.ip("link delete " + cable)
	for _, gone := range []string{"Cannot find device", "No such device"} {
		if err != nil && strings.Contains(err.Error(), gone) {
			return nil
		}
	}
	return err
}

// forwarder takes connections on a port of loopback on to the API server.
type forwarder struct {
	listener net.Listener
	network  *os.File
	wg       sync.WaitGroup
}

func (n network) forward() (*forwarder, error) {
	file, err := os.Open(n.path)
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		file.Close()
		return nil, err
	}
	f := &forwarder{listener: listener, network: file}
	f.wg.Go(f.accept)
	return f, nil
}

func (f *forwarder) port() int { return f.listener.Addr().(*net.TCPAddr).Port }

// stop takes no more connections. Those that there are end with the API server.
func (f *forwarder) stop() {
	_ = f.listener.Close()
	f.wg.Wait()
	f.network.Close()
}

func (f *forwarder) accept() {
	for {
		outside, err := f.listener.Accept()
		if err != nil {
			return
		}
		f.wg.Go(func() {
			defer func() { _ = outside.Close() }()
			inside, err := f.dial()
			if err != nil {
				return // It looks like an API server that is down, which it is.
			}
			defer func() { _ = inside.Close() }()
			ended := make(chan struct{}, 2)
			for _, pair := range [][2]net.Conn{{inside, outside}, {outside, inside}} {
				go func() {
					_, _ = io.Copy(pair[0], pair[1])
					ended <- struct{}{}
				}()
			}
			<-ended
		})
	}
}

// dial connects to the API server. A socket stays in the namespace of the thread that made it.
func (f *forwarder) dial() (net.Conn, error) {
	runtime.LockOSThread()
	own, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return nil, err
	}
	defer own.Close()
	if err := unix.Setns(int(f.network.Fd()), unix.CLONE_NEWNET); err != nil {
		return nil, err
	}
	connection, err := net.Dial("tcp", net.JoinHostPort(serviceAddress, "443"))
	if unix.Setns(int(own.Fd()), unix.CLONE_NEWNET) == nil {
		runtime.UnlockOSThread() // Otherwise the thread ends with its goroutine.
	}
	return connection, err
}
