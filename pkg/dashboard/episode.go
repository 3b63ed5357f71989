// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/nhc-controller/nhc-controller/pkg/kubectl/view"
)

// episodeBody is what the page of one episode shows.
type episodeBody struct {
	Fields   []field
	Timeline *timeline
	Steps    table
}

// episodeLink leads to an episode. A health check has one episode of a node at a time.
func episodeLink(e *view.Episode) string {
	return "episode?" + url.Values{"check": {e.Check}, "node": {e.Target()}, "detected": {e.Detected.UTC().Format(time.RFC3339)}}.Encode()
}

// episode is the page of one episode.
func (d *Dashboard) episode(r *request, p *page) *problem {
	query := r.URL.Query()
	history := view.NewHistory(r.state.Snapshot, view.Filter{Check: query.Get("check"), Node: query.Get("node")}, r.now)
	for i := range history.Episodes {
		e := &history.Episodes[i]
		if e.Detected.UTC().Format(time.RFC3339) != query.Get("detected") {
			continue
		}
		p.Title = "Episode of " + e.Target()
		history.Episodes = history.Episodes[i : i+1]
		shown := newRows(history)
		shown.End = e.End(r.now)
		p.Body = &episodeBody{Fields: episodeFields(r, e), Timeline: newTimeline(shown, r.now), Steps: stepTable(r, e)}
		return nil
	}
	return &problem{
		status: http.StatusNotFound, Title: "No such episode", Text: "It is not recorded, or not any more: status keeps the last ones of each health check.",
		Links: []cell{{Text: "All episodes", Link: "history"}},
	}
}

func episodeFields(r *request, e *view.Episode) []field {
	outcome := styled(view.Outcome(e))
	outcome.Shape = shapeOf(e.Outcome)
	fields := []field{{"Outcome", outcome}, {"Check", cell{Text: e.Check, Link: checkLink(e.Check)}}}
	if e.Node != "" {
		fields = append(fields, field{"Node", cell{Text: e.Node, Link: nodeLink(e.Node)}})
	}
	if e.Machine != "" {
		fields = append(fields, field{"Machine", plain(e.Machine)})
	}
	fields = append(fields, field{"Trigger", plain(cmp.Or(e.Trigger, "-"))}, field{"Detected", moment(view.At(&e.Detected, r.now), &e.Detected)})
	for _, phase := range []struct {
		name string
		at   *metav1.Time
	}{{"Started", e.Started}, {"Fenced", e.Fenced}, {"Finished", e.Finished}, {"Released", e.Released}} {
		value := plain("-")
		if phase.at != nil {
			value = moment(view.At(phase.at, r.now)+", "+view.After(e, phase.at).Text, phase.at)
		}
		fields = append(fields, field{phase.name, value})
	}
	if e.Replacement != "" {
		fields = append(fields, field{"Replaced by", plain(e.Replacement)})
	}
	return fields
}

func stepTable(r *request, e *view.Episode) table {
	t := table{ID: "steps", Title: "Steps", Header: []string{"Step", "Kind", "Template", "Started", "Ended", "Took", "Result"}, Empty: "No remediation object was created."}
	for i := range e.Steps {
		step := &e.Steps[i]
		end := r.now
		if step.Ended != nil {
			end = step.Ended.Time
		}
		t.Rows = append(t.Rows, []cell{
			plain(fmt.Sprint(i + 1)), plain(step.Kind), plain(cmp.Or(step.TemplateName, "-")), moment(view.At(&step.Started, r.now), &step.Started),
			moment(view.At(step.Ended, r.now), step.Ended), plain(duration.HumanDuration(max(0, end.Sub(step.Started.Time)))), plain(cmp.Or(string(step.Result), "running")),
		})
	}
	return t
}
