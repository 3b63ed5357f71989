// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cluster reads the objects that the commands of kubectl nhc show, once or continuously.
// If an optional kind cannot be read, it is missing in the snapshot, which says so.
package cluster

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/pager"

	machinev1beta1 "github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	nhcv1alpha1 "github.com/nhc-controller/nhc-controller/pkg/apis/nhc/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/generated/clientset/versioned"
	"github.com/nhc-controller/nhc-controller/pkg/kubectl/view"
)

// Clients talk to the API server as the user.
type Clients struct {
	Kube kubernetes.Interface
	NHC  versioned.Interface
	// Dynamic and Mapper are for remediation objects, whose kinds are not known before.
	Dynamic dynamic.Interface
	Mapper  func() (meta.RESTMapper, error)
	// Namespace restricts what is in namespaces, empty for all of them.
	Namespace string
	// Program is the subject of a sentence about a missing permission, if these are not the clients of
	// the reader.
	Program string
}

// explain is Explain, in the words for the user of these clients.
func (c *Clients) explain(err error, verb, resource string) error {
	if c.Program != "" && Denied(err) {
		return &Error{Sentence: fmt.Sprintf("%s may not %s %s: grant its ServiceAccount the permission.", c.Program, verb, resource), Cause: err}
	}
	return Explain(err, verb, resource)
}

// kind is one kind of objects that a snapshot has.
type kind struct {
	resource string
	// version is the group and version of a kind that some clusters do not have.
	version schema.GroupVersion
	// required means that without it there is no snapshot.
	required bool
	object   runtime.Object
	// client is the client for list and watch. Clients in tests cannot do everything that an API
	// server can.
	client any
	list   listing
	watch  func(context.Context, metav1.ListOptions) (watch.Interface, error)
	// add puts objects into a snapshot.
	add func(*view.Snapshot, []runtime.Object)
}

// Kinds says which kinds besides NodeHealthChecks a snapshot has. It is Uninstalled if it needs no NodeHealthChecks.
type Kinds struct{ Nodes, Budgets, MachineHealthChecks, Leader, Uninstalled bool }

// Everything is all kinds.
var Everything = Kinds{Nodes: true, Budgets: true, MachineHealthChecks: true, Leader: true}

// of returns the kinds.
func (k Kinds) of(clients *Clients) []kind {
	kinds := []kind{clients.nodeHealthChecks()}
	kinds[0].required = !k.Uninstalled
	for _, further := range []struct {
		wanted bool
		kind   func() kind
	}{{k.Nodes, clients.nodes}, {k.Budgets, clients.budgets}, {k.MachineHealthChecks, clients.machineHealthChecks}, {k.Leader, clients.leader}} {
		if further.wanted {
			kinds = append(kinds, further.kind())
		}
	}
	return kinds
}

// leader reads the lease of the leader, in whichever namespace it is. The shipped roles permit it by name.
func (c *Clients) leader() kind {
	client := c.Kube.CoordinationV1().Leases(metav1.NamespaceAll)
	named := func(options metav1.ListOptions) metav1.ListOptions {
		options.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, view.LeaderLease).String()
		return options
	}
	return kind{
		resource: leaderLeases, object: &coordinationv1.Lease{}, client: c.Kube,
		list: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return client.List(ctx, named(options))
		},
		watch: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return client.Watch(ctx, named(options))
		},
		add: func(s *view.Snapshot, objects []runtime.Object) {
			s.Leader = view.NewLeader(sorted[*coordinationv1.Lease](objects))
		},
	}
}

// typed is the client of one kind.
type typed[L runtime.Object] interface {
	List(context.Context, metav1.ListOptions) (L, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
}

// kindOf completes a kind with its client, and with the list of a snapshot that has its objects.
func kindOf[T metav1.Object, L runtime.Object](k kind, client typed[L], list func(*view.Snapshot) *[]T) kind {
	k.list = func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		return client.List(ctx, options)
	}
	k.watch = client.Watch
	k.add = func(s *view.Snapshot, objects []runtime.Object) { *list(s) = sorted[T](objects) }
	return k
}

func (c *Clients) nodeHealthChecks() kind {
	k := kind{resource: v1alpha1.Plural, version: v1alpha1.SchemeGroupVersion, object: &v1alpha1.NodeHealthCheck{}, client: c.NHC}
	return kindOf(k, c.NHC.RemediationV1alpha1().NodeHealthChecks(), func(s *view.Snapshot) *[]*v1alpha1.NodeHealthCheck { return &s.NodeHealthChecks })
}

func (c *Clients) nodes() kind {
	k := kind{resource: nodes, object: &corev1.Node{}, client: c.Kube}
	return kindOf(k, c.Kube.CoreV1().Nodes(), func(s *view.Snapshot) *[]*corev1.Node { return &s.Nodes })
}

func (c *Clients) budgets() kind {
	k := kind{resource: nhcv1alpha1.BudgetPlural, version: nhcv1alpha1.SchemeGroupVersion, object: &nhcv1alpha1.RemediationBudget{}, client: c.NHC}
	return kindOf(k, c.NHC.NHCV1alpha1().RemediationBudgets(), func(s *view.Snapshot) *[]*nhcv1alpha1.RemediationBudget { return &s.Budgets })
}

func (c *Clients) machineHealthChecks() kind {
	k := kind{resource: machineHealthChecks, version: machinev1beta1.SchemeGroupVersion, object: &machinev1beta1.MachineHealthCheck{}, client: c.NHC}
	return kindOf(k, c.NHC.MachineV1beta1().MachineHealthChecks(c.Namespace), func(s *view.Snapshot) *[]*machinev1beta1.MachineHealthCheck { return &s.MachineHealthChecks })
}

// ReadLeader returns what is known about the leader, nil if it cannot be read.
func ReadLeader(ctx context.Context, clients *Clients) (*view.Leader, error) {
	leader := clients.leader()
	answer := leader.read(ctx, clients)
	if answer.err != nil {
		return nil, clients.explain(answer.err, "list", leaderLeases)
	}
	snapshot := &view.Snapshot{}
	leader.add(snapshot, answer.objects)
	return snapshot.Leader, nil
}

// sorted returns objects of one type by namespace and name.
func sorted[T metav1.Object](objects []runtime.Object) []T {
	typed := make([]T, 0, len(objects))
	for _, object := range objects {
		if t, ok := object.(T); ok {
			typed = append(typed, t)
		}
	}
	slices.SortFunc(typed, func(a, b T) int {
		return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
	})
	return typed
}

// Read reads a snapshot once.
func Read(ctx context.Context, clients *Clients, wanted Kinds) (*view.Snapshot, error) {
	kinds := wanted.of(clients)
	return clients.assemble(kinds, clients.readAll(ctx, kinds))
}

// readAll reads several kinds at the same time.
func (c *Clients) readAll(ctx context.Context, kinds []kind) []answer {
	answers := make([]answer, len(kinds))
	var wg sync.WaitGroup
	for i := range kinds {
		wg.Go(func() { answers[i] = kinds[i].read(ctx, c) })
	}
	wg.Wait()
	return answers
}

// answer is what a list of one kind has given.
type answer struct {
	objects []runtime.Object
	err     error
}

// pageSize is how many objects are read at once.
const pageSize = 200

// listing is the request of a client.
type listing func(context.Context, metav1.ListOptions) (runtime.Object, error)

// each lists page by page.
func (l listing) each(ctx context.Context, visit func(runtime.Object) error) error {
	lister := pager.New(pager.SimplePageFunc(func(options metav1.ListOptions) (runtime.Object, error) { return l(ctx, options) }))
	lister.PageSize, lister.PageBufferSize = pageSize, 1 // More would only be kept in memory.
	return lister.EachListItem(ctx, metav1.ListOptions{}, visit)
}

// read lists a kind. Of each object it keeps what is shown: a Node has many images and annotations.
func (k *kind) read(ctx context.Context, clients *Clients) (read answer) {
	read.err = k.list.each(ctx, func(object runtime.Object) error {
		kept, err := trim(object)
		if err == nil {
			read.objects = append(read.objects, kept.(runtime.Object))
		}
		return err
	})
	read.err = clients.explainForbidden(k, read.err)
	return read
}

// explainForbidden returns the error of a list. If a kind is not served, most users get the answer
// forbidden, because permissions are checked first. Discovery, which all users may read, tells whether
// it is served.
func (c *Clients) explainForbidden(k *kind, err error) error {
	if !apierrors.IsForbidden(err) || k.version.Empty() {
		return err
	}
	served, discoveryErr := c.Kube.Discovery().ServerResourcesForGroupVersion(k.version.String())
	if apierrors.IsNotFound(discoveryErr) {
		return notServed(k)
	}
	if discoveryErr != nil || slices.ContainsFunc(served.APIResources, func(resource metav1.APIResource) bool { return resource.Name == k.resource }) {
		return err
	}
	return notServed(k)
}

// notServed is the error of the API server for a kind that it does not serve.
func notServed(k *kind) error {
	return apierrors.NewNotFound(k.version.WithResource(k.resource).GroupResource(), "")
}

// assemble makes a snapshot of what was read.
func (c *Clients) assemble(kinds []kind, answers []answer) (*view.Snapshot, error) {
	snapshot := &view.Snapshot{}
	for i := range kinds {
		switch err := answers[i].err; {
		case err == nil:
			kinds[i].add(snapshot, answers[i].objects)
		case kinds[i].required:
			return nil, c.explain(err, "list", kinds[i].resource)
		case NotServed(err): // Without the kind, there are no such objects.
		default:
			if err := c.miss(snapshot, "list", kinds[i].resource, err); err != nil {
				return nil, err
			}
		}
	}
	return snapshot, nil
}

// trim drops the largest parts of an object that are never shown.
func trim(object any) (any, error) {
	accessor, ok := object.(metav1.Object)
	if !ok {
		return object, nil // A placeholder for an object whose deletion was missed.
	}
	accessor.SetManagedFields(nil)
	if node, ok := object.(*corev1.Node); ok {
		node.Status.Images, node.Status.VolumesAttached, node.Status.VolumesInUse = nil, nil, nil
		node.Status.Capacity, node.Status.Allocatable = nil, nil
	}
	return object, nil
}
