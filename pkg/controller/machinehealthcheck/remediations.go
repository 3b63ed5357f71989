// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/machinehealth"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
	"github.com/nhc-controller/nhc-controller/pkg/watches"
)

// wantKinds has the template of a MachineHealthCheck watched, and its kinds of CRs. A handler and a worker may call it
// at the same time for a MachineHealthCheck that was deleted and created again. Each call reads the cache, so the last
// one has the latest state.
func (c *Controller) wantKinds(key cache.ObjectName) {
	c.wantsMu.Lock()
	defer c.wantsMu.Unlock()
	templates, crs, recorded := c.neededKinds(key)
	c.templates.Want(key.String(), templates)
	c.Remediations.Want(key.String(), crs, recorded)
}

// neededKinds returns the kinds that a MachineHealthCheck needs, none if it is gone: the kind of its
// template, and the kinds of its CRs, including those that only status still names. recorded are the latter.
func (c *Controller) neededKinds(key cache.ObjectName) (templates sets.Set[schema.GroupVersionKind], crs, recorded sets.Set[schema.GroupKind]) {
	templates, crs, recorded = sets.New[schema.GroupVersionKind](), sets.New[schema.GroupKind](), sets.New[schema.GroupKind]()
	check, err := c.checks.MachineHealthChecks(key.Namespace).Get(key.Name)
	if err != nil {
		return templates, crs, recorded
	}
	if criteria := c.criteriaOf(check); criteria.Template != nil {
		kind := criteria.Template.GroupVersionKind()
		if criteria.Problem == "" {
			templates.Insert(kind)
		}
		// An invalid spec ends no remediation, so running ones have to be known (spec M3.4).
		if of := remediationKind(kind); of.Version != "" && of.Kind != "" && of.Kind != kind.Kind {
			crs.Insert(of.GroupKind())
		}
	}
	for _, listed := range check.Status.RemediationKinds { // Another process may have left some.
		recorded.Insert(kindOf(listed))
	}
	return templates, crs.Union(recorded), recorded
}

// kindsOf returns the kinds that may have CRs of a MachineHealthCheck: those that it needs, and those that had some when
// they were read last. Nothing else may begin for their Machines, also if the MachineHealthCheck is gone (spec M7.4).
func (c *Controller) kindsOf(key cache.ObjectName) sets.Set[schema.GroupKind] {
	_, of, _ := c.neededKinds(key)
	owned := c.Owned(key)
	for kind := range c.Remediations.Kinds() {
		if indexer, read := c.Remediations.LastCache(kind); read {
			own, _ := indexer.IndexKeys(crsByOwner, key.String()) // The index exists: crIndexers has it.
			if len(own) > 0 || hasAny(indexer, owned) {
				of.Insert(kind)
			}
		}
	}
	return of
}

// hasAny reports whether a cache has one of these CRs.
func hasAny(indexer cache.Indexer, crs sets.Set[types.UID]) bool {
	return len(crs) > 0 && slices.ContainsFunc(indexer.List(), func(obj any) bool { return crs.Has(obj.(*object.CR).UID) })
}

// remediationKind returns the kind of the CRs of a template.
func remediationKind(template schema.GroupVersionKind) schema.GroupVersionKind {
	return template.GroupVersion().WithKind(strings.TrimSuffix(template.Kind, v1alpha1.TemplateKindSuffix))
}

// observeTemplate finds the template, or the reason why it cannot be used (spec M12.1).
func (c *Controller) observeTemplate(s *snapshot) error {
	criteria := s.policy.Criteria
	if criteria.Strategy != machinehealth.Template || criteria.Problem != "" {
		return nil
	}
	template, err := c.templateOf(s.check, criteria)
	if errors.Is(err, watches.ErrPending) {
		return err
	}
	if err != nil {
		s.policy.TemplateProblem = fmt.Sprintf("failed to retrieve %s external object %q/%q: %v", criteria.Template.Kind, s.check.Namespace, criteria.Template.Name, err)
		return nil
	}
	s.policy.Template = template
	return nil
}

var errNoTemplateSpec = errors.New("it has no spec.template.spec")

// templateOf returns the template of a MachineHealthCheck. The error says why it cannot be used.
func (c *Controller) templateOf(check *v1beta1.MachineHealthCheck, criteria *machinehealth.Criteria) (*object.Template, error) {
	kind := criteria.Template.GroupVersionKind()
	template, err := c.templates.Get(kind, types.NamespacedName{Namespace: check.Namespace, Name: criteria.Template.Name})
	if err == nil {
		made := remediationKind(kind)
		_, err = c.Remediations.MappingIn(made.GroupKind(), made.Version)
	}
	if err != nil {
		return nil, err
	}
	found, _ := template.(*object.Template)
	if found.Spec == nil {
		return nil, errNoTemplateSpec
	}
	return found, nil
}

// machineCRs are the CRs with the name of a Machine.
type machineCRs struct {
	own []*object.CR
	// foreign is a CR of another owner, of the needed kind.
	foreign *object.CR
}

// observeCRs returns the CRs by the names of their Machines.
func (c *Controller) observeCRs(s *snapshot) (map[string]machineCRs, error) {
	crs := map[string]machineCRs{}
	needed := schema.GroupKind{}
	if s.policy.Criteria.Template != nil {
		needed = remediationKind(s.policy.Criteria.Template.GroupVersionKind()).GroupKind()
	}
	s.kinds = nil
	for kind := range c.kindsOf(keyOf(s.check)) {
		indexer, err := c.Remediations.Cache(kind)
		switch {
		case errors.Is(err, watches.ErrPending):
			return nil, err
		case meta.IsNoMatchError(err):
			continue
		case err != nil:
			s.incomplete = true
			if lists(s.check, kind) { // A kind that was never readable does not count: it may be a mistake of the user.
				s.kinds = append(s.kinds, s.versioned(kind, ""))
			}
			continue
		}
		used, version := kind == needed, ""
		for _, obj := range indexer.List() {
			cr := obj.(*object.CR)
			if cr.Namespace != s.check.Namespace {
				continue
			}
			of := crs[cr.Name]
			if cr.OwnedBy(s.policy.Owner) {
				of.own, used, version = append(of.own, cr), true, cr.GroupVersionKind().Version
			} else if kind == needed {
				of.foreign = cr
			}
			crs[cr.Name] = of
		}
		if used {
			s.kinds = append(s.kinds, s.versioned(kind, version))
		}
	}
	var own []*object.CR
	for _, of := range crs {
		own = append(own, of.own...)
		slices.SortFunc(of.own, func(a, b *object.CR) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	}
	c.Own(s.check, own...)
	return crs, nil
}

// lists reports whether the status of a MachineHealthCheck lists a kind of CRs.
func lists(check *v1beta1.MachineHealthCheck, kind schema.GroupKind) bool {
	return slices.ContainsFunc(check.Status.RemediationKinds, func(listed v1beta1.RemediationKind) bool { return kindOf(listed) == kind })
}

// kindOf returns a kind that status lists. All versions of it are the same objects.
func kindOf(listed v1beta1.RemediationKind) schema.GroupKind {
	return schema.FromAPIVersionAndKind(listed.APIVersion, listed.Kind).GroupKind()
}

// versioned returns a kind of CRs with the version that status shows: the version in which the controller
// creates them, or has created them by status, or the version in which it reads them.
func (s *snapshot) versioned(kind schema.GroupKind, read string) schema.GroupVersionKind {
	if s.policy.Criteria.Template != nil {
		if made := remediationKind(s.policy.Criteria.Template.GroupVersionKind()); made.GroupKind() == kind {
			return made
		}
	}
	for _, listed := range s.check.Status.RemediationKinds {
		if kindOf(listed) == kind {
			return schema.FromAPIVersionAndKind(listed.APIVersion, listed.Kind)
		}
	}
	return kind.WithVersion(read)
}

// cachedCRs returns the CRs of all watched kinds with a name.
func (c *Controller) cachedCRs(namespace, name string) (crs []*object.CR) {
	for _, indexer := range c.Remediations.Caches() {
		if cr := watches.Cached[*object.CR](indexer, cache.NewObjectName(namespace, name).String()); cr != nil {
			crs = append(crs, cr)
		}
	}
	return crs
}
