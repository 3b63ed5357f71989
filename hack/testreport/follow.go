// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// The actions of an event that end a test or a package.
const (
	pass = "pass"
	fail = "fail"
	skip = "skip"
)

// event is a line of `go test -json`: what happened to a test, to a package if Test is empty, or to a build.
type event struct {
	Action     string
	Package    string
	ImportPath string // Of a build.
	Test       string
	Elapsed    float64
	Output     string
	// Cached means that the package has not changed since the test passed, so that it was not run.
	Cached bool
}

func (e *event) name() string {
	return strings.TrimSpace(strings.TrimPrefix(e.Package, "github.com/nhc-controller/nhc-controller/") + " " + e.Test)
}

func (e *event) isResult() bool { return e.Action == pass || e.Action == fail || e.Action == skip }

func (e *event) isCached() bool {
	return e.Test == "" && strings.HasPrefix(e.Output, "ok ") && strings.Contains(e.Output, "(cached)")
}

// read hands on the events of complete lines: a run that was killed may leave half a line.
func read(r io.Reader, each func(*event) error) error {
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		var e event
		if err := json.Unmarshal(line, &e); err != nil {
			return fmt.Errorf("%w: %s", err, line)
		}
		if err := each(&e); err != nil {
			return err
		}
	}
}

// followInto follows the tests, and keeps their events in a file.
func followInto(name string, in io.Reader, out io.Writer, each bool) error {
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := follow(io.TeeReader(in, file), out, each); err != nil {
		return err
	}
	return file.Close()
}

// follow prints results as they come. Output of a test is printed once the test has failed.
func follow(in io.Reader, out io.Writer, each bool) error {
	output := map[string]*strings.Builder{} // Keyed by package and test.
	return read(in, func(e *event) error {
		key := e.Package + " " + e.Test
		switch {
		case e.Action == "build-output":
			fmt.Fprint(out, e.Output)
		case e.Action == "output":
			if output[key] == nil {
				output[key] = &strings.Builder{}
			}
			output[key].WriteString(e.Output)
		case e.isResult():
			printResult(out, e, output[key], each)
			delete(output, key)
		}
		return nil
	})
}

// printResult prints a line about a package or, if wanted, about a test without its subtests.
func printResult(out io.Writer, e *event, output *strings.Builder, each bool) {
	if e.Action == fail && output != nil {
		fmt.Fprint(out, output)
	}
	isPackage, isSubtest := e.Test == "", strings.Contains(e.Test, "/")
	switch {
	case isPackage && e.Action == skip: // It has no tests.
	case isPackage && output != nil && strings.Contains(output.String(), "(cached)"):
		fmt.Fprintf(out, "%-4s %s (cached)\n", e.Action, e.name())
	case isPackage || (each && !isSubtest) || e.Action == fail:
		fmt.Fprintf(out, "%-4s %s (%s)\n", e.Action, e.name(), e.elapsed())
	}
}
