package cgroup

import (
	"errors"
	"path/filepath"
)

// EnterV1 moves the calling thread into the group's v1 directories, so that what it clones is born there; leave moves
// it back to the agent's own group, which is two levels up. On pure v2 both do nothing: there DirFD and a clone into it
// are the way in.
//
// Preconditions: the OS thread is locked, and belongs to a process in the agent's own group. Writing 0 to `tasks` moves
// only the writing thread and takes 20 µs. Writing a pid to cgroup.procs takes the task-group lock, which waits 4 to 8 ms
// for an RCU grace period.
func (g Group) EnterV1() (leave func() error, err error) {
	var entered []string
	leave = func() error {
		var errs []error
		for _, dir := range entered {
			errs = append(errs, write(filepath.Dir(filepath.Dir(dir)), "tasks", "0"))
		}
		entered = nil
		return errors.Join(errs...)
	}
	for _, dir := range g.v1() {
		if err := write(dir, "tasks", "0"); err != nil {
			return nil, errors.Join(err, leave())
		}
		entered = append(entered, dir)
	}
	return leave, nil
}
