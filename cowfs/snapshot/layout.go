package snapshot

// Layout names the objects of one incarnation of a workspace. No key is another's directory, and every segment is made of
// [a-z0-9._-].
type Layout struct {
	Prefix    string // key prefix of all workspaces
	Workspace string
	DataSet   string
}

// Dir is the prefix of all objects of the incarnation.
func (l Layout) Dir() string { return l.Prefix + "/" + l.Workspace + "/" + l.DataSet }

// Snapshots is the prefix of the manifests.
func (l Layout) Snapshots() string { return l.Dir() + "/snapshots" }

// Snapshot is the key of a manifest.
func (l Layout) Snapshot(id string) string { return l.Snapshots() + "/" + id }

// Pack is the key of a pack.
func (l Layout) Pack(id PackID) string { return l.Dir() + "/packs/" + id.String() }
