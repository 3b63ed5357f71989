// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package lightnode reads Nodes as the API server sends them, without most of what
// they are made of. A kubelet writes its Node every few minutes, and ten kilobytes of
// it are images and managed fields. What is left out before it is decoded costs next to
// nothing: a heartbeat becomes several times cheaper.
package lightnode

import (
	"bytes"

	"google.golang.org/protobuf/encoding/protowire"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Serializer makes the clients of a serializer read light Nodes: those have their
// metadata, but no managed fields, and their conditions. All other objects are read as
// they are, and so are Nodes in lists and in JSON.
func Serializer(serializer runtime.NegotiatedSerializer) runtime.NegotiatedSerializer {
	return negotiated{NegotiatedSerializer: serializer}
}

type negotiated struct{ runtime.NegotiatedSerializer }

// DecoderToVersion implements runtime.NegotiatedSerializer.
func (n negotiated) DecoderToVersion(decoder runtime.Decoder, version runtime.GroupVersioner) runtime.Decoder {
	return light{Decoder: n.NegotiatedSerializer.DecoderToVersion(decoder, version)}
}

type light struct{ runtime.Decoder }

// Decode implements runtime.Decoder.
func (l light) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	return l.Decoder.Decode(lighten(data), defaults, into)
}

// protobufPrefix begins every object of Kubernetes in protobuf. A runtime.Unknown
// follows, which has the kind, and the object as bytes.
var protobufPrefix = []byte("k8s\x00")

// The numbers of fields in messages of the Kubernetes API. They never change.
const (
	typeMetaOfUnknown protowire.Number = 1
	kindOfTypeMeta    protowire.Number = 2
	rawOfUnknown      protowire.Number = 2

	metadataOfNode      protowire.Number = 1
	statusOfNode        protowire.Number = 3
	managedFieldsOfMeta protowire.Number = 17
	conditionsOfStatus  protowire.Number = 4
)

// What stays of a Node in its envelope.
var (
	lightEnvelope = selection{except: map[protowire.Number]*selection{rawOfUnknown: &lightNode}, others: true}
	lightNode     = selection{except: map[protowire.Number]*selection{metadataOfNode: &lightMeta, statusOfNode: &lightStatus}}
	lightMeta     = selection{except: map[protowire.Number]*selection{managedFieldsOfMeta: nil}, others: true}
	lightStatus   = selection{except: map[protowire.Number]*selection{conditionsOfStatus: &everything}}
	everything    = selection{others: true}
)

// lighten returns an object without what nobody reads, if it is a Node in protobuf.
// Anything else, and what it does not understand, it returns as it is.
func lighten(data []byte) []byte {
	envelope, ok := bytes.CutPrefix(data, protobufPrefix)
	if !ok || !isNode(envelope) {
		return data
	}
	result, ok := lightEnvelope.of(append([]byte{}, protobufPrefix...), envelope)
	if !ok {
		return data
	}
	return result
}

// isNode tells whether an envelope has a Node.
func isNode(envelope []byte) bool {
	return string(field(field(envelope, typeMetaOfUnknown), kindOfTypeMeta)) == "Node"
}

// field returns the content of the first field of a message with a number, nil if there
// is none.
func field(message []byte, number protowire.Number) []byte {
	for len(message) > 0 {
		num, kind, tag := protowire.ConsumeTag(message)
		if tag < 0 {
			return nil
		}
		if num == number && kind == protowire.BytesType {
			content, _ := protowire.ConsumeBytes(message[tag:])
			return content
		}
		size := protowire.ConsumeFieldValue(num, kind, message[tag:])
		if size < 0 {
			return nil
		}
		message = message[tag+size:]
	}
	return nil
}

// selection says which fields of a message stay.
type selection struct {
	// except has the fields of which only a selection stays; nil stands for nothing.
	except map[protowire.Number]*selection
	// others tells whether the rest stays.
	others bool
}

// of appends what stays of a message. It returns false if that is no message.
func (s *selection) of(to, message []byte) ([]byte, bool) {
	for len(message) > 0 {
		number, kind, tag := protowire.ConsumeTag(message)
		if tag < 0 {
			return nil, false
		}
		size := protowire.ConsumeFieldValue(number, kind, message[tag:])
		if size < 0 {
			return nil, false
		}
		whole := message[:tag+size]
		message = message[tag+size:]
		part, excepted := s.except[number]
		switch {
		case !excepted && s.others, part == &everything:
			to = append(to, whole...)
		case part != nil && kind == protowire.BytesType:
			content, _ := protowire.ConsumeBytes(whole[tag:])
			stays, ok := part.of(nil, content)
			if !ok {
				return nil, false
			}
			to = protowire.AppendBytes(protowire.AppendTag(to, number, kind), stays)
		}
	}
	return to, true
}
