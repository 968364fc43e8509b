package bpf

// The generated Go and object files are committed, so that building needs no clang. Regenerate after a change in src/:
// needs clang 14 or later and libbpf's headers. bpfel serves every little-endian machine (amd64, arm64).
//go:generate go run github.com/cilium/ebpf/cmd/bpf2go -target bpfel -type addr -type rule -type mode -type hook -type policy -type rule_key -type reserved_key -type ports_key -type range -type ports -type pin_key -type pin -type binding -type veth -type slot -type tally -type recent_key -type recent -type flow_key -type flow -type frag_key -type frag -type event egress src/egress.c -- -O2 -g -Wall -Werror -mcpu=v3 -idirafter /usr/include/x86_64-linux-gnu -idirafter /usr/include/aarch64-linux-gnu
