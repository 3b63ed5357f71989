// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package referee

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/nhc-controller/nhc-controller/test/rules"
)

// ReadDecisions reads the decisions in the log of a process, which runs with -v=4 and --logging-format=json, and whose
// user agent begins with client.
func ReadDecisions(path, client string) (decisions []rules.Decision, _ error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if !bytes.Contains(lines.Bytes(), []byte(`"msg":"Carrying out"`)) {
			continue
		}
		var line struct {
			Milliseconds                                                  float64 `json:"ts"`
			NodeHealthCheck, MachineHealthCheck, HealthCheckVersion, Node string
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			continue // The process was killed while it wrote the line.
		}
		version, err := parseVersion(line.HealthCheckVersion)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		decisions = append(decisions, rules.Decision{
			Time: time.UnixMicro(int64(line.Milliseconds * 1000)), Client: client, Node: line.Node,
			Check: cmp.Or(line.NodeHealthCheck, line.MachineHealthCheck), Version: version,
		})
	}
	return decisions, lines.Err()
}
