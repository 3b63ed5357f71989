// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package localkube

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
)

// binEnv names the directory of the binaries, for those who run outside of a
// checkout.
const binEnv = "LOCALKUBE_BIN"

var moduleLine = regexp.MustCompile(`(?m)^module github\.com/nhc-controller/nhc-controller$`)

// Binary returns the path of an executable that `make localkube` builds.
func Binary(name string) (string, error) {
	dir := os.Getenv(binEnv)
	if dir == "" {
		root, err := moduleRoot()
		if err != nil {
			return "", err
		}
		dir = filepath.Join(root, "bin")
	}
	path, err := filepath.Abs(filepath.Join(dir, name))
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("looking for %s (run `make localkube` to build it, or set %s): %w", name, binEnv, err)
	}
	return path, nil
}

// moduleRoot returns the directory of the module's go.mod. Tests run in the
// directory of their package, so it is that or one above.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		content, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && moduleLine.Match(content) {
			return dir, nil
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return "", err
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", fmt.Errorf("not in a checkout of nhc-controller: set %s", binEnv)
		}
		dir = parent
	}
}
