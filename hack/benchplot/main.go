// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// benchplot draws what test/bench has measured, as SVG files:
//
//	benchplot -out DIR FILE.json...
//
// Of several measurements of the same size the last one is drawn.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	out := flag.String("out", ".", "Directory of the SVG files.")
	flag.Parse()
	if err := run(*out, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "benchplot:", err)
		os.Exit(1)
	}
}

func run(out string, paths []string) error {
	if len(paths) == 0 {
		return fmt.Errorf("no files to read")
	}
	sizes, err := read(paths)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	for _, c := range charts(sizes) {
		svg, err := c.draw()
		if err != nil {
			return fmt.Errorf("drawing %s: %w", c.name, err)
		}
		if svg == nil {
			continue // Nothing of it was measured.
		}
		path := filepath.Join(out, c.name+".svg")
		if err := os.WriteFile(path, svg, 0o644); err != nil {
			return err
		}
		fmt.Println(path)
	}
	return nil
}
