// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package localkube

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// defaultGrace is how long a process may take to end after SIGTERM.
const defaultGrace = 15 * time.Second

// Command describes a process to start.
type Command struct {
	// Name names the process in errors, and its log: NAME.log. The log of a name
	// that is used again is continued.
	Name string
	// Path is the executable.
	Path string
	// Args are its arguments, without the program's name.
	Args []string
	// Env is added to the environment of this process.
	Env []string
	// Grace is the time between SIGTERM and SIGKILL when the process is stopped, or
	// when the process that started it is gone. It defaults to 15 seconds.
	Grace time.Duration

	// remove is a directory to remove when the process has been stopped, in either
	// way.
	remove string
}

// Process is a running process on a leash: it is terminated, with all the
// processes that it has started and that have not left its process group, when
// the process that started it exits, in whatever way that happens.
//
// All methods may be called from any goroutine.
type Process struct {
	name    string
	logPath string
	pid     int
	child   *os.Process // Not a child of this process, but of the leash.

	hold     *os.File // The leash ends the process when this is closed.
	holdOnce sync.Once

	exited   chan struct{} // Closed when the process and its group are gone.
	exitCode int           // Only to be read after that.
}

// startProcess returns when the process runs. The executable leash holds it.
func startProcess(leash, dir string, cmd Command) (*Process, error) {
	p := &Process{
		name:    cmd.Name,
		logPath: filepath.Join(dir, cmd.Name+".log"),
		exited:  make(chan struct{}),
	}
	log, err := os.OpenFile(p.logPath, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	held, hold, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer held.Close()
	report, pidWriter, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, hold.Close())
	}
	defer report.Close()
	p.hold = hold

	grace := cmd.Grace
	if grace == 0 {
		grace = defaultGrace
	}
	args := []string{"-grace", grace.String(), "-pid-fd", "3", "-remove", cmd.remove, "--", cmd.Path}
	command := exec.Command(leash, append(args, cmd.Args...)...)
	command.Stdin, command.Stdout, command.Stderr = held, log, log
	command.ExtraFiles = []*os.File{pidWriter}
	command.Env = append(os.Environ(), cmd.Env...)
	command.Dir = dir
	// A signal to the group of this process does not reach the leash.
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	err = command.Start()
	pidWriter.Close()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("starting %s: %w", cmd.Name, err), hold.Close())
	}
	go func() {
		defer close(p.exited)
		_ = command.Wait() // A failure is in the exit code.
		p.exitCode = command.ProcessState.ExitCode()
	}()

	line, err := bufio.NewReader(report).ReadString('\n')
	if err == nil {
		p.pid, err = strconv.Atoi(strings.TrimSpace(line))
	}
	if err == nil {
		// A handle on the process, so that no signal ever reaches another process
		// that has got the same number later.
		p.child, err = os.FindProcess(p.pid)
	}
	if err != nil {
		p.release()
		<-p.exited
		return nil, fmt.Errorf("starting %s: %s", cmd.Name, p.LogTail())
	}
	return p, nil
}

// Pid returns the id of the process itself, not of its leash.
func (p *Process) Pid() int { return p.pid }

// LogPath returns the file with the output of the process.
func (p *Process) LogPath() string { return p.logPath }

// Signal sends a signal to the process itself. It returns os.ErrProcessDone if
// the process has exited.
func (p *Process) Signal(sig os.Signal) error { return p.child.Signal(sig) }

// Kill ends the process with SIGKILL, and returns when it and its process group
// are gone.
func (p *Process) Kill() error {
	if err := p.Signal(syscall.SIGKILL); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("killing %s: %w", p.name, err)
	}
	<-p.exited
	return nil
}

// Stop ends the process with SIGTERM, or with SIGKILL if it takes longer than
// Command.Grace, and returns when it and its process group are gone.
func (p *Process) Stop() {
	p.release()
	<-p.exited
}

// Exited returns a channel that is closed when the process and its process group
// are gone.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Wait waits for the process to exit by itself or by a signal, and returns its
// exit code: 128 plus the number of the signal if it was one. An error means that
// ctx was done first.
func (p *Process) Wait(ctx context.Context) (int, error) {
	select {
	case <-p.exited:
		return p.exitCode, nil
	case <-ctx.Done():
		return 0, fmt.Errorf("waiting for %s to exit: %w", p.name, context.Cause(ctx))
	}
}

// LogTail returns the last lines of the process's output.
func (p *Process) LogTail() string {
	tail, err := tail(p.logPath, 4096)
	if err != nil {
		return err.Error()
	}
	return tail
}

func (p *Process) running() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

func (p *Process) release() {
	p.holdOnce.Do(func() { p.hold.Close() })
}

// tail returns the whole lines among the last bytes of a file.
func tail(path string, bytesAtMost int64) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return "", err
	}
	skip := max(0, info.Size()-bytesAtMost)
	content, err := io.ReadAll(io.NewSectionReader(file, skip, bytesAtMost))
	if err != nil {
		return "", err
	}
	if _, rest, found := bytes.Cut(content, []byte("\n")); found && skip > 0 {
		content = rest
	}
	return strings.TrimSpace(string(content)), nil
}
