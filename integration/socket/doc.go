// Package socket tests a whole agent through its socket and its command line: outcomes, limits, denials, workspaces,
// crash and restart.
package socket
