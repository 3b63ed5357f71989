// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package nodes

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/nhc-controller/nhc-controller/test/nodes/cgroup"
)

// pluginDir has the network plugins of Debian.
const pluginDir = "/usr/lib/cni"

// packages of Debian have the programs that run here.
var packages = []struct{ file, name string }{
	{"/usr/bin/containerd", "containerd"},
	{"/usr/sbin/runc", "runc"},
	{pluginDir + "/bridge", "containernetworking-plugins"},
	{"iptables", "iptables"},
	{"ip", "iproute2"},
	{"nsenter", "util-linux"},
	{"mount", "mount"},
	{"mkfs.ext4", "e2fsprogs"},
}

// CheckRequirements returns an error that says what this machine lacks, and how to get it.
func CheckRequirements() error { return checkRequirements(os.Geteuid()) }

func checkRequirements(user int) error {
	if user != 0 {
		return errors.New("real nodes need root: run it with sudo")
	}
	var missing []string
	for _, p := range packages {
		if _, err := exec.LookPath(p.file); err != nil {
			missing = append(missing, p.name)
		}
	}
	if len(missing) > 0 {
		slices.Sort(missing)
		return fmt.Errorf("real nodes need more packages: apt-get install --no-install-recommends %s", strings.Join(missing, " "))
	}
	_, err := cgroup.Hierarchies()
	return err
}
