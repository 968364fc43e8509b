// Package client calls a tolbooth agent: over its unix socket, or over TCP with a token.
//
// It owns the wire: URLs, the token, problem answers as errors, and following a job's events across broken connections.
// It never decides anything about a job, never falls back to running code elsewhere, has no time limit that the caller
// did not set (use the context), follows no redirect and reads no proxy variable: an agent is on the caller's own node.
//
// Callers are the command line (agent/cli), tests and workers written in Go. It needs no privilege and runs on every
// system. A Client holds idle connections only; Close drops them. All methods are safe for concurrent use.
package client
