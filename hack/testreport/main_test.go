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
{"Action":"output","Package":"p","Test":"TestA","Output":"skip"}
{"Action":"pass","Package":"p","Test":"TestA","Elapsed":1.04}
{"Action":"pass","Package":"p","Test":"TestB/sub","Elapsed":70}
{"Action":"fail","Package":"p","Test":"TestB","Elapsed":70.5}
{"Action":"skip","Package":"github.com/nhc-controller/nhc-controller/test/q","Test":"TestC","Elapsed":0}
{"Action":"skip","Package":"without/tests","Elapsed":0}
`

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
				"   1m10.5s  p TestB\n        1s  p TestA\nskipped: test/q TestC\n",
		},
		"unchanged": {
			events: events + `{"Action":"output","Package":"p","Output":"ok  \tp\t(cached)\n"}` + "\n", skips: "test/q TestC", slowest: 2,
			want: "The slowest of 1 tests:\n        0s  test/q TestC\nunchanged since their tests passed: 1 packages\nskipped: test/q TestC\n",
		},
		"not allowed":    {events: events, skips: "test/q TestD\n", wantErr: "test/q TestC was skipped"},
		"nothing at all": {wantErr: "no test was run"},
		"no test":        {events: `{"Action":"skip","Package":"without/tests"}` + "\n", wantErr: "no test was run"},
		"not JSON":       {events: "FAIL\n", wantErr: "FAIL"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			skips, file := filepath.Join(dir, "skips.txt"), filepath.Join(dir, "events.json")
			require.NoError(t, os.WriteFile(skips, []byte(tc.skips), 0o600))
			require.NoError(t, os.WriteFile(file, []byte(tc.events), 0o600))
			var out strings.Builder
			err := run(&out, skips, tc.slowest, []string{file})
			if tc.wantErr != "" {
				require.ErrorContains(t, err, tc.wantErr)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tc.want, out.String())
		})
	}
}
