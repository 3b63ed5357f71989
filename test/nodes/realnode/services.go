// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/nhc-controller/nhc-controller/test/nodes/machine"
)

const (
	restartPause = time.Second
	// tooManyExits of a service are no accident.
	tooManyExits = 3
	startTimeout = 2 * time.Minute
	pollInterval = 50 * time.Millisecond

	// containers is where the kubelet has its images and containers.
	containers = "--namespace=k8s.io"
)

// services starts programs, and restarts those that end. As process 1 it also reaps all processes that
// have lost their parent, so nothing else may wait for children.
type services struct {
	spec *machine.Spec

	mu      sync.Mutex
	waiting map[int]chan syscall.WaitStatus // By process.
	running map[string]int                  // The processes of services.
	stopped map[string]bool                 // The services that are not to be started.
	exits   map[string]int                  // How often services have ended by themselves.
}

func newServices(spec *machine.Spec) *services {
	return &services{spec: spec, waiting: map[int]chan syscall.WaitStatus{}, running: map[string]int{}, stopped: map[string]bool{}, exits: map[string]int{}}
}

// reap waits for all children, for ever.
func (s *services) reap() {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		if err != nil { // There is none.
			time.Sleep(pollInterval)
			continue
		}
		s.mu.Lock()
		if exited, ok := s.waiting[pid]; ok {
			exited <- status
			delete(s.waiting, pid)
		}
		s.mu.Unlock()
	}
}

// spawn starts a program. The caller has the lock.
func (s *services) spawn(command []string, output *os.File) (pid int, exited chan syscall.WaitStatus, err error) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return 0, nil, err
	}
	defer null.Close()
	process, err := os.StartProcess(command[0], command, &os.ProcAttr{
		Files: []*os.File{null, output, output},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return 0, nil, err
	}
	pid = process.Pid
	exited = make(chan syscall.WaitStatus, 1)
	s.waiting[pid] = exited
	return pid, exited, process.Release()
}

// output runs a program to its end, and returns what it has printed.
func (s *services) output(command ...string) (string, error) {
	file, err := os.CreateTemp("/run", "output")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.Remove(file.Name()) }()
	defer file.Close()
	s.mu.Lock()
	_, exited, err := s.spawn(command, file)
	s.mu.Unlock()
	if err != nil {
		return "", err
	}
	status := <-exited
	printed, err := os.ReadFile(file.Name())
	if err == nil && status.ExitStatus() != 0 {
		err = fmt.Errorf("%q has exited with code %d: %s", command, status.ExitStatus(), bytes.TrimSpace(printed))
	}
	return string(printed), err
}

// startAll starts all services: the images are there before anything can ask for one.
func (s *services) startAll() error {
	go s.reap()
	for _, service := range s.spec.Services {
		go s.supervise(service)
		if service.Name != machine.Runtime {
			continue
		}
		if err := s.awaitRuntime(); err != nil {
			return err
		}
		if err := s.importImages(); err != nil {
			return err
		}
	}
	return nil
}

func (s *services) awaitRuntime() error {
	var err error
	for range int(startTimeout / pollInterval) {
		if _, err = s.output("/usr/bin/ctr", "version"); err == nil {
			return nil
		}
		if broken := s.check(); broken != nil {
			return broken
		}
		time.Sleep(pollInterval)
	}
	return fmt.Errorf("%s does not start, see its log: %w", machine.Runtime, err)
}

// check returns an error if a service does not stay up, with what it has said last.
func (s *services) check() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, service := range s.spec.Services {
		if s.exits[service.Name] < tooManyExits {
			continue
		}
		said, err := os.ReadFile(service.Log)
		lines := strings.Split(strings.TrimSpace(string(said)), "\n")
		return errors.Join(fmt.Errorf("%s ends again and again, and says: %s", service.Name, lines[len(lines)-1]), err)
	}
	return nil
}

// importImages imports those that are missing. The kubelet may have deleted them for want of space.
func (s *services) importImages() error {
	listed, err := s.output("/usr/bin/ctr", containers, "images", "list", "--quiet")
	if err != nil {
		return err
	}
	have := strings.Fields(listed)
	for _, image := range s.spec.Images {
		if slices.Contains(have, image.Name) {
			continue
		}
		imported, err := s.output("/usr/bin/ctr", containers, "images", "import", image.Archive)
		if err != nil {
			return err
		}
		if !strings.Contains(imported, image.Name) {
			return fmt.Errorf("%s has no image %s: %s", image.Archive, image.Name, strings.TrimSpace(imported))
		}
	}
	return nil
}

// supervise keeps a service running, for ever.
func (s *services) supervise(service machine.Service) {
	for ; ; time.Sleep(restartPause) {
		exited, err := s.run(service)
		if err != nil {
			fmt.Fprintf(os.Stderr, "starting %s: %v\n", service.Name, err)
			continue
		}
		if exited == nil {
			continue
		}
		<-exited
		s.mu.Lock()
		delete(s.running, service.Name)
		if !s.stopped[service.Name] {
			s.exits[service.Name]++
		}
		s.mu.Unlock()
	}
}

// run starts a service, unless it is stopped: then it returns nil.
func (s *services) run(service machine.Service) (chan syscall.WaitStatus, error) {
	log, err := os.OpenFile(service.Log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped[service.Name] {
		return nil, nil
	}
	pid, exited, err := s.spawn(service.Command, log)
	if err == nil {
		s.running[service.Name] = pid
	}
	return exited, err
}

// stop sends a signal to a service, and does not start it again.
func (s *services) stop(name string, signal syscall.Signal) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	pid, ok := s.running[name]
	if !ok {
		return errors.New(name + " is not running")
	}
	s.stopped[name] = true
	return syscall.Kill(pid, signal)
}

// start starts a stopped service again, or lets it go on.
func (s *services) start(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.stopped, name)
	if pid, ok := s.running[name]; ok {
		return syscall.Kill(pid, syscall.SIGCONT)
	}
	return nil
}
