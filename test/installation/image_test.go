package installation

import (
	"archive/tar"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// mostBytes is how large the image may be, compressed.
const mostBytes = 30 << 20

// The image for the other architecture is made here too, and says what it is.
func TestTheImageIsSmallAndSaysWhatItIs(t *testing.T) {
	for _, architecture := range []string{"amd64", "arm64"} {
		t.Run(architecture, func(t *testing.T) {
			archive := filepath.Join(t.TempDir(), "image.tar")
			cmd := exec.CommandContext(t.Context(), filepath.Join(root, "test", "image", "build.sh"), archive, imageName+":"+imageTag, architecture)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			info, err := os.Stat(archive)
			if err != nil {
				t.Fatal(err)
			}
			if info.Size() > mostBytes {
				t.Errorf("it has %d bytes, more than %d", info.Size(), mostBytes)
			}
			t.Logf("%.1f MB", float64(info.Size())/1e6)
			checkImage(t, archive, architecture)
		})
	}
}

func checkImage(t *testing.T, archive, architecture string) {
	t.Helper()
	type descriptor struct{ Digest string }
	var index struct{ Manifests []descriptor }
	var manifest struct{ Config descriptor }
	var config struct {
		Architecture string
		Config       struct {
			User       string
			Entrypoint []string
			Labels     map[string]string
		}
	}
	decode(t, archive, "index.json", &index)
	decode(t, archive, blob(index.Manifests[0].Digest), &manifest)
	decode(t, archive, blob(manifest.Config.Digest), &config)
	if config.Architecture != architecture {
		t.Errorf("it is for %s", config.Architecture)
	}
	if config.Config.User != "65532:65532" {
		t.Errorf("its user is %q, want a number that is not root's", config.Config.User)
	}
	for _, label := range []string{"title", "description", "source", "licenses", "version", "revision"} {
		if value := config.Config.Labels["org.opencontainers.image."+label]; value == "" || value == "unknown" || value == "dev" {
			t.Errorf("label %s is %q", label, value)
		}
	}
}

func blob(digest string) string {
	algorithm, hash, _ := strings.Cut(digest, ":")
	return "blobs/" + algorithm + "/" + hash
}

// decode reads a file of an OCI archive.
func decode(t *testing.T, archive, name string, into any) {
	t.Helper()
	file, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }() // it was only read
	for reader := tar.NewReader(file); ; {
		header, err := reader.Next()
		if err == io.EOF {
			t.Fatalf("no %s in the archive", name)
		}
		if err != nil {
			t.Fatal(err)
		}
		if header.Name == name {
			if err := json.NewDecoder(reader).Decode(into); err != nil {
				t.Fatal(err)
			}
			return
		}
	}
}
