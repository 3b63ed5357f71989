// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package memapi

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/nhc-controller/nhc-controller/pkg/kubectl/admission"
)

// Key names an object of a resource. The namespace of a cluster-scoped one is empty.
type Key = types.NamespacedName

// Resource is something that the server serves.
type Resource struct {
	schema.GroupVersionResource
	Kind       string
	Namespaced bool
	// Admit judges a create (old is nil), an update or a patch, also one of the status,
	// and a deletion (object is nil). It may be nil.
	Admit func(old, object *unstructured.Unstructured) error
	// Unconditional means that an update need not say which version it was made from.
	Unconditional bool
	// NoStatus means that the status cannot be written by itself.
	NoStatus bool
	// Generations means that the server counts generations, as for all that Install installs.
	Generations bool
}

// CustomResourceDefinitions is the resource of the definitions. Install writes it.
var CustomResourceDefinitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// Change is one version of an object. Nothing of it may be modified.
type Change struct {
	Resource schema.GroupVersionResource
	Type     watch.EventType
	// Object is the new state, or the last one of a deleted object, under the resourceVersion
	// of the change.
	Object  *unstructured.Unstructured
	Version uint64
	Time    time.Time
	// User is who made the change.
	User string

	// before is the last state, nil of a new object.
	before *unstructured.Unstructured
	raw    []byte // The object as JSON, once a request has asked for it.
}

// Before returns the last state, nil of a new object. It must not be modified.
func (c *Change) Before() *unstructured.Unstructured { return c.before }

// Key returns the name of the object.
func (c *Change) Key() Key { return keyOf(c.Object) }

// Request is a request that the server has carried out or refused.
type Request struct {
	User, Verb                   string
	Resource                     schema.GroupVersionResource
	Subresource, Namespace, Name string
	// Body is what was sent, empty for reads.
	Body               []byte
	Received, Answered time.Time
	// Code is the HTTP status. Whether the client has got the answer does not show.
	Code int
	// UID and Version are those of the object after a write. Version is 0 if nothing is left
	// of the object.
	UID     types.UID
	Version uint64
}

// Server holds objects. All methods may be called from any goroutine.
type Server struct {
	mu       sync.Mutex
	version  uint64
	uids     int
	tables   map[schema.GroupVersionResource]*table
	changes  []*Change
	requests []Request
	// noWatchLists means that a watch cannot begin with a list.
	noWatchLists bool
	// rules and schemas are those of the kinds that manifests define.
	rules   *admission.Rules
	schemas map[schema.GroupKind]*crdSchema
}

// table holds the objects of one resource.
type table struct {
	Resource
	objects map[Key]*Change
	// log is what watches send.
	log []*Change
	// compacted is the version up to which the log is not available to new watches.
	compacted uint64
	// changed is closed, and replaced, when the log grows or who reads it is to look again.
	changed chan struct{}
}

// New returns a server that serves CustomResourceDefinitions and these resources.
func New(resources ...Resource) *Server {
	shipped, err := admission.Shipped()
	schemas, schemasErr := shippedSchemas()
	if err := errors.Join(err, schemasErr); err != nil {
		panic(err) // They are part of the program.
	}
	s := &Server{version: 1000, tables: map[schema.GroupVersionResource]*table{}, rules: shipped, schemas: schemas}
	s.serve(Resource{GroupVersionResource: CustomResourceDefinitions, Kind: "CustomResourceDefinition", Generations: true})
	for _, resource := range resources {
		s.serve(resource)
	}
	return s
}

// Clone returns a server with the same resources, objects and versions, and with nothing recorded. New watches on it
// begin with a list. The objects are shared: nothing modifies them.
func (s *Server) Clone() *Server {
	s.mu.Lock()
	defer s.mu.Unlock()
	clone := &Server{
		version: s.version, uids: s.uids, tables: map[schema.GroupVersionResource]*table{},
		noWatchLists: s.noWatchLists, rules: s.rules, schemas: s.schemas,
	}
	for _, t := range s.tables {
		clone.serve(t.Resource)
		for key, change := range t.objects {
			own := *change // Its JSON is written under the lock of one server.
			clone.tables[t.GroupVersionResource].objects[key] = &own
		}
	}
	return clone
}

// DisableWatchLists makes the server refuse watches that begin with a list, as an older
// server does.
func (s *Server) DisableWatchLists() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.noWatchLists = true
}

func (s *Server) serve(resource Resource) {
	s.tables[resource.GroupVersionResource] = &table{
		Resource: resource, objects: map[Key]*Change{}, compacted: s.version, changed: make(chan struct{}),
	}
}

// Install creates the CustomResourceDefinition of a resource and serves it.
func (s *Server) Install(user string, resource Resource) {
	s.mu.Lock()
	if s.tables[resource.GroupVersionResource] == nil {
		resource.Generations = true
		s.serve(resource)
	}
	s.mu.Unlock()
	definition := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": resource.GroupResource().String()},
		"spec": map[string]any{
			"group": resource.Group,
			"names": map[string]any{"kind": resource.Kind, "plural": resource.plural()},
		},
		"status": map[string]any{"conditions": []any{map[string]any{"type": "Established", "status": "True"}}},
	}}
	_, _ = s.Create(user, CustomResourceDefinitions, definition) // It may be there already.
}

func (r Resource) plural() string { return r.GroupVersionResource.Resource }

// Version returns the present resourceVersion.
func (s *Server) Version() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.version
}

// Changes returns the changes from an index on, in order.
func (s *Server) Changes(from int) []*Change {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.changes[from:])
}

// Requests returns the requests from an index on, in the order in which they were carried
// out.
func (s *Server) Requests(from int) []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests[from:])
}

// Compact forgets what new watches would begin with: they are answered 410 Gone.
func (s *Server) Compact() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.tables {
		t.compacted = s.version
	}
}

// List returns the objects of a resource in order of their names. They must not be modified.
func (s *Server) List(gvr schema.GroupVersionResource) []*unstructured.Unstructured {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tables[gvr]
	if t == nil {
		return nil
	}
	objects := make([]*unstructured.Unstructured, 0, len(t.objects))
	for _, key := range t.keys() {
		objects = append(objects, t.objects[key].Object)
	}
	return objects
}

// Get returns an object, nil if there is none. It must not be modified.
func (s *Server) Get(gvr schema.GroupVersionResource, key Key) *unstructured.Unstructured {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.tables[gvr]; t != nil && t.objects[key] != nil {
		return t.objects[key].Object
	}
	return nil
}

// Serves reports whether a resource is served.
func (s *Server) Serves(gvr schema.GroupVersionResource) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tables[gvr] != nil
}

func (t *table) keys() []Key {
	return slices.SortedFunc(maps.Keys(t.objects), func(a, b Key) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
}

// at returns the objects as they were at a version.
func (t *table) at(version uint64) map[Key]*Change {
	objects := map[Key]*Change{}
	for _, change := range t.log {
		switch {
		case change.Version > version:
			return objects
		case change.Type == watch.Deleted:
			delete(objects, change.Key())
		default:
			objects[change.Key()] = change
		}
	}
	return objects
}

// put stores an object and wakes the watches.
func (s *Server) put(t *table, object *unstructured.Unstructured, user string) *Change {
	s.version++
	object.SetResourceVersion(strconv.FormatUint(s.version, 10))
	change := &Change{Resource: t.GroupVersionResource, Type: watch.Modified, Object: object, Version: s.version, Time: time.Now(), User: user}
	if last := t.objects[keyOf(object)]; last == nil {
		change.Type = watch.Added
	} else {
		change.before = last.Object
	}
	t.objects[keyOf(object)] = change
	s.record(t, change)
	return change
}

// remove deletes an object at once.
func (s *Server) remove(t *table, key Key, user string) *Change {
	s.version++
	last := t.objects[key].Object.DeepCopy()
	last.SetResourceVersion(strconv.FormatUint(s.version, 10))
	change := &Change{Resource: t.GroupVersionResource, Type: watch.Deleted, Object: last, Version: s.version, Time: time.Now(), User: user, before: t.objects[key].Object}
	delete(t.objects, key)
	s.record(t, change)
	return change
}

func (s *Server) record(t *table, change *Change) {
	s.changes = append(s.changes, change)
	t.log = append(t.log, change)
	t.announce()
}

// announce wakes all watches of the table.
func (t *table) announce() {
	close(t.changed)
	t.changed = make(chan struct{})
}

// LastUID returns the last uid that was given. Those that follow sort behind it.
func (s *Server) LastUID() types.UID {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lastUID()
}

func (s *Server) newUID() types.UID {
	s.uids++
	return s.lastUID()
}

func (s *Server) lastUID() types.UID {
	return types.UID(fmt.Sprintf("00000000-0000-0000-0000-%012d", s.uids))
}

func keyOf(object metav1.Object) Key {
	return Key{Namespace: object.GetNamespace(), Name: object.GetName()}
}

// seconds is the present as the API stores it.
func seconds() metav1.Time { return metav1.NewTime(time.Now().UTC().Truncate(time.Second)) }
