#!/bin/bash
# Hook of mmdebstrap: fetch the kernel that a meta package names, keep its modules in the root.
#
#   fetch-kernel.sh ROOT META-PACKAGE WORK
#
# Leaves WORK/kernel and WORK/release.
set -euo pipefail
root=$1 meta=$2 work=$3
package=$(chroot "$root" apt-cache depends "$meta" | awk '/Depends: linux-image/ {print $2; exit}')
[ -n "$package" ] || { echo "no kernel behind $meta" >&2; exit 1; }
release=${package#linux-image-}
(cd "$root/tmp" && chroot "$root" sh -c 'cd /tmp && apt-get -q -o APT::Sandbox::User=root download "$1"' sh "$package" >&2)
dpkg-deb -x "$root"/tmp/linux-image-*.deb "$work/unpacked"
rm -f "$root"/tmp/linux-image-*.deb

modules=$work/unpacked/lib/modules/$release
[ -d "$modules" ] || modules=$work/unpacked/usr/lib/modules/$release
# What a node without hardware can load. A test that wants more says so by failing.
mkdir -p "$root/usr/lib/modules/$release/kernel"
cp "$modules"/modules.{builtin,builtin.modinfo,order} "$root/usr/lib/modules/$release/"
for part in arch crypto fs lib net drivers/block drivers/char drivers/net drivers/virtio; do
  [ -d "$modules/kernel/$part" ] || continue
  mkdir -p "$root/usr/lib/modules/$release/kernel/$(dirname "$part")"
  cp -r "$modules/kernel/$part" "$root/usr/lib/modules/$release/kernel/$(dirname "$part")/"
done
rm -rf "$root/usr/lib/modules/$release/kernel/drivers/net"/{wireless,ethernet,usb,can,wwan,phy,fddi,hamradio}
rm -rf "$root/usr/lib/modules/$release/kernel/net"/{bluetooth,mac80211,wireless,can,nfc}
depmod -b "$root" "$release"

echo "$release" >"$work/release"
"$(dirname "$0")/unpack-kernel.sh" "$work/unpacked/boot/vmlinuz-$release" "$work/kernel"
rm -rf "$work/unpacked"
