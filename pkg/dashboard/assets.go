// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"embed"
	"net/http"
	"path"
)

const assetDirectory = "assets"

//go:embed assets
var assets embed.FS

// types are those of the files that the pages need: there is no other one.
var types = map[string]string{
	"style.css":  "text/css; charset=utf-8",
	"script.js":  "text/javascript; charset=utf-8",
	"symbol.svg": "image/svg+xml",
}

// serveAsset serves one of the files.
func serveAsset(w http.ResponseWriter, r *http.Request) {
	name := path.Base(r.URL.Path)
	content, err := assets.ReadFile(assetDirectory + "/" + name)
	if err != nil || types[name] == "" || r.URL.Path != "/"+assetDirectory+"/"+name {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", types[name])
	_, _ = w.Write(content) // Who asked has gone.
}
