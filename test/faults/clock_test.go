// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"encoding/binary"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// clockEnv is an environment variable that only the executable of buildClock knows. It
// names a file with the seconds by which that is ahead of the clock of the machine.
const clockEnv = "NHC_TEST_CLOCK"

// clockSource is a file of package time in that executable.
const clockSource = `package time

import (
	"syscall"
	"unsafe"
)

// ahead is memory that the test shares, so that the clock can be set while the process runs.
var ahead = mapAhead()

func mapAhead() *int64 {
	name, _ := syscall.Getenv("` + clockEnv + `")
	file, err := syscall.Open(name, syscall.O_RDONLY, 0)
	if err != nil {
		return new(int64)
	}
	memory, err := syscall.Mmap(file, 0, 8, syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		return new(int64)
	}
	return (*int64)(unsafe.Pointer(&memory[0]))
}
`

// clock is the clock of one process or several: a file that says by how much it is ahead.
type clock string

// newClock returns a clock that is right.
func newClock(t *testing.T) clock {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ahead")
	require.NoError(t, os.WriteFile(path, make([]byte, 8), 0o600))
	return clock(path)
}

// set has the clock be ahead by so much from now on.
func (c clock) set(t *testing.T, off time.Duration) {
	t.Helper()
	file, err := os.OpenFile(string(c), os.O_WRONLY, 0)
	require.NoError(t, err)
	defer file.Close()
	seconds := make([]byte, 8)
	binary.NativeEndian.PutUint64(seconds, uint64(off/time.Second))
	_, err = file.WriteAt(seconds, 0)
	require.NoError(t, err)
}

// buildClock builds the controller with a clock of its own, and returns its path. Package
// time is another one for it: Now adds an offset to the wall clock. What has passed, by
// the monotonic clock, is as ever. All packages are built anew for that, once: later they
// are in Go's build cache.
func buildClock(t *testing.T) string {
	t.Helper()
	goroot, err := exec.CommandContext(t.Context(), "go", "env", "GOROOT").Output()
	require.NoError(t, err)
	sources := filepath.Join(strings.TrimSpace(string(goroot)), "src", "time")
	source, err := os.ReadFile(filepath.Join(sources, "time.go"))
	require.NoError(t, err)
	const reading = "func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n"
	require.Equal(t, 1, strings.Count(string(source), reading), "this version of Go reads the clock in another way than the test knows")

	dir := t.TempDir()
	replace := map[string]string{}
	for name, content := range map[string]string{
		"time.go":  strings.Replace(string(source), reading, reading+"\tsec += *ahead\n", 1),
		"ahead.go": clockSource,
	} {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		replace[filepath.Join(sources, name)] = path
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	require.NoError(t, err)
	overlayPath := filepath.Join(dir, "overlay.json")
	require.NoError(t, os.WriteFile(overlayPath, overlay, 0o600))

	executable := filepath.Join(dir, "nhc-controller")
	build := exec.CommandContext(t.Context(), "go", "build", "-overlay", overlayPath, "-o", executable, "github.com/nhc-controller/nhc-controller/cmd/nhc-controller")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	output, err := build.CombinedOutput()
	require.NoError(t, err, "building the controller with a clock of its own:\n%s", output)
	return executable
}
