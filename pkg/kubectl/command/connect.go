// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/nhc-controller/nhc-controller/pkg/generated/clientset/versioned"
	"github.com/nhc-controller/nhc-controller/pkg/kubectl/cluster"
	"github.com/nhc-controller/nhc-controller/pkg/kubectl/view"
)

// The limits of a client that a person uses: only to complete names it sends several requests.
const qps, burst = 50, 100

// clients returns clients as the flags and the kubeconfig of the user say. An error says what to do about it.
func (r *root) clients() (*cluster.Clients, error) {
	flags := r.config
	if raw, err := flags.ToRawKubeConfigLoader().RawConfig(); err == nil && len(raw.Clusters) == 0 && *flags.APIServer == "" {
		if _, err := rest.InClusterConfig(); errors.Is(err, rest.ErrNotInCluster) {
			return nil, configError(clientcmd.ErrEmptyConfig)
		}
	}
	config, err := flags.ToRESTConfig()
	if err != nil {
		return nil, configError(err)
	}
	config.QPS, config.Burst = qps, burst
	config.WarningHandler = rest.NewWarningWriter(cleaned{r.ErrOut}, rest.WarningWriterOptions{Deduplicate: true})
	nhc, nhcErr := versioned.NewForConfig(config)
	binary := rest.CopyConfig(config)
	binary.AcceptContentTypes, binary.ContentType = runtime.ContentTypeProtobuf+","+runtime.ContentTypeJSON, runtime.ContentTypeProtobuf
	kube, kubeErr := kubernetes.NewForConfig(binary)
	others, othersErr := dynamic.NewForConfig(config)
	if err := errors.Join(nhcErr, kubeErr, othersErr); err != nil {
		return nil, configError(err)
	}
	return &cluster.Clients{Kube: kube, NHC: nhc, Dynamic: others, Mapper: flags.ToRESTMapper, Namespace: *flags.Namespace}, nil
}

// configError says that it is the configuration that has to be corrected.
func configError(err error) error { return cluster.Explain(err, "use", "the kubeconfig") }

// cleaned writes what may be printed on a terminal, line by line.
type cleaned struct{ io.Writer }

// Write implements [io.Writer].
func (c cleaned) Write(line []byte) (int, error) {
	if _, err := fmt.Fprintln(c.Writer, view.Clean(strings.TrimRight(string(line), "\n"))); err != nil {
		return 0, fmt.Errorf("writing a warning: %w", err)
	}
	return len(line), nil
}
