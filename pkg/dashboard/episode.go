// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"cmp"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/nhc-controller/nhc-controller/pkg/kubectl/view"
)

// episodeBody is what the page of one episode shows.
type episodeBody struct {
	Timeline       *timeline
	Episode, Steps table
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
		p.Body = &episodeBody{Timeline: newTimeline(shown, r.now), Episode: episodeTable(history), Steps: stepTable(r, e)}
		return nil
	}
	return &problem{
		status: http.StatusNotFound, Title: "No such episode", Text: "It is not recorded, or not any more: status keeps the last ones of each health check.",
		Links: []cell{{Text: "All episodes", Link: "history"}},
	}
}

func stepTable(r *request, e *view.Episode) table {
	shown := view.Table{Title: "Steps", Header: []string{"STEP", "KIND", "TEMPLATE", "STARTED", "ENDED", "TOOK", "RESULT"}}
	for i := range e.Steps {
		step := &e.Steps[i]
		end := r.now
		if step.Ended != nil {
			end = step.Ended.Time
		}
		shown.Add(view.Text(strconv.Itoa(i+1)), view.Text(step.Kind), view.Text(cmp.Or(step.TemplateName, view.Unknown)), view.Text(view.At(&step.Started, r.now)),
			view.Text(view.At(step.Ended, r.now)), view.Text(duration.HumanDuration(max(0, end.Sub(step.Started.Time)))), view.Text(cmp.Or(string(step.Result), "running")))
	}
	t := newTable(shown)
	t.Empty = "No remediation object was created."
	return t
}
