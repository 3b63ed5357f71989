// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package meter

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"

	"github.com/nhc-controller/nhc-controller/test/localkube"
)

// errNoMetrics is returned for a process whose log does not say where metrics are.
var errNoMetrics = errors.New("the controller does not serve metrics, or does not log as JSON")

// Scrape returns the metrics of a controller that logs as JSON, as text. The token belongs
// to a user who may get /metrics.
func Scrape(ctx context.Context, p *localkube.Process, token string) (string, error) {
	address := metricsAddress(p)
	if address == "" {
		return "", errNoMetrics
	}
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
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("reading metrics: %s: %s", response.Status, body)
	}
	return string(body), err
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

// Sum returns the sum of all series of a metric, zero if there is none.
func Sum(body, metric string) float64 {
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
