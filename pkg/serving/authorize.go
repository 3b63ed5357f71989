// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package serving

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilcache "k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/klog/v2"
)

// answerLifetime is how long the API server's answer about a token is trusted: a scraper
// asks every few seconds, and a revoked token should soon stop working.
const answerLifetime = 30 * time.Second

// Reviews of unknown tokens are limited: each of them costs at least two requests to the API
// server, and any client in the cluster may send such a token.
const (
	unknownTokensPerSecond = 10
	unknownTokensBurst     = 20
	// knownFor is how long a permitted token is exempt from the limit: a flood of unknown
	// tokens must not lock out a scraper.
	knownFor = time.Hour
	// reviewTimeout limits a review with all its requests.
	reviewTimeout = 10 * time.Second
)

// errTooManyTokens is the error of a review that the limit does not permit.
var errTooManyTokens = errors.New("too many tokens to check")

// Requirement is a set of permissions that the user of a bearer token needs.
type Requirement struct {
	// Name tells the requirements of a handler apart.
	Name string
	// Accesses are what the API server is asked about, without the user.
	Accesses []authorizationv1.SubjectAccessReviewSpec
}

// reviewer asks the API server whether the user of a bearer token meets a requirement.
type reviewer struct {
	kube kubernetes.Interface
	// answers are the status codes of the last reviews. known are the tokens whose last
	// review was good. The limit of unknown tokens bounds both.
	answers, known *utilcache.Expiring
	unknownTokens  flowcontrol.PassiveRateLimiter
}

func newReviewer(kube kubernetes.Interface) *reviewer {
	return &reviewer{
		kube:    kube,
		answers: utilcache.NewExpiring(), known: utilcache.NewExpiring(),
		unknownTokens: flowcontrol.NewTokenBucketPassiveRateLimiter(unknownTokensPerSecond, unknownTokensBurst),
	}
}

// PathOf requires the permission to get the path of a request.
func PathOf(request *http.Request) Requirement {
	return Requirement{Name: request.URL.Path, Accesses: []authorizationv1.SubjectAccessReviewSpec{
		{NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: request.URL.Path, Verb: "get"}},
	}}
}

// Authorized passes a request to the handler if the API server knows its bearer token and
// permits the user what the request requires. Other requests get 401 and 403, and 429
// when clients try too many tokens.
func Authorized(kube kubernetes.Interface, required func(*http.Request) Requirement, next http.Handler) http.Handler {
	r := newReviewer(kube)
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		scheme, token, _ := strings.Cut(request.Header.Get("Authorization"), " ")
		if token = strings.TrimSpace(token); !strings.EqualFold(scheme, "Bearer") || token == "" {
			http.Error(w, "a bearer token is needed", http.StatusUnauthorized)
			return
		}
		status, err := r.review(request.Context(), token, required(request))
		switch {
		case errors.Is(err, errTooManyTokens):
			http.Error(w, "too many tokens to check, try again later", http.StatusTooManyRequests)
		case err != nil:
			if request.Context().Err() == nil { // Otherwise the client has hung up.
				klog.FromContext(request.Context()).Error(err, "Reviewing a token failed")
			}
			http.Error(w, "the token cannot be checked now", http.StatusInternalServerError)
		case status != http.StatusOK:
			http.Error(w, http.StatusText(status), status)
		default:
			next.ServeHTTP(w, request)
		}
	})
}

// review returns 200, 401 or 403.
func (r *reviewer) review(ctx context.Context, token string, required Requirement) (int, error) {
	// The token itself is not kept.
	key := sha256.Sum256([]byte(required.Name + "\x00" + token))
	if answer, known := r.answers.Get(key); known {
		return answer.(int), nil
	}
	if _, known := r.known.Get(key); !known && !r.unknownTokens.TryAccept() {
		return 0, errTooManyTokens
	}
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	status, err := r.ask(ctx, token, required)
	if err != nil {
		return 0, err
	}
	r.answers.Set(key, status, answerLifetime)
	if status == http.StatusOK {
		r.known.Set(key, nil, knownFor)
	} else {
		r.known.Delete(key)
	}
	return status, nil
}

func (r *reviewer) ask(ctx context.Context, token string, required Requirement) (int, error) {
	who, err := r.kube.AuthenticationV1().TokenReviews().Create(ctx,
		&authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}, metav1.CreateOptions{})
	if err != nil {
		return 0, fmt.Errorf("asking who a token belongs to: %w", err)
	}
	if !who.Status.Authenticated {
		return http.StatusUnauthorized, nil
	}
	user, extra := who.Status.User, map[string]authorizationv1.ExtraValue{}
	for name, values := range user.Extra {
		extra[name] = authorizationv1.ExtraValue(values)
	}
	for _, access := range required.Accesses {
		access.User, access.UID, access.Groups, access.Extra = user.Username, user.UID, user.Groups, extra
		may, err := r.kube.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{Spec: access}, metav1.CreateOptions{})
		if err != nil {
			return 0, fmt.Errorf("asking what %s may do: %w", user.Username, err)
		}
		if !may.Status.Allowed {
			return http.StatusForbidden, nil
		}
	}
	return http.StatusOK, nil
}
