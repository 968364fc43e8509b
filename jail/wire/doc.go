// Package wire is how the processes of one jail talk: agent and warden, warden and init, warden and launch.
//
// It owns the messages, their encoding, the sockets that carry them and the plain values inside (jail re-exports those to the
// agent). It never decides anything: a message that is malformed, too long or carries descriptors nobody asked for is an
// error, and its descriptors are closed. Callers: jail in the agent, and the three roles of tolbooth-jail.
//
// Transport: SOCK_SEQPACKET pairs, one message a packet, descriptors by SCM_RIGHTS and always close-on-exec, the sender's
// pid by SCM_CREDENTIALS (the kernel translates it between pid namespaces, so nothing a process says about itself is
// believed). Privileges: none, though CAP_NET_ADMIN lets messages grow to MaxMessage. Kernel: 5.15.
//
//	agent            warden            init             launch
//	  │── Prepare ─────▶│── clone ───────▶│── fork ─────────▶│
//	  │                 │◀───── Hello ────│                  │
//	  │◀──── Ready ─────│                 │                  │
//	  │── Start ───────▶│── Root ────────▶│                  │
//	  │                 │◀───── Rooted ───│                  │
//	  │                 │── Exec ───────────────────────────▶│
//	  │                 │◀──────────────────────── Poised ───│   the warden seizes it
//	  │                 │── Go ─────────────────────────────▶│   filter, execve: the socket closes, or Failed
//	  │◀── Started ─────│                 │
//	  │── Signal, Cancel ▶                │
//	  │◀──── Ended ─────│◀── Died (plans without a tracer)
//
// Lifetime: whoever opens a Conn closes it. A Conn may be used by one sender and one receiver at a time.
package wire
