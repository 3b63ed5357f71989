// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/nhc-controller/nhc-controller/pkg/kubectl/admission"
	"github.com/nhc-controller/nhc-controller/pkg/kubectl/cluster"
	"github.com/nhc-controller/nhc-controller/pkg/kubectl/simulation"
	"github.com/nhc-controller/nhc-controller/pkg/kubectl/view"
)

// recordOptions are the flags of record.
type recordOptions struct {
	file, from string
	duration   time.Duration
}

func (r *root) record() *cobra.Command {
	var options recordOptions
	command := &cobra.Command{
		Use:   "record -o FILE [--from FILE]",
		Short: "Record how nodes change, for kubectl nhc replay",
		Long: `Records how the nodes of the cluster change until you press Ctrl-C, or for a time: their
conditions, labels, creation and deletion. kubectl nhc replay shows what other
NodeHealthChecks would have done about it.

Each change is one line of JSON. What was recorded can be replayed, however the recording
ended. While the API server does not answer, nothing is recorded: the recording says so,
and continues as soon as it answers.

With --from no cluster is asked: the recording is made of what "kubectl get nodes -w -o json"
has printed.

It exits with 0 when it was stopped, and with 1 if nothing was recorded at the end.`,
		Example: `  kubectl nhc record -o storm.jsonl
  kubectl nhc record -o night.jsonl --for 12h
  kubectl nhc record --from nodes.json -o storm.jsonl`,
		GroupID: looking,
		Args:    cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			return r.runRecord(command.Context(), &options)
		},
	}
	command.Flags().StringVarP(&options.file, "output", "o", "", "File to record to, which must not exist, or - for standard output")
	command.Flags().StringVar(&options.from, "from", "", `File with what "kubectl get nodes -w -o json" has printed, or - for standard input`)
	command.Flags().DurationVar(&options.duration, "for", 0, "How long to record, 0 for as long as it is not stopped")
	return command
}

func (r *root) runRecord(ctx context.Context, options *recordOptions) error {
	switch {
	case options.file == "":
		return &cluster.Error{Sentence: "Name the file to record to: kubectl nhc record -o FILE."}
	case options.duration < 0:
		return &cluster.Error{Sentence: "Give a time with --for that is not negative."}
	case options.from != "" && options.duration != 0:
		return &cluster.Error{Sentence: "Give either --from or --for: a file is converted as a whole."}
	case options.from != "":
		return r.convert(options)
	}
	clients, err := r.clients()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watch, err := cluster.WatchNodes(ctx, clients)
	if err != nil {
		return err
	}
	defer watch.Wait()
	defer cancel()
	recorder := &recorder{root: r, file: options.file, existing: map[string]*corev1.Node{}}
	err = recorder.run(ctx, watch.Events(), options.duration)
	return errors.Join(err, recorder.close())
}

// markInterval is how often a recording writes that it goes on. So its length is known if it does not
// stop properly.
const markInterval = time.Minute

// recorder records the news of Nodes.
type recorder struct {
	*root
	file string
	// existing are the Nodes that were sent before all of them were.
	existing map[string]*corev1.Node
	// out and writer are nil until then.
	out    *recordingFile
	writer *simulation.Writer
	start  time.Time
	// lost says why and since when there is no news, nil if there is.
	lost   error
	lostAt time.Time
}

// run records until the context ends, or the time is over.
func (r *recorder) run(ctx context.Context, events <-chan cluster.NodeEvent, duration time.Duration) error {
	marks := time.NewTicker(markInterval)
	defer marks.Stop()
	var over <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return r.finish(ctx.Err())
		case <-over:
			return r.finish(nil)
		case <-marks.C:
			if r.writer != nil && r.lost == nil {
				r.writer.Mark(r.Now())
			}
		case event := <-events:
			if err := r.take(event); err != nil {
				return err
			}
			if event.Listed && duration > 0 {
				over = time.After(duration)
			}
		}
		if r.writer != nil && r.writer.Err() != nil {
			return r.out.failure()
		}
	}
}

// take records one piece of news.
func (r *recorder) take(event cluster.NodeEvent) error {
	now := r.Now()
	switch {
	case event.Lost != nil && (r.writer == nil || apierrors.IsForbidden(event.Lost)):
		return event.Lost
	case event.Lost != nil:
		r.lost, r.lostAt = event.Lost, now
		r.say("Warning: nothing is recorded for now. %s", event.Lost)
	case event.Restored && r.lost != nil:
		r.writer.Gap(r.lostAt, now)
		r.say("Warning: nothing was recorded for %s.", now.Sub(r.lostAt).Round(time.Second))
		r.lost = nil
	case event.Listed:
		return r.begin(now)
	case event.Node != nil && r.writer == nil:
		r.existing[event.Node.Name] = event.Node
	case event.Node != nil:
		r.writer.Node(event.Node, now)
	case event.Deleted != "" && r.writer == nil:
		delete(r.existing, event.Deleted)
	case event.Deleted != "":
		r.writer.Delete(event.Deleted, now)
	}
	return nil
}

// begin begins the file with the Nodes that exist, at a whole second: the output of replay has its start
// without fractions.
func (r *recorder) begin(now time.Time) error {
	out, err := r.createRecording(r.file)
	if err != nil {
		return err
	}
	now = now.Truncate(time.Second)
	r.out, r.start, r.writer = out, now, simulation.NewWriter(out, now)
	for _, name := range slices.Sorted(maps.Keys(r.existing)) {
		r.writer.Node(r.existing[name], now)
	}
	r.existing = nil
	r.say("Recording %s to %s. Ctrl-C stops it.", view.Counted(r.writer.Nodes(), "node"), out)
	return nil
}

// finish ends the recording with the time until which it is complete.
func (r *recorder) finish(interrupted error) error {
	now := r.Now()
	switch {
	case r.writer == nil:
		return cluster.Explain(interrupted, "list", "nodes")
	case r.lost != nil:
		r.writer.Gap(r.lostAt, now)
	default:
		r.writer.Mark(now)
	}
	if r.writer.Err() != nil {
		return r.out.failure()
	}
	r.say("Recorded %s of %s in %s, %d bytes, to %s.", view.Counted(r.writer.Changes(), "change"), view.Counted(r.writer.Nodes(), "node"), now.Sub(r.start).Round(time.Second), r.out.size, r.out)
	if r.lost != nil {
		return &cluster.Error{Sentence: fmt.Sprintf("Nothing was recorded for the last %s. %s", now.Sub(r.lostAt).Round(time.Second), r.lost), Cause: r.lost}
	}
	return nil
}

func (r *recorder) close() error {
	if r.out == nil {
		return nil
	}
	return r.out.close()
}

// say prints a line for people that is no part of the recording.
func (r *root) say(format string, args ...any) {
	fmt.Fprintln(r.ErrOut, view.Clean(fmt.Sprintf(format, args...)))
}

// convert makes a recording of what kubectl has printed.
func (r *root) convert(options *recordOptions) (err error) {
	in, name := r.In, sourceNames(options.from)
	if options.from != admission.StandardInput {
		file, err := os.Open(options.from)
		if err != nil {
			return &cluster.Error{Sentence: fmt.Sprintf("Cannot read what is to be converted: %v.", err), Cause: err}
		}
		defer file.Close()
		in = file
	}
	out, err := r.createRecording(options.file)
	if err != nil {
		return err
	}
	converted, err := simulation.Convert(in, out)
	switch closeErr := out.close(); {
	case out.failed != nil:
		return out.failure()
	case err != nil:
		out.remove()
		return &cluster.Error{Sentence: fmt.Sprintf("%s %v.", name, err), Cause: err}
	case closeErr != nil:
		return closeErr
	}
	r.say("Recorded %s of %s, %d bytes, to %s.", view.Counted(converted.Changes, "change"), view.Counted(converted.Nodes, "node"), out.size, out)
	if converted.Truncated {
		r.say("Warning: the last object of %s is cut off, and was left out: the recording ends early.", name)
	}
	return nil
}

// recordingFile is a new file, or standard output.
type recordingFile struct {
	io.Writer
	// file is nil for standard output.
	file   *os.File
	size   int64
	failed error
}

// createRecording returns a file that has not existed before.
func (r *root) createRecording(name string) (*recordingFile, error) {
	if name == admission.StandardInput { // The same sign stands for standard output.
		return &recordingFile{Writer: r.Out}, nil
	}
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	switch {
	case errors.Is(err, os.ErrExist):
		return nil, &cluster.Error{Sentence: fmt.Sprintf("There is a file %s already: choose another name, or remove it.", name), Cause: err}
	case err != nil:
		return nil, &cluster.Error{Sentence: fmt.Sprintf("Cannot create the recording: %v.", err), Cause: err}
	}
	return &recordingFile{Writer: file, file: file}, nil
}

// Write implements [io.Writer].
func (f *recordingFile) Write(text []byte) (int, error) {
	n, err := f.Writer.Write(text)
	f.size += int64(n)
	if err != nil {
		f.failed = err
	}
	return n, err
}

// String names the file.
func (f *recordingFile) String() string {
	if f.file == nil {
		return "standard output"
	}
	return f.file.Name()
}

// failure says why nothing more can be written.
func (f *recordingFile) failure() error {
	cause := f.failed
	if known, ok := errors.AsType[*os.PathError](cause); ok {
		cause = known.Err
	}
	return &cluster.Error{Sentence: fmt.Sprintf("Cannot write to %s: %v. What was written before can be replayed.", f, cause), Cause: f.failed}
}

func (f *recordingFile) close() error {
	if f.file == nil {
		return nil
	}
	if err := f.file.Close(); err != nil {
		return &cluster.Error{Sentence: fmt.Sprintf("Cannot write to %s: %v.", f, err), Cause: err}
	}
	return nil
}

// remove removes a file that has no recording.
func (f *recordingFile) remove() {
	if f.file != nil {
		_ = os.Remove(f.file.Name()) // It is empty, or useless.
	}
}
