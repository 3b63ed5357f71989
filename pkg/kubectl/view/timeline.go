// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
)

// Timeline is a history by node: what is drawn as one row per node, with a bar for each episode.
type Timeline struct {
	// Start and End are what the rows show.
	Start, End time.Time
	// Rows are sorted by name.
	Rows []TimelineRow
}

// TimelineRow is what happened to one node or Machine.
type TimelineRow struct {
	Target string
	// Episodes are in order of their detection, the oldest first: a newer one covers it.
	Episodes []*Episode
}

// NewTimeline returns the rows of a history.
func NewTimeline(history *History) *Timeline {
	t := &Timeline{Start: history.Time.Time, End: history.Time.Time}
	rows := map[string][]*Episode{}
	for i := range slices.Backward(history.Episodes) {
		episode := &history.Episodes[i]
		rows[episode.Target()] = append(rows[episode.Target()], episode)
		if episode.Detected.Time.Before(t.Start) {
			t.Start = episode.Detected.Time
		}
	}
	if history.Since != nil {
		t.Start = history.Since.Time
	}
	if history.Until != nil && history.Until.Before(&history.Time) {
		t.End = history.Until.Time
	}
	for _, target := range slices.Sorted(maps.Keys(rows)) {
		t.Rows = append(t.Rows, TimelineRow{Target: target, Episodes: rows[target]})
	}
	return t
}

// Fraction returns where between start and end an instant is, from 0 to 1. What is outside is at
// the nearer edge.
func (t *Timeline) Fraction(at time.Time) float64 {
	span := seconds(t.Start, t.End)
	if span <= 0 {
		return 1
	}
	return min(max(0, seconds(t.Start, at)/span), 1)
}

// seconds returns how long it is from a to b, also for what is too long for a [time.Duration].
func seconds(a, b time.Time) float64 {
	return float64(b.Unix()-a.Unix()) + float64(b.Nanosecond()-a.Nanosecond())/float64(time.Second)
}

const (
	// usualWidth is how wide a timeline is where lines may have any length.
	usualWidth = 120
	// leastBars is how many columns the bars have at least.
	leastBars = 20
	// tickDistance is how far apart the labels of the axis are.
	tickDistance = 16
)

// Marks of a bar before its last column, which has the letter of the outcome.
const (
	waiting     = '-' // Unhealthy, nothing has begun yet.
	remediating = '='
)

// PrintTimeline prints one line per node with a bar for each of its episodes. The last column of a bar
// is a letter: how the episode ended.
func (h *History) PrintTimeline(printer *Printer) {
	sections := Sections{Printer: printer}
	if len(h.Episodes) > 0 {
		sections.Begin()
		newTimeline(printer, h).print()
	}
	sections.Lines(noEpisodes(h))
	sections.Lines(Partial(h.Missing))
}

type timeline struct {
	*Timeline
	printer *Printer
	// names are the columns for the name of a node and the number of its episodes, and bars those
	// that are left.
	names, bars int
}

func newTimeline(printer *Printer, history *History) *timeline {
	t := &timeline{Timeline: NewTimeline(history), printer: printer}
	longest := 0
	for i := range t.Rows {
		longest = max(longest, Width(Clean(t.Rows[i].Target)))
	}
	t.names = max(longest, len("NODE")) + 2 + len("EPISODES") + 2
	width := printer.Width
	if width == 0 {
		width = usualWidth
	}
	t.bars = max(leastBars, width-t.names)
	return t
}

func (t *timeline) print() {
	t.axis()
	for i := range t.Rows {
		row := &t.Rows[i]
		clean := Clean(row.Target)
		count := strconv.Itoa(len(row.Episodes))
		padding := t.names - Width(clean) - len(count)
		line := []Cell{Text(clean + strings.Repeat(" ", max(1, padding-2)) + count + "  ")}
		t.printer.Line(0, append(line, t.bar(row.Episodes)...)...)
	}
	t.printer.Blank()
	t.printer.Line(0, Cell{Text: t.legend(), Style: Faint})
}

// axis prints the labels of the time, and a mark below each.
func (t *timeline) axis() {
	layout := "Jan 02"
	span := t.End.Sub(t.Start)
	step := t.at(tickDistance).Sub(t.Start)
	switch {
	case span < 10*time.Minute:
		layout = time.TimeOnly
	case span < 20*time.Hour:
		layout = "15:04"
	case step < 2*24*time.Hour:
		layout = "Jan 02 15:04"
	}
	labels, marks := strings.Builder{}, []byte(strings.Repeat(".", t.bars))
	for column := 0; column < t.bars; column += tickDistance {
		label := t.at(column).In(t.End.Location()).Format(layout)
		if column+len(label) > t.bars {
			break
		}
		labels.WriteString(strings.Repeat(" ", column-labels.Len()) + label)
		marks[column] = '|'
	}
	gap := strings.Repeat(" ", t.names-len("NODE")-len("EPISODES")-2)
	t.printer.Line(0, Cell{Text: strings.Repeat(" ", t.names) + labels.String(), Style: Faint})
	t.printer.Line(0, Cell{Text: "NODE" + gap + "EPISODES  ", Style: Heading}, Cell{Text: string(marks), Style: Faint})
}

// at returns the instant of a column.
func (t *timeline) at(column int) time.Time {
	return t.Start.Add(time.Duration(float64(t.End.Sub(t.Start)) * float64(column) / float64(t.bars)))
}

// column returns the column of an instant, the nearest one for what is outside.
func (t *timeline) column(at time.Time) int {
	return min(int(t.Fraction(at)*float64(t.bars)), t.bars-1)
}

// bar returns the bars of a node, as cells of one style each.
func (t *timeline) bar(episodes []*Episode) []Cell {
	marks, styles := []byte(strings.Repeat(" ", t.bars)), make([]Style, t.bars)
	for _, episode := range episodes {
		end := t.column(episode.End(t.End))
		begin := end
		if episode.Started != nil {
			begin = min(end, t.column(episode.Started.Time))
		}
		letter, style := byte('?'), Plain
		if kind, known := kindOfOutcome[episode.Outcome]; known {
			letter, style = kind.letter, kind.style
		}
		for column := t.column(episode.Detected.Time); column <= end; column++ {
			marks[column], styles[column] = waiting, style
			if column >= begin {
				marks[column] = remediating
			}
		}
		marks[end] = letter
	}
	var cells []Cell
	for column := range t.bars {
		if column == 0 || styles[column] != styles[column-1] {
			cells = append(cells, Cell{Style: styles[column]})
		}
		cells[len(cells)-1].Text += string(marks[column])
	}
	last := &cells[len(cells)-1]
	last.Text = strings.TrimRight(last.Text, " ")
	return cells
}

// legend explains the marks that are there.
func (t *timeline) legend() string {
	letters := sets.New[string]()
	for i := range t.Rows {
		for _, episode := range t.Rows[i].Episodes {
			if kind, known := kindOfOutcome[episode.Outcome]; known {
				letters.Insert(string(kind.letter) + " " + kind.text)
			} else {
				letters.Insert("? " + string(episode.Outcome))
			}
		}
	}
	return string(waiting) + " unhealthy, " + string(remediating) + " under remediation, then how it ended: " + strings.Join(sets.List(letters), ", ")
}
