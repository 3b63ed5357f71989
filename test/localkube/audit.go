// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package localkube

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
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
}

// auditEvent is what Request needs of an audit.k8s.io/v1 Event, which client-go
// does not have.
type auditEvent struct {
	AuditID                  types.UID
	Verb                     string
	RequestURI               string
	UserAgent                string
	User                     struct{ Username string }
	ObjectRef                struct{ APIGroup, Resource, Subresource, Namespace, Name string }
	ResponseStatus           struct{ Code int32 }
	RequestReceivedTimestamp metav1.MicroTime
	StageTimestamp           metav1.MicroTime
}

// Requests returns all requests so far of Options.AuditUsers, in the order in
// which they arrived. A request may appear a moment after its client has got the
// answer.
func (c *ControlPlane) Requests() ([]Request, error) {
	if len(c.opts.AuditUsers) == 0 {
		return nil, errors.New("no requests are recorded without Options.AuditUsers")
	}
	file, err := os.Open(filepath.Join(c.dir, auditLog))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	requests, err := parseAuditLog(file)
	if err != nil {
		return nil, fmt.Errorf("reading the audit log: %w", err)
	}
	return requests, nil
}

// parseAuditLog returns each request once: a watch has an entry for its beginning
// and one for its end.
func parseAuditLog(r io.Reader) ([]Request, error) {
	var requests []Request
	seen := map[types.UID]bool{}
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			break // Without a line end it is still being written.
		}
		if err != nil {
			return nil, err
		}
		var event auditEvent
		if err := json.Unmarshal(line, &event); err != nil {
			return nil, err
		}
		if seen[event.AuditID] {
			continue
		}
		seen[event.AuditID] = true
		requests = append(requests, Request{
			Time:        event.RequestReceivedTimestamp.Time,
			Answered:    event.StageTimestamp.Time,
			User:        event.User.Username,
			UserAgent:   event.UserAgent,
			Verb:        event.Verb,
			URI:         event.RequestURI,
			Group:       event.ObjectRef.APIGroup,
			Resource:    event.ObjectRef.Resource,
			Subresource: event.ObjectRef.Subresource,
			Namespace:   event.ObjectRef.Namespace,
			Name:        event.ObjectRef.Name,
			Code:        event.ResponseStatus.Code,
		})
	}
	slices.SortStableFunc(requests, func(a, b Request) int { return a.Time.Compare(b.Time) })
	return requests, nil
}

// auditPolicy records the users' requests without their content. Two stages
// remain: watches are long known by the time they are complete.
func auditPolicy(users []string) ([]byte, error) {
	type rule struct {
		Level string   `json:"level"`
		Users []string `json:"users,omitempty"`
	}
	return json.Marshal(map[string]any{
		"apiVersion": "audit.k8s.io/v1",
		"kind":       "Policy",
		"omitStages": []string{"RequestReceived"},
		"rules":      []rule{{Level: "Metadata", Users: users}, {Level: "None"}},
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
