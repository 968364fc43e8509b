package agent

import (
	"encoding/base64"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/tolbooth-dev/tolbooth/agent/api"
)

// Bounds of the files of one request: how many, and how many directories deep, since each directory is made on the node
// before any limit of the job holds.
const (
	maxFiles = 10_000
	maxDepth = 64
)

// inputFiles checks and decodes the request's files. No two may be one path, none may lie below another, and all have to be
// within the job's limits on files and disk: they are made before anything counts them.
func inputFiles(files []api.File, l limits) ([]inputFile, error) {
	if len(files) > maxFiles {
		return nil, refuse(api.ClassInvalid, "files", "%d files; at most %d go into one request", len(files), maxFiles).
			hint("send an archive as one file and unpack it in the job, or use a named workspace")
	}
	list := make([]inputFile, 0, len(files))
	seen := map[string]int{}
	var size int64
	for i, f := range files {
		field := fmt.Sprintf("files[%d]", i)
		in, err := decodeFile(field, f)
		if err != nil {
			return nil, err
		}
		if j, twice := seen[in.Path]; twice {
			return nil, refuse(api.ClassInvalid, field+".path", "is the same path as files[%d]", j)
		}
		seen[in.Path] = i
		size += int64(len(in.Data))
		list = append(list, in)
	}
	dirs := map[string]bool{}
	for i, f := range list {
		for dir := above(f.Path); dir != "" && !dirs[dir]; dir = above(dir) {
			if j, isFile := seen[dir]; isFile {
				return nil, refuse(api.ClassInvalid, fmt.Sprintf("files[%d].path", i), "lies below files[%d], which is a file", j)
			}
			dirs[dir] = true
		}
	}
	switch n := int64(len(list) + len(dirs)); {
	case len(list) > 0 && n > l.Inodes.Value:
		return nil, refuse(api.ClassInvalid, "files", "make %d files and directories; limits.inodes is %d", n, l.Inodes.Value)
	case size > l.Disk.Value:
		return nil, refuse(api.ClassInvalid, "files", "hold %s; limits.disk is %s", quantity(size), quantity(l.Disk.Value))
	}
	return list, nil
}

// above is the directory of a clean absolute path, "" for the root.
func above(p string) string { return p[:strings.LastIndexByte(p, '/')] }

func decodeFile(field string, f api.File) (inputFile, error) {
	p, err := filePath(field+".path", f.Path)
	if err != nil {
		return inputFile{}, err
	}
	mode, err := fileMode(field+".mode", f.Mode)
	if err != nil {
		return inputFile{}, err
	}
	data, err := decodeText(field+".content", field+".encoding", f.Content, f.Encoding)
	if err != nil {
		return inputFile{}, err
	}
	return inputFile{Path: p, Data: data, Mode: mode}, nil
}

// filePath refuses the places where a file put there before the start would be hidden by a mount, or could not be put.
func filePath(field, p string) (string, error) {
	full, err := jailPath(field, p)
	if err != nil {
		return "", err
	}
	if strings.Count(full, "/") > maxDepth {
		return "", refuse(api.ClassInvalid, field, "is more than %d directories deep", maxDepth)
	}
	if strings.HasSuffix(p, "/") || full == "/" || full == workspaceDir {
		return "", refuse(api.ClassInvalid, field, "%s is a directory", quoted(p))
	}
	if dir := underAny(full, "/proc", "/sys", "/dev"); dir != "" {
		return "", refuse(api.ClassInvalid, field, "%s lies in %s, which is the kernel's", quoted(p), dir)
	}
	if dir := underAny(full, "/tmp", "/run"); dir != "" {
		return "", refuse(api.ClassUnsupported, field, "%s lies in %s, which is made empty when the job starts", quoted(p), dir).
			hint("put the file into the workspace")
	}
	if dir := underAny(full, "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"); dir != "" {
		return "", refuse(api.ClassUnsupported, field, "%s lies in %s, which base \"host\" shares with the node, read-only", quoted(p), dir).
			hint("put the file into the workspace and set PATH, LD_LIBRARY_PATH or PYTHONPATH")
	}
	if underAny(full, workspaceDir, "/var/tmp") == "" {
		return "", refuse(api.ClassUnsupported, field, "%s lies where a job may not write: it may in %s and /var/tmp", quoted(p), workspaceDir).
			hint("put the file into the workspace")
	}
	return full, nil
}

// fileMode reads octal permissions. Set-id and sticky bits are refused: nothing in a jail may gain by them.
func fileMode(field, s string) (os.FileMode, error) {
	if s == "" {
		return 0o644, nil
	}
	bits, err := strconv.ParseUint(strings.TrimPrefix(s, "0o"), 8, 32)
	if err != nil || len(s) > 6 {
		return 0, refuse(api.ClassInvalid, field, "%s is not octal permissions such as \"0644\"", quoted(s))
	}
	if bits > 0o777 {
		return 0, refuse(api.ClassInvalid, field, "%s has more than the permission bits 0777 (set-user-id, set-group-id and sticky are refused)", quoted(s))
	}
	return os.FileMode(bits), nil
}

// decodeText turns text with its encoding into bytes.
func decodeText(field, encodingField, text, encoding string) ([]byte, error) {
	switch encoding {
	case "", "utf-8":
		return []byte(text), nil
	case "base64":
		data, err := base64.StdEncoding.Strict().DecodeString(text)
		if err != nil {
			return nil, refuse(api.ClassInvalid, field, "is not base64 (RFC 4648 section 4, with padding): %s", err)
		}
		return data, nil
	}
	return nil, refuse(api.ClassInvalid, encodingField, "%s is not one of: utf-8, base64", quoted(encoding))
}
