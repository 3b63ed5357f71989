// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	machinev1beta1 "github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/kubectl/admission"
	"github.com/nhc-controller/nhc-controller/pkg/kubectl/cluster"
	"github.com/nhc-controller/nhc-controller/pkg/kubectl/lint"
	"github.com/nhc-controller/nhc-controller/pkg/kubectl/view"
)

// factsTimeout is how long a cluster is waited for when files are linted: without it, they are
// linted offline.
const factsTimeout = 30 * time.Second

// lintOptions are the flags of lint.
type lintOptions struct {
	out                        output
	files                      []string
	recursive, offline, strict bool
}

func (r *root) lint() *cobra.Command {
	var options lintOptions
	command := &cobra.Command{
		Use:   "lint [NAME | -f FILE]",
		Short: "Check health checks and budgets, in files or in the cluster",
		Long: `Checks NodeHealthChecks, MachineHealthChecks and RemediationBudgets: those in files, or those of
the cluster, all of them or the ones of a NAME. A MachineHealthCheck is named NAMESPACE/NAME.

An error is what the API server refuses, in its words; no cluster is needed for that. Advice is
about what it accepts, and you probably did not mean. Files are compared with the cluster, unless
there is none, or with --offline. Of a Git repository, what has none of these kinds is skipped,
and what has to be rendered or built first.

It exits with 1 if there are errors; with --strict, also if there is advice.`,
		Example: `  kubectl nhc lint
  kubectl nhc lint workers
  kubectl nhc lint -f nodehealthchecks/ --offline --strict
  helm template ./chart | kubectl nhc lint -f -`,
		GroupID:           looking,
		Args:              between(0, 1, "health check or budget", "kubectl nhc status"),
		ValidArgsFunction: r.complete(false, cluster.Names(cluster.Kinds{Budgets: true, MachineHealthChecks: true}), false),
		RunE: func(command *cobra.Command, args []string) error {
			return r.runLint(command.Context(), &options, args)
		},
	}
	options.out.add(command)
	command.Flags().StringSliceVarP(&options.files, "filename", "f", nil, "Files or directories to check, or - for standard input")
	command.Flags().BoolVarP(&options.recursive, "recursive", "R", false, "Check the directories in a directory, too")
	command.Flags().BoolVar(&options.offline, "offline", false, "Ask no cluster: check only what the files say")
	command.Flags().BoolVar(&options.strict, "strict", false, "Exit with 1 also if there is advice")
	return command
}

func (r *root) runLint(ctx context.Context, options *lintOptions, args []string) error {
	if err := options.check(args); err != nil {
		return err
	}
	rules, err := admission.Shipped()
	if err != nil {
		return err
	}
	var objects []lint.Object
	var facts *lint.Facts
	if len(options.files) > 0 {
		if objects, err = r.lintFiles(ctx, rules, options); err != nil {
			return err
		}
		facts, err = r.factsAbout(ctx, objects, options.offline)
	} else {
		objects, facts, err = r.lintCluster(ctx, rules, args)
	}
	if err != nil {
		return err
	}
	report := lint.NewReport(objects, facts)
	report.Offline = options.offline
	if err := r.show(&options.out, "LintReport", report, report.Print); err != nil {
		return err
	}
	if report.Errors > 0 || options.strict && report.Advice > 0 {
		return found{&cluster.Error{Sentence: "There is something to correct: " + report.Summary()}}
	}
	return nil
}

// check reports what is wrong with the flags.
func (o *lintOptions) check(args []string) error {
	switch {
	case len(args) > 0 && len(o.files) > 0:
		return &cluster.Error{Sentence: "Give either a NAME or --filename."}
	case o.offline && len(o.files) == 0:
		return &cluster.Error{Sentence: "Give files with --filename: what is in the cluster cannot be read offline."}
	}
	return nil
}

// lintFiles judges what files have as admission does.
func (r *root) lintFiles(ctx context.Context, rules *admission.Rules, options *lintOptions) ([]lint.Object, error) {
	documents, err := admission.ReadFiles(options.files, options.recursive, r.In)
	if err != nil {
		return nil, &cluster.Error{Sentence: fmt.Sprintf("Cannot read what is to be checked: %v.", err), Cause: err}
	}
	objects := make([]lint.Object, 0, len(documents))
	has := map[string]bool{}
	for i := range documents {
		document := &documents[i]
		judged, err := judgeDocument(ctx, rules, document)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(objects, func(other lint.Object) bool { return judged.SameLine(&other) }) {
			continue
		}
		has[document.Source] = has[document.Source] || !judged.Skipped
		objects = append(objects, judged)
	}
	// What else is in a file with an object to judge needs no line.
	return slices.DeleteFunc(objects, func(object lint.Object) bool { return object.OtherKind() && has[object.Source] }), nil
}

// judgeDocument returns what a document has with what admission says of it, or why it is skipped.
func judgeDocument(ctx context.Context, rules *admission.Rules, document *admission.Document) (lint.Object, error) {
	source := document.Source
	if document.Object == nil {
		const unread = "it is neither YAML nor JSON, and names no kind that there are rules about"
		switch {
		case document.Aside:
			return lint.Skip(source, document.Problem), nil
		case document.Found && !document.Mentions(lint.Kinds):
			return lint.Skip(source, unread), nil
		case document.Number > 1:
			source = fmt.Sprintf("%s, document %d", source, document.Number)
		}
		object := lint.Unreadable(source, document.Problem)
		object.Line = document.Line
		return object, nil
	}
	wrong, skipped := lint.Recognize(document.Object)
	if skipped != "" {
		return lint.Skip(document.Source, skipped), nil
	}
	if wrong != nil {
		object := objectOf(document.Object, source)
		object.Findings, object.Line = append(object.Findings, *wrong), document.Line
		return object, nil
	}
	judged, err := judge(ctx, rules, document.Object, source, document.Partial)
	judged.Line = document.Line
	return judged, err
}

// objectOf returns an object without findings.
func objectOf(object *unstructured.Unstructured, source string) lint.Object {
	return lint.Object{Source: source, Kind: object.GetKind(), Namespace: object.GetNamespace(), Name: object.GetName(), Findings: []lint.Finding{}}
}

// judge returns an object of a known kind with what admission says of it. Of a partial one, only unknown fields are wrong
// in any case.
func judge(ctx context.Context, rules *admission.Rules, object *unstructured.Unstructured, source string, partial bool) (lint.Object, error) {
	judged := objectOf(object, source)
	answer, err := rules.Create(ctx, object)
	if err != nil {
		return judged, err
	}
	for _, cause := range answer.Causes {
		if !partial {
			judged.Refuse(cause.Field, cause.Message)
		}
	}
	judged.NameKeys(object)
	for _, path := range answer.Unknown {
		judged.RefuseUnknown(path)
	}
	if source != "" {
		judged.Findings = append(judged.Findings, lint.Written(object, answer.Namespaced)...)
	}
	if !answer.Namespaced {
		judged.Namespace = ""
	}
	if len(answer.Causes) > 0 {
		return judged, nil
	}
	accepted, err := lint.NewAccepted(answer.Object)
	if err != nil {
		judged.Refuse("", err.Error())
		return judged, nil
	}
	if mhc, is := accepted.(*machinev1beta1.MachineHealthCheck); is && !partial {
		if denial := lint.Denial(mhc); denial != "" {
			judged.Refuse("", denial)
			return judged, nil
		}
	}
	judged.Accepted = accepted
	return judged, nil
}

// factsAbout asks the cluster about objects of files, if there is one.
func (r *root) factsAbout(ctx context.Context, objects []lint.Object, offline bool) (facts *lint.Facts, err error) {
	if offline {
		return &lint.Facts{}, nil
	}
	limited, cancel := context.WithTimeout(ctx, factsTimeout)
	defer cancel()
	clients, err := r.clients()
	if err == nil {
		facts, err = cluster.ReadFacts(limited, clients, objects)
	}
	if err != nil && ctx.Err() == nil {
		return &lint.Facts{Snapshot: view.Snapshot{Missing: []view.Missing{{Resource: "the cluster", Reason: err.Error()}}}}, nil
	}
	return facts, err
}

// lintCluster judges what is stored in the cluster.
func (r *root) lintCluster(ctx context.Context, rules *admission.Rules, args []string) ([]lint.Object, *lint.Facts, error) {
	clients, err := r.clients()
	if err != nil {
		return nil, nil, err
	}
	stored, missing, err := cluster.ReadObjects(ctx, clients)
	if err != nil {
		return nil, nil, err
	}
	objects, names := []lint.Object{}, []string{}
	for _, object := range stored {
		name := object.GetName()
		if object.GetNamespace() != "" {
			name = object.GetNamespace() + "/" + name
		}
		names = append(names, name)
		if len(args) > 0 && args[0] != name {
			continue
		}
		judged, err := judge(ctx, rules, object, "", false)
		if err != nil {
			return nil, nil, err
		}
		objects = append(objects, judged)
	}
	if len(args) > 0 && len(objects) == 0 {
		return nil, nil, notFound("health check or budget", args[0], names, "kubectl nhc status")
	}
	facts, err := cluster.ReadFacts(ctx, clients, objects)
	if err != nil {
		return nil, nil, err
	}
	facts.Missing = append(facts.Missing, missing...)
	return objects, facts, nil
}
