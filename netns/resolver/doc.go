// Package resolver answers the name lookups of jails.
//
// A Resolver forwards for all jails of a node to the node's real upstreams; a Jail is what one of them may ask. Its sockets
// are made inside the jail's own network namespace (netns.Namespace.TakeDNS), so who asks is known by the socket and by
// nothing in the message, and no port of the node is open to a jail.
//
// It owns the verdict on names: a name that the rules do not allow never leaves the node, whatever the query's type,
// transport or spelling. Of an answer only what belongs to the asked name is passed on; addresses that the job may not
// reach in any case, and private ones that no rule by address opens, are taken out (rebinding). What is left is pinned
// before the answer is sent: Pins gets each address with the ports of the rules that matched the name, for the answer's
// lifetime or MinPin, whichever is longer, and for as long as the job's flows use it.
//
// A refused name is answered with NXDOMAIN at once, since programs take that for final (ENOTFOUND, "no such host", two
// queries), where REFUSED and SERVFAIL are temporary to glibc, Node and Go (EAI_AGAIN, "server misbehaving", four queries) and
// invite another try. An extended error (RFC 8914) tells whoever asks by EDNS which rule it was and what to ask for. Each
// refusal is handed to Refused as a value.
//
// It keeps no cache: the upstreams have one. It validates no signatures, and never follows a name by itself. It never logs,
// never touches the kernel (Pins does), and never decides what a request may say. The agent calls it; no privileges.
//
// Lifetime: Close a Jail before its namespace is closed, since its sockets hold the namespace.
//
// Concurrency: every method may be called from any goroutine. Pins and Refused are called from several at once.
package resolver
