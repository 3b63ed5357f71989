// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/kubectl/view"
)

const (
	// rowsPerPage is how many nodes a timeline has.
	rowsPerPage = 50
	// episodesPerPage is how many episodes the table below it has.
	episodesPerPage = 500
)

// historyBody is what the page with the timeline shows.
type historyBody struct {
	// Summary says how many episodes there are.
	Summary  string
	Paging   *paging
	Timeline *timeline
	Episodes table
}

// filterForm is the form that selects episodes.
type filterForm struct {
	Node, Until              string
	Checks, Outcomes, Sinces []option
}

// option is one choice of a list.
type option struct {
	Value, Text string
	Selected    bool
}

// history is the page with the timeline.
func (d *Dashboard) history(r *request, p *page) *problem {
	p.Current = "history"
	query := r.URL.Query()
	filter, wrong := readFilter(query, r.now)
	if wrong != nil {
		return wrong
	}
	p.Title, p.Filter = "History", newFilterForm(r, query)
	history := view.NewHistory(r.state.Snapshot, filter, r.now)
	all := newRows(history)
	body := &historyBody{Paging: newPaging(r, "history", "nodes", len(all.Rows), rowsPerPage)}
	all.Rows = part(all.Rows, body.Paging)
	body.Summary = summary(history, r)
	if len(all.Rows) > 0 {
		body.Timeline = newTimeline(all, r.now)
	}
	history.Episodes = slices.DeleteFunc(history.Episodes, func(e view.Episode) bool {
		return !slices.ContainsFunc(all.Rows, func(row nodeRow) bool { return row.Target == e.Target() })
	})
	body.Episodes = episodeTable(history)
	p.Body = body
	return nil
}

// readFilter reads which episodes the request asks for.
func readFilter(query url.Values, now time.Time) (view.Filter, *problem) {
	filter := view.Filter{Check: query.Get("check"), Node: query.Get("node"), Outcome: v1alpha1.EpisodeOutcome(query.Get("outcome"))}
	for name, instant := range map[string]*time.Time{"since": &filter.Since, "until": &filter.Until} {
		text := query.Get(name)
		if text == "" {
			continue
		}
		read, known := readInstant(text, now)
		if !known {
			return filter, &problem{status: http.StatusBadRequest, Title: "Not understood", Links: []cell{{Text: "All episodes", Link: "history"}},
				Text: fmt.Sprintf("The parameter %s is %q: give an age such as 90m, 12h, 7d or 2w, or a time such as 2026-03-04T03:00.", name, text)}
		}
		*instant = read
	}
	return filter, nil
}

// readInstant reads an age or a time. One without a zone, as forms send it, is in the zone of now.
func readInstant(text string, now time.Time) (time.Time, bool) {
	if age, valid := view.ParseAge(text); valid {
		return now.Add(-age), true
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04", "2006-01-02T15:04:05", time.DateOnly} {
		if read, err := time.ParseInLocation(layout, text, now.Location()); err == nil {
			return read, true
		}
	}
	return time.Time{}, false
}

// newFilterForm returns the form, with what the request asks for.
func newFilterForm(r *request, query url.Values) *filterForm {
	form := &filterForm{Node: query.Get("node")}
	if until, known := readInstant(query.Get("until"), r.now); known {
		form.Until = until.In(r.now.Location()).Format("2006-01-02T15:04")
	}
	form.Checks = []option{{Text: "all"}}
	for _, check := range view.Checks(r.state.Snapshot) {
		form.Checks = append(form.Checks, option{Value: check, Text: check})
	}
	form.Outcomes = []option{{Text: "all"}, {Value: string(view.Open), Text: view.Outcome("").Text}}
	for _, outcome := range outcomes {
		form.Outcomes = append(form.Outcomes, option{Value: string(outcome), Text: view.Outcome(outcome).Text})
	}
	form.Sinces = []option{{Text: "any time"}, {"1h", "the last hour", false}, {"6h", "the last 6 hours", false}, {"24h", "the last 24 hours", false},
		{"7d", "the last 7 days", false}, {"30d", "the last 30 days", false}}
	form.Checks = selectOption(form.Checks, query.Get("check"))
	form.Outcomes = selectOption(form.Outcomes, query.Get("outcome"))
	form.Sinces = selectOption(form.Sinces, query.Get("since"))
	return form
}

// selectOption marks a choice, which it adds if it is none of the list.
func selectOption(options []option, value string) []option {
	i := slices.IndexFunc(options, func(o option) bool { return o.Value == value })
	if i < 0 {
		options, i = append(options, option{Value: value, Text: value}), len(options)
	}
	options[i].Selected = true
	return options
}

// outcomes are those that a filter offers.
var outcomes = []v1alpha1.EpisodeOutcome{
	v1alpha1.OutcomeRecovered, v1alpha1.OutcomeRecoveredWithoutRemediation, v1alpha1.OutcomeReplaced, v1alpha1.OutcomeNodeDeleted,
	v1alpha1.OutcomeCancelled, v1alpha1.OutcomeDryRun, view.EndUnknown,
}

// summary says how many episodes are selected, and which ones.
func summary(history *view.History, r *request) string {
	text := view.Counted(len(history.Episodes), "episode")
	if history.Since != nil {
		text += " since " + view.At(history.Since, r.now)
	}
	if history.Until != nil {
		text += " until " + view.At(history.Until, r.now)
	}
	return text + ". Status keeps the last ones of each health check."
}

// episodeTable shows the bars of a timeline as a table.
func episodeTable(history *view.History) table {
	t := newTable(history.Table(true))
	t.Empty = "No node was unhealthy, as far as is recorded and selected."
	outcome := slices.Index(t.Header, "Outcome")
	for i := range history.Episodes {
		e, row := &history.Episodes[i], t.Rows[i]
		row[outcome].Shape = shapeOf(e.Outcome)
		if e.Node == "" {
			row[2] = plain("Machine " + e.Machine)
		}
	}
	t.Rows, t.Hidden = first(t.Rows, episodesPerPage)
	return t
}
