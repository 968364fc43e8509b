package snapshot

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/zeebo/blake3"
)

const (
	manifestFormat  = "tolbooth-snapshot"
	manifestVersion = 1
	maxManifest     = 64 << 20 // plaintext
	maxNodes        = 1 << 18
)

// Manifest is the root of one snapshot: what it is, and where its tree nodes lie. Every object that the snapshot needs is
// named in it.
type Manifest struct {
	Format    string    `json:"format"`
	Version   int       `json:"version"`
	Workspace string    `json:"workspace"`
	DataSet   string    `json:"data_set"` // incarnation of the workspace: where its objects lie
	Sequence  uint32    `json:"sequence"` // 1 for the first snapshot, then one more than the parent's
	Parent    string    `json:"parent"`   // id, empty for the first
	CreatedAt time.Time `json:"created_at"`
	Node      string    `json:"node"`
	Job       string    `json:"job"`
	Base      string    `json:"base"` // what the tree lies over

	Entries    int64 `json:"entries"`
	Files      int64 `json:"files"`       // regular files
	Bytes      int64 `json:"bytes"`       // of data, holes left out
	BytesAdded int64 `json:"bytes_added"` // to the bucket by this snapshot

	Nodes []NodeRef `json:"nodes"`
	Packs []PackRef `json:"packs"` // every pack that a node or an entry refers to
}

// NodeRef is where a tree node lies.
type NodeRef struct {
	First   []byte `json:"first"` // path of its first entry
	Entries int64  `json:"entries"`
	ID      string `json:"id"`
	Pack    string `json:"pack"`
	Offset  uint32 `json:"offset"`
	Packed  uint32 `json:"packed"`
	Size    uint32 `json:"size"`
}

// PackRef is a pack and its size.
type PackRef struct {
	ID   string `json:"id"`
	Size int64  `json:"size"`
}

var idPattern = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{32}$`)

// CheckID refuses what cannot be a snapshot's id.
func CheckID(id string) error {
	if !idPattern.MatchString(id) {
		return fmt.Errorf("%w: snapshot id %.60q", ErrCorrupt, id)
	}
	return nil
}

// encode returns the stored bytes of a manifest and the snapshot's id: its sequence number, so that ids sort by age, and
// the hash of the bytes.
func (m *Manifest) encode(c *codec) (id string, data []byte, err error) {
	m.Format, m.Version = manifestFormat, manifestVersion
	plain, err := json.Marshal(m)
	if err != nil {
		return "", nil, fmt.Errorf("encode manifest: %w", err)
	}
	if len(plain) > maxManifest {
		return "", nil, fmt.Errorf("%w: manifest of %d bytes", ErrTooLarge, len(plain))
	}
	data = c.compress(plain)
	sum := blake3.Sum256(data)
	return fmt.Sprintf("%08x-%s", m.Sequence, hex.EncodeToString(sum[:16])), data, nil
}

// decodeManifest verifies the stored bytes against the id they were asked for by, and the manifest against the workspace.
func decodeManifest(c *codec, id string, data []byte, workspace, dataSet string) (*Manifest, error) {
	if err := CheckID(id); err != nil {
		return nil, err
	}
	sum := blake3.Sum256(data)
	if want := id[9:]; hex.EncodeToString(sum[:16]) != want {
		return nil, fmt.Errorf("%w: manifest %s has the hash %x", ErrCorrupt, id, sum[:16])
	}
	plain, err := c.expand(data, maxManifest)
	if err != nil {
		return nil, fmt.Errorf("manifest %s: %w", id, err)
	}
	var m Manifest
	d := json.NewDecoder(strings.NewReader(string(plain)))
	d.DisallowUnknownFields()
	if err := d.Decode(&m); err != nil {
		return nil, fmt.Errorf("%w: manifest %s: %v", ErrCorrupt, id, err)
	}
	switch {
	case m.Format != manifestFormat:
		return nil, fmt.Errorf("%w: manifest %s: format %.40q", ErrCorrupt, id, m.Format)
	case m.Version != manifestVersion:
		return nil, fmt.Errorf("%w: manifest %s: version %d", ErrVersion, id, m.Version)
	case m.Workspace != workspace || m.DataSet != dataSet:
		return nil, fmt.Errorf("%w: manifest %s belongs to workspace %.80q, data set %.80q", ErrCorrupt, id, m.Workspace, m.DataSet)
	case fmt.Sprintf("%08x", m.Sequence) != id[:8]:
		return nil, fmt.Errorf("%w: manifest %s has the sequence number %d", ErrCorrupt, id, m.Sequence)
	case m.Entries < 1 || m.Files < 0 || m.Bytes < 0 || m.BytesAdded < 0:
		return nil, fmt.Errorf("%w: manifest %s has counts below zero", ErrCorrupt, id)
	case len(m.Nodes) == 0 || len(m.Nodes) > maxNodes:
		return nil, fmt.Errorf("%w: manifest %s has %d nodes", ErrCorrupt, id, len(m.Nodes))
	}
	return &m, nil
}

// segment returns the place of the node.
func (n *NodeRef) segment() (*Segment, error) {
	s := &Segment{Offset: n.Offset, Packed: n.Packed, Size: n.Size}
	if !unhex(s.ID[:], n.ID) || !unhex(s.Pack[:], n.Pack) {
		return nil, fmt.Errorf("%w: node reference", ErrCorrupt)
	}
	if n.Size > maxNode {
		return nil, fmt.Errorf("%w: node of %d bytes", ErrCorrupt, n.Size)
	}
	return s, s.check()
}

// unhex decodes s into dst and says whether it fits exactly.
func unhex(dst []byte, s string) bool {
	if len(s) != 2*len(dst) {
		return false
	}
	n, err := hex.Decode(dst, []byte(s))
	return err == nil && n == len(dst)
}
