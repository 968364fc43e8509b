package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestNormalise(t *testing.T) {
	started := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	packaged := time.Date(2023, 1, 2, 3, 4, 5, 600, time.UTC)
	type entry struct {
		Name, Linkname string
		Kind           byte
		Time           int64
	}
	tests := []struct {
		name string
		in   tar.Header
		want *entry // nil: dropped
	}{
		{"root itself", tar.Header{Name: "./", Typeflag: tar.TypeDir}, nil},
		{"directory", tar.Header{Name: "./usr/", Typeflag: tar.TypeDir, ModTime: packaged}, &entry{"usr/", "", tar.TypeDir, packaged.Unix()}},
		{"file of a package", tar.Header{Name: "./usr/bin/bash", Typeflag: tar.TypeReg, ModTime: packaged}, &entry{"usr/bin/bash", "", tar.TypeReg, packaged.Unix()}},
		{"file of the build", tar.Header{Name: "./etc/passwd", Typeflag: tar.TypeReg, ModTime: started.Add(time.Second)}, &entry{"etc/passwd", "", tar.TypeReg, 0}},
		{"symbolic link keeps its text", tar.Header{Name: "./bin", Linkname: "./usr/bin", Typeflag: tar.TypeSymlink, ModTime: packaged}, &entry{"bin", "./usr/bin", tar.TypeSymlink, packaged.Unix()}},
		{"hard link follows the new names", tar.Header{Name: "./usr/bin/perl5", Linkname: "./usr/bin/perl", Typeflag: tar.TypeLink, ModTime: packaged}, &entry{"usr/bin/perl5", "usr/bin/perl", tar.TypeLink, packaged.Unix()}},
		{"mount point of devices stays", tar.Header{Name: "./dev/", Typeflag: tar.TypeDir, ModTime: packaged}, &entry{"dev/", "", tar.TypeDir, packaged.Unix()}},
		{"device node", tar.Header{Name: "./dev/null", Typeflag: tar.TypeChar, ModTime: packaged}, nil},
		{"log", tar.Header{Name: "./var/log/dpkg.log", Typeflag: tar.TypeReg, ModTime: packaged}, nil},
		{"name that only begins like a dropped one", tar.Header{Name: "./var/logrotate", Typeflag: tar.TypeReg, ModTime: packaged}, &entry{"var/logrotate", "", tar.TypeReg, packaged.Unix()}},
		{"identifier of a machine", tar.Header{Name: "./etc/machine-id", Typeflag: tar.TypeReg, ModTime: packaged}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var in, out bytes.Buffer
			w := tar.NewWriter(&in)
			tt.in.Uname, tt.in.PAXRecords = "root", map[string]string{"SCHILY.xattr.security.capability": "x", "atime": "1"}
			tt.in.Format = tar.FormatPAX
			if err := w.WriteHeader(&tt.in); err != nil {
				t.Fatal(err)
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			if err := normalise(&out, &in, started); err != nil {
				t.Fatal(err)
			}
			var got *entry
			h, err := tar.NewReader(&out).Next()
			switch {
			case err == nil:
				got = &entry{h.Name, h.Linkname, h.Typeflag, h.ModTime.Unix()}
				if h.Uname != "" || !h.AccessTime.IsZero() {
					t.Errorf("owner name %q or access time %v left", h.Uname, h.AccessTime)
				}
				if h.PAXRecords["SCHILY.xattr.security.capability"] != "x" {
					t.Error("file capability lost")
				}
			case !errors.Is(err, io.EOF):
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
