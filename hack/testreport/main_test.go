// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const events = `{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"fine\n"}
{"Action":"pass","Package":"p","Test":"TestA","Elapsed":1.04}
{"Action":"pass","Package":"p","Test":"TestB/sub","Elapsed":70}
{"Action":"pass","Package":"p","Test":"TestB","Elapsed":70.5}
{"Action":"output","Package":"p","Output":"ok  \tp\t71.5s\n"}
{"Action":"pass","Package":"p","Elapsed":71.5}
{"Action":"skip","Package":"github.com/nhc-controller/nhc-controller/test/q","Test":"TestC","Elapsed":0}
{"Action":"skip","Package":"without/tests","Elapsed":0}
`

const (
	failure = `{"Action":"output","Package":"p","Test":"TestD","Output":"wrong\n"}
{"Action":"fail","Package":"p","Test":"TestD","Elapsed":2}
{"Action":"fail","Package":"p","Elapsed":2}
`
	noBuild = `{"ImportPath":"p","Action":"build-output","Output":"a.go:1: wrong\n"}
{"ImportPath":"p","Action":"build-fail"}
{"Action":"output","Package":"p","Output":"FAIL\tp [build failed]\n"}
{"Action":"fail","Package":"p","Elapsed":0,"FailedBuild":"p"}
`
	cachedPackage = `{"Action":"output","Package":"p","Output":"ok  \tp\t(cached)\n"}
{"Action":"pass","Package":"p"}
`
)

func TestRun(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		events, skips string
		slowest       int
		want, wantErr string
	}{
		"allowed": {
			events: events, skips: "# Because.\n\ntest/q TestC # and more\n", slowest: 2,
			want: "The slowest of 3 tests:\n" +
				"   1m10.5s  p TestB\n        1s  p TestA\nskipped: test/q TestC\n3 passed, 0 failed, 1 skipped\n",
		},
		"unchanged": {
			events: events + cachedPackage, skips: "test/q TestC", slowest: 2,
			want: "The slowest of 1 tests:\n        0s  test/q TestC\nunchanged since their tests passed: 1 packages\nskipped: test/q TestC\n" +
				"3 passed, 0 failed, 1 skipped\n",
		},
		"failed": {
			events: failure, wantErr: "tests failed",
			want: "The slowest of 1 tests:\nfailed: p TestD\n0 passed, 1 failed\n",
		},
		"not compiled": {
			events: noBuild, wantErr: "tests failed",
			want: "The slowest of 1 tests:\nfailed: p\n0 passed, 1 failed\n",
		},
		"killed":      {events: failure + `{"Action":"out`, wantErr: "tests failed", want: "The slowest of 1 tests:\nfailed: p TestD\n0 passed, 1 failed\n"},
		"not allowed": {events: events, skips: "test/q TestD\n", wantErr: "test/q TestC was skipped"},
		"nothing":     {wantErr: "no test was run"},
		"no test":     {events: `{"Action":"skip","Package":"without/tests"}` + "\n", wantErr: "no test was run"},
		"not JSON":    {events: "FAIL\n", wantErr: "FAIL"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			skips, file := filepath.Join(dir, "skips.txt"), filepath.Join(dir, "events.json")
			require.NoError(t, os.WriteFile(skips, []byte(tc.skips), 0o600))
			require.NoError(t, os.WriteFile(file, []byte(tc.events), 0o600))
			var out strings.Builder
			err := run(&out, skips, tc.slowest, []string{file})
			if tc.wantErr == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, tc.wantErr)
			}
			if tc.want != "" {
				require.Equal(t, tc.want, out.String())
			}
		})
	}
}

func TestFollow(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		events string
		each   bool
		want   string
	}{
		"packages": {events: events, want: "pass p (1m11.5s)\n"},
		"tests":    {events: events, each: true, want: "pass p TestA (1s)\npass p TestB (1m10.5s)\npass p (1m11.5s)\nskip test/q TestC (0s)\n"},
		"cached":   {events: cachedPackage, want: "pass p (cached)\n"},
		"failed":   {events: failure, want: "wrong\nfail p TestD (2s)\nfail p (2s)\n"},
		"no build": {events: noBuild, want: "a.go:1: wrong\nFAIL\tp [build failed]\nfail p (0s)\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "events.json")
			var out strings.Builder
			require.NoError(t, followInto(file, strings.NewReader(tc.events), &out, tc.each))
			require.Equal(t, tc.want, out.String())
			kept, err := os.ReadFile(file)
			require.NoError(t, err)
			require.Equal(t, tc.events, string(kept))
		})
	}
}
