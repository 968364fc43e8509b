package cowfs

import (
	"encoding/json"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

const recordName = "record.json"

// record says what a directory below run or parked is. It is written before anything else, so that a later agent knows
// whose upper it found.
type record struct {
	ID        string `json:"id"`
	Slot      uint32 `json:"slot"`
	IDBase    uint32 `json:"id_base"`
	Workspace string `json:"workspace,omitzero"`

	// Restored is set, durably, when the upper holds the whole of Parent (or the workspace has no snapshot yet). Without it
	// the upper is never flushed: it may be half a workspace.
	Restored bool   `json:"restored,omitzero"`
	Parent   string `json:"parent,omitzero"`   // snapshot that was restored
	DataSet  string `json:"data_set,omitzero"` // incarnation of the workspace that Parent belongs to
	Head     string `json:"head,omitzero"`     // store version of the head that named Parent

	Reason   string `json:"reason,omitzero"`    // why it was parked
	ParkedAt string `json:"parked_at,omitzero"` // RFC 3339
}

// writeRecord replaces the record. For a named workspace it is on the disk when writeRecord returns.
func (t *Tree) writeRecord() error {
	data, err := json.Marshal(t.record)
	if err != nil {
		return err
	}
	return writeFileAt(t.dir, recordName, data, t.record.Workspace != "")
}

// writeFileAt writes a small file of the agent's own; a durable one whole or not at all. One that need not be durable is
// written over in place, without truncation (for which ext4 starts writing to the disk): it must not get shorter.
func writeFileAt(dir *os.File, name string, data []byte, durable bool) error {
	tmp, flags := name, unix.O_WRONLY|unix.O_CREAT|unix.O_NOFOLLOW|unix.O_CLOEXEC
	if durable {
		tmp, flags = name+".tmp", flags|unix.O_TRUNC
	}
	fd, err := unix.Openat(int(dir.Fd()), tmp, flags, 0o600)
	if err != nil {
		return fmt.Errorf("openat %s: %w", tmp, err)
	}
	f := os.NewFile(uintptr(fd), tmp)
	defer f.Close()
	if _, err := f.Write(data); err != nil {
		return err
	}
	if !durable {
		return nil
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := unix.Renameat(int(dir.Fd()), tmp, int(dir.Fd()), name); err != nil {
		return fmt.Errorf("renameat %s: %w", tmp, err)
	}
	return dir.Sync()
}

// readRecord reads the record of the directory dir.
func readRecord(dir *os.File) (record, error) {
	const limit = 64 << 10
	var r record
	fd, err := unix.Openat(int(dir.Fd()), recordName, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return r, fmt.Errorf("openat %s: %w", recordName, err)
	}
	f := os.NewFile(uintptr(fd), recordName)
	defer f.Close()
	buf := make([]byte, limit)
	n, err := f.Read(buf)
	if err != nil {
		return r, fmt.Errorf("read %s: %w", recordName, err)
	}
	if err := json.Unmarshal(buf[:n], &r); err != nil {
		return r, fmt.Errorf("decode %s: %w", recordName, err)
	}
	return r, nil
}
