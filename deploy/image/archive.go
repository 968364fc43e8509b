package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// assemble puts the layers and the run configuration together.
func assemble(ref name.Tag, version, revision string, layers ...v1.Layer) (v1.Image, error) {
	img := mutate.MediaType(empty.Image, types.OCIManifestSchema1)
	img = mutate.ConfigMediaType(img, types.OCIConfigJSON)
	comments := []string{"Debian root", "tolbooth " + version}
	for i, layer := range layers {
		var err error
		img, err = mutate.Append(img, mutate.Addendum{
			Layer:     layer,
			MediaType: types.OCILayer,
			History:   v1.History{Created: v1.Time{Time: epoch}, CreatedBy: "tolbooth deploy/image", Comment: comments[i]},
		})
		if err != nil {
			return nil, fmt.Errorf("append layer: %w", err)
		}
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("read image configuration: %w", err)
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", runtime.GOARCH
	config.Created = v1.Time{Time: epoch}
	config.Config = v1.Config{
		// Uid 0, with the capabilities that the pod grants: the agent makes namespaces and mounts.
		User:       "0:0",
		Env:        []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8"},
		Entrypoint: []string{"/usr/bin/tolbooth-container", "/usr/bin/tolbooth", "agent"},
		WorkingDir: "/",
		StopSignal: "SIGTERM",
		Labels: map[string]string{
			"org.opencontainers.image.title":       "tolbooth",
			"org.opencontainers.image.description": "Node agent that runs untrusted code in jails",
			"org.opencontainers.image.licenses":    "Apache-2.0",
			"org.opencontainers.image.version":     version,
			"org.opencontainers.image.revision":    revision,
			"org.opencontainers.image.ref.name":    ref.TagStr(),
		},
	}
	img, err = mutate.ConfigFile(img, config)
	if err != nil {
		return nil, fmt.Errorf("set image configuration: %w", err)
	}
	return img, nil
}

// writeArchive writes an image as a tar of an OCI image layout.
func writeArchive(out string, ref name.Tag, img v1.Image) error {
	index := mutate.AppendManifests(mutate.IndexMediaType(empty.Index, types.OCIImageIndex), mutate.IndexAddendum{
		Add: img,
		Descriptor: v1.Descriptor{
			Platform: &v1.Platform{OS: "linux", Architecture: runtime.GOARCH},
			Annotations: map[string]string{
				"io.containerd.image.name":          ref.Name(), // the name that `ctr images import` gives it
				"org.opencontainers.image.ref.name": ref.TagStr(),
			},
		},
	})
	return replace(out, func(f *os.File) error {
		w := tar.NewWriter(f)
		version, err := json.Marshal(map[string]string{"imageLayoutVersion": "1.0.0"})
		if err != nil {
			return fmt.Errorf("encode layout version: %w", err)
		}
		manifest, err := index.RawManifest()
		if err != nil {
			return fmt.Errorf("encode index: %w", err)
		}
		if err := writeBytes(w, "oci-layout", version); err != nil {
			return err
		}
		if err := writeBytes(w, "index.json", manifest); err != nil {
			return err
		}
		if err := writeBlobs(w, img); err != nil {
			return err
		}
		if err := w.Close(); err != nil {
			return fmt.Errorf("end archive: %w", err)
		}
		return nil
	})
}

// writeBlobs writes the manifest, the configuration and the layers under their digests.
func writeBlobs(w *tar.Writer, img v1.Image) error {
	manifest, err := img.RawManifest()
	if err != nil {
		return fmt.Errorf("encode manifest: %w", err)
	}
	digest, err := img.Digest()
	if err != nil {
		return fmt.Errorf("digest image: %w", err)
	}
	if err := writeBytes(w, "blobs/sha256/"+digest.Hex, manifest); err != nil {
		return err
	}
	config, err := img.RawConfigFile()
	if err != nil {
		return fmt.Errorf("encode configuration: %w", err)
	}
	configName, err := img.ConfigName()
	if err != nil {
		return fmt.Errorf("digest configuration: %w", err)
	}
	if err := writeBytes(w, "blobs/sha256/"+configName.Hex, config); err != nil {
		return err
	}
	layers, err := img.Layers()
	if err != nil {
		return fmt.Errorf("list layers: %w", err)
	}
	for _, layer := range layers {
		if err := writeLayer(w, layer); err != nil {
			return err
		}
	}
	return nil
}

func writeLayer(w *tar.Writer, layer v1.Layer) error {
	digest, err := layer.Digest()
	if err != nil {
		return fmt.Errorf("digest layer: %w", err)
	}
	size, err := layer.Size()
	if err != nil {
		return fmt.Errorf("size of layer: %w", err)
	}
	body, err := layer.Compressed()
	if err != nil {
		return fmt.Errorf("open layer: %w", err)
	}
	defer body.Close()
	return writeEntry(w, "blobs/sha256/"+digest.Hex, size, body)
}

func writeBytes(w *tar.Writer, name string, data []byte) error {
	return writeEntry(w, name, int64(len(data)), bytes.NewReader(data))
}

func writeEntry(w *tar.Writer, name string, size int64, body io.Reader) error {
	h := &tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644, Size: size, ModTime: epoch}
	if err := w.WriteHeader(h); err != nil {
		return fmt.Errorf("write header of %s: %w", name, err)
	}
	if _, err := io.Copy(w, body); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}
