// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package meter

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// ClockTick is the unit of CPU times in /proc, the same on all architectures.
const ClockTick = 10 * time.Millisecond

// Usage is what a process has used so far.
type Usage struct {
	At   time.Time
	CPU  time.Duration // In user and in kernel mode.
	RSS  int64         // Bytes of memory, now.
	Peak int64         // The most bytes of memory since the start or ResetPeak.
	Read int64         // Bytes read, most of them from the network.
}

// UsageOf returns what a process has used.
func UsageOf(pid int) (Usage, error) {
	u := Usage{At: time.Now()}
	dir := "/proc/" + strconv.Itoa(pid) + "/"
	stat, err := os.ReadFile(dir + "stat")
	if err != nil {
		return u, fmt.Errorf("reading what the controller uses: %w", err)
	}
	if u.CPU, err = parseCPU(string(stat)); err != nil {
		return u, err
	}
	status, err := os.ReadFile(dir + "status")
	if err != nil {
		return u, fmt.Errorf("reading what the controller uses: %w", err)
	}
	io, err := os.ReadFile(dir + "io")
	if err != nil {
		return u, fmt.Errorf("reading what the controller uses: %w", err)
	}
	u.RSS = Field(string(status), "VmRSS:") * 1024
	u.Peak = Field(string(status), "VmHWM:") * 1024
	u.Read = Field(string(io), "rchar:")
	return u, nil
}

// parseCPU returns the time in user and in kernel mode. The name of the process may
// contain anything, so that fields count from behind its closing parenthesis.
func parseCPU(stat string) (time.Duration, error) {
	const user, system = 11, 12
	fields := strings.Fields(stat[strings.LastIndex(stat, ")")+1:])
	if len(fields) <= system {
		return 0, fmt.Errorf("not the stat of a process: %q", stat)
	}
	var total time.Duration
	for _, i := range []int{user, system} {
		ticks, err := strconv.ParseInt(fields[i], 10, 64)
		if err != nil {
			return 0, fmt.Errorf("not the stat of a process: %w", err)
		}
		total += time.Duration(ticks) * ClockTick
	}
	return total, nil
}

// Field returns the number behind a key of a file of /proc, zero if there is none.
func Field(text, key string) int64 {
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) >= 2 && fields[0] == key {
			n, err := strconv.ParseInt(fields[1], 10, 64)
			if err == nil {
				return n
			}
		}
	}
	return 0
}

// ResetPeak sets the peak of the memory to the present usage.
func ResetPeak(pid int) error {
	const peak = "5"
	if err := os.WriteFile("/proc/"+strconv.Itoa(pid)+"/clear_refs", []byte(peak), 0); err != nil {
		return fmt.Errorf("resetting the peak of the memory: %w", err)
	}
	return nil
}
