package main

import (
	"archive/tar"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// build writes an archive of one binary layer and returns its bytes.
func build(t *testing.T) []byte {
	t.Helper()
	dir := t.TempDir()
	binary := filepath.Join(dir, "binary")
	if err := os.WriteFile(binary, []byte("#!/bin/true\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	layer, err := binaryLayer([]file{{"usr/bin/tolbooth", binary}})
	if err != nil {
		t.Fatal(err)
	}
	ref, err := name.NewTag("tolbooth.test/tolbooth:1", name.StrictValidation)
	if err != nil {
		t.Fatal(err)
	}
	img, err := assemble(ref, "1", "abc", layer)
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "image.tar")
	if err := writeArchive(out, ref, img); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestArchiveIsReproducible(t *testing.T) {
	if string(build(t)) != string(build(t)) {
		t.Error("two archives of the same content differ")
	}
}

// TestArchiveIsALayout reads the archive back with a library's reader of image layouts, which checks every digest.
func TestArchiveIsALayout(t *testing.T) {
	out := filepath.Join(t.TempDir(), "image.tar")
	if err := os.WriteFile(out, build(t), 0o644); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	unpack(t, out, dir)
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	if len(manifest.Manifests) != 1 {
		t.Fatalf("%d images in the archive, want 1", len(manifest.Manifests))
	}
	if got := manifest.Manifests[0].Annotations["io.containerd.image.name"]; got != "tolbooth.test/tolbooth:1" {
		t.Errorf("containerd would name it %q", got)
	}
	img, err := index.Image(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Image(img); err != nil {
		t.Error(err)
	}
	checkConfig(t, img)
}

func checkConfig(t *testing.T, img v1.Image) {
	t.Helper()
	config, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"/usr/bin/tolbooth-container", "/usr/bin/tolbooth", "agent"}, config.Config.Entrypoint); diff != "" {
		t.Error(diff)
	}
	if got := config.Config.Labels["org.opencontainers.image.revision"]; got != "abc" {
		t.Errorf("revision label %q, want abc", got)
	}
}

func unpack(t *testing.T, path, dir string) {
	t.Helper()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for r := tar.NewReader(f); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if err := root.MkdirAll(filepath.Dir(h.Name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := root.WriteFile(h.Name, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestPackageNames(t *testing.T) {
	got := packageNames("# list\nbash # jobs\n\npython3\n", "nodejs,gcc")
	if diff := cmp.Diff([]string{"bash", "python3", "nodejs", "gcc"}, got); diff != "" {
		t.Error(diff)
	}
}
