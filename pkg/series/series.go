// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package series makes the metrics of a controller about the objects of one kind. Each metric has a series for every
// object until the object is gone.
package series

import (
	"fmt"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
)

// Set has the metrics of the objects of one kind.
type Set struct {
	labels  []string
	metrics []metric
}

// metric is one whose series can be removed.
type metric interface {
	prometheus.Collector
	DeletePartialMatch(labels prometheus.Labels) int
}

// Of returns a Set whose metrics begin with these labels, which name an object.
func Of(labels ...string) *Set { return &Set{labels: labels} }

// Gauge adds a gauge with these further labels.
func (s *Set) Gauge(name, help string, labels ...string) *prometheus.GaugeVec {
	return add(s, prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, s.and(labels)))
}

// Counter adds a counter with these further labels.
func (s *Set) Counter(name, help string, labels ...string) *prometheus.CounterVec {
	return add(s, prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, s.and(labels)))
}

// Histogram adds a histogram with further labels: the first bucket ends at first, and each is twice as wide as the one before.
func (s *Set) Histogram(name, help string, first float64, buckets int, labels ...string) *prometheus.HistogramVec {
	opts := prometheus.HistogramOpts{Name: name, Help: help, Buckets: prometheus.ExponentialBuckets(first, 2, buckets)}
	return add(s, prometheus.NewHistogramVec(opts, s.and(labels)))
}

func (s *Set) and(labels []string) []string {
	return append(slices.Clip(s.labels), labels...)
}

func add[M metric](s *Set, m M) M {
	s.metrics = append(s.metrics, m)
	return m
}

// Register registers the metrics, and others.
func (s *Set) Register(registerer prometheus.Registerer, others ...prometheus.Collector) error {
	for _, metric := range s.metrics {
		others = append(others, metric)
	}
	for _, collector := range others {
		if err := registerer.Register(collector); err != nil {
			return fmt.Errorf("registering metrics: %w", err)
		}
	}
	return nil
}

// Forget removes the series of an object, which has these values of the labels that name it.
func (s *Set) Forget(values ...string) {
	object := prometheus.Labels{}
	for i, label := range s.labels {
		object[label] = values[i]
	}
	for _, metric := range s.metrics {
		metric.DeletePartialMatch(object)
	}
}

// Truth returns the value of a gauge for a boolean: 1 or 0.
func Truth(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
