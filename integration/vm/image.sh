#!/bin/bash
# Make the guest for one kernel: root image, kernel and initrd. Prints the directory that holds them.
#
#   integration/vm/image.sh 6.1
#
# The directory is cached under a hash of everything that goes into it, so a second call costs nothing.
# Debian's kernel is fetched inside the new root, by that root's own apt: the host's apt, its lists and
# its lock are not used.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
kernel=${1:?usage: image.sh KERNEL}
cache=${TOLBOOTH_VM_DIR:-${HOME:?}/.cache/tolbooth-vm}
log() { printf 'vm image: %s\n' "$*" >&2; }
die() { log "$*"; exit 1; }

package=$(awk -v k="$kernel" '$1==k {print $2}' "$here/kernels.txt")
[ -n "$package" ] || die "kernel $kernel is not in integration/vm/kernels.txt"

key=$(cd "$here" && { echo "$kernel $package"; cat image.sh fetch-kernel.sh unpack-kernel.sh initrd.sh initrd-init guest-init guest-packages.txt; } | sha256sum | cut -c1-16)
out=$cache/$kernel-$key
mkdir -p "$cache"
# One builder at a time; a second one finds the finished image.
exec 9>"$cache/lock"
flock 9
[ -e "$out/complete" ] && { echo "$out"; exit 0; }

[ "$(id -u)" = 0 ] || die "building the image needs root (file owners and device nodes of a Debian root)"
for tool in mmdebstrap mke2fs cpio xz zstd modprobe depmod busybox; do
  command -v "$tool" >/dev/null || die "$tool is missing: make deps"
done

work=$(mktemp -d "$cache/build.XXXXXX")
trap 'rm -rf --one-file-system "$work"' EXIT
started=$SECONDS
log "Debian 12 root with kernel $kernel into $out (once)"
include=$(sed 's/#.*//' "$here/guest-packages.txt" | xargs | tr ' ' ,)
# The kernel package is unpacked, not installed: its scripts would build an initramfs that nothing boots.
nice mmdebstrap --quiet --mode=root --variant=minbase --format=directory \
  --aptopt='Acquire::Languages "none"' --aptopt='Acquire::Retries "5"' \
  --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/doc/*' \
  --dpkgopt='path-exclude=/usr/share/locale/*' \
  --include="$include" \
  --customize-hook="'$here/fetch-kernel.sh' \"\$1\" '$package' '$work'" \
  bookworm "$work/root" </dev/null >&2

release=$(cat "$work/release")
install -D -m 755 "$here/guest-init" "$work/root/sbin/tolbooth-guest-init"
mkdir -p "$work/root/mnt/src" "$work/root/mnt/job"
echo tolbooth-vm >"$work/root/etc/hostname"
printf '127.0.0.1 localhost tolbooth-vm\n::1 localhost\n' >"$work/root/etc/hosts"
"$here/initrd.sh" "$work/root" "$release" "$work/initrd.img"

# Sparse: the size is what a test may write, not what the file takes.
nice mke2fs -q -t ext4 -L root -E lazy_itable_init=1,root_owner=0:0 -d "$work/root" "$work/root.img" 4G >&2

mkdir "$work/out"
mv "$work"/{root.img,initrd.img,kernel,release} "$work/out/"
touch "$work/out/complete"
# Older images of this kernel can no longer be asked for.
find "$cache" -mindepth 1 -maxdepth 1 -type d -name "$kernel-*" -exec rm -rf --one-file-system {} +
mv "$work/out" "$out"
log "done in $((SECONDS - started)) s, $(du -sh "$out" | cut -f1), kernel $release"
echo "$out"
