package main

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"time"
)

// epoch is the time of whatever a build makes itself. Files of packages keep the packages' times: compiled Python
// files name their source's.
var epoch = time.Unix(0, 0).UTC()

// dropped are paths below which nothing goes into the image: device nodes (a runtime makes /dev), and what package
// scripts write that differs from build to build.
var dropped = []string{
	"dev", "tmp", "run", "var/cache", "var/log", "var/lib/apt/lists", "var/tmp",
}

// droppedFiles are single files of the second kind.
var droppedFiles = map[string]bool{
	"etc/machine-id": true, "var/lib/dbus/machine-id": true, "etc/resolv.conf": true, "etc/hostname": true,
	"etc/passwd-": true, "etc/shadow-": true, "etc/group-": true, "etc/gshadow-": true,
	"var/lib/dpkg/status-old": true, "var/lib/dpkg/diversions-old": true, "var/lib/dpkg/statoverride-old": true,
}

// normalise copies a tar stream, which is in order already, without the traces of the build that made it.
func normalise(dst io.Writer, src io.Reader, started time.Time) error {
	r, w := tar.NewReader(src), tar.NewWriter(dst)
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("read root: %w", err)
		}
		if !normaliseHeader(h, started) {
			continue
		}
		if err := w.WriteHeader(h); err != nil {
			return fmt.Errorf("write header of %s: %w", h.Name, err)
		}
		if _, err := io.Copy(w, r); err != nil {
			return fmt.Errorf("copy %s: %w", h.Name, err)
		}
	}
	// A writer that ends before mmdebstrap does would break its pipe: the padding after the last entry counts too.
	if _, err := io.Copy(io.Discard, src); err != nil {
		return fmt.Errorf("read end of root: %w", err)
	}
	if err := w.Close(); err != nil {
		return fmt.Errorf("end root layer: %w", err)
	}
	return nil
}

// normaliseHeader edits one header and says whether its entry is kept.
func normaliseHeader(h *tar.Header, started time.Time) bool {
	clean := strings.TrimPrefix(path.Clean(h.Name), "./")
	if clean == "." || droppedFiles[clean] {
		return false
	}
	for _, dir := range dropped {
		if strings.HasPrefix(clean, dir+"/") {
			return false
		}
	}
	h.Name = clean
	if h.Typeflag == tar.TypeDir {
		h.Name += "/"
	}
	if h.Typeflag == tar.TypeLink {
		h.Linkname = strings.TrimPrefix(path.Clean(h.Linkname), "./")
	}
	// A second of slack: file systems round.
	if h.ModTime.After(started.Add(-time.Second)) {
		h.ModTime = epoch
	}
	h.ModTime = h.ModTime.Truncate(time.Second)
	h.AccessTime, h.ChangeTime = time.Time{}, time.Time{}
	h.Uname, h.Gname = "", ""
	for key := range h.PAXRecords {
		if !strings.HasPrefix(key, "SCHILY.xattr.") {
			delete(h.PAXRecords, key)
		}
	}
	h.Format = tar.FormatUnknown
	return true
}
