// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package machine is what package nodes and process 1 of a node say to each other.
package machine

import "github.com/nhc-controller/nhc-controller/test/nodes/cgroup"

// Where a node has what it is told to have.
const (
	Disk   = "/run/disk"   // What survives a power cut.
	Shared = "/run/shared" // The volumes, which all nodes share.
)

// Spec describes a node to its process 1.
type Spec struct {
	Name   string
	Group  cgroup.Group
	Disk   string // The file that is its disk.
	Shared string // The directory that all nodes share.
	Images []Image
	// Services are started in this order. What ends is started again.
	Services []Service
}

// Image is an image that a node has.
type Image struct {
	Name    string
	Archive string // As `docker save` writes it.
}

// Service is a program that a node runs all the time.
type Service struct {
	Name    string
	Command []string
	Log     string
}

// The names of the services.
const (
	Runtime = "containerd"
	Kubelet = "kubelet"
	Storage = "csi"
)

// What a node is told to do.
const (
	Boot   = "boot"   // Answered when all services run.
	Check  = "check"  // Answered with an error if a service does not stay up.
	Import = "import" // Imports the images that are missing.
	Stop   = "stop"   // Sends Signal to Service, and does not start it again.
	Start  = "start"  // Undoes Stop.
)

// Command is what a node is told.
type Command struct {
	Do      string
	Service string
	Signal  int
}

// Answer is what it answers. Without an error it has done it.
type Answer struct {
	Error string
}
