// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os/exec"
	"runtime"
)

// openBrowser opens an address in the browser of the user, as the desktop of the system does it.
func openBrowser(address string) error {
	opener := []string{"xdg-open"}
	switch runtime.GOOS {
	case "darwin":
		opener = []string{"open"}
	case "windows":
		opener = []string{"rundll32", "url.dll,FileProtocolHandler"}
	}
	command := exec.Command(opener[0], append(opener[1:], address)...) //nolint:noctx // The browser stays when the dashboard ends.
	if err := command.Start(); err != nil {
		return fmt.Errorf("starting %s: %w", opener[0], err)
	}
	go func() { _ = command.Wait() }() // Its result is of no use.
	return nil
}
