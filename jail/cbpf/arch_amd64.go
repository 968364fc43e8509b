package cbpf

// Native is AUDIT_ARCH_X86_64, the machine's own calls (linux/audit.h).
const Native = 0xc000003e
