// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"

	"github.com/nhc-controller/nhc-controller/test/localkube"
)

const lastLookMetric = "nhc_last_look_recovered_total"

// lastLooks returns how often the controller says that its last look has found a
// node healthy, and -1 if it serves no metrics where this bench can find them.
func (w *world) lastLooks(ctx context.Context) float64 {
	address := metricsAddress(w.controller)
	if address == "" {
		return -1
	}
	body, err := scrape(ctx, address, w.cluster.AdminConfig().BearerToken)
	if err != nil {
		return -1
	}
	return sumOf(body, lastLookMetric)
}

// metricsAddress returns where the controller says in its log that it listens.
func metricsAddress(p *localkube.Process) string {
	log, err := os.ReadFile(p.LogPath())
	if err != nil {
		return ""
	}
	for line := range bytes.Lines(log) {
		var fields struct{ Msg, Server, Address string }
		if json.Unmarshal(line, &fields) == nil && fields.Msg == "Listening" && fields.Server == "metrics" {
			return fields.Address
		}
	}
	return ""
}

func scrape(ctx context.Context, address, token string) (string, error) {
	// The controller makes its certificate at the start.
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}}
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+address+"/metrics", http.NoBody)
	if err != nil {
		return "", err
	}
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := transport.RoundTrip(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return string(body), err
}

// sumOf returns the sum of all series of a metric, zero if there is none.
func sumOf(body, metric string) float64 {
	sum := 0.0
	for line := range strings.Lines(body) {
		name, value, found := strings.Cut(strings.TrimSpace(line), " ")
		if name, _, _ = strings.Cut(name, "{"); !found || name != metric {
			continue
		}
		if v, err := strconv.ParseFloat(value, 64); err == nil {
			sum += v
		}
	}
	return sum
}
