#!/bin/bash
# Make the initrd: a static busybox and the modules between the kernel and its root disk.
#
#   initrd.sh ROOT RELEASE OUT
#
# Not compressed: unpacking it would be emulated.
set -euo pipefail
root=$1 release=$2 out=$3
here=$(cd "$(dirname "$0")" && pwd)
tree=$(mktemp -d "$out.XXXXXX")
trap 'rm -rf --one-file-system "$tree"' EXIT
mkdir "$tree"/{bin,modules,dev,proc,sys,root}
cp "$(command -v busybox)" "$tree/bin/busybox"
install -m 755 "$here/initrd-init" "$tree/init"
: >"$tree/modules/order"
for module in virtio_pci virtio_blk virtio_console virtio_rng ext4 9p 9pnet_virtio; do
  # "insmod PATH" in the order of loading, or "builtin NAME".
  modprobe -d "$root" -S "$release" --show-depends "$module" | awk '$1=="insmod" {print $2}' | while read -r path; do
    name=$(basename "$path" .xz)
    grep -qx "$name" "$tree/modules/order" && continue
    case $path in
    *.xz) xz -dc "$path" >"$tree/modules/$name" ;;
    *) cp "$path" "$tree/modules/$name" ;;
    esac
    echo "$name" >>"$tree/modules/order"
  done
done
(cd "$tree" && find . | LC_ALL=C sort | cpio --quiet -o -H newc) >"$out"
