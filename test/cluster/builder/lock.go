package builder

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// lock takes the file lock, waiting while another build holds it; waiting is called once if it must. The system lets
// go of the lock when its holder dies, so a killed build leaves nothing to clean up.
func lock(ctx context.Context, path string, waiting func()) (unlock func(), err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the lock: %w", err)
	}
	release := func() { _ = file.Close() }
	for {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return release, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			release()
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		waiting()
		waiting = func() {}
		select {
		case <-ctx.Done():
			release()
			return nil, fmt.Errorf("wait for another build: %w", context.Cause(ctx))
		case <-time.After(200 * time.Millisecond):
		}
	}
}
