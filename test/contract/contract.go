// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package contract is what tests rely on of an API server: one table of requests and their answers. It
// runs on the one in memory and on the real one.
package contract

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
)

// step is one request and its expected answer.
type step struct {
	what, verb, path, body string
	code                   int
	reason                 string // Of a refusal.
	// want are fields of the answer, by their paths. Nil means that the field is missing.
	want map[string]any
	// keep is the name by which later steps refer to the uid and the resourceVersion of the answer, as {uid:name} and
	// {version:name}.
	keep string
	// same and newer name another answer. Its resourceVersion has to be the same, or another one.
	same, newer string
	// events are those with which a watch begins, each as its type and a name.
	events []string
}

// merge and watch are verbs of the table besides the methods of HTTP.
const (
	merge = "MERGE"
	watch = "WATCH"
)

// Run makes the requests of the table in their order. The API server has no controllers that touch their objects.
func Run(t *testing.T, config *rest.Config) {
	t.Helper()
	client, err := rest.HTTPClientFor(config)
	require.NoError(t, err)
	c := &caller{client: client, host: config.Host, kept: map[string]*unstructured.Unstructured{}}
	for _, s := range steps {
		c.make(t, &s)
	}
}

// caller makes requests, and has the answers.
type caller struct {
	client *http.Client
	host   string
	kept   map[string]*unstructured.Unstructured
}

// filled returns a text with what earlier answers said.
func (c *caller) filled(text string) string {
	for name, object := range c.kept {
		text = strings.NewReplacer("{uid:"+name+"}", string(object.GetUID()), "{version:"+name+"}", object.GetResourceVersion()).Replace(text)
	}
	return text
}

func (c *caller) send(ctx context.Context, t *testing.T, s *step) *http.Response {
	t.Helper()
	method, contentType, path := s.verb, "application/json", s.path
	switch s.verb {
	case merge:
		method, contentType = http.MethodPatch, "application/merge-patch+json"
	case watch:
		method, path = http.MethodGet, path+"&watch=true"
	}
	request, err := http.NewRequestWithContext(ctx, method, c.host+c.filled(path), strings.NewReader(c.filled(s.body)))
	require.NoError(t, err)
	request.Header.Set("Content-Type", contentType)
	request.Header.Set("Accept", "application/json")
	response, err := c.client.Do(request)
	require.NoError(t, err, s.what)
	return response
}

// make makes one request and compares the answer.
func (c *caller) make(t *testing.T, s *step) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	response := c.send(ctx, t, s)
	defer response.Body.Close()
	if s.verb == watch && s.code == 0 {
		events := []string{fmt.Sprint("ERROR ", response.StatusCode)} // A refusal is an answer or an event.
		if response.StatusCode == http.StatusOK {
			events = eventsOf(t, response.Body, len(s.events))
		}
		assert.Equal(t, s.events, events, s.what)
		return
	}
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err, s.what)
	answer := &unstructured.Unstructured{}
	if err := json.Unmarshal(body, &answer.Object); err != nil { // Not all refusals are JSON.
		answer.Object = map[string]any{}
	}
	assert.Equal(t, s.code, response.StatusCode, "%s: %s", s.what, body)
	if s.reason != "" {
		assert.Equal(t, s.reason, answer.Object["reason"], s.what)
	}
	for path, want := range s.want {
		got, _, _ := unstructured.NestedFieldNoCopy(answer.Object, strings.Split(path, ".")...)
		assert.EqualValues(t, want, got, "%s: %s", s.what, path)
	}
	if s.same != "" {
		assert.Equal(t, c.kept[s.same].GetResourceVersion(), answer.GetResourceVersion(), s.what)
	}
	if s.newer != "" {
		assert.NotEqual(t, c.kept[s.newer].GetResourceVersion(), answer.GetResourceVersion(), s.what)
	}
	if s.keep != "" {
		c.kept[s.keep] = answer
	}
}

// eventsOf reads a number of events of a watch, or fewer if the watch ends earlier.
func eventsOf(t *testing.T, body io.Reader, n int) []string {
	t.Helper()
	var events []string
	lines := bufio.NewScanner(body)
	for len(events) < n && lines.Scan() {
		var event struct {
			Type   string
			Object struct {
				Metadata struct{ Name string }
				Code     int
			}
		}
		require.NoError(t, json.Unmarshal(lines.Bytes(), &event))
		what := event.Object.Metadata.Name
		if event.Type == "ERROR" {
			what = fmt.Sprint(event.Object.Code)
		}
		events = append(events, event.Type+" "+what)
	}
	return events
}
