package cluster

import (
	"fmt"
	"io"
	"sync"
)

// progress writes whole lines from several goroutines.
type progress struct {
	mu  sync.Mutex
	out io.Writer
}

func newProgress(out io.Writer) *progress {
	if out == nil {
		out = io.Discard
	}
	return &progress{out: out}
}

// printf ignores write errors: progress that nobody can read is no reason to fail.
func (p *progress) printf(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, _ = fmt.Fprintf(p.out, format+"\n", args...)
}
