// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package monitoring

import (
	"encoding/json"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var labelValues = regexp.MustCompile(`^label_values\((.+), ([a-z_]+)\)$`)

// panel is a panel of the dashboard.
type panel struct {
	ID      int            `json:"id"`
	Title   string         `json:"title"`
	Type    string         `json:"type"`
	GridPos map[string]int `json:"gridPos"`
	Targets []struct {
		Expr         string `json:"expr"`
		LegendFormat string `json:"legendFormat"`
		Format       string `json:"format"`
		Instant      bool   `json:"instant"`
	} `json:"targets"`
	Transformations []struct {
		ID      string `json:"id"`
		Options struct {
			ExcludeByName map[string]bool   `json:"excludeByName"`
			IndexByName   map[string]int    `json:"indexByName"`
			RenameByName  map[string]string `json:"renameByName"`
		} `json:"options"`
	} `json:"transformations"`
	FieldConfig struct {
		Overrides []struct {
			Matcher struct {
				ID      string `json:"id"`
				Options string `json:"options"`
			} `json:"matcher"`
			Properties []struct {
				ID    string          `json:"id"`
				Value json.RawMessage `json:"value"`
			} `json:"properties"`
		} `json:"overrides"`
	} `json:"fieldConfig"`
	Description string `json:"description"`
}

// TestDashboard checks that the queries of the dashboard read only what exists, and
// that it shows every metric that only this controller has.
func TestDashboard(t *testing.T) {
	t.Parallel()
	var dashboard struct {
		UID        string  `json:"uid"`
		Title      string  `json:"title"`
		Panels     []panel `json:"panels"`
		Templating struct {
			List []struct {
				Name  string `json:"name"`
				Query any    `json:"query"`
			} `json:"list"`
		} `json:"templating"`
	}
	require.NoError(t, json.Unmarshal(read(t, root+"/manifests/monitoring/dashboard.json"), &dashboard))
	require.NotEmpty(t, dashboard.UID)
	require.NotEmpty(t, dashboard.Title)
	metrics := existing(t)
	shown := map[string]bool{}

	variables := strings.NewReplacer("$__rate_interval", "5m", "$__range", "1h")
	for _, variable := range dashboard.Templating.List {
		query, is := variable.Query.(string)
		if parts := labelValues.FindStringSubmatch(query); is && parts != nil {
			result, _, err := metrics.check(parts[1])
			require.NoError(t, err, variable.Name)
			require.Contains(t, result, parts[2], variable.Name)
		}
	}
	legend := regexp.MustCompile(`\{\{ *([a-z_]+) *\}\}`)
	ids := map[int]bool{}
	places := map[[2]int]string{}
	for _, panel := range dashboard.Panels {
		require.NotEmpty(t, panel.Title)
		require.False(t, ids[panel.ID], "%s: an id twice", panel.Title)
		ids[panel.ID] = true
		require.LessOrEqual(t, panel.GridPos["x"]+panel.GridPos["w"], 24, panel.Title)
		panel.place(t, places)
		if panel.Type == "row" {
			continue
		}
		require.NotEmpty(t, panel.Targets, panel.Title)
		for _, target := range panel.Targets {
			result, series, err := metrics.check(variables.Replace(target.Expr))
			require.NoError(t, err, "%s: %s", panel.Title, target.Expr)
			if panel.Type == "table" {
				panel.checkTable(t, result)
			}
			for _, label := range legend.FindAllStringSubmatch(target.LegendFormat, -1) {
				require.Contains(t, result, label[1], "%s: %s", panel.Title, target.LegendFormat)
			}
			for _, name := range series {
				shown[metrics[name].Name] = true
			}
		}
	}
	for _, metric := range metrics {
		if own(metric.Name) {
			require.True(t, shown[metric.Name], "the dashboard does not show %s", metric.Name)
		}
	}
}

// place checks that the panel covers no other one.
func (p *panel) place(t *testing.T, places map[[2]int]string) {
	t.Helper()
	for x := range p.GridPos["w"] {
		for y := range p.GridPos["h"] {
			place := [2]int{p.GridPos["x"] + x, p.GridPos["y"] + y}
			require.Empty(t, places[place], "%s covers another panel", p.Title)
			places[place] = p.Title
		}
	}
}

// named are the runbooks that a query names, as values of a label.
var named = regexp.MustCompile(`"((?:NodeHealthCheck|MachineHealthCheck|RemediationBudget)[A-Za-z]+)"`)

// checkTable checks that the columns of a table are those of its query, and that its links
// lead somewhere.
func (p *panel) checkTable(t *testing.T, result []string) {
	t.Helper()
	require.Len(t, p.Targets, 1, p.Title)
	require.Equal(t, "table", p.Targets[0].Format, p.Title)
	require.True(t, p.Targets[0].Instant, p.Title)
	require.Len(t, p.Transformations, 1, p.Title)
	organize := p.Transformations[0]
	require.Equal(t, "organize", organize.ID, p.Title)
	fields := append([]string{"Time", "Value"}, result...)
	shown := map[string]bool{}
	for _, field := range fields {
		if organize.Options.ExcludeByName[field] {
			continue
		}
		require.Contains(t, organize.Options.IndexByName, field, p.Title)
		if name, renamed := organize.Options.RenameByName[field]; renamed {
			field = name
		}
		shown[field] = true
	}
	for _, names := range [][]string{slices.Collect(maps.Keys(organize.Options.ExcludeByName)), slices.Collect(maps.Keys(organize.Options.IndexByName)), slices.Collect(maps.Keys(organize.Options.RenameByName))} {
		for _, name := range names {
			require.Contains(t, fields, name, p.Title)
		}
	}
	links := 0
	for _, override := range p.FieldConfig.Overrides {
		require.Equal(t, "byName", override.Matcher.ID, p.Title)
		require.Contains(t, shown, override.Matcher.Options, p.Title)
		for _, property := range override.Properties {
			if property.ID != "links" {
				continue
			}
			var list []struct {
				URL string `json:"url"`
			}
			require.NoError(t, json.Unmarshal(property.Value, &list), p.Title)
			for _, link := range list {
				links++
				path, _, _ := strings.Cut(strings.TrimPrefix(link.URL, repository), "#")
				if strings.Contains(path, "$") { // The cell names a runbook.
					require.Equal(t, runbooks+"${__value.raw}.md", link.URL, p.Title)
					continue
				}
				_, err := os.Stat(root + "/" + path)
				require.NoError(t, err, "%s: %s", p.Title, link.URL)
			}
		}
	}
	require.NotZero(t, links, p.Title)
	for _, name := range named.FindAllStringSubmatch(p.Targets[0].Expr, -1) {
		require.FileExists(t, root+"/docs/runbooks/"+name[1]+".md", p.Title)
	}
}
