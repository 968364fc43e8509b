#!/bin/bash
# Take the ELF kernel out of a bzImage.
#
#   unpack-kernel.sh VMLINUZ OUT
#
# QEMU starts an ELF kernel at its PVH entry, which saves unpacking it in emulation (about 2 s of a 5 s boot). When
# there is none that QEMU could start, OUT is the bzImage itself.
set -euo pipefail
bz=$1 out=$2
# Documentation/arch/x86/boot.rst, "The real-mode kernel header": setup_sects (0: 4), payload_offset, payload_length.
number() { od -An -v -t "u$2" -j "$(($1))" -N "$2" "$bz" | tr -d ' '; }
sects=$(number 0x1f1 1)
[ "$sects" = 0 ] && sects=4
start=$(((sects + 1) * 512 + $(number 0x248 4)))
length=$(number 0x24c 4)
payload=$(mktemp "$out.XXXXXX")
trap 'rm -f "$payload"' EXIT
dd if="$bz" of="$payload" iflag=skip_bytes,count_bytes skip="$start" count="$length" bs=1M status=none
# The last four bytes of the payload are its unpacked size, which the unpackers call trailing garbage: their exit code
# says nothing, the ELF magic does.
case $(od -An -v -t x1 -N 4 "$payload" | tr -d ' ') in
fd377a58) xz -dc --single-stream "$payload" >"$out" 2>/dev/null || true ;;
28b52ffd) zstd -dcq "$payload" >"$out" 2>/dev/null || true ;;
02214c18) lz4 -dcq "$payload" >"$out" 2>/dev/null || true ;;
1f8b*) gzip -dcq "$payload" >"$out" 2>/dev/null || true ;;
*) : >"$out" ;;
esac
[ "$(od -An -v -t x1 -N 4 "$out" | tr -d ' ')" = 7f454c46 ] || cp "$bz" "$out"
