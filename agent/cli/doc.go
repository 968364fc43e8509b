// Package cli is the tolbooth command line: one file a command.
//
// It owns what a person sees: flags, tables, exit codes and the wording of refusals. It never runs anybody's code and
// knows nothing of jails: every command but doctor speaks to an agent through package client, and the agent command is
// handed in by main, so that this package builds without cgo. It is called by agent/cmd/tolbooth alone.
//
// No privilege is needed beyond access to the agent's socket (doctor says more when it is root). Commands hold the
// standard streams and one client; New may be called often, nothing is kept in the package.
package cli
