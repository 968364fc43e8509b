package main

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"os"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// file is one file of the second layer.
type file struct {
	target string // in the image, without a leading slash
	source string
}

// binaryLayer packs executables. They are tens of megabytes and read several times over, hence from memory.
func binaryLayer(files []file) (v1.Layer, error) {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, f := range files {
		data, err := os.ReadFile(f.source)
		if err != nil {
			return nil, fmt.Errorf("read binary: %w", err)
		}
		h := &tar.Header{Name: f.target, Typeflag: tar.TypeReg, Mode: 0o755, Size: int64(len(data)), ModTime: epoch}
		if err := w.WriteHeader(h); err != nil {
			return nil, fmt.Errorf("write header of %s: %w", f.target, err)
		}
		if _, err := w.Write(data); err != nil {
			return nil, fmt.Errorf("write %s: %w", f.target, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("end binary layer: %w", err)
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(buf.Bytes())), nil
	}, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, fmt.Errorf("make binary layer: %w", err)
	}
	return layer, nil
}
