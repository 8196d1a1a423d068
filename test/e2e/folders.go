package e2e

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// scriptFiles are the scripts of a run.
type scriptFiles struct {
	// parallel ones run at the same time, serial ones one by one afterwards.
	parallel, serial []string
}

// findScripts finds the scripts of a folder and of its subfolder serial. Either may lack scripts, but not both: a run
// that tests nothing must not pass.
func findScripts(dir string) (scriptFiles, error) {
	var found scriptFiles
	var err error
	if found.parallel, err = scriptsIn(dir); err != nil {
		return found, err
	}
	if found.serial, err = scriptsIn(filepath.Join(dir, "serial")); err != nil {
		return found, err
	}
	if len(found.parallel)+len(found.serial) == 0 {
		return found, fmt.Errorf("no scripts (*.txtar) in %s and %s", dir, filepath.Join(dir, "serial"))
	}
	return found, nil
}

// scriptsIn lists the scripts right in a folder, which need not exist.
func scriptsIn(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look for scripts: %w", err)
	}
	var files []string
	for _, entry := range entries {
		if !entry.IsDir() && strings.HasSuffix(entry.Name(), ".txtar") {
			files = append(files, filepath.Join(dir, entry.Name()))
		}
	}
	return files, nil
}
