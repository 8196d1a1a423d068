# The program alone, static, as a user without rights.
FROM --platform=$BUILDPLATFORM docker.io/library/golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY cmd cmd
COPY certs certs
COPY pruner pruner
COPY webhook webhook
ARG VERSION=dev COMMIT=unknown TARGETOS=linux TARGETARCH=amd64
RUN CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH \
    go build -trimpath -ldflags "-s -w -X main.version=$VERSION -X main.commit=$COMMIT" -o /pvc-pruner ./cmd/pvc-pruner

FROM gcr.io/distroless/static:nonroot
ARG VERSION=dev COMMIT=unknown
LABEL org.opencontainers.image.title="pvc-pruner" \
      org.opencontainers.image.description="Deletes the PersistentVolumeClaims that StatefulSets no longer use after they were scaled down" \
      org.opencontainers.image.source="https://github.com/pvc-pruner/pvc-pruner" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$COMMIT"
COPY --from=build /pvc-pruner /pvc-pruner
USER 65532:65532
ENTRYPOINT ["/pvc-pruner"]
