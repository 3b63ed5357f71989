// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package memapi

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// call is one request as it was received.
type call struct {
	Request
	path  []string
	query url.Values
	// metadataOnly means that only the metadata of objects is wanted.
	metadataOnly bool
	contentType  string
	staleBy      time.Duration
}

// newCall reads an HTTP request.
func newCall(r *http.Request) (*call, error) {
	c := &call{
		path: strings.Split(strings.Trim(r.URL.Path, "/"), "/"), query: r.URL.Query(),
		metadataOnly: strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadata"),
		contentType:  r.Header.Get("Content-Type"),
	}
	if r.Body != nil {
		var err error
		if c.Body, err = io.ReadAll(r.Body); err != nil {
			return nil, fmt.Errorf("reading a request: %w", err)
		}
		r.Body.Close()
	}
	c.parsePath()
	c.Verb = c.verb(r.Method)
	return c, nil
}

// parsePath finds out which object or resource a request is about, if it is.
func (c *call) parsePath() {
	rest := c.path
	switch {
	case len(rest) > 2 && rest[0] == "api":
		c.Resource, rest = schema.GroupVersionResource{Version: rest[1]}, rest[2:]
	case len(rest) > 3 && rest[0] == "apis":
		c.Resource, rest = schema.GroupVersionResource{Group: rest[1], Version: rest[2]}, rest[3:]
	default:
		return
	}
	if len(rest) > 2 && rest[0] == "namespaces" {
		c.Namespace, rest = rest[1], rest[2:]
	}
	c.Resource.Resource = rest[0]
	if len(rest) > 1 {
		c.Name = rest[1]
	}
	if len(rest) > 2 {
		c.Subresource = rest[2]
	}
}

// verb returns the verb as in RBAC.
func (c *call) verb(method string) string {
	switch method {
	case http.MethodPost:
		return "create"
	case http.MethodPut:
		return "update"
	case http.MethodPatch:
		return "patch"
	case http.MethodDelete:
		return "delete"
	}
	switch watch := c.query.Get("watch"); {
	case watch == "true" || watch == "1":
		return "watch"
	case c.Name == "":
		return "list"
	default:
		return "get"
	}
}

// selects returns whether a list or watch has an object in it.
func (c *call) selects() (func(*unstructured.Unstructured) bool, error) {
	byLabel, err := labels.Parse(c.query.Get("labelSelector"))
	if err != nil {
		return nil, fmt.Errorf("reading the label selector: %w", err)
	}
	byField, err := fields.ParseSelector(c.query.Get("fieldSelector"))
	if err != nil {
		return nil, fmt.Errorf("reading the field selector: %w", err)
	}
	return func(object *unstructured.Unstructured) bool {
		return (c.Namespace == "" || object.GetNamespace() == c.Namespace) &&
			(byLabel.Empty() || byLabel.Matches(labels.Set(object.GetLabels()))) &&
			(byField.Empty() || byField.Matches(fields.Set{"metadata.name": object.GetName(), "metadata.namespace": object.GetNamespace()}))
	}, nil
}
