// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"encoding/json"
	"io"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/test/deploy"
	"github.com/nhc-controller/nhc-controller/test/faultproxy"
)

// deletionFault is what becomes of a request to delete a Machine.
type deletionFault struct {
	// carriedOut means that the API server does what is requested.
	carriedOut bool
	// code is that of the answer. With 0 its stream is reset.
	code int
	// silent means that there is no answer until the controller gives up.
	silent bool
}

// faultyDeletions does something to the first requests to delete each Machine of a namespace, and
// counts the others.
type faultyDeletions struct {
	mu sync.Mutex
	// faults are by namespace, requests and accepted ones by Machine.
	faults             map[string]deletionFault
	requests, accepted map[string]int
	// unbound are requests that lack a precondition.
	unbound []string
}

// faultyRequests is how many requests about each Machine fail.
const faultyRequests = 2

// Headers with which before tells after what to do.
const faultHeader, silentHeader = "Test-Fault", "Test-Silent"

// machineOf returns namespace and name of the Machine that a request deletes.
func machineOf(r *http.Request) (namespace, name string, deletion bool) {
	dir, name := path.Split(r.URL.Path)
	namespace, found := strings.CutSuffix(dir, "/machines/")
	return path.Base(namespace), name, found && r.Method == http.MethodDelete
}

func (f *faultyDeletions) before(r *http.Request) bool {
	namespace, name, deletion := machineOf(r)
	if !deletion {
		return true
	}
	var options metav1.DeleteOptions
	body, err := io.ReadAll(r.Body)
	if err == nil {
		err = json.Unmarshal(body, &options)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	key := namespace + "/" + name
	f.requests[key]++
	if bound := options.Preconditions; err != nil || bound == nil || bound.UID == nil || bound.ResourceVersion == nil || options.PropagationPolicy != nil {
		f.unbound = append(f.unbound, string(body))
	}
	fault, faulty := f.faults[namespace]
	if faulty = faulty && f.requests[key] <= faultyRequests; faulty {
		r.Header.Set(faultHeader, strconv.Itoa(fault.code))
		if fault.silent {
			r.Header.Set(silentHeader, "true")
		}
	}
	if faulty && !fault.carriedOut {
		r.Method, r.Body, r.ContentLength = http.MethodGet, http.NoBody, 0
		return fault.code != 0
	}
	r.Body = io.NopCloser(strings.NewReader(string(body)))
	return true
}

func (f *faultyDeletions) after(r *http.Request, response *http.Response) bool {
	if namespace, name, deletion := machineOf(r); deletion && response.StatusCode == http.StatusOK {
		f.mu.Lock()
		f.accepted[namespace+"/"+name]++
		f.mu.Unlock()
	}
	code, err := strconv.Atoi(r.Header.Get(faultHeader))
	switch {
	case r.Header.Get(silentHeader) != "":
		<-r.Context().Done()
		return false
	case err != nil:
		return true
	case code == 0:
		return false
	}
	reasons := map[int]metav1.StatusReason{
		http.StatusConflict: metav1.StatusReasonConflict, http.StatusInternalServerError: metav1.StatusReasonInternalError, http.StatusGatewayTimeout: metav1.StatusReasonTimeout,
	}
	body, err := json.Marshal(metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: int32(code), Reason: reasons[code], Message: "a fault of the test",
	})
	if err != nil {
		return false
	}
	_ = response.Body.Close()
	response.StatusCode, response.Header = code, http.Header{"Content-Type": {"application/json"}}
	response.Body, response.ContentLength = io.NopCloser(strings.NewReader(string(body))), int64(len(body))
	return true
}

// TestMachineDeletionFaults: requests to delete a Machine and their answers may fail in any way. One
// request takes effect, no other Machine is deleted, and the history is complete (spec M10.2, P9). Each
// request is bound to the version of the Machine that was seen.
func TestMachineDeletionFaults(t *testing.T) {
	t.Parallel()
	c := exclusiveCluster(t)
	f := &faultyDeletions{faults: map[string]deletionFault{}, requests: map[string]int{}, accepted: map[string]int{}}
	proxy, err := faultproxy.Start(c.AdminConfig(), faultproxy.Hooks{Before: f.before, After: f.after})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, proxy.Stop()) })
	c.installMachineAPIs(t)
	c.applyOverlay(t, ownOverlay)
	_, err = deploy.Start(t.Context(), c.ControlPlane, deploy.Controller{Name: "faults", Args: []string{"-v=4"}, Through: proxy.Config})
	require.NoError(t, err)

	t.Run("faults", func(t *testing.T) {
		faults := map[string]deletionFault{
			"none":                      {carriedOut: true, code: http.StatusOK},
			"409":                       {code: http.StatusConflict},
			"500":                       {code: http.StatusInternalServerError},
			"500, carried out":          {code: http.StatusInternalServerError, carriedOut: true},
			"504":                       {code: http.StatusGatewayTimeout},
			"504, carried out":          {code: http.StatusGatewayTimeout, carriedOut: true},
			"stream reset":              {},
			"stream reset, carried out": {carriedOut: true},
		}
		if *killAll { // The controller gives up after half a minute.
			faults["no answer, carried out"] = deletionFault{carriedOut: true, silent: true}
		}
		for name, fault := range faults {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				ofEachAPI(func(t *testing.T, s *machineScenario) { s.testDeletionFault(f, fault) })(t, c)
			})
		}
	})
	f.mu.Lock()
	defer f.mu.Unlock()
	require.Empty(t, f.unbound, "M10.2: bound to uid and resourceVersion, without a propagation policy")
}

// testDeletionFault has one Machine fail whose deletion takes a while, and one that is gone at once.
func (s *machineScenario) testDeletionFault(f *faultyDeletions, fault deletionFault) {
	t := s.t
	if fault.code != http.StatusOK {
		f.mu.Lock()
		f.faults[s.name] = fault
		f.mu.Unlock()
	}
	s.createMachine("at-once", func(machine *unstructured.Unstructured) {
		machine.SetOwnerReferences([]metav1.OwnerReference{s.another()})
	})
	s.join("at-once")
	set := s.startMachineSet(3, s.joins)
	s.createCheck()
	s.eventuallyCounts(3, 3)
	time.Sleep(time.Second) // A Machine that is older than the failure by the clock stands for no other.
	s.setReady("m1", corev1.ConditionUnknown)
	s.setReady("at-once", corev1.ConditionUnknown)
	s.eventuallyGone("m1")
	s.eventuallyGone("at-once")
	s.eventuallyCounts(3, 3)
	s.eventually("the history is complete", func() bool {
		rows := map[string]v1beta1.Remediation{}
		for _, row := range s.status().RemediationHistory {
			rows[row.Machine] = row
		}
		replaced, gone := rows["m1"], rows["at-once"]
		return len(s.status().RemediationHistory) == 2 && replaced.Finished != nil && replaced.Fenced != nil && replaced.Replacement != "" && gone.Started != nil && gone.Fenced != nil
	})
	s.eventually("no lease is left", func() bool {
		for _, machine := range []string{"m1", "at-once"} {
			if _, err := s.kube.CoordinationV1().Leases("medik8s-leases").Get(t.Context(), "node-"+s.nodeName(machine), metav1.GetOptions{}); err == nil {
				return false
			}
		}
		return true
	})
	require.Len(t, set.Created(), 4, "one for each that was deleted")
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, machine := range []string{"m1", "at-once"} {
		key := s.name + "/" + machine
		require.Equal(t, 1, f.accepted[key], "P9: one request took effect")
		if !fault.carriedOut {
			require.Equal(t, faultyRequests+1, f.requests[key], "one request after each that failed")
		}
		t.Logf("%s: %d requests", machine, f.requests[key])
	}
	for _, machine := range set.Created()[1:] {
		require.Zero(t, f.requests[s.name+"/"+machine], "no other Machine")
	}
}

// another returns an owner that makes no other Machine.
func (s *machineScenario) another() metav1.OwnerReference {
	s.t.Helper()
	owner, err := s.kube.CoreV1().ConfigMaps(s.name).Create(s.t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "another"}}, metav1.CreateOptions{})
	require.NoError(s.t, err)
	return metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID, Controller: new(true)}
}
