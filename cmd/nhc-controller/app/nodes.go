// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"net/http"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/nhc-controller/nhc-controller/pkg/lightnode"
)

// kubeClient is a client that reads Nodes without most of what they are made of.
type kubeClient struct {
	kubernetes.Interface
	core corev1client.CoreV1Interface
}

// CoreV1 implements kubernetes.Interface.
func (c kubeClient) CoreV1() corev1client.CoreV1Interface { return c.core }

// newKubeClient returns a client for the built-in kinds. Its Nodes are light.
func newKubeClient(config *rest.Config, httpClient *http.Client) (kubernetes.Interface, error) {
	kube, err := kubernetes.NewForConfigAndClient(config, httpClient)
	if err != nil {
		return nil, err
	}
	core := rest.CopyConfig(config)
	core.GroupVersion, core.APIPath = &corev1.SchemeGroupVersion, "/api"
	core.NegotiatedSerializer = lightnode.Serializer(rest.CodecFactoryForGeneratedClient(scheme.Scheme, scheme.Codecs).WithoutConversion())
	client, err := rest.RESTClientForConfigAndClient(core, httpClient)
	if err != nil {
		return nil, err
	}
	return kubeClient{Interface: kube, core: corev1client.New(client)}, nil
}
