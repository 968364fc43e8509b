package explain

import "golang.org/x/sys/unix"

// File types of a mode (linux/stat.h).
var fileTypes = []named{
	{unix.S_IFREG, "S_IFREG"},
	{unix.S_IFDIR, "S_IFDIR"},
	{unix.S_IFLNK, "S_IFLNK"},
	{unix.S_IFIFO, "S_IFIFO"},
	{unix.S_IFSOCK, "S_IFSOCK"},
	{unix.S_IFCHR, "S_IFCHR"},
	{unix.S_IFBLK, "S_IFBLK"},
}

// Flags of mount (linux/mount.h).
var mountFlags = []named{
	{unix.MS_REMOUNT, "MS_REMOUNT"},
	{unix.MS_BIND, "MS_BIND"},
	{unix.MS_MOVE, "MS_MOVE"},
	{unix.MS_REC, "MS_REC"},
	{unix.MS_PRIVATE, "MS_PRIVATE"},
	{unix.MS_SLAVE, "MS_SLAVE"},
	{unix.MS_SHARED, "MS_SHARED"},
	{unix.MS_UNBINDABLE, "MS_UNBINDABLE"},
	{unix.MS_RDONLY, "MS_RDONLY"},
	{unix.MS_NOSUID, "MS_NOSUID"},
	{unix.MS_NODEV, "MS_NODEV"},
	{unix.MS_NOEXEC, "MS_NOEXEC"},
	{unix.MS_NOATIME, "MS_NOATIME"},
	{unix.MS_RELATIME, "MS_RELATIME"},
	{unix.MS_STRICTATIME, "MS_STRICTATIME"},
	{unix.MS_NODIRATIME, "MS_NODIRATIME"},
	{unix.MS_SYNCHRONOUS, "MS_SYNCHRONOUS"},
	{unix.MS_DIRSYNC, "MS_DIRSYNC"},
	{unix.MS_SILENT, "MS_SILENT"},
}

// Flags of umount2 (linux/fs.h).
var umountFlags = []named{
	{unix.MNT_FORCE, "MNT_FORCE"},
	{unix.MNT_DETACH, "MNT_DETACH"},
	{unix.MNT_EXPIRE, "MNT_EXPIRE"},
	{unix.UMOUNT_NOFOLLOW, "UMOUNT_NOFOLLOW"},
}

// Flags of open_tree (linux/mount.h).
var openTreeFlags = []named{
	{unix.OPEN_TREE_CLONE, "OPEN_TREE_CLONE"},
	{unix.OPEN_TREE_CLOEXEC, "OPEN_TREE_CLOEXEC"},
	{unix.AT_RECURSIVE, "AT_RECURSIVE"},
	{unix.AT_EMPTY_PATH, "AT_EMPTY_PATH"},
	{unix.AT_SYMLINK_NOFOLLOW, "AT_SYMLINK_NOFOLLOW"},
	{unix.AT_NO_AUTOMOUNT, "AT_NO_AUTOMOUNT"},
}
