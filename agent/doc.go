// Package agent is the spine of tolbooth: it admits a job, takes it through its life and answers the API.
//
// It owns the listeners, the table of jobs, their records and spools below STATE/jobs, the admission queue, and the order
// in which a job's parts are acquired and given back (run.go). It never confines anything itself: the jail, the network
// and the file tree are the leaves' (packages jail, netns, bpf, cowfs), which know nothing of each other. It executes
// nothing from a workspace, and nothing of its own environment reaches a job.
//
// Two halves meet at the types of work.go. Towards the clients: Config (keys.go names every setting), Server (server.go,
// routes.go), the rulebook that turns a request into work (spec.go), the manager of jobs (manager.go, lifecycle.go,
// reload.go). Towards the node: spine, places, trees, nets. A request becomes a work; a runner turns a work into a
// Result and tells its progress; everything a client sees of a running job comes out of the spool file, so that readers
// cost the job nothing and output outlives the agent.
//
// Callers: agent/cmd/tolbooth, through Flags, LoadConfig and Run. Privileges: see `tolbooth doctor`; without them the agent
// serves its API, unhealthy, and says what is missing. Kernel: 5.15 or later, probed. Lifetime: Run returns after the first
// signal, when no job is left and everything is given back; what hangs in the kernel it leaves behind, and says so (deadline.go). Concurrency: handlers run in parallel; manager.mu orders
// admission and is never held during I/O; job.mu guards what changes of one job.
package agent
