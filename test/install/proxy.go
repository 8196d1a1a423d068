package install

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"time"
)

// proxy passes connections from a fixed port of loopback on to a backend. It can be taken down, which refuses new
// connections and cuts the living ones, and brought up again on the same port.
type proxy struct {
	address string

	mu       sync.Mutex
	backend  string
	listener net.Listener
	living   map[net.Conn]bool
	serving  sync.WaitGroup
}

// Ports below the range that systems take for outgoing connections: nobody else is given them while we are down.
const firstPort, ports = 20000, 10000

// portAttempts is how often another port is tried before we give up.
const portAttempts = 20

func newProxy(ctx context.Context) (*proxy, error) {
	p := &proxy{living: map[net.Conn]bool{}}
	var err error
	for range portAttempts {
		p.address = net.JoinHostPort("127.0.0.1", strconv.Itoa(firstPort+rand.IntN(ports)))
		if err = p.up(ctx); err == nil {
			return p, nil
		}
	}
	return nil, err
}

// target makes backend the one that connections are passed on to from now on.
func (p *proxy) target(backend string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.backend = backend
}

// up accepts connections. It does nothing when the proxy is up.
func (p *proxy) up(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != nil {
		return nil
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", p.address)
	if err != nil {
		return fmt.Errorf("listen for admission calls: %w", err)
	}
	p.listener = listener
	p.serving.Go(func() { p.serve(listener) })
	return nil
}

// down refuses connections and cuts the living ones; when it returns none is left.
func (p *proxy) down() error {
	p.mu.Lock()
	var errs []error
	if p.listener != nil {
		errs = append(errs, p.listener.Close())
		p.listener = nil
	}
	for connection := range p.living {
		errs = append(errs, closeOnce(connection))
	}
	p.mu.Unlock()
	p.serving.Wait()
	return errors.Join(errs...)
}

func closeOnce(connection net.Conn) error {
	if err := connection.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("cut a connection: %w", err)
	}
	return nil
}

func (p *proxy) serve(listener net.Listener) {
	for {
		client, err := listener.Accept()
		if err != nil {
			return // down closed the listener
		}
		if !p.enter(listener, client) {
			_ = client.Close()
			return
		}
		p.serving.Go(func() {
			defer p.leave(client)
			p.pass(listener, client)
		})
	}
}

// enter counts a connection among the living, unless the proxy went down since it was accepted.
func (p *proxy) enter(listener net.Listener, connection net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != listener {
		return false
	}
	p.living[connection] = true
	return true
}

func (p *proxy) leave(connection net.Conn) {
	_ = closeOnce(connection) // it may have been cut already
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.living, connection)
}

// pass copies both directions until one side ends.
func (p *proxy) pass(listener net.Listener, client net.Conn) {
	p.mu.Lock()
	backend := p.backend
	p.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	server, err := (&net.Dialer{}).DialContext(ctx, "tcp", backend)
	if err != nil {
		return // the API server sees a closed connection, as from a program that is down
	}
	defer p.leave(server)
	if !p.enter(listener, server) {
		return
	}
	ended := make(chan struct{}, 2)
	for _, way := range [][2]net.Conn{{client, server}, {server, client}} {
		go func() {
			_, _ = io.Copy(way[0], way[1])
			ended <- struct{}{}
		}()
	}
	<-ended
	_, _ = closeOnce(client), closeOnce(server)
	<-ended
}
