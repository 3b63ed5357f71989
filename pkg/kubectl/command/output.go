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
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/printers"

	"github.com/nhc-controller/nhc-controller/pkg/kubectl/view"
)

// Formats of the output that only some commands have.
const (
	formatWide = "wide"
	formatName = "name"
)

// apiVersion is that of the answers of commands, which no API server has.
const apiVersion = "kubectl.nhc-controller.io/v1alpha1"

// output is the flag --output.
type output struct {
	format  string
	printer printers.ResourcePrinter
}

// add adds the flag, with the formats that kubectl has for programs. Further formats are wide and name.
func (o *output) add(command *cobra.Command, further ...string) {
	flags := genericclioptions.NewPrintFlags("")
	flags.OutputFormat = &o.format
	if !slices.Contains(further, formatName) {
		flags.NamePrintFlags = nil
	}
	formats := append(slices.Clone(further), "json", "yaml", "jsonpath=", "go-template=")
	command.Flags().StringVarP(&o.format, "output", "o", "", "Format of the output: "+strings.Join(formats, "|"))
	_ = command.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp)) // The flag exists.
	command.PreRunE = func(*cobra.Command, []string) (err error) {
		if o.format != "" && (o.format != formatWide || !slices.Contains(further, formatWide)) {
			o.printer, err = flags.ToPrinter()
		}
		return err
	}
}

// forPeople reports whether the output is text, and not for programs.
func (o *output) forPeople() bool { return o.printer == nil }

// printObject prints an object for programs.
func (o *output) printObject(r *root, object runtime.Object) error {
	if err := o.printer.PrintObj(object, r.Out); err != nil {
		return fmt.Errorf("writing the output: %w", err)
	}
	return nil
}

// encode prints a value for programs, as an object of a kind of the plugin.
func (r *root) encode(out *output, kind string, value any) error {
	object := &unstructured.Unstructured{}
	encoded, err := json.Marshal(value)
	if err == nil {
		err = utiljson.Unmarshal(encoded, &object.Object)
	}
	if err != nil {
		return fmt.Errorf("encoding the output: %w", err)
	}
	object.SetAPIVersion(apiVersion)
	object.SetKind(kind)
	return out.printObject(r, object)
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
func (r *root) show(out *output, kind string, value any, people func(*view.Printer)) error {
	if !out.forPeople() {
		return r.encode(out, kind, value)
	}
	printer := r.printer()
	people(printer)
	return printer.Err()
}

// printer returns a printer for people.
func (r *root) printer() *view.Printer { return view.NewPrinter(r.Out, r.terminalOptions()) }
