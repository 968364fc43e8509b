// Command image packs tolbooth as an OCI image archive, without a container engine and without a registry: a small Debian
// root made by mmdebstrap and, in a layer of its own, the binaries.
//
// It owns the archive's layout, labels and entry point, and a cache of the root layer under a hash of what goes into it.
// It never pushes, pulls or starts anything. `make image` calls it; it needs mmdebstrap and, for mmdebstrap, root or user
// namespaces. The same packages and binaries give the same digest: entries are in order, nothing carries the time of
// the build, and what package scripts leave behind (logs, caches, identifiers) is dropped.
//
// The archive is an OCI image layout in a tar file: `ctr images import`, `podman load`, `skopeo copy oci-archive:` and
// `docker load` (25 and later) read it.
package main
