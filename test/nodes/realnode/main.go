// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Command realnode is what package nodes needs besides itself, in one static executable:
//
//	realnode keeper NAME DIRECTORY   cleans up after a cluster when stdin ends
//	realnode init SPEC               process 1 of a node
//	realnode pause                   process 1 of a pod
//	realnode write DIRECTORY         in a pod: appends a line a second to DIRECTORY/log, and serves port 8080
package main

import (
	"errors"
	"fmt"
	"os"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "realnode:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return errors.New("what am I?")
	}
	commands := map[string]struct {
		arguments int
		run       func([]string) error
	}{
		"keeper":  {2, keep},
		"init":    {1, enter},
		initStage: {1, boot},
		"pause":   {0, pause},
		"write":   {1, write},
	}
	command, ok := commands[args[0]]
	if !ok || len(args)-1 != command.arguments {
		return fmt.Errorf("what is %q?", args)
	}
	return command.run(args[1:])
}
