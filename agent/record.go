package agent

import (
	"bufio"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/tolbooth-dev/tolbooth/jail"
)

// A job's record on disk, STATE/jobs/<id>.json: one line about the job, written before anything of it exists, and once
// it is finished a second one, the job as the API answers it; the file's time is then when that was. The second line is
// one write to a file that is open already, which is what makes it cheap, and it is read only when someone asks for it.
// Nothing is synced: records outlive the agent, not a crash of the node, which no job outlives either.
type record struct {
	Version   int               `json:"version"`
	ID        string            `json:"id"`
	Request   string            `json:"request"` // hash, hex
	CreatedAt time.Time         `json:"created_at"`
	Labels    map[string]string `json:"labels"`
	Mode      jail.Mode         `json:"mode"`
	Workspace string            `json:"workspace,omitzero"`
	Output    int64             `json:"output"` // bytes kept of each stream
	Extras    []string          `json:"extras,omitzero"`
	Deny      []string          `json:"deny,omitzero"`
}

const recordVersion = 1

// maxRecordLine bounds the first line; labels are the largest part of it.
const maxRecordLine = 256 << 10

func (m *manager) recordPath(id string) string { return filepath.Join(m.dir, id+".json") }
func (m *manager) spoolPath(id string) string  { return filepath.Join(m.dir, id+".spool") }

// createRecord writes the first line, and returns the file for the second.
func (m *manager) createRecord(r record) (*os.File, error) {
	r.Version = recordVersion
	line, err := encodeJSON(r)
	if err != nil {
		return nil, fmt.Errorf("encode the record: %w", err)
	}
	f, err := m.blanks.open(m.recordPath(r.ID))
	if err != nil {
		return nil, fmt.Errorf("create the record: %w", err)
	}
	if _, err := f.Write(append(line, '\n')); err != nil {
		return nil, errors.Join(fmt.Errorf("write the record: %w", err), f.Close())
	}
	return f, nil
}

// completeRecord adds the second line. A part of one is taken off again: it would be read as the whole.
func completeRecord(f *os.File, body []byte) error {
	if f == nil {
		return errors.New("the record is not open")
	}
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("stat the record: %w", err)
	}
	if _, err := f.Write(body); err != nil {
		return errors.Join(fmt.Errorf("write the record: %w", err), f.Truncate(info.Size()))
	}
	return nil
}

// readRecord reads the first line of a record, and leaves f at the second.
func readRecord(f *os.File) (record, error) {
	var r record
	b := bufio.NewReaderSize(io.LimitReader(f, maxRecordLine), 4096)
	line, err := b.ReadSlice('\n')
	for errors.Is(err, bufio.ErrBufferFull) {
		var more []byte
		line = append([]byte{}, line...)
		more, err = b.ReadBytes('\n')
		line = append(line, more...)
	}
	if err != nil {
		return r, fmt.Errorf("read the record: %w", err)
	}
	if err := json.Unmarshal(line, &r); err != nil {
		return r, fmt.Errorf("decode the record: %w", err)
	}
	if r.Version != recordVersion {
		return r, fmt.Errorf("the record has version %d, this agent knows %d", r.Version, recordVersion)
	}
	if _, err := f.Seek(int64(len(line)), io.SeekStart); err != nil {
		return r, fmt.Errorf("seek in the record: %w", err)
	}
	return r, nil
}

// completion tells whether f, at the end of its first line, holds a whole second one, and since when. What is there of
// half a line is cut off.
func completion(f *os.File) (finished time.Time, done bool, err error) {
	first, err := f.Seek(0, io.SeekCurrent)
	if err != nil {
		return time.Time{}, false, fmt.Errorf("seek in the record: %w", err)
	}
	info, err := f.Stat()
	if err != nil {
		return time.Time{}, false, fmt.Errorf("stat the record: %w", err)
	}
	if info.Size() == first {
		return time.Time{}, false, nil
	}
	var last [1]byte
	if _, err := f.ReadAt(last[:], info.Size()-1); err != nil {
		return time.Time{}, false, fmt.Errorf("read the record: %w", err)
	}
	if last[0] == '\n' {
		return info.ModTime(), true, nil
	}
	if err := f.Truncate(first); err != nil {
		return time.Time{}, false, fmt.Errorf("cut off half a record: %w", err)
	}
	return time.Time{}, false, nil
}

// readBody reads the finished job of a record, as it is answered.
func (m *manager) readBody(id string) ([]byte, error) {
	f, err := os.Open(m.recordPath(id))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if _, err := readRecord(f); err != nil {
		return nil, err
	}
	return io.ReadAll(f)
}

func (r record) hash() (h [32]byte, err error) {
	b, err := hex.DecodeString(r.Request)
	if err != nil || len(b) != len(h) {
		return h, fmt.Errorf("the record of %s has no request hash", r.ID)
	}
	return [32]byte(b), nil
}
