// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAddressIn: the address is found in what the dashboard prints, and its end is an error.
func TestAddressIn(t *testing.T) {
	t.Parallel()
	address, err := addressIn(strings.NewReader("The dashboard is at\n\n  http://127.0.0.1:38541/4XNQ7ZJ3/\n\nWho knows\n"))
	require.NoError(t, err)
	require.Equal(t, "http://127.0.0.1:38541/4XNQ7ZJ3/", address)
	_, err = addressIn(strings.NewReader("Cannot listen\n"))
	require.ErrorContains(t, err, "has printed no address")
}
