// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"io"
	"sync"
	"time"
)

// stream is the body of a watch whose bytes arrive late, and that can be cut.
type stream struct {
	body    io.ReadCloser
	cut     <-chan struct{}
	late    func() time.Duration
	inspect func([]byte)
	arrived chan piece
	closed  chan struct{}
	rest    []byte
	err     error

	close func() error
}

// piece are bytes that have arrived together, or the end.
type piece struct {
	at    time.Time
	bytes []byte
	err   error
}

// checkInterval is how often a piece that is held back looks whether it still has to be.
const checkInterval = 10 * time.Millisecond

func newStream(body io.ReadCloser, cut <-chan struct{}, late func() time.Duration, inspect func([]byte), ended func()) *stream {
	s := &stream{body: body, cut: cut, late: late, inspect: inspect, arrived: make(chan piece, 1000), closed: make(chan struct{})}
	s.close = sync.OnceValue(func() error {
		close(s.closed)
		ended()
		return s.body.Close()
	})
	go s.receive()
	return s
}

func (s *stream) receive() {
	for {
		buffer := make([]byte, 64<<10)
		n, err := s.body.Read(buffer)
		s.inspect(buffer[:n])
		select {
		case s.arrived <- piece{time.Now(), buffer[:n], err}:
		case <-s.closed:
			return
		}
		if err != nil {
			return
		}
	}
}

// Read returns what is due.
func (s *stream) Read(p []byte) (int, error) {
	for len(s.rest) == 0 {
		if s.err != nil {
			return 0, s.err
		}
		select {
		case <-s.cut:
			return 0, io.ErrUnexpectedEOF
		case next := <-s.arrived:
			if !s.hold(next) {
				return 0, io.ErrUnexpectedEOF
			}
			s.rest, s.err = next.bytes, next.err
		}
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

// hold waits until the piece is due, and returns false if the stream was cut before.
func (s *stream) hold(next piece) bool {
	for time.Since(next.at) < s.late() {
		select {
		case <-s.cut:
			return false
		case <-s.closed:
			return false
		case <-time.After(checkInterval):
		}
	}
	return true
}

// Close closes the stream.
func (s *stream) Close() error { return s.close() }
