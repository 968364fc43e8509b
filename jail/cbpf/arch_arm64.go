package cbpf

// Native is AUDIT_ARCH_AARCH64, the machine's own calls (linux/audit.h).
const Native = 0xc00000b7
