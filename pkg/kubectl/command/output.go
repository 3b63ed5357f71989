// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/nhc-controller/nhc-controller/pkg/kubectl/cluster"
	"github.com/nhc-controller/nhc-controller/pkg/kubectl/view"
)

// Formats of the output.
const (
	formatTable = "table"
	formatWide  = "wide"
	formatJSON  = "json"
	formatYAML  = "yaml"
	formatName  = "name"
)

// output is the flag --output.
type output struct{ format string }

// add adds the flag with these formats. The first format is the default.
func (o *output) add(command *cobra.Command, formats ...string) {
	command.Flags().StringVarP(&o.format, "output", "o", formats[0], "Format of the output: "+strings.Join(formats, "|"))
	_ = command.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp)) // The flag exists.
	before := command.PreRunE
	command.PreRunE = func(command *cobra.Command, args []string) error {
		if !slices.Contains(formats, o.format) {
			return &cluster.Error{Sentence: fmt.Sprintf("There is no output format %q here: use one of %s.", o.format, strings.Join(formats, ", "))}
		}
		if before != nil {
			return before(command, args)
		}
		return nil
	}
}

// forPeople reports whether the output is text, and not for programs.
func (o *output) forPeople() bool { return o.format == formatTable || o.format == formatWide }

// encode prints a value as JSON or YAML.
func (r *root) encode(format string, value any) error {
	encoded, err := json.MarshalIndent(value, "", "    ")
	if err == nil && format == formatYAML {
		encoded, err = yaml.JSONToYAML(encoded)
	}
	if err != nil {
		return fmt.Errorf("encoding the output: %w", err)
	}
	return r.print(strings.TrimRight(string(encoded), "\n") + "\n")
}

// printName prints the name of an object as kubectl does.
func (r *root) printName(resource schema.GroupResource, name string) error {
	kind := strings.TrimSuffix(resource.Resource, "s")
	return r.print(view.Clean(schema.GroupResource{Group: resource.Group, Resource: kind}.String()+"/"+name) + "\n")
}

func (r *root) print(text string) error {
	if _, err := fmt.Fprint(r.Out, text); err != nil {
		return fmt.Errorf("writing the output: %w", err)
	}
	return nil
}

// isTerminal reports whether a person sees the output as it comes.
func (r *root) isTerminal() (fd int, is bool) {
	file, ok := r.Out.(*os.File)
	if !ok {
		return 0, false
	}
	fd = int(file.Fd())
	return fd, term.IsTerminal(fd)
}

// terminalOptions returns the width and whether colours are wanted. What is no terminal gets lines
// of any length, without colours. NO_COLOR turns them off, whatever its value is.
func (r *root) terminalOptions() view.Options {
	fd, is := r.isTerminal()
	if !is {
		return view.Options{}
	}
	options := view.Options{Colour: r.Getenv("NO_COLOR") == "" && r.Getenv("TERM") != "dumb"}
	if width, _, err := term.GetSize(fd); err == nil {
		options.Width = width
	}
	return options
}

// show prints a value: encoded, or for people as a function does.
func (r *root) show(out output, value any, people func(*view.Printer)) error {
	if !out.forPeople() {
		return r.encode(out.format, value)
	}
	printer := r.printer()
	people(printer)
	return printed(printer)
}

// printer returns a printer for people.
func (r *root) printer() *view.Printer { return view.NewPrinter(r.Out, r.terminalOptions()) }

// printed returns the error of a printer.
func printed(printer *view.Printer) error {
	if err := printer.Err(); err != nil {
		return fmt.Errorf("writing the output: %w", err)
	}
	return nil
}
