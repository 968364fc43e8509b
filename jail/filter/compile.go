package filter

import (
	"fmt"
	"io"
	"os"
	"runtime"

	seccomp "github.com/seccomp/libseccomp-golang"
	"golang.org/x/sys/unix"

	"github.com/tolbooth-dev/tolbooth/jail/cbpf"
	"github.com/tolbooth-dev/tolbooth/jail/policy"
)

// binaryTree is libseccomp's optimisation level that finds a call in logarithmic time.
const binaryTree = 2

// Compile translates a policy for the machine's own architecture and checks the result against it.
func Compile(p policy.Policy) (*Program, error) {
	if p.Arch() != runtime.GOARCH {
		return nil, fmt.Errorf("compile filter: policy is for %q, this machine is %s", p.Arch(), runtime.GOARCH)
	}
	raw, err := translate(p)
	if err != nil {
		return nil, fmt.Errorf("compile filter: %w", err)
	}
	prog, err := decode(raw)
	if err != nil {
		return nil, fmt.Errorf("compile filter: %w", err)
	}
	if err := prog.check(p); err != nil {
		return nil, fmt.Errorf("compile filter: libseccomp %s made a wrong program: %w", version(), err)
	}
	return prog, nil
}

func version() string {
	major, minor, micro := seccomp.GetLibraryVersion()
	return fmt.Sprintf("%d.%d.%d", major, minor, micro)
}

// translate leaves unknown numbers to the filter's default action, and foreign ABIs to its bad-architecture action, which
// libseccomp gives x32 calls on amd64 too as long as x32 is not added.
func translate(p policy.Policy) ([]byte, error) {
	unknown, err := action(policy.Unknown())
	if err != nil {
		return nil, err
	}
	foreign, err := action(policy.Foreign())
	if err != nil {
		return nil, err
	}
	f, err := seccomp.NewFilter(unknown)
	if err != nil {
		return nil, fmt.Errorf("new filter: %w", err)
	}
	defer f.Release()
	if err := f.SetBadArchAction(foreign); err != nil {
		return nil, fmt.Errorf("set action for foreign architectures: %w", err)
	}
	if err := f.SetOptimize(binaryTree); err != nil {
		return nil, fmt.Errorf("set optimisation: %w", err)
	}
	for c := range p.Calls() {
		paths, err := decisions(c)
		if err != nil {
			return nil, err
		}
		for _, path := range paths {
			if err := add(f, c, path, unknown); err != nil {
				return nil, err
			}
		}
	}
	return export(f)
}

// add adds one rule. What the default action says anyway needs no rule, and libseccomp accepts none.
func add(f *seccomp.ScmpFilter, c policy.Call, path path, unknown seccomp.ScmpAction) error {
	act, err := action(path.verdict)
	if err != nil {
		return err
	}
	if act == unknown {
		return nil
	}
	conds := make([]seccomp.ScmpCondition, len(path.when))
	for i, t := range path.when {
		if conds[i], err = seccomp.MakeCondition(uint(t.arg), seccomp.CompareMaskedEqual, t.mask, t.value); err != nil {
			return fmt.Errorf("condition on argument %d of %s: %w", t.arg, c.Name, err)
		}
	}
	nr := seccomp.ScmpSyscall(c.NR)
	if len(conds) == 0 {
		err = f.AddRuleExact(nr, act)
	} else {
		err = f.AddRuleConditionalExact(nr, act, conds)
	}
	if err != nil {
		return fmt.Errorf("add rule for %s: %w", c.Name, err)
	}
	return nil
}

// brokerCode is cbpf.Broker as libseccomp's Go face takes it, which is signed.
const brokerCode = cbpf.Broker - 1<<16

func action(v policy.Verdict) (seccomp.ScmpAction, error) {
	if _, err := answer(v); err != nil {
		return seccomp.ActInvalid, err
	}
	switch v.Action {
	case policy.Trace:
		return seccomp.ActTrace.SetReturnCode(int16(v.Errno)), nil
	case policy.Broker:
		return seccomp.ActTrace.SetReturnCode(brokerCode), nil
	case policy.Skip:
		return seccomp.ActErrno.SetReturnCode(0), nil
	case policy.Quiet:
		return seccomp.ActErrno.SetReturnCode(int16(v.Errno)), nil
	}
	return seccomp.ActAllow, nil
}

// export reads the program back through a memory file: libseccomp before 2.6 writes to descriptors only.
func export(f *seccomp.ScmpFilter) ([]byte, error) {
	fd, err := unix.MemfdCreate("filter", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("memfd_create: %w", err)
	}
	file := os.NewFile(uintptr(fd), "filter")
	defer file.Close()
	if err := f.ExportBPF(file); err != nil {
		return nil, fmt.Errorf("export program: %w", err)
	}
	raw, err := io.ReadAll(io.NewSectionReader(file, 0, cbpf.MaxInstructions*cbpf.InstructionSize+1))
	if err != nil {
		return nil, fmt.Errorf("read program: %w", err)
	}
	return raw, nil
}
