// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

// Command leash ties the life of a command to that of the process that wants it. It is no part of
// localkube, whose start takes a tenth of a second of CPU.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
	"time"
)

// Exit codes of the leash itself, those of a shell. Otherwise it exits with the
// code of its command, or with 128 plus the number of the signal that ended it.
const (
	exitUsage         = 2
	exitCannotExecute = 126
	exitNotFound      = 127
	exitSignalBase    = 128
)

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stderr)) }

// run runs a command for as long as its parent lives and keeps stdin open. A
// parent can die in ways in which it cannot clean up, but the kernel always
// closes its end of the pipe. The command gets a process group of its own, and
// nothing of that group is left when run returns.
//
// SIGTERM is passed on to the group. SIGINT, SIGQUIT and SIGHUP, which a terminal
// sends to everything in its foreground, are not: the parent gets them too, and
// stops its servers in the order that it wants. run must be called from the main
// goroutine, and its result is the exit code of the process.
func run(args []string, stdin io.Reader, stderr io.Writer) int {
	flags := flag.NewFlagSet("leash", flag.ContinueOnError)
	flags.SetOutput(stderr)
	grace := flags.Duration("grace", 10*time.Second, "time between SIGTERM and SIGKILL")
	pidFD := flags.Int("pid-fd", -1, "file descriptor to write the process id of the command to")
	remove := flags.String("remove", "", "directory to remove when the parent has ended the command")
	if err := flags.Parse(args); err != nil {
		return exitUsage
	}
	if flags.NArg() == 0 {
		fmt.Fprintln(stderr, "usage: leash [-grace DURATION] [-pid-fd FD] [-remove DIRECTORY] -- COMMAND [ARGUMENTS]")
		return exitUsage
	}

	// Notify before the command starts, so that no signal is missed. Ignoring the
	// signals instead would make the command inherit that.
	terminate := make(chan os.Signal, 1)
	signal.Notify(terminate, syscall.SIGTERM)
	signal.Notify(make(chan os.Signal, 1), syscall.SIGINT, syscall.SIGQUIT, syscall.SIGHUP)

	// On Linux the command is killed when the thread that started it ends.
	runtime.LockOSThread()
	cmd := exec.Command(flags.Arg(0), flags.Args()[1:]...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = groupOfItsOwn()
	if err := start(cmd, *pidFD); err != nil {
		fmt.Fprintf(stderr, "leash: %v\n", err)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, exec.ErrNotFound) {
			return exitNotFound
		}
		return exitCannotExecute
	}

	parentGone := make(chan struct{})
	go func() {
		defer close(parentGone)
		_, _ = io.Copy(io.Discard, stdin)
	}()
	exited := make(chan struct{})
	go func() {
		defer close(exited)
		awaitExit(cmd)
	}()
	supervise(-cmd.Process.Pid, *grace, terminate, parentGone, exited)
	_ = cmd.Wait() // The code is read from cmd.ProcessState.
	select {
	case <-parentGone:
		if err := os.RemoveAll(*remove); err != nil {
			fmt.Fprintf(stderr, "leash: %v\n", err)
		}
	default: // The parent wants to know why its command has exited.
	}
	return exitCode(cmd.ProcessState)
}

// start starts the command and reports its process id. The descriptor for the
// report is not for the command: its reader waits until it is closed.
func start(cmd *exec.Cmd, pidFD int) error {
	if pidFD < 0 {
		return cmd.Start()
	}
	syscall.CloseOnExec(pidFD)
	report := os.NewFile(uintptr(pidFD), "pid-fd")
	if report == nil {
		return fmt.Errorf("file descriptor %d is not valid", pidFD)
	}
	defer report.Close()
	if err := cmd.Start(); err != nil {
		return err
	}
	// A parent that is gone by now is noticed by its closed stdin.
	_, _ = fmt.Fprintln(report, cmd.Process.Pid)
	return nil
}

// supervise returns when the command has exited and its group is gone. As long as the command
// is a zombie, no other process gets its number, which is that of the group: a signal to a
// group that is gone could end a process of another test.
func supervise(group int, grace time.Duration, terminate <-chan os.Signal, parentGone, exited <-chan struct{}) {
	var kill <-chan time.Time
	for {
		select {
		case <-terminate:
			_ = syscall.Kill(group, syscall.SIGTERM)
		case <-parentGone:
			_ = syscall.Kill(group, syscall.SIGTERM)
			_ = syscall.Kill(group, syscall.SIGCONT) // Or a stopped process does not get it.
			parentGone = nil
			kill = time.After(grace)
		case <-kill:
			_ = syscall.Kill(group, syscall.SIGKILL)
		case <-exited:
			// What the command left behind.
			_ = syscall.Kill(group, syscall.SIGKILL)
			return
		}
	}
}

func exitCode(state *os.ProcessState) int {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return exitSignalBase + int(status.Signal())
	}
	return state.ExitCode()
}
