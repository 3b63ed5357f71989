// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"slices"
	"strings"
)

// Door admits clients that know its token: the first element of the path. It protects a server on a
// loopback address, where other users of the machine can connect, and any page in a browser of the user.
type Door struct {
	handler http.Handler
	hosts   []string
	token   [sha256.Size]byte
	path    string
}

// NewDoor returns a Door in front of a handler. Requests have to name one of these hosts, with its
// port: any other name was made to resolve to this address by an attacker (DNS rebinding).
func NewDoor(handler http.Handler, token string, hosts ...string) *Door {
	return &Door{handler: handler, hosts: hosts, token: sha256.Sum256([]byte(token)), path: "/" + token + "/"}
}

// Path is where the handler is served.
func (d *Door) Path() string { return d.path }

// ServeHTTP implements [http.Handler].
func (d *Door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	secure(w.Header())
	if !slices.ContainsFunc(d.hosts, func(known string) bool { return strings.EqualFold(r.Host, known) }) {
		http.Error(w, "This is not a name of the dashboard.", http.StatusMisdirectedRequest)
		return
	}
	first, rest, found := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	offered := sha256.Sum256([]byte(first))
	switch {
	case subtle.ConstantTimeCompare(offered[:], d.token[:]) == 1 && !found:
		http.Redirect(w, r, d.path, http.StatusFound)
	case subtle.ConstantTimeCompare(offered[:], d.token[:]) == 1:
		inner := r.Clone(r.Context())
		inner.URL.Path, inner.URL.RawPath = "/"+rest, ""
		d.handler.ServeHTTP(w, inner)
	default:
		http.Error(w, "Use the address that kubectl nhc dashboard has printed.", http.StatusForbidden)
	}
}
