// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package referee

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/test/localkube"
)

// The resources that every referee follows.
var (
	nodes  = corev1.SchemeGroupVersion.WithResource("nodes")
	nhcs   = v1alpha1.SchemeGroupVersion.WithResource(v1alpha1.Plural)
	leases = coordinationv1.SchemeGroupVersion.WithResource("leases")
)

// Config says what a referee watches. All fields but Requests, Sight and Log are
// required.
type Config struct {
	// Client is the configuration of a client that may read everything, straight from
	// the API server.
	Client *rest.Config
	// Remediations and Templates are the resources of the CRs and of their templates.
	Remediations, Templates []schema.GroupVersionResource
	// LeaseNamespace has the leases of nodes.
	LeaseNamespace string
	// Requests returns the requests of the controller so far, as
	// localkube.ControlPlane.Requests does. Without it some rules have more tolerance.
	Requests func() ([]localkube.Request, error)
	// Sight is what the controller could not have seen in quiet times; zero means Quiet.
	Sight Sight
	// Log is told what Settled waits for. It may be nil.
	Log func(format string, args ...any)
}

// Referee watches a cluster. All methods may be called from any goroutine.
type Referee struct {
	config    Config
	metadata  metadata.Interface
	followers []*follower
	wg        sync.WaitGroup
	stop      context.CancelFunc

	inbox inbox

	mu sync.Mutex // Guards everything below.
	*court
	// judged are the changes that were, in order, and complaints what did not settle.
	judged     []change
	complaints []Violation
}

// inbox has the changes that have not been judged yet.
type inbox struct {
	mu      sync.Mutex
	changes []change
}

func (i *inbox) put(c change) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.changes = append(i.changes, c)
}

// take removes the changes up to a resource version and returns them in order.
func (i *inbox) take(horizon uint64) []change {
	i.mu.Lock()
	defer i.mu.Unlock()
	var due, rest []change
	for _, c := range i.changes {
		if c.rv <= horizon {
			due = append(due, c)
		} else {
			rest = append(rest, c)
		}
	}
	i.changes = rest
	sortChanges(due)
	return due
}

// hasAny reports whether there are changes of some resources.
func (i *inbox) hasAny(resources []schema.GroupVersionResource) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.ContainsFunc(i.changes, func(c change) bool { return slices.Contains(resources, c.resource) })
}

func sortChanges(changes []change) {
	slices.SortStableFunc(changes, func(a, b change) int { return cmp.Compare(a.rv, b.rv) })
}

// Start starts a referee. What exists already it takes as given. It watches until Stop.
func Start(ctx context.Context, config Config) (*Referee, error) {
	if config.Sight == (Sight{}) {
		config.Sight = Quiet
	}
	if config.Log == nil {
		config.Log = func(string, ...any) {}
	}
	client, err := dynamic.NewForConfig(config.Client)
	if err != nil {
		return nil, fmt.Errorf("making the client of the referee: %w", err)
	}
	metadataClient, err := metadata.NewForConfig(metadata.ConfigFor(config.Client))
	if err != nil {
		return nil, fmt.Errorf("making the client of the referee: %w", err)
	}
	r := &Referee{config: config, metadata: metadataClient, court: newCourt(config.Sight)}
	for _, resource := range slices.Concat([]schema.GroupVersionResource{nodes, nhcs}, config.Remediations, config.Templates) {
		r.followers = append(r.followers, &follower{resource: resource, client: client.Resource(resource)})
	}
	r.followers = append(r.followers, &follower{resource: leases, namespace: config.LeaseNamespace, client: client.Resource(leases).Namespace(config.LeaseNamespace)})
	for _, gvr := range config.Remediations {
		r.remediations[gvr] = true
	}
	for _, gvr := range config.Templates {
		r.templates[gvr] = true
	}
	watchCtx, stop := context.WithCancel(context.WithoutCancel(ctx))
	r.stop = stop
	for _, f := range r.followers {
		f.state, f.sink = map[string]uint64{}, r.inbox.put
		r.wg.Go(func() { f.run(watchCtx) })
	}
	if err := r.Judge(ctx); err != nil {
		r.Stop()
		return nil, err
	}
	return r, nil
}

// Stop ends the watches. What was judged stays.
func (r *Referee) Stop() {
	r.stop()
	r.wg.Wait()
}

// Judge judges all that has happened until now, and returns when that is done. An
// error means that the API server could not be asked; nothing is lost by it.
func (r *Referee) Judge(ctx context.Context) error {
	horizon, err := r.catchUp(ctx)
	if err != nil {
		return err
	}
	log, err := r.readAudit(ctx)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.audit = log
	due := r.inbox.take(horizon)
	// What came and went before its watch told of it is in no list, so that nobody has
	// waited for it: all is judged once more.
	if n := len(r.judged); n > 0 && len(due) > 0 && due[0].rv < r.judged[n-1].rv {
		due = append(r.judged, due...)
		sortChanges(due)
		r.court, r.judged = r.afresh(), nil
		r.audit = log
	}
	for _, c := range due {
		r.judge(c)
	}
	r.judged = append(r.judged, due...)
	r.horizon = max(r.horizon, horizon)
	return nil
}

// readAudit returns the requests of the controller so far. It reads them only if there
// is a CR to be judged: the log is long.
func (r *Referee) readAudit(ctx context.Context) (audit, error) {
	if r.config.Requests == nil || !r.inbox.hasAny(r.config.Remediations) {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.audit, nil
	}
	pause(ctx, auditDelay)
	requests, err := r.config.Requests()
	if err != nil {
		return audit{}, fmt.Errorf("reading the requests: %w", err)
	}
	return newAudit(requests), nil
}

// auditDelay is how long a request may take into the audit log after its effect is
// there.
const auditDelay = 300 * time.Millisecond

// catchUp waits until every watch has told of all that exists now, and of what does not
// exist any more, and returns the resource version up to which that is so.
func (r *Referee) catchUp(ctx context.Context) (uint64, error) {
	var horizon uint64
	for _, f := range r.followers {
		listed, version, err := r.list(ctx, f)
		if err != nil {
			return 0, err
		}
		for !f.caughtUp(listed, version) {
			if ctx.Err() != nil {
				return 0, fmt.Errorf("waiting for the watch of %s: %w", f.resource.Resource, context.Cause(ctx))
			}
			pause(ctx, retryInterval)
		}
		if version > 0 && (horizon == 0 || version < horizon) {
			horizon = version
		}
	}
	return horizon, nil
}
