#!/bin/bash
# Run the root and socket tests in virtual machines with a stock Debian kernel (make test-vm).
#
#   integration/vm/run.sh [PACKAGE…]        default: all of the list
#
# Plain emulation: no KVM, nothing of the host is touched, the guests have no network and their disks are thrown away.
# Environment: KERNEL (kernels.txt; default its first), TOLBOOTH_VM_LIST (packages.txt), TOLBOOTH_VM_DIR (cache), TOLBOOTH_VM_GUESTS (2, which divide the
# packages among them), TOLBOOTH_VM_MEMORY (2G each), TOLBOOTH_VM_TIMEOUT (seconds, 1200), TOLBOOTH_VM_VERBOSE=1,
# TOLBOOTH_SLOW_FACTOR (30).
# The exit code: 0 passed, 1 failed; 125 when a guest did not get to its end.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
export TOLBOOTH_VM_LIST=${TOLBOOTH_VM_LIST:-packages.txt}
repo=$(cd "$here/../.." && pwd)
kernel=${KERNEL:-$(awk '!/^#/ && NF {print $1; exit}' "$here/kernels.txt")}
timeout=${TOLBOOTH_VM_TIMEOUT:-1200}
command -v qemu-system-x86_64 >/dev/null || { echo "qemu-system-x86_64 is missing: make deps" >&2; exit 2; }

image=$("$here/image.sh" "$kernel")
# A stage of its own: two runs at a time must not replace each other's binaries.
job=$(mktemp -d) stage=$(mktemp -d)
children=()
# The QEMUs are children of this script alone; ending one ends its guest and with it everything the tests made.
cleanup() {
  [ ${#children[@]} = 0 ] || { kill "${children[@]}" && wait "${children[@]}"; } 2>/dev/null || true
  rm -rf --one-file-system "$job" "$stage"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

"$here/build-tests.sh" "$stage" "$@"
mkdir "$job/queue"
{
  echo "TOLBOOTH_ALONE=1" # nothing else runs there: whatever is left over is the tests'
  echo "TOLBOOTH_VM_PACKAGES='$*'"
  for name in TOLBOOTH_VM_VERBOSE TOLBOOTH_SLOW_FACTOR; do
    [ -z "${!name:-}" ] || echo "$name=${!name}"
  done
} >"$job/env"

# boot starts guest N; what it prints goes to $job/N/console, a pipe that ends when QEMU ends.
#
# One processor each: with two, emulated in parallel, both were once seen to wait for the other's interrupt for good.
# la57 off: five-level page tables only make every emulated walk longer. tsc=unstable, no_timer_check: emulated clocks
# drift, and the kernel would spend its boot measuring them. rcu_expedited: creating and removing namespaces and cgroups
# waits for RCU. softlockup_panic, panic=-1: a guest that locks up is to end by itself.
boot() {
  local dir=$job/$1
  mkdir "$dir"
  mkfifo "$dir/console"
  qemu-system-x86_64 -accel tcg,tb-size=512 -machine q35,usb=off -cpu max,-la57 -smp 1 -m "${TOLBOOTH_VM_MEMORY:-2G}" \
    -nodefaults -no-user-config -display none -vga none -no-reboot -serial "file:$dir/serial" \
    -kernel "$image/kernel" -initrd "$image/initrd.img" \
    -append "console=ttyS0 quiet panic=-1 mitigations=off tsc=unstable no_timer_check random.trust_cpu=on net.ifnames=0 rcupdate.rcu_expedited=1 watchdog_thresh=60 softlockup_panic=1 TOLBOOTH_GUEST=$1" \
    -drive "if=none,id=root,file=$image/root.img,format=raw,snapshot=on,cache=unsafe" -device virtio-blk-pci,drive=root \
    -fsdev "local,id=src,path=$stage,security_model=none,readonly=on,multidevs=remap" -device virtio-9p-pci,fsdev=src,mount_tag=src \
    -fsdev "local,id=job,path=$job,security_model=none" -device virtio-9p-pci,fsdev=job,mount_tag=job \
    -device virtio-serial-pci -chardev file,id=out,path=/dev/stdout,append=on -device virtserialport,chardev=out,name=tolbooth.out \
    -device virtio-rng-pci </dev/null >"$dir/console" 2>"$dir/qemu.log" &
  children+=($!)
}

guests=${TOLBOOTH_VM_GUESTS:-2}
readers=()
for ((n = 1; n <= guests; n++)); do
  boot "$n"
  # The clock is here and not in the guest, which may be stuck.
  timeout "$timeout" sed -u "s/^/$n| /" "$job/$n/console" &
  readers+=($!)
  children+=($!)
done
# In the background and waited for, since bash runs a trap only between commands, and `wait` is the one that a signal
# interrupts.
for reader in "${readers[@]}"; do
  code=0
  wait "$reader" || code=$?
  if [ "$code" = 124 ]; then
    echo "VM $kernel: no end after $timeout s" >&2
    break
  fi
done
[ "$code" = 124 ] || wait
kill "${children[@]}" 2>/dev/null || true
wait
children=()

# What a failure needs, kept where the next run does not look.
logs=$repo/build/vm-logs
rm -rf "$logs"
mkdir -p "$logs"
passed=0 failed=0 skipped=0 lost=
for ((n = 1; n <= guests; n++)); do
  for file in serial qemu.log; do mv "$job/$n/$file" "$logs/$n-$file"; done
  find "$job/$n" -name '*.log' -exec mv {} "$logs/" \;
  cat "$job/$n/skips" >>"$logs/skips" 2>/dev/null || true
  if ! read -r p f s <"$job/$n/counts"; then
    echo "VM $kernel: guest $n did not finish; its console ends with:" >&2
    tail -n 30 "$logs/$n-serial" "$logs/$n-qemu.log" >&2
    lost=1
    continue
  fi
  passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
done
cut -f 1,2 "$logs/skips" | sort | uniq -c
[ -z "$lost" ] || failed=$((failed + 1))
echo "VM $kernel: $passed passed, $failed failed, $skipped skipped ($(cat "$image/release"), $guests guests, $SECONDS s, logs in build/vm-logs)"
[ -z "$lost" ] || exit 125
[ "$failed" = 0 ] && [ "$passed" != 0 ]
