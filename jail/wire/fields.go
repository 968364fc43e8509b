package wire

import (
	"errors"
	"syscall"
)

func (*Prepare) kind() uint32  { return 1 }
func (*Hello) kind() uint32    { return 2 }
func (*Ready) kind() uint32    { return 3 }
func (*Start) kind() uint32    { return 4 }
func (*Root) kind() uint32     { return 5 }
func (*Rooted) kind() uint32   { return 6 }
func (*Exec) kind() uint32     { return 7 }
func (*Poised) kind() uint32   { return 8 }
func (*Go) kind() uint32       { return 9 }
func (*Started) kind() uint32  { return 10 }
func (*Signal) kind() uint32   { return 11 }
func (*Cancel) kind() uint32   { return 12 }
func (*Died) kind() uint32     { return 13 }
func (*Ended) kind() uint32    { return 14 }
func (*Failed) kind() uint32   { return 15 }
func (*Resize) kind() uint32   { return 16 }
func (*Listener) kind() uint32 { return 17 }

func (*Hello) fields(*codec)    {}
func (*Listener) fields(*codec) {}
func (*Rooted) fields(*codec)   {}
func (*Go) fields(*codec)       {}

func (m *Prepare) fields(c *codec) {
	c.str(&m.Build)
	c.str((*string)(&m.Mode))
	c.str((*string)(&m.Engine))
	c.u32(&m.UIDBase)
	c.str(&m.Cgroup.Unified)
	c.str(&m.Cgroup.Memory)
	c.str(&m.Cgroup.Pids)
	c.str(&m.Cgroup.CPU)
	c.str(&m.Hostname)
}

func (m *Ready) fields(c *codec) { c.int(&m.Init) }

func (m *Start) fields(c *codec) {
	m.Exec.fields(c)
	m.Resize.fields(c)
	c.bool(&m.Stdin)
	c.bool(&m.Notify)
	c.bool(&m.RawSocket)
	c.i64(&m.ZeroNS)
	c.i64(&m.SentNS)
	c.i64(&m.WallNS)
	c.i64(&m.CPUNS)
	c.i64(&m.OutputBytes)
}

func (m *Root) fields(c *codec) {
	c.str((*string)(&m.Mode))
	c.str((*string)(&m.Engine))
	c.strs(&m.Mounts)
	list(c, &m.Tmpfs, c.tmpfs)
	c.ints(&m.CPUs)
}

func (m *Resize) fields(c *codec) {
	list(c, &m.Tmpfs, c.tmpfs)
	c.ints(&m.Shown)
	c.bool(&m.UserNS)
	c.strs(&m.NoExec)
}

func (m *Exec) fields(c *codec) {
	c.str((*string)(&m.Mode))
	c.str((*string)(&m.Engine))
	c.strs(&m.Command)
	c.strs(&m.Env)
	c.str(&m.Cwd)
	c.u32(&m.UID)
	c.u32(&m.GID)
	list(c, &m.Rlimits, c.rlimit)
	c.bytes(&m.Filter)
	c.bool(&m.Landlocked)
	c.strs(&m.Landlock.Write)
	c.bool(&m.Stdin)
	c.ints(&m.CPUs)
	c.bool(&m.BaseExecOnly)
}

func (m *Poised) fields(c *codec) {
	c.int(&m.Landlock)
	c.bool(&m.CoreSched)
}

func (m *Started) fields(c *codec) { c.i64(&m.StartUS) }
func (m *Signal) fields(c *codec)  { c.int(&m.Number) }
func (m *Died) fields(c *codec)    { c.u32(&m.Status) }
func (m *Ended) fields(c *codec)   { c.bytes(&m.Exit) }

func (m *Cancel) fields(c *codec) {
	c.str((*string)(&m.Cause))
	c.i64(&m.GraceNS)
}

func (m *Failed) fields(c *codec) {
	c.str(&m.Step)
	errno := uint64(m.Errno)
	c.u64(&errno)
	m.Errno = syscall.Errno(errno)
	c.str(&m.Detail)
}

func (c *codec) tmpfs(t *Tmpfs) {
	c.str(&t.Target)
	c.i64(&t.Bytes)
	c.i64(&t.Inodes)
	c.u32(&t.Mode)
	c.u32(&t.UID)
	c.u32(&t.GID)
}

func (c *codec) rlimit(r *Rlimit) {
	c.int(&r.Resource)
	c.u64(&r.Value)
}

func errnoOf(err error) syscall.Errno {
	var errno syscall.Errno
	errors.As(err, &errno)
	return errno
}
