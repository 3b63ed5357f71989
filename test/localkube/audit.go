// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package localkube

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Request is a request that the API server has answered, or begun to answer if
// it is a watch.
type Request struct {
	Time      time.Time // When it arrived.
	Answered  time.Time // When it was, or began to be if it is a watch.
	User      string
	UserAgent string
	Verb      string // As in RBAC: get, list, watch, create, update, patch, delete, deletecollection.
	URI       string

	// Empty if the request is not about a resource.
	Group, Resource, Subresource, Namespace, Name string

	Code int32 // The HTTP status code.

	// UID and ResourceVersion are those of the object in the answer to a write, with
	// Options.AuditResponses. The answer to a deletion has no resourceVersion if nothing is
	// left of the object.
	UID             types.UID
	ResourceVersion string
}

// auditEvent is what Request needs of an audit.k8s.io/v1 Event, which client-go
// does not have.
type auditEvent struct {
	AuditID                  types.UID
	Stage                    string
	Verb                     string
	RequestURI               string
	UserAgent                string
	User                     struct{ Username string }
	ObjectRef                struct{ APIGroup, Resource, Subresource, Namespace, Name string }
	ResponseStatus           struct{ Code int32 }
	ResponseObject           responseObject
	RequestReceivedTimestamp metav1.MicroTime
	StageTimestamp           metav1.MicroTime
}

// responseObject is what Request needs of the object in an answer. The answer to a
// deletion may be a Status, whose details say what is gone.
type responseObject struct {
	Metadata struct {
		UID             types.UID
		ResourceVersion string
	}
	Details struct{ UID types.UID }
}

// The stages of the events for a request that has arrived, and for the beginning of a watch.
const (
	stageReceived = "RequestReceived"
	stageStarted  = "ResponseStarted"
)

// answerTimeout bounds how long RequestsWhere waits for answers: a test may hold up a
// request, and the API server may have died over it.
const answerTimeout = 5 * time.Second

// request returns the event in the form of this package.
func (e *auditEvent) request() Request {
	return Request{
		Time:        e.RequestReceivedTimestamp.Time,
		Answered:    e.StageTimestamp.Time,
		User:        e.User.Username,
		UserAgent:   e.UserAgent,
		Verb:        e.Verb,
		URI:         e.RequestURI,
		Group:       e.ObjectRef.APIGroup,
		Resource:    e.ObjectRef.Resource,
		Subresource: e.ObjectRef.Subresource,
		Namespace:   e.ObjectRef.Namespace,
		Name:        e.ObjectRef.Name,
		Code:        e.ResponseStatus.Code,

		UID:             cmp.Or(e.ResponseObject.Metadata.UID, e.ResponseObject.Details.UID),
		ResourceVersion: e.ResponseObject.Metadata.ResourceVersion,
	}
}

// Requests returns all requests so far of Options.AuditUsers, in the order in
// which they arrived. A request whose effect can be seen is among them, unless the API
// server takes more than some seconds to complete it.
func (c *ControlPlane) Requests() ([]Request, error) {
	return c.RequestsSince(time.Time{})
}

// RequestsSince returns those of Requests that arrived at an instant or later.
func (c *ControlPlane) RequestsSince(since time.Time) ([]Request, error) {
	return c.RequestsWhere(since, func(*Request) bool { return true })
}

// RequestsWhere returns those of RequestsSince that want is true for. The audit log is
// read once only, and what is not wanted is not copied, so repeated calls are cheap in
// a long test too. want must neither keep nor change the request.
func (c *ControlPlane) RequestsWhere(since time.Time, want func(*Request) bool) ([]Request, error) {
	if len(c.opts.AuditUsers) == 0 {
		return nil, errors.New("no requests are recorded without Options.AuditUsers")
	}
	path := filepath.Join(c.dir, auditLog)
	if err := c.audit.awaitAnswers(path, answerTimeout); err != nil {
		return nil, fmt.Errorf("reading the audit log: %w", err)
	}
	requests, err := c.audit.since(path, since, want)
	if err != nil {
		return nil, fmt.Errorf("reading the audit log: %w", err)
	}
	return requests, nil
}

// auditReader has what is in an audit log up to a position, and reads on from there.
// The zero value is at the beginning. Its methods may be called from any goroutine.
type auditReader struct {
	mu       sync.Mutex
	position int64
	requests []Request          // In the order in which they arrived.
	open     map[types.UID]bool // The watches among them of whose end it has not read.

	unanswered map[types.UID]bool // Those that have arrived, without the ones that awaitAnswers gave up.
}

// awaitAnswers returns when each request that had arrived when it was called is answered.
// The log names a request before it is carried out, and again when it is answered, which
// may be later than its effect. It waits only once for a request that is not answered in time.
func (a *auditReader) awaitAnswers(path string, timeout time.Duration) error {
	arrived, err := a.pending(path)
	if err != nil {
		return err
	}
	for deadline := time.Now().Add(timeout); len(arrived) > 0; time.Sleep(5 * time.Millisecond) {
		pending, err := a.pending(path)
		if err != nil {
			return err
		}
		maps.DeleteFunc(arrived, func(id types.UID, _ bool) bool { return !pending[id] })
		if time.Now().After(deadline) {
			a.giveUp(arrived)
			return nil
		}
	}
	return nil
}

// pending reads what is new in the file, and returns a copy of the set of unanswered requests.
func (a *auditReader) pending(path string) (map[types.UID]bool, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.readFile(path); err != nil {
		return nil, err
	}
	return maps.Clone(a.unanswered), nil
}

func (a *auditReader) giveUp(ids map[types.UID]bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for id := range ids {
		delete(a.unanswered, id)
	}
}

// since reads what is new in the file, and returns the wanted requests from an instant on.
func (a *auditReader) since(path string, since time.Time, want func(*Request) bool) ([]Request, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.readFile(path); err != nil {
		return nil, err
	}
	var wanted []Request
	// The log has no more than microseconds.
	for i := a.from(since.Truncate(time.Microsecond)); i < len(a.requests); i++ {
		if want(&a.requests[i]) {
			wanted = append(wanted, a.requests[i])
		}
	}
	return wanted, nil
}

// from returns the index of the first request that arrived at an instant or later.
func (a *auditReader) from(at time.Time) int {
	i, _ := slices.BinarySearchFunc(a.requests, at, func(r Request, at time.Time) int { return r.Time.Compare(at) })
	return i
}

// readFile reads what is new in a file.
func (a *auditReader) readFile(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	if _, err := file.Seek(a.position, io.SeekStart); err != nil {
		return err
	}
	return a.read(file)
}

// read reads up to the last line that is complete.
func (a *auditReader) read(r io.Reader) error {
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil // Without a line end it is still being written.
		}
		if err != nil {
			return err
		}
		var event auditEvent
		if err := json.Unmarshal(line, &event); err != nil {
			return err
		}
		a.position += int64(len(line))
		a.add(&event)
	}
}

// add takes each request once, when it is answered: a watch has an event for its beginning
// and one for its end.
func (a *auditReader) add(event *auditEvent) {
	if event.Stage == stageReceived {
		if a.unanswered == nil {
			a.unanswered = map[types.UID]bool{}
		}
		a.unanswered[event.AuditID] = true
		return
	}
	delete(a.unanswered, event.AuditID)
	if a.open[event.AuditID] {
		delete(a.open, event.AuditID)
		return
	}
	if event.Stage == stageStarted {
		if a.open == nil {
			a.open = map[types.UID]bool{}
		}
		a.open[event.AuditID] = true
	}
	request := event.request()
	after := a.from(request.Time.Add(1)) // Those of the same time stay before it.
	a.requests = slices.Insert(a.requests, after, request)
}

// auditPolicy records the users' requests without their content, but the answers to
// writes where they are wanted, at every stage: when they arrive, so that it is known
// which are on their way, and when watches begin, as these are long known by the time they
// are complete.
func auditPolicy(users []string, responses bool) ([]byte, error) {
	type rule struct {
		Level string   `json:"level"`
		Users []string `json:"users,omitempty"`
		Verbs []string `json:"verbs,omitempty"`
	}
	rules := []rule{{Level: "Metadata", Users: users}, {Level: "None"}}
	if responses {
		writes := rule{Level: "RequestResponse", Users: users, Verbs: []string{"create", "update", "patch", "delete"}}
		rules = slices.Insert(rules, 0, writes)
	}
	return json.Marshal(map[string]any{
		"apiVersion": "audit.k8s.io/v1",
		"kind":       "Policy",
		"rules":      rules,
	})
}

// String returns a request as it is best read in a failed test.
func (r Request) String() string {
	if r.Resource == "" {
		return fmt.Sprintf("%s %s: %d", r.Verb, r.URI, r.Code)
	}
	resource := r.Resource
	if r.Group != "" {
		resource += "." + r.Group
	}
	if r.Subresource != "" {
		resource += "/" + r.Subresource
	}
	return fmt.Sprintf("%s %s %s: %d", r.Verb, resource, strings.TrimPrefix(r.Namespace+"/"+r.Name, "/"), r.Code)
}
