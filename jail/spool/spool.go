// Package spool is the record of one run on disk: everything the jailed command printed and everything the warden and
// the agent saw, in one order, read by any number of readers while it grows. A record is one write to a descriptor opened
// for append, so the kernel serialises the writers; its index in the file is its sequence number.
//
// The file outlives both processes, so a run's output survives an agent restart; nothing in it is trusted to be well
// formed. Standard library only, since tolbooth-jail links it.
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

// MaxPayload is the largest payload of one record, in bytes.
const MaxPayload = 64 << 10

// Record is one entry of a spool.
type Record struct {
	Seq     int64
	Kind    Kind
	AtUS    int64 // microseconds since the run was admitted
	Payload []byte
}
