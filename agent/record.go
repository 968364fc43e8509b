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

	"github.com/tolbooth-dev/tolbooth/agent/api"
	"github.com/tolbooth-dev/tolbooth/jail"
)

// A job's record on disk, STATE/jobs/<id>.json: one line about the job, written before anything of it exists, and once
// it is finished a second one, the job as the API answers it. The second line is read only when someone asks for it.
// Nothing is synced: records outlive the agent, not a crash of the node, which no job outlives either.
type record struct {
	Version    int               `json:"version"`
	ID         string            `json:"id"`
	Request    string            `json:"request"` // hash, hex
	CreatedAt  time.Time         `json:"created_at"`
	Labels     map[string]string `json:"labels"`
	Mode       jail.Mode         `json:"mode"`
	Workspace  string            `json:"workspace,omitzero"`
	Output     int64             `json:"output"` // bytes kept of each stream
	State      api.State         `json:"state"`
	FinishedAt time.Time         `json:"finished_at,omitzero"`
}

const recordVersion = 1

// maxRecordLine bounds the first line; labels are the largest part of it.
const maxRecordLine = 256 << 10

func (m *manager) recordPath(id string) string { return filepath.Join(m.dir, id+".json") }
func (m *manager) spoolPath(id string) string  { return filepath.Join(m.dir, id+".spool") }

// writeRecord puts a record in place in one step. body is nil until the job is finished.
func (m *manager) writeRecord(r record, body []byte) (err error) {
	r.Version = recordVersion
	line, err := json.Marshal(r, json.Deterministic(true))
	if err != nil {
		return fmt.Errorf("encode the record: %w", err)
	}
	line = append(line, '\n')
	path := m.recordPath(r.ID)
	tmp := path + ".tmp"
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("create the record: %w", err)
	}
	_, err = f.Write(line)
	if err == nil && body != nil {
		_, err = f.Write(body)
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(tmp, path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write the record: %w", err), os.Remove(tmp))
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
