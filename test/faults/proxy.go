// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package faults lets things go wrong on a real control plane while a referee watches:
// the controller is killed and frozen, the API server fails in all the ways in which it
// can, remediators misbehave, nodes and NodeHealthChecks change at random.
package faults

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/nhc-controller/nhc-controller/test/faultproxy"
)

// Disruption is what a Proxy does to requests. The zero value is nothing. Chances are
// out of a hundred.
type Disruption struct {
	// Reset is the chance that the stream of a request is reset before the API server has
	// seen it.
	Reset int
	// Refuse is the chance that a request is answered with one of Codes, and never seen
	// by the API server. A conflict is the answer to writes only.
	Refuse int
	Codes  []int
	// Lose is the chance that the answer to a write is lost: it was carried out, and its
	// stream is reset.
	Lose int
	// GoAway is the chance that an answer tells the client to open another connection.
	GoAway int
	// Way is what becomes of the connections.
	Way faultproxy.Way
	// Late is by how much the events of watches are late, by resource.
	Late map[string]time.Duration
}

// Proxy is a way to the API server with disruption. It tells the API server by the user
// agent who comes this way.
type Proxy struct {
	*faultproxy.Proxy
	name string

	mu         sync.Mutex
	random     *rand.Rand
	disruption Disruption
	// cut is closed to end all watches, expired are resources whose next watch is too old.
	cut     chan struct{}
	expired map[string]bool
	// watching are how many watches of a resource are open that have begun since the way was not open for the last time.
	watching map[string]int
	writes   int
	onWrite  func(n int, carriedOut bool) (swallow bool)
	faults   map[string]int
}

// refused is the header of a request that the API server must not see: it gets another
// one instead, and the answer is replaced.
const refused = "X-Refused"

// number is the header with the number of a write.
const number = "X-Write"

// tooOld are the watches that the API server itself refuses, because their
// resourceVersion is compacted.
const tooOld = "watch too old"

// StartProxy starts a proxy with none.
func StartProxy(config *rest.Config, name string, seed uint64) (*Proxy, error) {
	p := &Proxy{
		name: name, random: rand.New(rand.NewPCG(seed, 1)), cut: make(chan struct{}),
		expired: map[string]bool{}, watching: map[string]int{}, faults: map[string]int{},
	}
	var err error
	if p.Proxy, err = faultproxy.Start(config, faultproxy.Hooks{Before: p.before, After: p.after}); err != nil {
		return nil, fmt.Errorf("starting the proxy of %s: %w", name, err)
	}
	return p, nil
}

// Set changes the disruption.
func (p *Proxy) Set(disruption Disruption) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.disruption = disruption
	if disruption.Way != faultproxy.Open {
		p.watching = map[string]int{}
		p.faults["connections silent or broken"]++
	}
	p.SetWay(disruption.Way)
}

// Watching reports whether there are watches of some resources that have begun since the way was not open for the last
// time.
func (p *Proxy) Watching(resources ...string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !slices.ContainsFunc(resources, func(resource string) bool { return p.watching[resource] == 0 })
}

// DropWatches ends all watches at once.
func (p *Proxy) DropWatches() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.endWatches()
	p.faults["watches dropped"]++
}

// ExpireWatches ends all watches, and the next attempt of each gets 410 Gone, as after a
// compaction.
func (p *Proxy) ExpireWatches() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for resource := range p.watching {
		p.expired[resource] = true
	}
	p.endWatches()
}

func (p *Proxy) endWatches() {
	close(p.cut)
	p.cut = make(chan struct{})
}

// OnWrite sets the function that is called before and after each write, with its number. If it
// returns true, the request or its answer is swallowed. Nil ends that.
func (p *Proxy) OnWrite(f func(n int, carriedOut bool) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.writes, p.onWrite = 0, f
}

// Faults returns how often each fault was injected.
func (p *Proxy) Faults() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.faults)
}

// chance reports whether something happens, and counts it. p.mu must be held.
func (p *Proxy) chance(percent int, what string) bool {
	happens := percent > 0 && p.random.IntN(100) < percent
	if happens {
		p.faults[what]++
	}
	return happens
}

func (p *Proxy) before(r *http.Request) bool {
	r.Header.Set("User-Agent", p.name+"/"+r.Header.Get("User-Agent"))
	p.mu.Lock()
	w, write := p.disruption, isStateWrite(r)
	if p.chance(w.Reset, "stream reset") {
		p.mu.Unlock()
		return false
	}
	code := 0
	switch {
	case isWatch(r) && p.expired[resourceOf(r)]:
		delete(p.expired, resourceOf(r))
		p.faults["watch expired"]++
		code = http.StatusGone
	case len(w.Codes) > 0 && p.chance(w.Refuse, "refused"):
		code = w.Codes[p.random.IntN(len(w.Codes))]
	}
	if code == http.StatusConflict && !write {
		code = 0
	}
	notify, n := p.onWrite, 0
	if write && code == 0 {
		p.writes++
		n = p.writes
		r.Header.Set(number, strconv.Itoa(n))
	}
	p.mu.Unlock()
	if code != 0 {
		r.Header.Set(refused, strconv.Itoa(code))
		r.Method, r.URL.Path, r.URL.RawQuery, r.Body, r.ContentLength = http.MethodGet, "/version", "", http.NoBody, 0
		return true
	}
	return notify == nil || !write || !notify(n, false)
}

func (p *Proxy) after(r *http.Request, response *http.Response) bool {
	if code, err := strconv.Atoi(r.Header.Get(refused)); err == nil {
		replace(response, code)
		return true
	}
	p.mu.Lock()
	write := isStateWrite(r)
	lost := write && p.chance(p.disruption.Lose, "answer lost")
	if p.chance(p.disruption.GoAway, "told to go away") {
		response.Header.Set("Connection", "close")
	}
	notify, cut, watching, resource := p.onWrite, p.cut, p.watching, resourceOf(r)
	if isWatch(r) {
		watching[resource]++
	}
	p.mu.Unlock()
	n, _ := strconv.Atoi(r.Header.Get(number))
	if lost || (notify != nil && write && notify(n, true)) {
		return false
	}
	if isWatch(r) {
		response.Body = newStream(response.Body, cut, func() time.Duration { return p.late(resource) }, p.inspect, func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			watching[resource]--
		})
	}
	return true
}

// inspect looks at what a watch has sent: what it cannot begin with is told in an event,
// in JSON or in Protobuf.
func (p *Proxy) inspect(content []byte) {
	if bytes.Contains(content, []byte("too old resource version")) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.faults[tooOld]++
	}
}

// late returns by how much the events of a resource are late at the moment.
func (p *Proxy) late(resource string) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.disruption.Late[resource]
}

// replace makes an answer an error.
func replace(response *http.Response, code int) {
	reasons := map[int]metav1.StatusReason{
		http.StatusConflict: metav1.StatusReasonConflict, http.StatusGone: metav1.StatusReasonExpired,
		http.StatusTooManyRequests: metav1.StatusReasonTooManyRequests, http.StatusInternalServerError: metav1.StatusReasonInternalError,
		http.StatusServiceUnavailable: metav1.StatusReasonServiceUnavailable, http.StatusGatewayTimeout: metav1.StatusReasonTimeout,
	}
	status := metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure, Code: int32(code), Reason: reasons[code], Message: "a fault of the test",
	}
	body, err := json.Marshal(status)
	if err != nil {
		body = nil
	}
	response.Body.Close()
	response.StatusCode, response.Status = code, strconv.Itoa(code)+" "+http.StatusText(code)
	response.Header = http.Header{"Content-Type": {"application/json"}}
	if code == http.StatusTooManyRequests {
		response.Header.Set("Retry-After", "1")
	}
	response.Body, response.ContentLength = io.NopCloser(strings.NewReader(string(body))), int64(len(body))
}

// isStateWrite reports whether a request is meant to change what counts: reviews ask, and
// events only tell.
func isStateWrite(r *http.Request) bool {
	return !slices.Contains([]string{http.MethodGet, http.MethodHead}, r.Method) &&
		!strings.Contains(r.URL.Path, "reviews") && !strings.Contains(r.URL.Path, "/events") && !isLeaderLease(r.URL.Path)
}

func isLeaderLease(path string) bool { return strings.Contains(path, "/namespaces/nhc-system/leases") }

func isWatch(r *http.Request) bool {
	return r.Method == http.MethodGet && slices.Contains([]string{"1", "true"}, r.URL.Query().Get("watch"))
}

// resourceOf returns the resource of a watch, which is the end of its path.
func resourceOf(r *http.Request) string { return r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:] }
