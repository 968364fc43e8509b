package cowfs

import (
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// From linux/fs.h, linux/quota.h and linux/dqblk_xfs.h; x/sys has none of it.
const (
	getXattr       = 0x801c581f // FS_IOC_FSGETXATTR
	setXattr       = 0x401c5820 // FS_IOC_FSSETXATTR
	inheritProject = 1 << 9     // FS_XFLAG_PROJINHERIT

	getProjectQuota = 0x800007<<8 | 2 // QCMD(Q_GETQUOTA, PRJQUOTA)
	setProjectQuota = 0x800008<<8 | 2 // QCMD(Q_SETQUOTA, PRJQUOTA); xfs takes it too
	validLimits     = 1<<0 | 1<<2     // QIF_BLIMITS, QIF_ILIMITS
	quotaBlock      = 1024
)

// fileAttributes is struct fsxattr.
type fileAttributes struct {
	flags, extentSize, extents, project, copyExtentSize uint32
	_                                                   [8]byte
}

// quotaRecord is struct if_dqblk: limits in blocks of 1 KiB, use in bytes.
type quotaRecord struct {
	blockHard, blockSoft, bytes, inodeHard, inodeSoft, inodes, blockTime, inodeTime uint64
	valid                                                                           uint32
	_                                                                               uint32
}

// setProject puts a directory, and whatever is made below it from now on, into a project.
func setProject(dir *os.File, id uint32) error {
	var attr fileAttributes
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, dir.Fd(), getXattr, uintptr(unsafe.Pointer(&attr))); errno != 0 {
		return fmt.Errorf("ioctl FS_IOC_FSGETXATTR: %w", errno)
	}
	attr.project, attr.flags = id, attr.flags|inheritProject
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, dir.Fd(), setXattr, uintptr(unsafe.Pointer(&attr))); errno != 0 {
		return fmt.Errorf("ioctl FS_IOC_FSSETXATTR: %w", errno)
	}
	return nil
}

// setProjectLimits sets the hard limits of a project on the file system that on lies on; zero: none.
func setProjectLimits(on *os.File, id uint32, limit Space) error {
	rec := quotaRecord{blockHard: uint64(limit.Bytes+quotaBlock-1) / quotaBlock, inodeHard: uint64(limit.Inodes), valid: validLimits}
	if errno := quotactl(on, setProjectQuota, id, &rec); errno != 0 {
		return fmt.Errorf("quotactl_fd Q_SETQUOTA of project %d: %w", id, errno)
	}
	return nil
}

// projectUse is what a project holds. One that the file system has never heard of holds nothing.
func projectUse(on *os.File, id uint32) (Space, error) {
	var rec quotaRecord
	errno := quotactl(on, getProjectQuota, id, &rec)
	if errno != 0 && errno != unix.ENOENT {
		return Space{}, fmt.Errorf("quotactl_fd Q_GETQUOTA of project %d: %w", id, errno)
	}
	return Space{int64(rec.bytes), int64(rec.inodes)}, nil
}

func quotactl(on *os.File, cmd uintptr, id uint32, rec *quotaRecord) unix.Errno {
	_, _, errno := unix.Syscall6(unix.SYS_QUOTACTL_FD, on.Fd(), cmd, uintptr(id), uintptr(unsafe.Pointer(rec)), 0, 0)
	return errno
}
