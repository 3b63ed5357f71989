# syntax=docker/dockerfile:1

# Cross-compiles on the platform that builds, for the platform that is asked for.
FROM --platform=$BUILDPLATFORM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY cmd cmd
COPY pkg pkg
ARG TARGETOS
ARG TARGETARCH
# Carries the version, see hack/version.sh.
ARG LDFLAGS="-s -w"
RUN CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH \
    go build -trimpath -buildvcs=false -ldflags "$LDFLAGS" -o /nhc-controller ./cmd/nhc-controller

# Nothing but the binary: no shell, no package manager, no other user.
FROM scratch
COPY --from=build /nhc-controller /nhc-controller
USER 65532:65532
ENTRYPOINT ["/nhc-controller"]
