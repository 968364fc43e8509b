package spool

// Kind is the type of one record.
type Kind uint8

// The kinds of record.
const (
	State   Kind = 1 // payload: JSON, written by the agent
	Stdout  Kind = 2 // payload: bytes as printed
	Stderr  Kind = 3
	Denial  Kind = 4 // payload: JSON of jail.Denial
	Exit    Kind = 5 // payload: JSON of jail.Exit; the last record a warden writes
	Refusal Kind = 6 // payload: JSON of api.Denial, worded by the agent
)

// valid reports whether k is a kind that this version writes. Agent and jail binary have the same build, so any other
// kind is damage, not a newer format.
func (k Kind) valid() bool { return k >= State && k <= Refusal }

// MaxPayload is the largest payload of one record, in bytes.
const MaxPayload = 64 << 10

// Record is one entry of a spool.
type Record struct {
	Seq     int64
	Kind    Kind
	AtUS    int64 // microseconds since the run was admitted
	Payload []byte
}
