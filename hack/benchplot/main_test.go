// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const older = `{"date": "2026-01-01T00:00:00Z", "sizes": [
	{"nodes": 1000, "outcomes": {
		"idle": {"rssBytes": 50000000},
		"latency": {"controller": {"p50": 9, "p99": 30}, "control": {"p50": 7, "p99": 20}, "requestsPerFailure": 8, "eventsPerFailure": 6},
		"storm": {"createRatio": 1.2, "recoverRatio": 1.9, "peakRSSBytes": 60000000}}},
	{"nodes": 200, "outcomes": {"idle": {"rssBytes": 40000000}}}]}`

const newer = `{"date": "2026-01-02T00:00:00Z", "sizes": [{"nodes": 1000, "outcomes": {"idle": {"rssBytes": 55000000}}}]}`

func files(t *testing.T, contents ...string) []string {
	t.Helper()
	var paths []string
	for i, content := range contents {
		path := filepath.Join(t.TempDir(), string(rune('a'+i))+".json")
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	return paths
}

func TestRead(t *testing.T) {
	t.Parallel()
	sizes, err := read(files(t, newer, older))
	if err != nil {
		t.Fatal(err)
	}
	if len(sizes) != 2 || sizes[0].nodes != 200 || sizes[1].nodes != 1000 {
		t.Fatalf("not in order of size: %+v", sizes)
	}
	if got := sizes[1].Idle.RSSBytes; got != 55e6 {
		t.Errorf("the later measurement does not count: %v", got)
	}
	if sizes[1].Latency == nil || sizes[1].Latency.Controller.P99 != 30 {
		t.Errorf("what was not measured again is gone: %+v", sizes[1].Latency)
	}
	if sizes[0].Storm != nil {
		t.Errorf("something that was not measured: %+v", sizes[0].Storm)
	}
	if _, err := read(files(t, "{")); err == nil {
		t.Error("half a file is read")
	}
}

func TestDraw(t *testing.T) {
	t.Parallel()
	out := t.TempDir()
	if err := run(out, files(t, older, newer)); err != nil {
		t.Fatal(err)
	}
	for name, texts := range map[string][]string{
		"latency":  {"p99 of the control", "milliseconds", "1000"},
		"requests": {"all but events"},
		"memory":   {"idle", "200", "1000"},
		"storm":    {"until all is over", "goal"},
	} {
		svg, err := os.ReadFile(filepath.Join(out, name+".svg"))
		if err != nil {
			t.Error(err)
			continue
		}
		if len(svg) > 60_000 {
			t.Errorf("%s: %d bytes", name, len(svg))
		}
		for _, text := range append(texts, "fill:#FFFFFF") { // Legible on a dark page too.
			if !strings.Contains(string(svg), text) {
				t.Errorf("%s: no %q", name, text)
			}
		}
		for decoder := xml.NewDecoder(strings.NewReader(string(svg))); ; {
			if _, err := decoder.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
	}
	if _, err := os.Stat(filepath.Join(out, "latency-busy.svg")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a picture of nothing: %v", err)
	}
	if err := run(out, nil); err == nil {
		t.Error("nothing to read is no error")
	}
}
