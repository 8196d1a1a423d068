package cluster

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

//go:embed launch.sh
var launchScript []byte

// runDir is the folder of one cluster: data, certificates, logs, and the record of processes that the watchdog reads.
type runDir struct {
	root string
	keep bool
}

// newRunDir lays the folder out. An empty dir means a new temporary folder that is removed in the end.
func newRunDir(dir string) (runDir, error) {
	if dir == "" {
		temporary, err := os.MkdirTemp("", "pvc-pruner-cluster-")
		if err != nil {
			return runDir{}, fmt.Errorf("create the cluster's folder: %w", err)
		}
		r := runDir{root: temporary}
		if err := r.layOut(); err != nil {
			return runDir{}, errors.Join(err, os.RemoveAll(temporary))
		}
		return r, nil
	}
	absolute, err := filepath.Abs(dir)
	if err != nil {
		return runDir{}, fmt.Errorf("resolve the cluster's folder: %w", err)
	}
	r := runDir{root: absolute, keep: true}
	if _, err := os.Stat(r.etcdData()); err == nil {
		// Certificates are made anew at each start; data encrypted and signed for older ones would only confuse.
		return runDir{}, fmt.Errorf("folder %s holds the data of another cluster: choose a new one", r.root)
	}
	return r, r.layOut()
}

func (r runDir) layOut() error {
	for _, sub := range []string{r.etcdData(), r.certificates(), r.in("logs"), r.in("live"), r.in("launch"), r.in("kubeconfigs")} {
		if err := os.MkdirAll(sub, 0o700); err != nil {
			return fmt.Errorf("create the cluster's folder: %w", err)
		}
	}
	for path, content := range map[string][]byte{r.launcher(): launchScript, r.in("live", "pids"): nil, r.volumes(): nil} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			return fmt.Errorf("write %s: %w", path, err)
		}
	}
	return nil
}

func (r runDir) in(elements ...string) string {
	return filepath.Join(append([]string{r.root}, elements...)...)
}

func (r runDir) etcdData() string       { return r.in("etcd") }
func (r runDir) certificates() string   { return r.in("certificates") }
func (r runDir) launcher() string       { return r.in("launch.sh") }
func (r runDir) volumes() string        { return r.in("live", "volumes") }
func (r runDir) log(name string) string { return r.in("logs", name+".log") }

// openLog opens a program's log for appending. Programs get the file itself and not a pipe through us: they must be
// able to write when we are gone, and nothing may wait for them to close a pipe.
func (r runDir) openLog(name string) (*os.File, error) {
	file, err := os.OpenFile(r.log(name), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the log of %s: %w", name, err)
	}
	return file, nil
}

// executable writes a script that takes only the program's own arguments, for starters such as envtest that insist on
// a single path, and returns its path.
func (r runDir) executable(name, program string) (string, error) {
	path := r.in("launch", name)
	script := fmt.Sprintf("#!/bin/sh\nexec /bin/sh %s %s %s \"$@\"\n", quote(r.launcher()), quote(name), quote(program))
	if err := os.WriteFile(path, []byte(script), 0o700); err != nil {
		return "", fmt.Errorf("write the launcher of %s: %w", name, err)
	}
	return path, nil
}

// quote makes one word of the shell out of any text.
func quote(text string) string {
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// tailBytes bounds what is read of a log to show its end.
const tailBytes = 64 << 10

// logTail returns the last lines of a program's log, or why it can't be read.
func (r runDir) logTail(name string, lines int) string {
	content, err := readEnd(r.log(name))
	if err != nil {
		return fmt.Sprintf("(no log: %v)", err)
	}
	all := bytes.Split(bytes.TrimRight(content, "\n"), []byte("\n"))
	return string(bytes.Join(all[max(0, len(all)-lines):], []byte("\n")))
}

func readEnd(path string) (content []byte, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if _, err := file.Seek(max(0, info.Size()-tailBytes), io.SeekStart); err != nil {
		return nil, err
	}
	return io.ReadAll(file)
}
