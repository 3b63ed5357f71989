// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package localkube

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAuditReader(t *testing.T) {
	t.Parallel()
	at := func(second int) time.Time { return time.Date(2030, 1, 1, 0, 0, second, 0, time.UTC) }
	event := func(id, stage, verb string, second int) string {
		return fmt.Sprintf(`{"auditID":%q,"verb":%q,"stage":%q,"requestReceivedTimestamp":%q}`+"\n",
			id, verb, stage, at(second).Format("2006-01-02T15:04:05.000000Z"))
	}
	const unfinished = `{"auditID":"d",`
	path := filepath.Join(t.TempDir(), auditLog)
	var reader auditReader
	for _, step := range []struct {
		name, added string
		since       time.Time
		unwanted    string
		want        []string
	}{
		{
			name:  "the order is that of arrival",
			added: event("b", "ResponseStarted", "second", 2) + event("a", "ResponseComplete", "first", 1),
			want:  []string{"first", "second"},
		},
		{
			name:  "the end of a watch, an earlier request, and a line that is being written",
			added: event("b", "ResponseComplete", "again", 2) + event("c", "ResponseComplete", "zeroth", 0) + unfinished,
			want:  []string{"zeroth", "first", "second"},
		},
		{
			name:  "the line is complete",
			added: event("d", "ResponseComplete", "also second", 2)[1:][len(`"auditID":"d",`):],
			want:  []string{"zeroth", "first", "second", "also second"},
		},
		{name: "since", since: at(1).Add(500 * time.Nanosecond), want: []string{"first", "second", "also second"}},
		{name: "since the last", since: at(2), want: []string{"second", "also second"}},
		{name: "since later", since: at(2).Add(time.Microsecond)},
		{name: "some of them", since: at(1), unwanted: "second", want: []string{"first", "also second"}},
	} {
		log, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		require.NoError(t, err)
		_, err = log.WriteString(step.added)
		require.NoError(t, err)
		require.NoError(t, log.Close())
		requests, err := reader.since(path, step.since, func(r *Request) bool { return r.Verb != step.unwanted })
		require.NoError(t, err, step.name)
		var verbs []string
		for i := range requests {
			verbs = append(verbs, requests[i].Verb)
			requests[i].Verb = "changed by the caller"
		}
		require.Equal(t, step.want, verbs, step.name)
	}

	require.NoError(t, os.WriteFile(path, []byte("no JSON\n"), 0o600))
	_, err := new(auditReader).since(path, time.Time{}, func(*Request) bool { return true })
	require.Error(t, err)
}

// TestAwaitAnswers: a request that has arrived is waited for until it is answered, and only
// once if that takes too long.
func TestAwaitAnswers(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), auditLog)
	write := func(text string) error {
		log, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		_, err = log.WriteString(text)
		return errors.Join(err, log.Close())
	}
	require.NoError(t, write(`{"auditID":"a","stage":"RequestReceived"}
{"auditID":"b","stage":"RequestReceived"}
{"auditID":"b","stage":"ResponseStarted"}
`))
	var reader auditReader
	written := make(chan error)
	go func() { written <- write(`{"auditID":"a","stage":"ResponseComplete"}` + "\n") }()
	require.NoError(t, reader.awaitAnswers(path, time.Minute))
	require.NoError(t, <-written)
	requests, err := reader.since(path, time.Time{}, func(*Request) bool { return true })
	require.NoError(t, err)
	require.Len(t, requests, 2)

	require.NoError(t, write(`{"auditID":"c","stage":"RequestReceived"}`+"\n"))
	require.NoError(t, reader.awaitAnswers(path, 0))
	require.NoError(t, reader.awaitAnswers(path, time.Hour), "it has been given up")
	require.Error(t, reader.awaitAnswers(path+".missing", time.Hour))
}

// TestAuditedAnswer: the answer to a write says which object there is now, and that to a
// deletion which one is gone.
func TestAuditedAnswer(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), auditLog)
	require.NoError(t, os.WriteFile(path, []byte(
		`{"auditID":"a","responseObject":{"kind":"Node","metadata":{"uid":"u","resourceVersion":"7"}}}
{"auditID":"b","responseObject":{"kind":"Status","metadata":{},"details":{"uid":"v"}}}
{"auditID":"c"}
`), 0o600))
	requests, err := new(auditReader).since(path, time.Time{}, func(*Request) bool { return true })
	require.NoError(t, err)
	require.Len(t, requests, 3)
	require.Equal(t, Request{UID: "u", ResourceVersion: "7"}, requests[0])
	require.Equal(t, Request{UID: "v"}, requests[1])
	require.Equal(t, Request{}, requests[2])
}

func TestAuditPolicy(t *testing.T) {
	t.Parallel()
	without, err := auditPolicy([]string{"u"}, false)
	require.NoError(t, err)
	require.NotContains(t, string(without), "RequestResponse")
	with, err := auditPolicy([]string{"u"}, true)
	require.NoError(t, err)
	require.Contains(t, string(with), `"rules":[{"level":"RequestResponse","users":["u"],"verbs":["create","update","patch","delete"]},{"level":"Metadata","users":["u"]},{"level":"None"}]`)
}
