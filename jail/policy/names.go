package policy

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// Name says which ABI a call came in by and what its number means there. The name is empty when the ABI or the number is
// not known; the number comes back without the x32 mark.
func Name(audit, nr uint32) (abi string, number uint32, name string) {
	var names []string
	switch audit {
	case unix.AUDIT_ARCH_X86_64:
		if nr >= x32Bit && nr != ^uint32(0) {
			abi, nr = "x32", nr&^x32Bit
			// From 512 on x32 has numbers of its own.
			names = amd64Names[:min(512, len(amd64Names))]
			break
		}
		abi, names = "x86_64", amd64Names[:]
	case unix.AUDIT_ARCH_AARCH64:
		abi, names = "aarch64", arm64Names[:]
	case unix.AUDIT_ARCH_I386:
		abi, names = "i386", i386Names[:]
	case unix.AUDIT_ARCH_ARM:
		abi, names = "arm", armNames[:]
	}
	if uint64(nr) < uint64(len(names)) {
		name = names[nr]
	}
	return abi, nr, name
}

func errnoName(e syscall.Errno) string {
	if name := unix.ErrnoName(e); name != "" {
		return name
	}
	return e.Error()
}
