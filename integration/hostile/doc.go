// Package hostile holds programs that try to leave a jail, and the test that runs each through a real agent's socket.
// A program reports every attempt by a line, `held NAME ERRNO` or `ESCAPED NAME DETAIL`; after each one an oracle looks
// at the node from outside: canary file, canary process, agent, kernel objects, and the next ordinary job.
package hostile
