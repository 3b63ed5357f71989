// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/html"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/kubectl/view"
)

// attacks are texts that break out of markup, of attributes, of links, or of the direction of a text.
var attacks = []string{
	`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `'><svg onload=alert(1)>`, `javascript:alert(1)`, `</title></textarea></style><script src=//evil.example/x.js></script>`,
	`{{.}}${alert(1)}`, "a\x00b\x1b[2J\u202egpj.exe\u200b\u2028", `<!--`, `]]>`, `" onmouseover="alert(1)" x="`, `&lt;b&gt;`, "\xff\xfe<b>", `data:text/html,<script>alert(1)</script>`,
}

// poison sets every text of a value, at any depth, to an attack.
func poison(value reflect.Value, attack string) {
	switch value.Kind() {
	case reflect.String:
		if value.CanSet() {
			value.SetString(attack)
		}
	case reflect.Pointer, reflect.Interface:
		if !value.IsNil() {
			poison(value.Elem(), attack)
		}
	case reflect.Slice:
		for i := range value.Len() {
			poison(value.Index(i), attack)
		}
	case reflect.Struct:
		if value.Type() == reflect.TypeFor[metav1.Time]() {
			return
		}
		for _, field := range value.Fields() {
			poison(field, attack)
		}
	default: // No text in it.
	}
}

// restore sets again what the pages compare: without it some of what they show is not reached.
func restore(s *view.Snapshot) {
	original := snapshot()
	for i, nhc := range s.NodeHealthChecks {
		for j := range nhc.Status.Conditions {
			condition, kept := &nhc.Status.Conditions[j], &original.NodeHealthChecks[i].Status.Conditions[j]
			condition.Type, condition.Status = kept.Type, kept.Status
		}
	}
	for i, budget := range s.Budgets {
		for j := range budget.Status.Conditions {
			condition, kept := &budget.Status.Conditions[j], &original.Budgets[i].Status.Conditions[j]
			condition.Type, condition.Status = kept.Type, kept.Status
		}
	}
}

// TestHostileText: whatever the cluster says, and whatever is asked for, the page has the elements of
// its templates, and no others.
func TestHostileText(t *testing.T) {
	t.Parallel()
	for _, attack := range attacks {
		s := snapshot()
		poison(reflect.ValueOf(s), attack)
		restore(s)
		s.Missing = []view.Missing{{Resource: attack, Reason: attack}, {Resource: attack, Reason: attack + "2", Outdated: true}}
		source := newSource(s)
		source.details = details()
		poison(reflect.ValueOf(&source.details), attack)
		d := newDashboard(source)
		d.Cluster = attack
		quoted := url.QueryEscape(attack)
		for _, target := range []string{
			"/", "/nodes?list=unhealthy-nodes", "/nodes?list=next-to-become-unhealthy", "/nodes?list=" + quoted, "/check?name=" + quoted, "/node?name=" + quoted, "/node?name=x" + quoted, "/check?name=x" + quoted,
			"/history", "/history?node=" + quoted + "&check=" + quoted + "&outcome=" + quoted, "/history?since=" + quoted, "/nodes?list=unhealthy-nodes&page=" + quoted,
		} {
			answer := get(t, d, target)
			require.Equal(t, "text/html; charset=utf-8", answer.Header().Get("Content-Type"), "%s: %s", target, answer.Body)
			requireTame(t, answer.Body.String(), target)
		}
		require.Contains(t, visible(t, read(t, d, "/")), strings.ReplaceAll(string(clean([]byte(attack))), "\n", " "), "it is shown as a text")
	}
}

// requireTame requires a page that only runs and loads its own content.
func requireTame(t *testing.T, page, target string) {
	t.Helper()
	for _, r := range page {
		require.False(t, r != '\n' && unicode.Is(unicode.C, r), "%s: %U", target, r)
	}
	document, err := html.Parse(strings.NewReader(page))
	require.NoError(t, err)
	var scripts []string
	for element := range document.Descendants() {
		if element.Type == html.CommentNode {
			require.Fail(t, "a comment", "%s: %s", target, element.Data)
		}
		if element.Type != html.ElementNode {
			continue
		}
		require.NotContains(t, []string{"img", "iframe", "object", "embed", "base", "style", "b", "textarea"}, element.Data, target)
		for _, attribute := range element.Attr {
			require.False(t, strings.HasPrefix(attribute.Key, "on"), "%s: %s", target, attribute.Key)
			require.NotEqual(t, "style", attribute.Key, target)
			if element.Data == "script" && attribute.Key == "src" {
				scripts = append(scripts, attribute.Val)
			}
			if slices.Contains([]string{"href", "src", "action", "formaction", "xlink:href"}, attribute.Key) {
				require.Regexp(t, `^(#[a-z-]*|\./(\?.*)?|assets/[a-z.]+|(node|nodes|check|history)(\?.*)?)$`, attribute.Val, target)
			}
		}
		if element.Data == "script" {
			require.Nil(t, element.FirstChild, "%s: an inline script", target)
		}
	}
	require.Equal(t, []string{"assets/script.js"}, scripts, target)
}

// visible returns the texts of a page.
func visible(t *testing.T, page string) string {
	t.Helper()
	document, err := html.Parse(strings.NewReader(page))
	require.NoError(t, err)
	var text strings.Builder
	for element := range document.Descendants() {
		if element.Type == html.TextNode {
			text.WriteString(element.Data + "\n")
		}
	}
	return text.String()
}

// TestStrangeTimes: instants of any year, also in the wrong order.
func TestStrangeTimes(t *testing.T) {
	t.Parallel()
	s := snapshot()
	history := s.NodeHealthChecks[3].Status.RemediationHistory
	for i := range history {
		history[i].Detected = metav1.Date(1+i*1100, 1, 1, 0, 0, 0, 0, time.UTC)
		history[i].Finished = new(metav1.Date(9999-i*900, 1, 1, 0, 0, 0, 0, time.UTC))
	}
	d := newDashboard(newSource(s))
	page := read(t, d, "/history")
	requireTame(t, page, "history")
	require.False(t, regexp.MustCompile(`="(-[0-9.]+|[+-]?Inf|NaN)%"`).MatchString(page))
	require.Less(t, strings.Count(page, "<text "), 3*parts)
}
