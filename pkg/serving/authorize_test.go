// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package serving

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/klog/v2"

	"github.com/nhc-controller/nhc-controller/test/servingtest"
)

// gate is an authorized handler in front of one that says ok, with the reviews that
// it asks for.
type gate struct {
	kube *fake.Clientset
	http.Handler
}

func newGate() *gate {
	kube := fake.NewClientset()
	return &gate{kube: kube, Handler: Authorized(kube, PathOf, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { OK(w) }))}
}

func (g *gate) get(t *testing.T, path, authorization string) *httptest.ResponseRecorder {
	t.Helper()
	request := httptest.NewRequestWithContext(klog.NewContext(t.Context(), klog.Logger{}), http.MethodGet, path, nil)
	if authorization != "" {
		request.Header.Set("Authorization", authorization)
	}
	answer := httptest.NewRecorder()
	g.ServeHTTP(answer, request)
	return answer
}

func TestAuthorized(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		path, authorization string
		want                int
		reviews             int
	}{
		"22.4 no token":              {path: "/metrics", want: http.StatusUnauthorized},
		"22.4 no bearer token":       {path: "/metrics", authorization: "Basic Z29vZDpnb29k", want: http.StatusUnauthorized},
		"22.4 an empty token":        {path: "/metrics", authorization: "Bearer  ", want: http.StatusUnauthorized},
		"22.4 an unknown token":      {path: "/metrics", authorization: "Bearer bad", want: http.StatusUnauthorized, reviews: 1},
		"22.4 no permission":         {path: "/other", authorization: "Bearer good", want: http.StatusForbidden, reviews: 2},
		"22.4 may get it":            {path: "/metrics", authorization: "Bearer good", want: http.StatusOK, reviews: 2},
		"22.4 the query is no path":  {path: "/metrics?x=1", authorization: "Bearer good", want: http.StatusOK, reviews: 2},
		"22.4 two tokens are no one": {path: "/metrics", authorization: "Bearer good, Bearer bad", want: http.StatusUnauthorized, reviews: 1},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGate()
			servingtest.AdmitTo(g.kube, "good", "/metrics")
			answer := g.get(t, tc.path, tc.authorization)
			require.Equal(t, tc.want, answer.Code)
			require.Equal(t, tc.want == http.StatusOK, answer.Body.String() == "ok", "nothing is served to others")
			require.Len(t, g.kube.Actions(), tc.reviews)
			require.NotContains(t, answer.Body.String(), "good", "the token is not repeated")
		})
	}
}

// The review is about the user that the token belongs to, with all that is known.
func TestAuthorizedAsksForTheUser(t *testing.T) {
	t.Parallel()
	g := newGate()
	user := authenticationv1.UserInfo{Username: "prometheus", UID: "u", Groups: []string{"g"}, Extra: map[string]authenticationv1.ExtraValue{"scopes": {"a", "b"}}}
	g.kube.PrependReactor("create", "tokenreviews", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, &authenticationv1.TokenReview{Status: authenticationv1.TokenReviewStatus{Authenticated: true, User: user}}, nil
	})
	var asked authorizationv1.SubjectAccessReviewSpec
	g.kube.PrependReactor("create", "subjectaccessreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
		asked = action.(clienttesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview).Spec
		return true, &authorizationv1.SubjectAccessReview{Status: authorizationv1.SubjectAccessReviewStatus{Allowed: true}}, nil
	})
	require.Equal(t, http.StatusOK, g.get(t, "/metrics", "Bearer x").Code)
	require.Equal(t, authorizationv1.SubjectAccessReviewSpec{
		User: "prometheus", UID: "u", Groups: []string{"g"}, Extra: map[string]authorizationv1.ExtraValue{"scopes": {"a", "b"}},
		NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: "/metrics", Verb: "get"},
	}, asked, "22.4: get on /metrics")
}

func TestAuthorizedCachesAnswers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		servingtest.AdmitTo(g.kube, "good", "/metrics")
		for range 10 {
			require.Equal(t, http.StatusOK, g.get(t, "/metrics", "Bearer good").Code)
		}
		require.Len(t, g.kube.Actions(), 2, "P3: asked once")
		require.Equal(t, http.StatusUnauthorized, g.get(t, "/metrics", "Bearer bad").Code, "an answer is for its token")
		require.Equal(t, http.StatusForbidden, g.get(t, "/other", "Bearer good").Code, "and for its path")
		require.Len(t, g.kube.Actions(), 5)
		require.Equal(t, http.StatusUnauthorized, g.get(t, "/metrics", "Bearer bad").Code)
		require.Len(t, g.kube.Actions(), 5, "refusals too")

		servingtest.AdmitTo(g.kube, "another", "/metrics")
		time.Sleep(answerLifetime - 1)
		require.Equal(t, http.StatusOK, g.get(t, "/metrics", "Bearer good").Code)
		time.Sleep(time.Nanosecond)
		require.Equal(t, http.StatusUnauthorized, g.get(t, "/metrics", "Bearer good").Code, "a token that was revoked does not go on for long")
	})
}

func TestAuthorizedReviewFails(t *testing.T) {
	t.Parallel()
	for _, resource := range []string{"tokenreviews", "subjectaccessreviews"} {
		t.Run(resource, func(t *testing.T) {
			t.Parallel()
			g := newGate()
			servingtest.AdmitTo(g.kube, "good", "/metrics")
			broken := true
			g.kube.PrependReactor("create", resource, func(clienttesting.Action) (bool, runtime.Object, error) {
				if !broken {
					return false, nil, nil
				}
				return true, nil, errors.New("the API server is away")
			})
			answer := g.get(t, "/metrics", "Bearer good")
			require.Equal(t, http.StatusInternalServerError, answer.Code, "P5")
			require.NotContains(t, answer.Body.String(), "away", "no details for unknown clients")
			broken = false
			require.Equal(t, http.StatusOK, g.get(t, "/metrics", "Bearer good").Code, "P5: a failure is not remembered")
		})
	}
}
