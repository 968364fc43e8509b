package wire

import (
	"fmt"
	"syscall"

	"github.com/tolbooth-dev/tolbooth/jail/cgroup"
)

// MaxMessage is the size limit of one message in bytes. A command's arguments and environment are MaxArguments of it,
// its filter 32 KiB (the kernel's limit of 4096 instructions).
const MaxMessage = 1 << 20

// MaxFiles is how many descriptors one message may carry (the kernel's limit is 253).
const MaxFiles = 64

// Message is one of the structs below.
type Message interface {
	kind() uint32
	fields(*codec)
}

const magic = 0x314a4254 // "TBJ1"; the last digit is the version of the framing

// Prepare asks the warden for a jail. Files: the network namespace, if any.
type Prepare struct {
	Build    string // first, so that it can be read from any other build
	Mode     Mode
	Engine   Engine
	UIDBase  uint32
	Cgroup   cgroup.Group
	Hostname string
}

// Hello says that init waits for Root.
type Hello struct{}

// Ready says that the jail waits for Root. Init is its host pid.
type Ready struct{ Init int }

// Start hands over one command to a jail whose root is in place. Files: spool, then stdin and notify where the flags say so.
type Start struct {
	Exec
	Resize      Resize
	Stdin       bool
	Notify      bool
	RawSocket   bool  // the warden makes raw IP sockets for the program where the filter says so
	ZeroNS      int64 // CLOCK_MONOTONIC: the spool's zero point
	SentNS      int64 // CLOCK_MONOTONIC
	WallNS      int64
	CPUNS       int64
	OutputBytes int64
}

// Root asks for the root, of the warden, which passes it on to init. Files: root, then one mount for each of Mounts.
type Root struct {
	Mode   Mode
	Engine Engine
	Mounts []string
	Tmpfs  []Tmpfs
	CPUs   []int // that /sys shows
}

// Resize changes a root that is in place, before anything of the job runs.
type Resize struct {
	Tmpfs  []Tmpfs  // memory file systems that get other limits
	Shown  []int    // CPUs that /sys shows; none: as before
	UserNS bool     // programs may make user namespaces and others in them
	NoExec []string // directories below which nothing is executed, nor mapped to be
}

// Rooted says that the root is in place, as asked for.
type Rooted struct{}

// Exec is what launch needs. Files: stdin if any, stdout, stderr, and the root in a plan that chroots.
type Exec struct {
	Mode         Mode
	Engine       Engine
	Command      []string
	Env          []string
	Cwd          string
	UID, GID     uint32
	Rlimits      []Rlimit
	Filter       []byte
	Landlocked   bool // Landlock is in force with Landlock.Write; false: there is none
	Landlock     Landlock
	Stdin        bool
	CPUs         []int // that the program may run on; none: those of the agent
	BaseExecOnly bool  // Landlock allows execve outside Landlock.Write only
}

// Empty reports whether the root stays as it is.
func (m *Resize) Empty() bool {
	return len(m.Tmpfs)+len(m.Shown)+len(m.NoExec) == 0 && !m.UserNS
}

// Poised says that launch has only its filter and execve left.
type Poised struct {
	Landlock  int  // the ABI in force, 0: none
	CoreSched bool // no other jail's program shares a core with it
}

// Go tells launch to go on: it is traced if it has to be.
type Go struct{}

// Listener hands over the listener of the filter that launch has just loaded, in a plan that listens. Files: the listener.
type Listener struct{}

// Started says that the program's execve happened.
type Started struct{ StartUS int64 }

// Signal is to be sent to the program.
type Signal struct{ Number int }

// Cancel ends the run with a cause. GraceNS is the time between TERM and KILL; 0 kills at once.
type Cancel struct {
	Cause   Cause
	GraceNS int64
}

// Died is the wait status of the program, told by init where no tracer sees it.
type Died struct{ Status uint32 }

// Ended is the end of a run; Exit is the JSON that is also the spool's last record.
type Ended struct{ Exit []byte }

// Failed says which step of any stage failed.
type Failed struct {
	Step   string
	Errno  syscall.Errno
	Detail string
}

// Error makes a Failed usable as an error inside the stage that makes it.
func (m *Failed) Error() string { return m.Step + ": " + m.Detail }

// Fail wraps an error of one step. The detail is err's text; Errno is taken from it when it has one.
func Fail(step string, err error) *Failed {
	return &Failed{Step: step, Errno: errnoOf(err), Detail: err.Error()}
}

// newMessage returns an empty message of a kind; nil: there is none.
func newMessage(kind uint32) Message {
	for _, m := range []Message{
		&Prepare{}, &Hello{}, &Ready{}, &Start{}, &Root{}, &Rooted{}, &Exec{}, &Poised{}, &Go{}, &Started{}, &Signal{},
		&Cancel{}, &Died{}, &Ended{}, &Failed{}, &Resize{}, &Listener{},
	} {
		if m.kind() == kind {
			return m
		}
	}
	return nil
}

// Encode returns the bytes of a message.
func Encode(m Message) ([]byte, error) {
	c := codec{buf: make([]byte, 0, 512)}
	head, kind := uint32(magic), m.kind()
	c.u32(&head)
	c.u32(&kind)
	m.fields(&c)
	if len(c.buf) > MaxMessage {
		return nil, fmt.Errorf("message %T of %d bytes is over %d", m, len(c.buf), MaxMessage)
	}
	return c.buf, c.err
}

// Decode reads one message, all of b. What it returns shares b's memory.
func Decode(b []byte) (Message, error) {
	if len(b) > MaxMessage {
		return nil, fmt.Errorf("message of %d bytes is over %d", len(b), MaxMessage)
	}
	c := codec{buf: b, reading: true}
	var head, kind uint32
	c.u32(&head)
	c.u32(&kind)
	if c.err == nil && head != magic {
		return nil, fmt.Errorf("message starts with %#x: another version, or no message", head)
	}
	m := newMessage(kind)
	if c.err == nil && m == nil {
		return nil, fmt.Errorf("unknown message kind %d", kind)
	}
	if c.err == nil {
		m.fields(&c)
	}
	if c.err != nil {
		return nil, fmt.Errorf("decode message kind %d: %w", kind, c.err)
	}
	if len(c.buf) > 0 {
		return nil, fmt.Errorf("message %T has %d bytes too many", m, len(c.buf))
	}
	return m, nil
}
