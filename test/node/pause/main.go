// Command pause is the program of pods on a test node. Without arguments it only waits until
// it is told to end. With -data it says whose volume it runs on, as a database would.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

func main() {
	data := flag.String("data", "", "folder of the volume; its file owner is written, and must be ours if it is there")
	drain := flag.Duration("drain", 0, "how long to go on after SIGTERM")
	stubborn := flag.Bool("ignore-sigterm", false, "do not end at SIGTERM")
	flag.Parse()
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGCHLD)
	if *data != "" {
		if err := claim(*data); err != nil {
			fmt.Fprintln(os.Stderr, "pause:", err)
			os.Exit(1)
		}
	}
	for s := range signals {
		switch {
		case s == syscall.SIGCHLD:
			reap()
		case !*stubborn:
			time.Sleep(*drain)
			return
		}
	}
}

// claim writes whose volume it is, or checks that it is ours.
func claim(folder string) error {
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	path := filepath.Join(folder, "owner")
	owner, err := os.ReadFile(path)
	if err == nil && strings.TrimSpace(string(owner)) != host {
		return fmt.Errorf("the volume is that of %s, not of %s", owner, host)
	}
	return os.WriteFile(path, []byte(host+"\n"), 0o644)
}

// reap takes the exit status of orphans, as the first process of a pod must.
func reap() {
	for {
		pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		if pid <= 0 || err != nil {
			return
		}
	}
}
