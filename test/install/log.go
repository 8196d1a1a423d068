package install

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// tailBytes bounds what is read of a log to show its end.
const tailBytes = 64 << 10

// logTail returns the last lines of a log, or why it can't be read.
func logTail(path string, lines int) string {
	content, err := readEnd(path)
	if err != nil {
		return fmt.Sprintf("(no log: %v)", err)
	}
	all := strings.Split(strings.TrimRight(content, "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

func readEnd(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	size, err := file.Seek(0, io.SeekEnd)
	if err == nil {
		_, err = file.Seek(max(0, size-tailBytes), io.SeekStart)
	}
	if err != nil {
		return "", errors.Join(err, file.Close())
	}
	return readAll(file)
}

// readAll reads and closes.
func readAll(source io.ReadCloser) (string, error) {
	content, err := io.ReadAll(source)
	return string(content), errors.Join(err, source.Close())
}
