package netns

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// writeTable replaces the instance's table in one transaction. Package bpf is the authority on what a jail may send; these
// rules masquerade what leaves the node, and hold by themselves that jails reach neither the node nor each other, and that
// nobody opens a connection to them.
func (m *Manager) writeTable() error {
	return m.inNode(func() error {
		c, err := nftables.New()
		if err != nil {
			return fmt.Errorf("open nftables: %w", err)
		}
		table := &nftables.Table{Family: nftables.TableFamilyINet, Name: m.table()}
		c.AddTable(table) // so that there is one to delete
		c.DelTable(table)
		table = c.AddTable(table)

		post := c.AddChain(&nftables.Chain{
			Name: "postrouting", Table: table, Type: nftables.ChainTypeNAT,
			Hooknum: nftables.ChainHookPostrouting, Priority: nftables.ChainPriorityNATSource,
		})
		for _, pool := range m.Pools() {
			c.AddRule(&nftables.Rule{Table: table, Chain: post, Exprs: slices.Concat(
				sourceIn(pool), device(expr.MetaKeyOIFNAME, expr.CmpOpNeq, m.prefix()), []expr.Any{&expr.Masq{}},
			)})
		}

		forward := c.AddChain(&nftables.Chain{
			Name: "forward", Table: table, Type: nftables.ChainTypeFilter,
			Hooknum: nftables.ChainHookForward, Priority: nftables.ChainPriorityFilter,
		})
		drop := []expr.Any{&expr.Verdict{Kind: expr.VerdictDrop}}
		c.AddRule(&nftables.Rule{Table: table, Chain: forward, Exprs: slices.Concat(
			device(expr.MetaKeyIIFNAME, expr.CmpOpEq, m.prefix()), device(expr.MetaKeyOIFNAME, expr.CmpOpEq, m.prefix()), drop,
		)})
		c.AddRule(&nftables.Rule{Table: table, Chain: forward, Exprs: slices.Concat(
			device(expr.MetaKeyOIFNAME, expr.CmpOpEq, m.prefix()), notEstablished(), drop,
		)})

		input := c.AddChain(&nftables.Chain{
			Name: "input", Table: table, Type: nftables.ChainTypeFilter,
			Hooknum: nftables.ChainHookInput, Priority: nftables.ChainPriorityFilter,
		})
		c.AddRule(&nftables.Rule{Table: table, Chain: input, Exprs: slices.Concat(
			device(expr.MetaKeyIIFNAME, expr.CmpOpEq, m.prefix()), drop,
		)})
		if err := c.Flush(); err != nil {
			return fmt.Errorf("write nftables table %s: %w", m.table(), err)
		}
		return nil
	})
}

func (m *Manager) deleteTable() error {
	return m.inNode(func() error {
		c, err := nftables.New()
		if err != nil {
			return fmt.Errorf("open nftables: %w", err)
		}
		c.DelTable(&nftables.Table{Family: nftables.TableFamilyINet, Name: m.table()})
		if err := c.Flush(); err != nil && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("delete nftables table %s: %w", m.table(), err)
		}
		return nil
	})
}

// blockingChains looks for forward chains of others that drop by default: an accept in our table does not overrule them.
func (m *Manager) blockingChains() ([]Problem, error) {
	var problems []Problem
	err := m.inNode(func() error {
		c, err := nftables.New()
		if err != nil {
			return fmt.Errorf("open nftables: %w", err)
		}
		chains, err := c.ListChains()
		if err != nil {
			return fmt.Errorf("list nftables chains: %w", err)
		}
		for _, chain := range chains {
			if chain.Hooknum == nil || chain.Policy == nil || *chain.Hooknum != *nftables.ChainHookForward ||
				*chain.Policy != nftables.ChainPolicyDrop || chain.Table.Name == m.table() {
				continue
			}
			problems = append(problems, Problem{
				What: "jobs may not reach the network",
				Why:  fmt.Sprintf("chain %s of nftables table %s drops forwarded packets by default", chain.Name, chain.Table.Name),
				Fix:  fmt.Sprintf("accept packets from and to devices named %s* there", m.prefix()),
			})
		}
		return nil
	})
	return problems, err
}

// device matches the beginning of a device name.
func device(key expr.MetaKey, op expr.CmpOp, prefix string) []expr.Any {
	return []expr.Any{
		&expr.Meta{Key: key, Register: 1},
		&expr.Cmp{Op: op, Register: 1, Data: []byte(prefix)}, // no closing zero: a prefix
	}
}

func sourceIn(pool netip.Prefix) []expr.Any {
	family, offset, size := byte(unix.NFPROTO_IPV4), uint32(12), uint32(4)
	if pool.Addr().Is6() {
		family, offset, size = unix.NFPROTO_IPV6, 8, 16
	}
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyNFPROTO, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{family}},
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: size},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: size, Mask: mask(pool), Xor: make([]byte, size)},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: pool.Addr().AsSlice()},
	}
}

func mask(pool netip.Prefix) []byte {
	out := make([]byte, pool.Addr().BitLen()/8)
	for i := range pool.Bits() {
		out[i/8] |= 0x80 >> (i % 8)
	}
	return out
}

func notEstablished() []expr.Any {
	wanted := expr.CtStateBitESTABLISHED | expr.CtStateBitRELATED
	return []expr.Any{
		&expr.Ct{Key: expr.CtKeySTATE, Register: 1},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 4, Mask: binaryutil.NativeEndian.PutUint32(wanted), Xor: make([]byte, 4)},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: make([]byte, 4)},
	}
}
