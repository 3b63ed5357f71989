# For those who have a container engine: Docker with BuildKit, or Podman. Nothing but the
# image of Go is downloaded, no frontend either. hack/image.sh needs no engine.

# The Go that builds. A release names it by its digest, see the Makefile:
# --build-arg GO_IMAGE=golang:1.26.11@sha256:…
ARG GO_IMAGE=golang:1.26

# Cross-compiles on the platform that builds, for the platform that is asked for.
FROM --platform=$BUILDPLATFORM ${GO_IMAGE} AS build
# This Go and no other, and the modules that go.sum names.
ENV GOTOOLCHAIN=local GOFLAGS="-mod=readonly -buildvcs=false"
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY cmd cmd
COPY manifests manifests
COPY pkg pkg
ARG TARGETOS
ARG TARGETARCH
# Carries the version, see hack/version.sh. Neither paths nor times get into the
# binaries: they are those that `make build` makes (see hack/verify-reproducible.sh).
ARG LDFLAGS="-s -w"
RUN CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH \
    go build -trimpath -ldflags "$LDFLAGS" -o / ./cmd/nhc-controller ./cmd/nhc-dashboard

# Nothing but the binaries: no shell, no package manager, no other user.
FROM scratch
LABEL org.opencontainers.image.title="nhc-controller" \
      org.opencontainers.image.description="Has unhealthy Nodes of a Kubernetes cluster repaired" \
      org.opencontainers.image.source="https://github.com/nhc-controller/nhc-controller" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build --chmod=0555 /nhc-controller /nhc-dashboard /
USER 65532:65532
ENTRYPOINT ["/nhc-controller"]
