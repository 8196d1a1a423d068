package e2e

import (
	"fmt"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/rogpeppe/go-internal/txtar"
)

// oneByOne runs scripts one after the other, although testscript asks for all at once.
type oneByOne struct{ *testing.T }

func (t oneByOne) Parallel()     {}
func (t oneByOne) Verbose() bool { return testing.Verbose() }

func (t oneByOne) Run(name string, f func(testscript.T)) {
	t.T.Run(name, func(t *testing.T) { f(oneByOne{t}) })
}

// recorder runs scripts that have to fail, and notes what they print.
type recorder struct {
	failed bool
	log    strings.Builder
}

func (r *recorder) Parallel()       {}
func (r *recorder) Verbose() bool   { return true }
func (r *recorder) Log(args ...any) { fmt.Fprintln(&r.log, args...) }

func (r *recorder) Skip(args ...any) {
	r.Log(args...)
	runtime.Goexit()
}

func (r *recorder) Fatal(args ...any) {
	r.Log(args...)
	r.FailNow()
}

func (r *recorder) FailNow() {
	r.failed = true
	runtime.Goexit()
}

func (r *recorder) Run(_ string, f func(testscript.T)) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f(r)
	}()
	<-ended
}

// checkMustFail runs a script that has to fail, and for the reason that its file "want" gives: one regular expression
// a line, each of which must match what the script printed.
func checkMustFail(t *testing.T, w *world, file string) {
	t.Helper()
	archive, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	r := &recorder{}
	r.Run("", func(t testscript.T) { testscript.RunT(t, w.params([]string{file}, false)) })
	printed := r.log.String()
	if !r.failed {
		t.Fatalf("the script passed:\n%s", printed)
	}
	wants := wantsOf(archive)
	if len(wants) == 0 {
		t.Fatal("the script does not say how it has to fail: it lacks a file \"want\"")
	}
	for _, want := range wants {
		if !regexp.MustCompile("(?m)" + want).MatchString(printed) {
			t.Errorf("the script failed without printing %q:\n%s", want, printed)
		}
	}
}

func wantsOf(archive *txtar.Archive) []string {
	for _, file := range archive.Files {
		if file.Name == "want" {
			return strings.Split(strings.TrimSpace(string(file.Data)), "\n")
		}
	}
	return nil
}
