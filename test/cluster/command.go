package cluster

import (
	"context"
	"os/exec"
	"syscall"
)

// Command returns a command that runs another program under the cluster's watchdog: when this process is gone, or the
// cluster is stopped, the program is killed if it still runs. The caller sets its output and starts it. name stands in
// the watchdog's record.
func (c *Cluster) Command(ctx context.Context, name, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "/bin/sh", append([]string{c.run.launcher(), name, program}, args...)...)
	// Ctrl-C in a terminal goes to the whole foreground group: it must reach the owner, who stops in order.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}
