// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	"cmp"
	"errors"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
	"github.com/nhc-controller/nhc-controller/pkg/staleness"
	"github.com/nhc-controller/nhc-controller/pkg/status"
	"github.com/nhc-controller/nhc-controller/pkg/watches"
)

// ownCRs are the CRs of a NodeHealthCheck by node.
type ownCRs struct {
	read       map[string][]*object.CR
	unreadable map[string][]v1alpha1.Remediation
	// incomplete means that a kind could not be read: there may be CRs of it that
	// status does not name. unread says why nothing may begin, nil if all CRs are known.
	incomplete bool
	unread     error
	// lost are the CRs of unreadable kinds whose deletion was requested.
	lost []types.UID
	// gone are CRs, as they were seen last, that no cache shows any more.
	gone []*object.CR
}

// has reports whether a cache shows the CR.
func (o *ownCRs) has(cr *object.CR) bool {
	return slices.ContainsFunc(o.read[cr.Node()], func(other *object.CR) bool { return other.UID == cr.UID })
}

func (o *ownCRs) nodes() []string {
	var names []string
	for name := range o.read {
		names = append(names, name)
	}
	for name := range o.unreadable {
		if len(o.read[name]) == 0 {
			names = append(names, name)
		}
	}
	return names
}

// findCRs finds the own CRs of a NodeHealthCheck, in the order of the steps. It looks among the kinds of its
// templates, the kinds that its status names, and the kinds that have one of its CRs. A CR that status names
// and that cannot be read counts as existing (spec 6.8).
func (c *Controller) findCRs(nhc *v1alpha1.NodeHealthCheck, state *nhcState) (*ownCRs, error) {
	if err := c.Remediations.Ready(); err != nil {
		return nil, err
	}
	crs := &ownCRs{read: map[string][]*object.CR{}, unreadable: map[string][]v1alpha1.Remediation{}}
	_, kinds, _ := wantedKinds(nhc)
	for kind, indexer := range c.Remediations.Caches() {
		if keys, err := indexer.IndexKeys(byOwner, nhc.Name); err != nil || len(keys) > 0 {
			kinds.Insert(kind)
		}
	}
	unread := map[schema.GroupKind]bool{}
	for kind := range kinds {
		indexer, err := c.Remediations.Cache(kind)
		switch {
		case errors.Is(err, watches.ErrPending):
			return nil, err
		case c.Remediations.Gone(kind): // And so are its CRs.
		case err != nil:
			unread[kind] = true
			crs.incomplete = crs.incomplete || !meta.IsNoMatchError(err)
		default:
			crs.addCached(indexer, nhc.Name)
		}
	}
	crs.unread = c.Remediations.Unread(slices.Collect(maps.Keys(unread))...)
	crs.addRecorded(nhc, unread)
	caches := c.Remediations.Caches()
	if len(unread) > 0 {
		crs.addLost(nhc.Name, unread, caches, state.deletionRequested)
	}
	crs.addUnseen(c.lastStates.gone(nhc.Name, crs.has), unread, caches, state.deletionRequested)
	steps := remediation.Steps(&nhc.Spec)
	for _, own := range crs.read {
		remediation.Sort(steps, own)
	}
	return crs, nil
}

// addCached adds the CRs of a cache.
func (o *ownCRs) addCached(indexer cache.Indexer, nhc string) {
	for _, cr := range watches.Indexed[*object.CR](indexer, byOwner, nhc) {
		o.read[cr.Node()] = append(o.read[cr.Node()], cr)
	}
}

// addRecorded adds the CRs that status names and whose kinds cannot be read, in the order
// of status.
func (o *ownCRs) addRecorded(nhc *v1alpha1.NodeHealthCheck, unread map[schema.GroupKind]bool) {
	for i := range nhc.Status.UnhealthyNodes {
		node := &nhc.Status.UnhealthyNodes[i]
		for j := range node.Remediations {
			if unread[node.Remediations[j].Resource.GroupVersionKind().GroupKind()] {
				o.unreadable[node.Name] = append(o.unreadable[node.Name], node.Remediations[j])
			}
		}
	}
}

// addLost adds the CRs that the last caches of unreadable kinds had and that status does
// not name, because it had no room or was not written yet. A CR that was being deleted
// counts only if status names it (spec 17.2).
func (o *ownCRs) addLost(nhc string, unread map[schema.GroupKind]bool, caches map[schema.GroupKind]cache.Indexer, requested map[types.UID]bool) {
	named := sets.New[types.UID]()
	for _, recorded := range o.unreadable {
		for i := range recorded {
			named.Insert(recorded[i].Resource.UID)
		}
	}
	for kind := range unread {
		indexer, ok := caches[kind]
		if !ok {
			continue
		}
		for _, cr := range watches.Indexed[*object.CR](indexer, byOwner, nhc) {
			switch {
			case requested[cr.UID]:
				o.lost = append(o.lost, cr.UID)
			case !named.Has(cr.UID) && !cr.Deleting():
				o.unreadable[cr.Node()] = append(o.unreadable[cr.Node()], status.Record(cr, nil))
			}
		}
	}
}

// addUnseen adds those of the CRs without a cache that no cache can have shown yet: their creation has been answered,
// or a watch is just bringing them. The others are gone. A CR must not be gone at first, and another one later.
func (o *ownCRs) addUnseen(crs []*object.CR, unread map[schema.GroupKind]bool, caches map[schema.GroupKind]cache.Indexer, requested map[types.UID]bool) {
	for _, cr := range crs {
		kind, node := cr.GroupVersionKind().GroupKind(), cr.Node()
		indexer := caches[kind]
		unseen := indexer != nil && staleness.Behind(indexer, cr.ResourceVersion)
		switch {
		case indexer == nil:
			o.gone = append(o.gone, cr)
		case unread[kind]:
			if named := func(entry v1alpha1.Remediation) bool { return entry.Resource.UID == cr.UID }; unseen && !requested[cr.UID] && !slices.ContainsFunc(o.unreadable[node], named) {
				o.unreadable[node] = append(o.unreadable[node], status.Record(cr, nil))
			}
		case unseen:
			o.read[node] = append(o.read[node], cr)
		default:
			shown, _, _ := indexer.Get(cr) // A cache in memory has no errors.
			if shown, there := shown.(*object.CR); there && shown.UID == cr.UID {
				o.read[node] = append(o.read[node], shown)
			} else {
				o.gone = append(o.gone, cr)
			}
		}
	}
}

// othersRemediate reports whether any NodeHealthCheck has a CR for the node, or may have one. The
// caller has none.
func (c *Controller) othersRemediate(node string) bool {
	return len(c.remediatingNode(node)) > 0 || c.Remediations.AnyUnread() != nil
}

// findForeign finds the CRs of others that may block a CR.
func (c *Controller) findForeign(s *snapshot) error {
	owner := object.OwnerOf(s.nhc)
	for i, step := range s.templates.Steps {
		template := s.templates.Templates[i]
		if template == nil || s.templates.Problem != nil || s.templates.Unread != "" {
			continue // It does not begin.
		}
		kind, _ := step.RemediationKind()
		indexer, err := c.Remediations.Cache(kind.GroupKind())
		if err != nil {
			return err
		}
		foreign := newForeignCRs(indexer, owner, template)
		if foreign.empty() {
			continue
		}
		for j, obj := range s.objects {
			if obj != nil && health.Matches(s.nhc.Spec.UnhealthyConditions, obj.Status.Conditions) { // Others need no CR.
				s.nodes[j].Foreign = append(s.nodes[j].Foreign, foreign.of(obj.Name)...)
			}
		}
	}
	return nil
}

// foreignCRs are the CRs of one kind that may block the CRs that an owner makes from a template.
type foreignCRs struct {
	template *object.Template
	// byNode are those of other owners.
	byNode map[string][]*object.CR
	// byName are CRs whose name the owner may need for another node.
	byName map[string]*object.CR
}

func newForeignCRs(indexer cache.Indexer, owner object.Owner, template *object.Template) *foreignCRs {
	f := &foreignCRs{template: template, byNode: map[string][]*object.CR{}, byName: map[string]*object.CR{}}
	for _, obj := range indexer.List() {
		cr := obj.(*object.CR)
		others := !cr.OwnedBy(owner)
		if others {
			f.byNode[cr.Node()] = append(f.byNode[cr.Node()], cr)
		}
		if cr.Namespace == template.Namespace && (others || cr.Name != object.Name(cr.Node(), template)) {
			f.byName[cr.Name] = cr
		}
	}
	return f
}

func (f *foreignCRs) empty() bool { return len(f.byNode) == 0 && len(f.byName) == 0 }

// of returns the CRs that others have for the node, and the CR that has the needed name.
func (f *foreignCRs) of(node string) []*object.CR {
	found := slices.Clone(f.byNode[node])
	if other := f.byName[object.Name(node, f.template)]; other != nil && other.Node() != node {
		found = append(found, other)
	}
	// The first one is named as the blocking CR: a cache has no order.
	slices.SortFunc(found, func(a, b *object.CR) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Namespace, b.Namespace))
	})
	return found
}
