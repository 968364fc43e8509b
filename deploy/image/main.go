package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/google/go-containerregistry/pkg/name"
)

// options are the command line.
type options struct {
	out      string
	name     string
	version  string
	revision string
	tolbooth string
	jail     string
	entry    string
	packages string
	with     string
	cache    string
	suite    string
}

func main() {
	var o options
	flag.StringVar(&o.out, "out", "build/tolbooth-image.tar", "archive to write")
	flag.StringVar(&o.name, "name", "tolbooth.test/tolbooth:dev", "name and tag inside the archive")
	flag.StringVar(&o.version, "version", "dev", "version label")
	flag.StringVar(&o.revision, "revision", "", "source revision label")
	flag.StringVar(&o.tolbooth, "tolbooth", "bin/tolbooth", "agent and command line binary")
	flag.StringVar(&o.jail, "jail", "bin/tolbooth-jail", "warden, init and launch binary")
	flag.StringVar(&o.entry, "entry", "bin/tolbooth-container", "first process of the container (deploy/container)")
	flag.StringVar(&o.packages, "packages", "deploy/image/packages.txt", "list of Debian packages")
	flag.StringVar(&o.with, "with", "", "further Debian packages, separated by commas: nodejs,gcc")
	flag.StringVar(&o.cache, "cache", "", "directory of cached root layers (default: tolbooth-image in the user's cache)")
	flag.StringVar(&o.suite, "suite", "bookworm", "Debian release")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("unknown argument %q", args[0])
	}
	ref, err := name.NewTag(o.name, name.StrictValidation)
	if err != nil {
		return fmt.Errorf("image name %q: %w", o.name, err)
	}
	if o.cache == "" {
		dir, err := os.UserCacheDir()
		if err != nil {
			return fmt.Errorf("find the user's cache directory: %w", err)
		}
		o.cache = filepath.Join(dir, "tolbooth-image")
	}
	list, err := os.ReadFile(o.packages)
	if err != nil {
		return fmt.Errorf("read package list: %w", err)
	}
	root, err := rootLayer(ctx, o.cache, o.suite, packageNames(string(list), o.with))
	if err != nil {
		return err
	}
	binaries, err := binaryLayer([]file{
		{"usr/bin/tolbooth", o.tolbooth},
		{"usr/bin/tolbooth-container", o.entry},
		{"usr/bin/tolbooth-jail", o.jail},
	})
	if err != nil {
		return err
	}
	img, err := assemble(ref, o.version, o.revision, root, binaries)
	if err != nil {
		return err
	}
	digest, err := img.Digest()
	if err != nil {
		return fmt.Errorf("digest image: %w", err)
	}
	if err := writeArchive(o.out, ref, img); err != nil {
		return err
	}
	st, err := os.Stat(o.out)
	if err != nil {
		return fmt.Errorf("stat archive: %w", err)
	}
	fmt.Printf("%s: %s %s, %.1f MB\n", o.out, ref, digest, float64(st.Size())/1e6)
	return nil
}

// packageNames reads a package list with comments and adds the ones named on the command line.
func packageNames(list, with string) []string {
	var names []string
	for line := range strings.Lines(list) {
		line, _, _ = strings.Cut(line, "#")
		names = append(names, strings.Fields(line)...)
	}
	return append(names, strings.FieldsFunc(with, func(r rune) bool { return r == ',' })...)
}

// replace writes path through a temporary file beside it, so that an interrupted build leaves no half file under its name.
func replace(path string, write func(*os.File) error) (err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("make directory of %s: %w", path, err)
	}
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("create temporary file: %w", err)
	}
	defer func() {
		f.Close()
		if rmErr := os.Remove(f.Name()); rmErr != nil && !errors.Is(rmErr, fs.ErrNotExist) && err == nil {
			err = rmErr
		}
	}()
	if err := write(f); err != nil {
		return err
	}
	if err := f.Chmod(0o644); err != nil {
		return fmt.Errorf("chmod %s: %w", path, err)
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("close %s: %w", path, err)
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return fmt.Errorf("rename to %s: %w", path, err)
	}
	return nil
}
