#!/bin/bash
# Run the root and socket tests in a virtual machine with a stock Debian kernel (make test-vm).
#
#   integration/vm/run.sh [PACKAGE…]        default: all of integration/vm/packages.txt
#
# Plain emulation: no KVM, nothing of the host is touched, the guest has no network and its disk is thrown away.
# Environment: KERNEL (kernels.txt; default its first), TOLBOOTH_VM_DIR (cache), TOLBOOTH_VM_TIMEOUT (seconds, 1200),
# TOLBOOTH_VM_MEMORY (3G), TOLBOOTH_VM_VERBOSE=1, TOLBOOTH_SLOW_FACTOR (30).
# The exit code is the tests': 0 passed, 1 failed; 125 when the guest did not get to its end.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
repo=$(cd "$here/../.." && pwd)
kernel=${KERNEL:-$(awk '!/^#/ && NF {print $1; exit}' "$here/kernels.txt")}
command -v qemu-system-x86_64 >/dev/null || { echo "qemu-system-x86_64 is missing: make deps" >&2; exit 2; }

image=$("$here/image.sh" "$kernel")
# A stage of its own: two runs at a time must not replace each other's binaries.
job=$(mktemp -d) stage=$(mktemp -d)
qemu= reader=
# QEMU is a child of this script alone; ending it ends the guest and with it everything the tests made.
cleanup() {
  if [ -n "$qemu" ]; then kill "$qemu" 2>/dev/null && wait "$qemu" 2>/dev/null; fi
  if [ -n "$reader" ]; then kill "$reader" 2>/dev/null && wait "$reader" 2>/dev/null; fi
  rm -rf --one-file-system "$job" "$stage"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

"$here/build-tests.sh" "$stage" "$@"
{
  echo "TOLBOOTH_VM_LOGS=/mnt/job/logs"
  echo "TOLBOOTH_ALONE=1" # nothing else runs there: whatever is left over is the tests'
  echo "TOLBOOTH_VM_PACKAGES='$*'"
  for name in TOLBOOTH_VM_VERBOSE TOLBOOTH_SLOW_FACTOR; do
    [ -z "${!name:-}" ] || echo "$name=${!name}"
  done
} >"$job/env"

started=$SECONDS
mkfifo "$job/console"
# la57 off: five-level page tables only make every emulated walk longer. tsc=unstable, no_timer_check: emulated clocks
# drift and the kernel would spend its boot measuring them. The last option makes RCU fast: creating and removing
# namespaces and cgroups waits for it. A guest that locks up is to end by itself: softlockup_panic, panic=-1.
# One processor: with two, emulated in parallel, both were once seen to wait for the other's interrupt for good.
qemu-system-x86_64 -accel tcg,thread=multi,tb-size=512 -machine q35,usb=off -cpu max,-la57 -smp 1 -m "${TOLBOOTH_VM_MEMORY:-3G}" \
  -nodefaults -no-user-config -display none -vga none -no-reboot -serial "file:$job/serial" \
  -kernel "$image/kernel" -initrd "$image/initrd.img" \
  -append "console=ttyS0 quiet panic=-1 mitigations=off tsc=unstable no_timer_check random.trust_cpu=on net.ifnames=0 rcupdate.rcu_expedited=1 watchdog_thresh=60 softlockup_panic=1" \
  -drive "if=none,id=root,file=$image/root.img,format=raw,snapshot=on,cache=unsafe" -device virtio-blk-pci,drive=root \
  -fsdev "local,id=src,path=$stage,security_model=none,readonly=on,multidevs=remap" -device virtio-9p-pci,fsdev=src,mount_tag=src \
  -fsdev "local,id=job,path=$job,security_model=none" -device virtio-9p-pci,fsdev=job,mount_tag=job \
  -device virtio-serial-pci -chardev file,id=out,path=/dev/stdout,append=on -device virtserialport,chardev=out,name=tolbooth.out \
  -device virtio-rng-pci </dev/null >"$job/console" 2>"$job/qemu.log" &
qemu=$!
# The guest's output ends when QEMU ends. The clock is here and not in the guest, which may be stuck. In the background,
# since bash runs a trap only between commands, and `wait` is the one that a signal interrupts.
code=0
timeout "${TOLBOOTH_VM_TIMEOUT:-1200}" cat "$job/console" &
reader=$!
wait "$reader" || code=$?
reader=
if [ "$code" = 124 ]; then
  echo "VM $kernel: no end after ${TOLBOOTH_VM_TIMEOUT:-1200} s" >&2
  kill "$qemu" 2>/dev/null || true
fi
wait "$qemu" || true
qemu=

# What a failure needs, kept where the next run does not look.
rm -rf "$repo/build/vm-logs"
cp -r "$job/logs" "$repo/build/vm-logs" 2>/dev/null || mkdir -p "$repo/build/vm-logs"
cp "$job/serial" "$job/qemu.log" "$repo/build/vm-logs/" 2>/dev/null || true
if [ ! -s "$job/exit" ]; then
  echo "VM $kernel: the guest did not finish; its console ends with:" >&2
  tail -n 30 "$job/serial" "$job/qemu.log" >&2 || true
  exit 125
fi
echo "VM $kernel: $((SECONDS - started)) s from power on to off, logs in build/vm-logs"
exit "$(cat "$job/exit")"
