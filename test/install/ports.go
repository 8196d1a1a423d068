package install

import (
	"context"
	"errors"
	"fmt"
	"net"
)

// freeAddresses returns addresses of loopback on which nobody listens now, each another one.
func freeAddresses(ctx context.Context, n int) (addresses []string, err error) {
	var listeners []net.Listener
	// Closed only when all are found, so that none is found twice.
	defer func() {
		for _, listener := range listeners {
			err = errors.Join(err, listener.Close())
		}
	}()
	for range n {
		listener, listenErr := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
		if listenErr != nil {
			return nil, fmt.Errorf("find a free port: %w", listenErr)
		}
		listeners = append(listeners, listener)
		addresses = append(addresses, listener.Addr().String())
	}
	return addresses, nil
}

func port(address string) string {
	_, text, _ := net.SplitHostPort(address) // it came from a listener
	return text
}
