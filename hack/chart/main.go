// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Command chart makes the parts of the Helm chart that follow from the manifests, and
// packs the chart for a release:
//
//	chart generate ROOT
//	chart pack CHART IMAGE FILE
//
// ROOT is the repository, CHART the directory of the chart, and IMAGE the name of the
// image with tag and digest. Of the same files pack makes the same bytes.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) == 2 && args[0] == "generate":
		return write(args[1])
	case len(args) == 4 && args[0] == "pack":
		return pack(args[1], args[2], args[3])
	default:
		return errors.New("usage: chart generate ROOT | chart pack CHART IMAGE FILE")
	}
}

// write puts the generated files into the chart.
func write(root string) error {
	files, err := generate(root)
	if err != nil {
		return err
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(root, chartDir, name), content, 0o644); err != nil {
			return err
		}
	}
	return nil
}
