// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package memapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/watch"
)

// serve carries out a request, unless refusal says what happens instead. It returns nil if
// there is no answer.
func (c *Client) serve(ctx context.Context, call *call, refusal error) *http.Response {
	s := c.server
	s.mu.Lock()
	defer s.mu.Unlock()
	var response *http.Response
	var err error
	switch status := apierrors.APIStatus(nil); {
	case errors.As(refusal, &status):
		err = refusal
	case refusal != nil:
		return nil
	default:
		response, err = c.dispatch(ctx, call)
	}
	if err != nil {
		response = failure(err)
	}
	call.Code, call.Answered = response.StatusCode, time.Now()
	s.requests = append(s.requests, call.Request)
	return response
}

// dispatch carries out a request. The server is locked.
func (c *Client) dispatch(ctx context.Context, call *call) (*http.Response, error) {
	if call.Resource.Resource == "" {
		return c.server.discover(call)
	}
	if call.Resource.Group == "authorization.k8s.io" {
		return c.review(call)
	}
	t := c.server.tables[call.Resource]
	if t == nil {
		return nil, errNotServed(call.Resource)
	}
	if c.isForbidden(call.Verb, t.GroupResource()) {
		return nil, apierrors.NewForbidden(t.GroupResource(), call.Name, fmt.Errorf("User %q cannot %s resource %q in API group %q", c.user, call.Verb, t.plural(), t.Group)) //nolint:staticcheck // the words of the API server
	}
	switch call.Verb {
	case "get":
		return c.server.get(t, call)
	case "list":
		return c.server.list(t, call)
	case "watch":
		return c.watch(ctx, t, call)
	default:
		return c.write(t, call)
	}
}

func (s *Server) get(t *table, call *call) (*http.Response, error) {
	change := t.objects[Key{Namespace: call.Namespace, Name: call.Name}]
	if change == nil {
		return nil, apierrors.NewNotFound(t.GroupResource(), call.Name)
	}
	return answer(http.StatusOK, change.encoded(call.metadataOnly)), nil
}

// list answers with the present objects. A list that does not ask for them may be as
// stale as it is to be.
func (s *Server) list(t *table, call *call) (*http.Response, error) {
	selected, err := call.selects()
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	least, err := parseVersion(call.query.Get("resourceVersion"))
	if err != nil {
		return nil, err
	}
	objects, version := t.objects, s.version
	if call.query.Get("resourceVersion") != "" && call.staleBy > 0 {
		version = max(least, s.versionAt(time.Now().Add(-call.staleBy)))
		objects = t.at(version)
	}
	kind, apiVersion := t.Kind+"List", t.GroupVersion().String()
	if call.metadataOnly {
		kind, apiVersion = "PartialObjectMetadataList", "meta.k8s.io/v1"
	}
	var body bytes.Buffer
	fmt.Fprintf(&body, `{"kind":%q,"apiVersion":%q,"metadata":{"resourceVersion":"%d"},"items":[`, kind, apiVersion, version)
	first := true
	for _, key := range (&table{objects: objects}).keys() {
		if change := objects[key]; selected(change.Object) {
			if !first {
				body.WriteByte(',')
			}
			first = false
			body.Write(change.encoded(call.metadataOnly))
		}
	}
	body.WriteString("]}")
	return answer(http.StatusOK, body.Bytes()), nil
}

// versionAt returns the last version until an instant.
func (s *Server) versionAt(instant time.Time) uint64 {
	version := uint64(1)
	for _, change := range s.changes {
		if change.Time.After(instant) {
			break
		}
		version = change.Version
	}
	return version
}

// write carries out a request that changes an object.
func (c *Client) write(t *table, call *call) (*http.Response, error) {
	s, key := c.server, Key{Namespace: call.Namespace, Name: call.Name}
	status, user := call.Subresource == "status", c.user
	if call.Subresource != "" && (!status || t.NoStatus) {
		return nil, errNotServed(t.GroupVersionResource)
	}
	code := http.StatusOK
	var change *Change
	var err error
	switch call.Verb {
	case "create":
		var object *unstructured.Unstructured
		if object, err = call.object(t); err == nil {
			change, err = s.create(t, user, object)
		}
		code, call.Name = http.StatusCreated, nameOf(object)
	case "update":
		var object *unstructured.Unstructured
		if object, err = call.object(t); err == nil {
			change, err = s.update(t, user, object, status)
		}
	case "patch":
		if call.contentType != "application/merge-patch+json" {
			return nil, apierrors.NewGenericServerResponse(http.StatusUnsupportedMediaType, "patch", t.GroupResource(), call.Name, "only merge patches are supported", 0, true)
		}
		var patch map[string]any
		if err = utiljson.Unmarshal(call.Body, &patch); err == nil {
			change, err = s.patch(t, user, key, patch, status)
		}
	case "delete":
		var options metav1.DeleteOptions
		if len(call.Body) > 0 {
			err = json.Unmarshal(call.Body, &options)
		}
		if err == nil {
			change, err = s.delete(t, user, key, options.Preconditions)
		}
	default:
		return nil, apierrors.NewMethodNotSupported(t.GroupResource(), call.Verb)
	}
	if err != nil {
		return nil, err
	}
	call.UID = change.Object.GetUID()
	if change.Type != watch.Deleted {
		call.Version = change.Version
	} else if call.Verb == "delete" {
		return answer(code, encode(metav1.Status{
			TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess,
			Details: &metav1.StatusDetails{Name: call.Name, Group: t.Group, Kind: t.plural(), UID: call.UID},
		})), nil
	}
	return answer(code, change.encoded(call.metadataOnly)), nil
}

func nameOf(object *unstructured.Unstructured) string {
	if object == nil {
		return ""
	}
	return object.GetName()
}

// object reads the object in a request. Its kind and namespace follow from the path.
func (c *call) object(t *table) (*unstructured.Unstructured, error) {
	object := &unstructured.Unstructured{}
	if err := utiljson.Unmarshal(c.Body, &object.Object); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	object.SetGroupVersionKind(t.GroupVersion().WithKind(t.Kind))
	object.SetNamespace(c.Namespace)
	if c.Name != "" && object.GetName() != c.Name {
		return nil, apierrors.NewBadRequest("the name of the object does not match the name on the URL")
	}
	return object, nil
}

// encoded returns the object as JSON.
func (c *Change) encoded(metadataOnly bool) []byte {
	if metadataOnly {
		return encode(map[string]any{"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": c.Object.Object["metadata"]})
	}
	if c.raw == nil {
		c.raw = encode(c.Object.Object)
	}
	return c.raw
}

func encode(value any) []byte {
	raw, err := json.Marshal(value)
	if err != nil {
		panic(fmt.Sprintf("encoding what is stored: %v", err)) // It came from JSON.
	}
	return raw
}

// failure is the answer of a request that was refused.
func failure(err error) *http.Response {
	var known apierrors.APIStatus
	if !errors.As(err, &known) {
		known = apierrors.NewInternalError(err)
	}
	status := known.Status()
	status.Kind, status.APIVersion = "Status", "v1"
	return answer(int(status.Code), encode(status))
}

func answer(code int, body []byte) *http.Response {
	response := stream(io.NopCloser(bytes.NewReader(body)))
	response.StatusCode, response.ContentLength = code, int64(len(body))
	response.Status = http.StatusText(code)
	return response
}

// stream returns an answer whose body is read as it comes.
func stream(body io.ReadCloser) *http.Response {
	return &http.Response{
		StatusCode: http.StatusOK, Status: "OK", Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, ContentLength: -1, Body: body,
		Header: http.Header{"Content-Type": {"application/json"}, "Date": {time.Now().UTC().Format(http.TimeFormat)}},
	}
}
