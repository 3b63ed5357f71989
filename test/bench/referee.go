// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/nhc-controller/nhc-controller/test/deploy"
	"github.com/nhc-controller/nhc-controller/test/localkube"
	"github.com/nhc-controller/nhc-controller/test/referee"
	"github.com/nhc-controller/nhc-controller/test/remediator"
)

// startReferee has the rules checked while a scenario is measured: performance must
// not buy less safety. That costs CPU, so that what is measured meanwhile says less.
func startReferee(ctx context.Context, scenario string, e *environment) (end func() error, err error) {
	begin := time.Now()
	r, err := referee.Start(ctx, referee.Config{
		Client:         e.cluster.AdminConfig(),
		Remediations:   []schema.GroupVersionResource{remediator.Resource},
		Templates:      []schema.GroupVersionResource{remediator.Resource.GroupVersion().WithResource("powercycleremediationtemplates")},
		LeaseNamespace: leaseNamespace,
		Requests:       func() ([]localkube.Request, error) { return e.requestsSince(begin) },
	})
	if err != nil {
		return nil, fmt.Errorf("starting the referee: %w", err)
	}
	return func() error {
		defer r.Stop()
		if err := r.Judge(ctx); err != nil {
			return fmt.Errorf("judging: %w", err)
		}
		e.logf("%s: the referee made %d checks of %d events", scenario, r.Figures().Total(), r.Figures().Events)
		var violations []error
		for _, violation := range r.Violations() {
			violations = append(violations, errors.New(violation.String()))
		}
		return errors.Join(violations...)
	}, nil
}

// requestsSince returns the requests of the controller since an instant.
func (e *environment) requestsSince(begin time.Time) ([]localkube.Request, error) {
	all, err := e.cluster.RequestsSince(begin)
	var own []localkube.Request
	for _, request := range all {
		if request.User == deploy.User {
			own = append(own, request)
		}
	}
	return own, err
}
