// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"fmt"
	"net/http"
	"time"
)

const (
	// reconnect is after how many milliseconds a browser connects again.
	reconnect = 2000
	// heartbeat is how often something is sent while nothing changes, so that a connection that is
	// gone is noticed.
	heartbeat = 15 * time.Second
)

// events sends the version of the state, now and whenever it changes, as server-sent events: a page
// that shows another one reads itself again. The source limits how often that is.
func (d *Dashboard) events(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return
	}
	stream := http.NewResponseController(w)
	send := func(text string) bool {
		_, err := fmt.Fprint(w, text)
		return err == nil && stream.Flush() == nil
	}
	ticker := time.NewTicker(heartbeat)
	defer ticker.Stop()
	state := d.Source.State()
	for text := fmt.Sprintf("retry: %d\n%s", reconnect, changed(state)); send(text); {
		select {
		case <-r.Context().Done():
			return
		case <-ticker.C:
			text = ": still here\n\n"
		case <-state.Outdated:
			state = d.Source.State()
			text = changed(state)
		}
	}
}

// changed is the event that there is a state.
func changed(state State) string { return fmt.Sprintf("event: changed\ndata: %d\n\n", state.Version) }
