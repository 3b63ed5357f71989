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

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/nhc-controller/nhc-controller/test/localkube"
	"github.com/nhc-controller/nhc-controller/test/rules"
)

// Config says what a referee watches. All fields but Machines, Tolerance and Log are required.
type Config struct {
	// Client is the configuration of a client that may read everything, straight from
	// the API server.
	Client *rest.Config
	// Remediations and Templates are the resources of the CRs and of their templates.
	Remediations, Templates []schema.GroupVersionResource
	// LeaseNamespace has the leases of nodes.
	LeaseNamespace string
	// Machines says how Machines are judged. It is nil where they are not followed.
	Machines *rules.MachineConfig
	// Requests returns the requests of the controller so far, as
	// localkube.ControlPlane.Requests does with Options.AuditResponses.
	Requests func() ([]localkube.Request, error)
	// LoggedActions returns what the processes of the controller have logged so far.
	LoggedActions func() ([]rules.LoggedAction, error)
	// Tolerance is what the controller could not have seen when nothing is wrong; zero
	// means rules.Quiet.
	Tolerance rules.Tolerance
	// Log is told what Settled waits for. It may be nil.
	Log func(format string, args ...any)
}

// written are the resources that the controller may write to, besides remediations and leases.
var written = []schema.GroupVersionResource{
	rules.Nodes, rules.NodeHealthChecks, rules.Machines, rules.ClusterAPIMachines, rules.MachineHealthChecks, rules.RemediationBudgets,
}

// Referee watches a cluster. All methods may be called from any goroutine.
type Referee struct {
	config    Config
	metadata  metadata.Interface
	followers []*follower
	wg        sync.WaitGroup
	stop      context.CancelFunc

	inbox inbox

	mu    sync.Mutex // Guards everything below.
	judge *rules.Judge
	// judged are the changes that were, in order.
	judged []rules.Change
	// notSettled is what Settled has returned.
	notSettled []rules.Violation
}

// inbox has the changes that have not been judged yet.
type inbox struct {
	mu      sync.Mutex
	changes []rules.Change
}

func (i *inbox) put(c rules.Change) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.changes = append(i.changes, c)
}

// take removes the changes up to a resource version and returns them in order.
func (i *inbox) take(horizon uint64) []rules.Change {
	i.mu.Lock()
	defer i.mu.Unlock()
	var due, rest []rules.Change
	for _, c := range i.changes {
		if c.ResourceVersion <= horizon {
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
	return slices.ContainsFunc(i.changes, func(c rules.Change) bool { return slices.Contains(resources, c.Resource) })
}

func sortChanges(changes []rules.Change) {
	slices.SortStableFunc(changes, func(a, b rules.Change) int { return cmp.Compare(a.ResourceVersion, b.ResourceVersion) })
}

// Start starts a referee. What exists already it takes as given. It watches until Stop.
func Start(ctx context.Context, config Config) (*Referee, error) {
	if config.Tolerance == (rules.Tolerance{}) {
		config.Tolerance = rules.Quiet
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
	r := &Referee{config: config, metadata: metadataClient, judge: rules.NewJudge(rules.Config{
		Remediations: config.Remediations, Templates: config.Templates, LeaseNamespace: config.LeaseNamespace,
		Machines: config.Machines, Tolerance: config.Tolerance, Begin: time.Now(),
	})}
	for _, resource := range slices.Concat(written, config.Remediations, config.Templates) {
		r.followers = append(r.followers, &follower{resource: resource, client: client.Resource(resource)})
	}
	r.followers = append(r.followers, &follower{resource: rules.Leases, namespace: config.LeaseNamespace, client: client.Resource(rules.Leases).Namespace(config.LeaseNamespace)})
	watchCtx, stop := context.WithCancel(context.WithoutCancel(ctx))
	r.stop = stop
	for _, f := range r.followers {
		f.state, f.sink = map[string]reportedVersion{}, r.inbox.put
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
	before := len(r.Violations())
	if err := r.judgeUntilNow(ctx); err != nil {
		return err
	}
	if len(r.Violations()) == before {
		return nil
	}
	// A watch may be behind with what came and went: then all is judged again.
	pause(ctx, watchDelay)
	return r.judgeUntilNow(ctx)
}

// watchDelay is how long a watch may take to tell of an object that is not there any
// more.
const watchDelay = 3 * time.Second

func (r *Referee) judgeUntilNow(ctx context.Context) error {
	horizon, err := r.catchUp(ctx)
	if err != nil {
		return err
	}
	requests, actions, err := r.requestsUntilNow(ctx)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if requests != nil {
		r.judge.SetRequests(requests)
		r.judge.SetLoggedActions(actions)
	}
	due := r.inbox.take(horizon)
	// What came and went before its watch told of it is in no list, so the
	// referee did not wait for it: all is judged once more.
	if n := len(r.judged); n > 0 && len(due) > 0 && due[0].ResourceVersion < r.judged[n-1].ResourceVersion {
		due = append(r.judged, due...)
		sortChanges(due)
		r.judge, r.judged = r.judge.Again(), nil
	}
	for _, c := range due {
		r.judge.Apply(c)
	}
	r.judged = append(r.judged, due...)
	return nil
}

// requestsUntilNow returns the requests and logged actions of the controller so far, or nil if there is no
// change that the controller may have made: the logs are long.
func (r *Referee) requestsUntilNow(ctx context.Context) ([]rules.Request, []rules.LoggedAction, error) {
	if !r.inbox.hasAny(slices.Concat(r.config.Remediations, written, []schema.GroupVersionResource{rules.Leases})) {
		return nil, nil, nil
	}
	pause(ctx, auditDelay)
	requests, err := r.Requests()
	if err != nil {
		return nil, nil, fmt.Errorf("reading the requests: %w", err)
	}
	actions, err := r.config.LoggedActions()
	if err != nil {
		return nil, nil, fmt.Errorf("reading the logs: %w", err)
	}
	return requests, actions, nil
}

// Requests returns the requests of the controller so far in the form of package rules.
func (r *Referee) Requests() ([]rules.Request, error) {
	requests, err := r.config.Requests()
	if err != nil {
		return nil, err
	}
	converted := make([]rules.Request, 0, len(requests))
	for _, request := range requests {
		converted = append(converted, rules.Request(request))
	}
	return converted, nil
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

// list lists the resource of a follower, as it is now.
func (r *Referee) list(ctx context.Context, f *follower) (versions map[string]uint64, version uint64, err error) {
	list, err := r.metadata.Resource(f.resource).Namespace(f.namespace).List(ctx, metav1.ListOptions{})
	if apierrors.IsNotFound(err) {
		return nil, 0, nil // Not installed.
	}
	if err != nil {
		return nil, 0, fmt.Errorf("listing %s: %w", f.resource.Resource, err)
	}
	if version, err = parseVersion(list.ResourceVersion); err != nil {
		return nil, 0, err
	}
	versions = map[string]uint64{}
	for i := range list.Items {
		if versions[rules.KeyOf(&list.Items[i])], err = parseVersion(list.Items[i].ResourceVersion); err != nil {
			return nil, 0, err
		}
	}
	return versions, version, nil
}
