package certs

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
)

// NewExpiration returns a metric of when the certificate ends that the server at address
// (host:port, our own) presents, until the context ends: whoever made it, and whatever a file says by now.
func NewExpiration(ctx context.Context, address string) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "pvc_pruner_certificate_expiration_timestamp_seconds",
		Help: "When the certificate that the webhook serves expires, in seconds since 1970; 0 while it serves none.",
	}, func() float64 {
		ctx, cancel := context.WithTimeout(ctx, checkDeadline)
		defer cancel()
		chain, err := served(ctx, address)
		if err != nil {
			return 0
		}
		end := chain[0].NotAfter
		for _, issuer := range chain[1:] {
			if issuer.NotAfter.Before(end) {
				end = issuer.NotAfter
			}
		}
		return float64(end.Unix())
	})
}
