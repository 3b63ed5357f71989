// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilcache "k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
)

// answerLifetime is how long the API server's answer about a token is trusted: a
// scraper asks every few seconds, and a token that was revoked should not go on for
// long.
const answerLifetime = 30 * time.Second

// reviewer asks the API server whether a bearer token may get a path.
type reviewer struct {
	kube    kubernetes.Interface
	answers *utilcache.Expiring
}

// authorized lets those through whose bearer token the API server knows, and whom
// it permits to get the path. Others get 401 and 403.
func authorized(kube kubernetes.Interface, next http.Handler) http.Handler {
	r := &reviewer{kube: kube, answers: utilcache.NewExpiring()}
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		scheme, token, _ := strings.Cut(request.Header.Get("Authorization"), " ")
		if token = strings.TrimSpace(token); !strings.EqualFold(scheme, "Bearer") || token == "" {
			http.Error(w, "a bearer token is needed", http.StatusUnauthorized)
			return
		}
		status, err := r.review(request.Context(), token, request.URL.Path)
		if err != nil {
			klog.FromContext(request.Context()).Error(err, "Reviewing a token failed")
			http.Error(w, "the token cannot be checked now", http.StatusInternalServerError)
			return
		}
		if status != http.StatusOK {
			http.Error(w, http.StatusText(status), status)
			return
		}
		next.ServeHTTP(w, request)
	})
}

// review returns 200, 401 or 403.
func (r *reviewer) review(ctx context.Context, token, path string) (int, error) {
	// The token itself is not kept.
	key := sha256.Sum256([]byte(path + "\x00" + token))
	if answer, known := r.answers.Get(key); known {
		return answer.(int), nil
	}
	status, err := r.ask(ctx, token, path)
	if err == nil {
		r.answers.Set(key, status, answerLifetime)
	}
	return status, err
}

func (r *reviewer) ask(ctx context.Context, token, path string) (int, error) {
	who, err := r.kube.AuthenticationV1().TokenReviews().Create(ctx,
		&authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}, metav1.CreateOptions{})
	if err != nil {
		return 0, fmt.Errorf("asking who a token belongs to: %w", err)
	}
	if !who.Status.Authenticated {
		return http.StatusUnauthorized, nil
	}
	extra := map[string]authorizationv1.ExtraValue{}
	for name, values := range who.Status.User.Extra {
		extra[name] = authorizationv1.ExtraValue(values)
	}
	may, err := r.kube.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{
			User: who.Status.User.Username, UID: who.Status.User.UID, Groups: who.Status.User.Groups, Extra: extra,
			NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: path, Verb: "get"},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return 0, fmt.Errorf("asking whether %s may get %s: %w", who.Status.User.Username, path, err)
	}
	if !may.Status.Allowed {
		return http.StatusForbidden, nil
	}
	return http.StatusOK, nil
}
