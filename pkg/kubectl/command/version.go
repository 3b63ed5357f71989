// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"github.com/spf13/cobra"

	"github.com/nhc-controller/nhc-controller/pkg/buildinfo"
)

func (r *root) version() *cobra.Command {
	var out output
	command := &cobra.Command{
		Use:   "version",
		Short: "Print the version of the plugin",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			version := buildinfo.Version()
			if out.forPeople() {
				return r.print("kubectl-nhc " + version.GitVersion + "\n")
			}
			return r.encode(&out, "Version", version)
		},
	}
	out.add(command)
	return command
}
