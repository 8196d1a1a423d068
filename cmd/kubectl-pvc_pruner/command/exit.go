package command

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Exit codes, for scripts.
const (
	exitFailed      = 1
	exitUsage       = 2
	exitNotFound    = 3
	exitForbidden   = 4
	exitUnreachable = 5
	exitInterrupted = 130
)

// usageError says that the command line itself is wrong.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// notFoundError says that something which was asked for by name is not there.
type notFoundError struct{ error }

func notFoundf(format string, args ...any) error { return notFoundError{fmt.Errorf(format, args...)} }

// exitCode of a command that ended with err.
func exitCode(ctx context.Context, err error) int {
	switch {
	case err == nil:
		return 0
	case ctx.Err() != nil:
		return exitInterrupted
	case errors.As(err, new(usageError)):
		return exitUsage
	case errors.As(err, new(notFoundError)), apierrors.IsNotFound(err):
		return exitNotFound
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		return exitForbidden
	case unreachable(err):
		return exitUnreachable
	}
	return exitFailed
}

// unreachable says whether no API server answered at all.
func unreachable(err error) bool {
	return errors.As(err, new(*url.Error)) || errors.As(err, new(net.Error))
}

// explained adds to an error what to do next, where that is not plain from it.
func explained(ctx context.Context, err error) error {
	switch code := exitCode(ctx, err); code {
	case exitInterrupted:
		return errors.New("interrupted")
	case exitUsage:
		return fmt.Errorf("%w\nSee --help", err)
	case exitForbidden:
		return fmt.Errorf("%w\nNothing is judged or changed without the rights to do so", err)
	case exitUnreachable:
		return fmt.Errorf("the API server cannot be reached: %w", err)
	}
	return err
}
