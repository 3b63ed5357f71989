// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package nodes

import (
	"embed"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"

	"github.com/nhc-controller/nhc-controller/test/nodes/machine"
)

//go:embed config
var configs embed.FS

// writeConfig writes the configuration of a node into its directory, and what its process 1 has to
// know. It returns the path of the latter.
func (n *Node) writeConfig() (string, error) {
	dir := filepath.Join(n.dir, "config")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	values := strings.NewReplacer(
		"PLUGIN_DIR", pluginDir, "CONFIG_DIR", dir, "POD_IMAGE", PodImage, "POD_RANGE", podRange(n.index),
	)
	files, err := configs.ReadDir("config")
	if err != nil {
		return "", err
	}
	for _, file := range files {
		content, err := configs.ReadFile("config/" + file.Name())
		if err != nil {
			return "", err
		}
		if err := os.WriteFile(filepath.Join(dir, file.Name()), []byte(values.Replace(string(content))), 0o600); err != nil {
			return "", err
		}
	}
	kubeconfig, err := n.cluster.NodeKubeconfig(n.Name)
	if err != nil {
		return "", err
	}
	content, err := json.Marshal(&machine.Spec{
		Name:     n.Name,
		Group:    n.group,
		Disk:     n.disk(),
		Shared:   n.cluster.shared(),
		Images:   n.cluster.images,
		Services: n.services(dir, kubeconfig),
	})
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "spec.json")
	return path, os.WriteFile(path, content, 0o600)
}

func (n *Node) services(config, kubeconfig string) []machine.Service {
	log := func(name string) string { return filepath.Join(n.logs, name+".log") }
	return []machine.Service{
		{Name: machine.Runtime, Log: log(machine.Runtime), Command: []string{"/usr/bin/containerd", "--config=" + filepath.Join(config, "containerd.toml")}},
		{Name: machine.Storage, Log: log(machine.Storage), Command: []string{n.cluster.programs.csi, n.Name, machine.Shared}},
		{Name: machine.Kubelet, Log: log(machine.Kubelet), Command: append([]string{
			n.cluster.programs.kubelet,
			"--config=" + filepath.Join(config, "kubelet.yaml"),
			"--kubeconfig=" + kubeconfig,
			"--hostname-override=" + n.Name,
			"--node-ip=" + nodeAddress(n.index),
			"--cert-dir=/run/pki",
		}, n.cluster.opts.KubeletArgs...)},
	}
}
