// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// clockTick is the unit of CPU times in /proc, the same on all architectures.
const clockTick = 10 * time.Millisecond

// usage is what a process has used so far.
type usage struct {
	at   time.Time
	cpu  time.Duration
	rss  int64 // Bytes, now.
	peak int64 // Bytes, since the start or resetPeak.
	read int64 // Bytes read, most of them from the network.
}

func usageOf(pid int) (usage, error) {
	u := usage{at: time.Now()}
	dir := "/proc/" + strconv.Itoa(pid) + "/"
	stat, err := os.ReadFile(dir + "stat")
	if err != nil {
		return u, fmt.Errorf("reading what the controller uses: %w", err)
	}
	if u.cpu, err = parseCPU(string(stat)); err != nil {
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
	u.rss = field(string(status), "VmRSS:") * 1024
	u.peak = field(string(status), "VmHWM:") * 1024
	u.read = field(string(io), "rchar:")
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
		total += time.Duration(ticks) * clockTick
	}
	return total, nil
}

// field returns the number behind a key, zero if there is none.
func field(text, key string) int64 {
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

// resetPeak has the peak of the memory begin at what is used now.
func resetPeak(pid int) error {
	const peak = "5"
	if err := os.WriteFile("/proc/"+strconv.Itoa(pid)+"/clear_refs", []byte(peak), 0); err != nil {
		return fmt.Errorf("resetting the peak of the memory: %w", err)
	}
	return nil
}
