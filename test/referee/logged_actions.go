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

// ReadLog reads the actions in the log of a process, which runs with -v=4 and --logging-format=json, and whose
// user agent begins with client.
func ReadLog(path, client string) (actions []rules.LoggedAction, _ error) {
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
		actions = append(actions, rules.LoggedAction{
			Time: time.UnixMicro(int64(line.Milliseconds * 1000)), Client: client, Node: line.Node,
			Check: cmp.Or(line.NodeHealthCheck, line.MachineHealthCheck), Version: version,
		})
	}
	return actions, lines.Err()
}
