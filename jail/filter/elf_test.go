package filter

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"
)

// i386Call is a program that makes the i386 call getpid, as bytes of an ELF file in memory: 64-bit, one segment.
func i386Call(t *testing.T) *exec.Cmd {
	t.Helper()
	code := []byte{
		0xb8, 20, 0, 0, 0, // mov eax, 20 (getpid)
		0xcd, 0x80, // int 0x80
		0x31, 0xff, // xor edi, edi
		0x83, 0xf8, 0xda, // cmp eax, -ENOSYS
		0x40, 0x0f, 0x95, 0xc7, // setne dil
		0xb8, 231, 0, 0, 0, // mov eax, 231 (exit_group)
		0x0f, 0x05, // syscall
	}
	const base, headers = 0x400000, 64 + 56
	le := binary.LittleEndian
	elf := append([]byte("\x7fELF\x02\x01\x01"), make([]byte, 9)...)
	elf = le.AppendUint16(elf, 2)                        // executable
	elf = le.AppendUint16(elf, 62)                       // x86-64
	elf = le.AppendUint32(elf, 1)                        // version
	elf = le.AppendUint64(elf, base+headers)             // entry
	elf = le.AppendUint64(elf, 64)                       // program headers
	elf = le.AppendUint64(elf, 0)                        // no section headers
	elf = le.AppendUint32(elf, 0)                        // flags
	for _, half := range []uint16{64, 56, 1, 64, 0, 0} { // sizes and counts of headers
		elf = le.AppendUint16(elf, half)
	}
	elf = le.AppendUint32(elf, 1) // load
	elf = le.AppendUint32(elf, 5) // read and execute
	size := uint64(headers + len(code))
	for _, word := range []uint64{0, base, base, size, size, 4096} {
		elf = le.AppendUint64(elf, word)
	}
	elf = append(elf, code...)

	fd, err := unix.MemfdCreate("i386", 0)
	if err != nil {
		t.Fatal(err)
	}
	writable := os.NewFile(uintptr(fd), "i386")
	defer writable.Close()
	if _, err := writable.Write(elf); err != nil {
		t.Fatal(err)
	}
	if err := writable.Chmod(0o755); err != nil {
		t.Fatal(err)
	}
	// A file that is open for writing cannot be executed.
	file, err := os.Open(fmt.Sprintf("/proc/self/fd/%d", fd))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	cmd := exec.Command("/proc/self/fd/3")
	cmd.ExtraFiles = []*os.File{file}
	return cmd
}
