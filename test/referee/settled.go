// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package referee

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/test/localkube"
)

// Settled waits until the world is as it has to be when nothing is in the way any more,
// and returns what is not so when patience is over. Faults must be off.
func (r *Referee) Settled(ctx context.Context, patience time.Duration) []Violation {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var left []Violation
	begin, awaited := time.Now(), ""
	for {
		if err := r.Judge(ctx); err == nil {
			if left = r.unsettledNow(); len(left) == 0 {
				return nil
			}
			if first := left[0]; first.Rule+first.Node+first.NHC != awaited {
				awaited = first.Rule + first.Node + first.NHC
				r.config.Log("not settled after %s: %d things, the first is %s %s %s: %s", time.Since(begin).Round(time.Millisecond), len(left), first.Rule, first.Node, first.NHC, first.Text)
			}
		} else if ctx.Err() == nil {
			left = []Violation{{Rule: "referee", Text: err.Error()}}
		}
		if ctx.Err() != nil {
			return r.complain(left)
		}
		pause(ctx, 4*retryInterval)
	}
}

func (r *Referee) unsettledNow() []Violation {
	r.mu.Lock()
	defer r.mu.Unlock()
	left := (&present{History: r.History, rv: r.horizon, now: time.Now()}).unsettled()
	r.figures.Checks["settled"]++
	return left
}

// complain makes violations of what did not settle, with timelines.
func (r *Referee) complain(left []Violation) []Violation {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range left {
		left[i].Text = "did not settle: " + left[i].Text
		left[i].Timeline = r.timelines.of(left[i].Node, left[i].NHC)
	}
	r.complaints = append(r.complaints, left...)
	return left
}

// Silent waits for a while in which nobody changes anything, and returns what the
// controller has written meanwhile: nothing but its leader lease (P3). Events tell of
// what was before.
func (r *Referee) Silent(ctx context.Context, d time.Duration) ([]localkube.Request, error) {
	from := time.Now()
	pause(ctx, d+auditDelay)
	requests, err := r.config.Requests()
	if err != nil {
		return nil, fmt.Errorf("reading the requests: %w", err)
	}
	return slices.DeleteFunc(requests, func(request localkube.Request) bool {
		reads := slices.Contains([]string{"get", "list", "watch"}, request.Verb)
		review := strings.HasSuffix(request.Group, "authorization.k8s.io") || strings.HasSuffix(request.Group, "authentication.k8s.io")
		leader := request.Resource == leases.Resource && request.Namespace != r.config.LeaseNamespace
		return request.Time.Before(from) || reads || review || leader || request.Group == "events.k8s.io"
	}), nil
}

// present is the world as it is at a resource version.
type present struct {
	*History
	rv  uint64
	now time.Time
}

// unsettled returns what must not stay as it is.
func (p *present) unsettled() []Violation {
	var left []Violation
	for _, name := range slices.Sorted(maps.Keys(p.nhcs)) {
		if nhc := p.nhcs[name].at(p.rv); nhc != nil && nhc.DeletionTimestamp == nil {
			found := newSurvey(p, nhc).judge()
			for i := range found {
				found[i].NHC = name
			}
			left = append(left, found...)
		}
	}
	left = append(left, p.leftLeases()...)
	return append(left, p.leftConfirmations()...)
}

// leftLeases returns leases without a CR (spec 14.9).
func (p *present) leftLeases() []Violation {
	var left []Violation
	for _, name := range slices.Sorted(maps.Keys(p.leases)) {
		lease := p.leases[name].at(p.rv)
		nhc, held := strings.CutPrefix(holderOf(lease), holderPrefix)
		if !held || p.nhcs[nhc].at(p.rv) == nil {
			continue // It expires.
		}
		node := nodeOfLease(lease)
		if !p.hasOwn(node, nhc) {
			left = append(left, Violation{Rule: "14.9", Node: node, NHC: nhc, Text: "a lease without CR"})
		}
	}
	return left
}

// leftConfirmations returns confirmations that have served their purpose (spec 16.6).
func (p *present) leftConfirmations() []Violation {
	var left []Violation
	for _, name := range slices.Sorted(maps.Keys(p.nodes)) {
		node := p.nodes[name].at(p.rv)
		if node == nil || len(p.crsAt(name, p.rv)) > 0 {
			continue
		}
		if _, confirmed := node.Annotations[v1alpha1.AnnotationManuallyConfirmedHealthy]; !confirmed {
			continue
		}
		for nhcName, versions := range p.nhcs {
			nhc := versions.at(p.rv)
			if nhc != nil && nhc.Selects(node) && !Matches(nhc.Spec.UnhealthyConditions, node) {
				left = append(left, Violation{Rule: "16.6", Node: name, NHC: nhcName, Text: "the confirmation is left"})
				break
			}
		}
	}
	return left
}

func (p *present) hasOwn(node, nhc string) bool {
	for _, cr := range p.crsAt(node, p.rv) {
		if cr.OwnedBy(nhc) {
			return true
		}
	}
	return false
}

// quorumWithout reports whether most control plane nodes are Ready without this one, or
// it is not Ready itself (spec 12.5).
func (p *present) quorumWithout(name string) bool {
	all, others := 0, 0
	for other, versions := range p.nodes {
		node := versions.at(p.rv)
		if node == nil || !node.ControlPlane() {
			continue
		}
		all++
		if other != name && node.Ready() {
			others++
		}
	}
	return !p.nodes[name].at(p.rv).Ready() || 2*others > all
}

// placeTaken reports whether another control plane node is under remediation, or was when
// its Node was deleted (spec 12.2).
func (p *present) placeTaken(node string) bool {
	for _, versions := range p.crs {
		cr := versions.at(p.rv)
		if cr == nil || cr.Node == node {
			continue
		}
		other := p.nodes[cr.Node].at(p.rv)
		if cr.ControlPlane || (other != nil && other.ControlPlane()) {
			return true
		}
	}
	return false
}

// othersCR reports whether somebody else has a CR for the node, or its name.
func (p *present) othersCR(node, nhc string) bool {
	for _, versions := range p.crs {
		if cr := versions.at(p.rv); cr != nil && !cr.OwnedBy(nhc) && (cr.Node == node || cr.Name == node) {
			return true
		}
	}
	return false
}

// leaseTaken reports whether somebody else holds a valid lease of the node.
func (p *present) leaseTaken(node, nhc string) bool {
	for key := range p.leasesOf[node] {
		if lease := p.leases[key].at(p.rv); lease != nil && holderOf(lease) != holderPrefix+nhc && LeaseValid(lease, p.now) {
			return true
		}
	}
	return false
}

// names returns a set in order, for messages.
func names(set sets.Set[string]) string { return strings.Join(sets.List(set), " ") }
