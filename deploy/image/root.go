package main

import (
	"compress/gzip"
	"context"
	"crypto/sha256"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Part of the key of a cached root layer: a change of how it is made makes a new one.
var (
	//go:embed root.go
	rootSource string
	//go:embed normalise.go
	normaliseSource string
)

// shadowDays sets the date of the last password change, which package scripts take from the clock, to a fixed day.
const shadowDays = `sed -i 's/^\([^:]*:[^:]*\):[0-9]*:/\1:1:/' "$1/etc/shadow"`

// rootLayer returns the Debian root as a compressed layer, from the cache or newly made.
func rootLayer(ctx context.Context, cache, suite string, packages []string) (v1.Layer, error) {
	key := sha256.Sum256([]byte(suite + "\n" + strings.Join(packages, "\n") + rootSource + normaliseSource))
	path := filepath.Join(cache, fmt.Sprintf("root-%x.tar.gz", key[:8]))
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		if err := replace(path, func(f *os.File) error { return makeRoot(ctx, f, suite, packages) }); err != nil {
			return nil, err
		}
	}
	layer, err := tarball.LayerFromFile(path, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, fmt.Errorf("read root layer: %w", err)
	}
	return layer, nil
}

// makeRoot writes the root's layer: mmdebstrap's tar stream, normalised and compressed.
func makeRoot(ctx context.Context, out *os.File, suite string, packages []string) error {
	started := time.Now()
	cmd := exec.CommandContext(ctx, "mmdebstrap", "--quiet", "--format=tar", "--variant=minbase",
		"--aptopt=Acquire::Languages \"none\"", "--aptopt=Acquire::Retries \"5\"",
		"--dpkgopt=path-exclude=/usr/share/man/*", "--dpkgopt=path-exclude=/usr/share/locale/*",
		// Licences stay: the image is passed on.
		"--dpkgopt=path-exclude=/usr/share/doc/*", "--dpkgopt=path-include=/usr/share/doc/*/copyright",
		"--customize-hook="+shadowDays,
		"--include="+strings.Join(packages, ","), suite, "-")
	cmd.Stderr = os.Stderr
	// TERM and not KILL on cancel: mmdebstrap removes its mounts and its directory.
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = time.Minute
	tar, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("pipe from mmdebstrap: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start mmdebstrap (make deps installs it): %w", err)
	}
	zip := gzip.NewWriter(out)
	copyErr := normalise(zip, tar, started)
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("mmdebstrap: %w", err)
	}
	if copyErr != nil {
		return copyErr
	}
	if err := zip.Close(); err != nil {
		return fmt.Errorf("compress root layer: %w", err)
	}
	return nil
}
