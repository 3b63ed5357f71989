// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Command csi is the storage of the real nodes of test/nodes, on one of them. A volume is a
// directory below a directory that all nodes share, as network storage is. It has to be attached to
// a node before it is mounted there: the kubelet sees to that, and test/nodes plays the attacher.
//
//	csi NODE DIRECTORY
package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

const (
	driverName = "shared.nodes.nhc-controller.io"

	// Where the kubelet looks for drivers, and where this one is called.
	registrationSocket = "/var/lib/kubelet/plugins_registry/" + driverName + "-reg.sock"
	driverSocket       = "/var/lib/kubelet/plugins/" + driverName + "/csi.sock"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: csi NODE DIRECTORY")
		os.Exit(2)
	}
	if err := run(&driver{node: os.Args[1], directory: os.Args[2]}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run serves until something fails. The driver is there before the kubelet hears of it.
func run(d *driver) error {
	calls, err := listen(driverSocket)
	if err != nil {
		return err
	}
	failed := make(chan error, 2)
	server := grpc.NewServer()
	csi.RegisterIdentityServer(server, d)
	csi.RegisterNodeServer(server, d)
	go func() { failed <- server.Serve(calls) }()

	registry, err := listen(registrationSocket)
	if err != nil {
		return err
	}
	registrar := grpc.NewServer()
	registration.RegisterRegistrationServer(registrar, d)
	go func() { failed <- registrar.Serve(registry) }()
	return <-failed
}

// listen takes the place of a socket that an earlier process has left.
func listen(path string) (net.Listener, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return net.Listen("unix", path)
}

// driver is the driver on one node.
type driver struct {
	csi.UnimplementedIdentityServer
	csi.UnimplementedNodeServer
	registration.UnimplementedRegistrationServer
	node, directory string
}

func (d *driver) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	return &registration.PluginInfo{Type: registration.CSIPlugin, Name: driverName, Endpoint: driverSocket, SupportedVersions: []string{"1.0.0"}}, nil
}

func (d *driver) NotifyRegistrationStatus(_ context.Context, status *registration.RegistrationStatus) (*registration.RegistrationStatusResponse, error) {
	if !status.PluginRegistered {
		fmt.Fprintln(os.Stderr, "The kubelet did not register the driver:", status.Error)
	}
	return &registration.RegistrationStatusResponse{}, nil
}

func (d *driver) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: driverName, VendorVersion: "1"}, nil
}

func (d *driver) Probe(context.Context, *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	return &csi.ProbeResponse{}, nil
}

func (d *driver) GetPluginCapabilities(context.Context, *csi.GetPluginCapabilitiesRequest) (*csi.GetPluginCapabilitiesResponse, error) {
	return &csi.GetPluginCapabilitiesResponse{}, nil
}

func (d *driver) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	return &csi.NodeGetInfoResponse{NodeId: d.node}, nil
}

func (d *driver) NodeGetCapabilities(context.Context, *csi.NodeGetCapabilitiesRequest) (*csi.NodeGetCapabilitiesResponse, error) {
	return &csi.NodeGetCapabilitiesResponse{}, nil
}

// NodePublishVolume shows a volume to a pod. It may be called again for one that is there.
func (d *driver) NodePublishVolume(_ context.Context, request *csi.NodePublishVolumeRequest) (*csi.NodePublishVolumeResponse, error) {
	volume := filepath.Join(d.directory, request.VolumeId)
	for _, path := range []string{volume, request.TargetPath} {
		if err := os.MkdirAll(path, 0o777); err != nil {
			return nil, err
		}
	}
	source, err := os.Stat(volume)
	if err != nil {
		return nil, err
	}
	target, err := os.Stat(request.TargetPath)
	if err != nil {
		return nil, err
	}
	if !os.SameFile(source, target) {
		if err := unix.Mount(volume, request.TargetPath, "", unix.MS_BIND, ""); err != nil {
			return nil, fmt.Errorf("mounting %s: %w", request.VolumeId, err)
		}
	}
	return &csi.NodePublishVolumeResponse{}, nil
}

// NodeUnpublishVolume takes it away. It may be called again for one that is gone.
func (d *driver) NodeUnpublishVolume(_ context.Context, request *csi.NodeUnpublishVolumeRequest) (*csi.NodeUnpublishVolumeResponse, error) {
	if err := unix.Unmount(request.TargetPath, 0); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
		return nil, fmt.Errorf("unmounting %s: %w", request.VolumeId, err)
	}
	if err := os.Remove(request.TargetPath); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return &csi.NodeUnpublishVolumeResponse{}, nil
}
