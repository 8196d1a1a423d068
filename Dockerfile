# The program alone, static, as a user without rights.
FROM --platform=$BUILDPLATFORM docker.io/library/golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY cmd cmd
COPY certs certs
COPY pruner pruner
COPY webhook webhook
ARG VERSION=dev TARGETOS=linux TARGETARCH=amd64
RUN CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH \
    go build -trimpath -ldflags "-s -w -X main.version=$VERSION" -o /pvc-pruner ./cmd/pvc-pruner

FROM gcr.io/distroless/static:nonroot
COPY --from=build /pvc-pruner /pvc-pruner
USER 65532:65532
ENTRYPOINT ["/pvc-pruner"]
