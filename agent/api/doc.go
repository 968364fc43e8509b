// Package api holds the JSON shapes of tolbooth's HTTP API, version 1: what a request may say and what an answer looks
// like. It owns names and units, and does nothing: no validation beyond what a type can hold, no defaults, no I/O.
// The server (package agent), the Go client (agent/client) and the command line share it. It needs no privilege and holds
// no state; every type is a plain value.
package api
