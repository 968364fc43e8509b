package cowfs

import (
	"encoding/json"
	"fmt"
	"os"
	"time"

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

	// Restored is set when the upper holds the whole of Parent (or the workspace has no snapshot yet). Without it
	// the upper is never flushed: it may be half a workspace.
	Restored bool   `json:"restored,omitzero"`
	Parent   string `json:"parent,omitzero"`   // snapshot that was restored
	DataSet  string `json:"data_set,omitzero"` // incarnation of the workspace that Parent belongs to
	Head     string `json:"head,omitzero"`     // store version of the head that named Parent

	// Attempt is the snapshot that was last tried to be published from this tree: should the head turn out to name it, the
	// try succeeded without our knowing.
	Attempt        string `json:"attempt,omitzero"`
	AttemptDataSet string `json:"attempt_data_set,omitzero"`

	// Boot is the boot id of the node when the tree was made. Nothing is synced while a job runs (fsync of a workspace is a
	// flush), so an upper from before a crash of the node may lack anything and is never flushed by itself.
	Boot string `json:"boot"`

	Reason   string    `json:"reason,omitzero"` // why it was parked
	ParkedAt time.Time `json:"parked_at,omitzero"`
	Synced   bool      `json:"synced,omitzero"` // the parked upper is on the disk
	Retry    bool      `json:"retry,omitzero"`  // RetryParked may flush it
}

// writeRecord replaces the record, in a way that survives the agent but not the node.
func (t *Tree) writeRecord() error { return t.record.write(t.dir, false) }

func (r *record) write(dir *os.File, durable bool) error {
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return writeFileAt(dir, recordName, data, durable)
}

// writeFileAt writes a small file of the agent's own; a durable one whole or not at all. One that need not be durable is
// written over in place and then cut: truncated first, ext4 would start writing it to the disk.
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
		return f.Truncate(int64(len(data)))
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
