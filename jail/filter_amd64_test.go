package jail

import "golang.org/x/sys/unix"

const nativeAuditArch = unix.AUDIT_ARCH_X86_64
