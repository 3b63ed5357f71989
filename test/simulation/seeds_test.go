// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"hash/fnv"
	"io"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// chosenSeeds are the seeds to simulate: those of the flags, or one half that is always the same and one half that is
// new with each change of the code.
func chosenSeeds(t *testing.T) []int64 {
	t.Helper()
	begin, again := int64(*first), *seeds
	if begin == 0 {
		begin, again = 1, (*seeds+1)/2
	}
	var chosen []int64
	for i := range again {
		chosen = append(chosen, begin+int64(i))
	}
	if again < *seeds {
		fresh := freshSeed(t)
		t.Logf("seeds %d to %d, and %d to %d", begin, begin+int64(again)-1, fresh, fresh+int64(*seeds-again)-1)
		for i := range *seeds - again {
			chosen = append(chosen, fresh+int64(i))
		}
	}
	return chosen
}

// freshSeed is a seed that follows from the code: from the program that is running.
func freshSeed(t *testing.T) int64 {
	t.Helper()
	path, err := os.Executable()
	require.NoError(t, err)
	program, err := os.Open(path)
	require.NoError(t, err)
	defer program.Close()
	hash := fnv.New32a()
	_, err = io.Copy(hash, program)
	require.NoError(t, err)
	return 1_000_000 + int64(hash.Sum32())
}
