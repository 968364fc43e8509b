package bpf

import (
	"errors"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/tolbooth-dev/tolbooth/internal/hosttest"
)

func TestLoadPassesTheVerifier(t *testing.T) {
	hosttest.Root(t)
	spec, err := loadEgress()
	if err != nil {
		t.Fatal(err)
	}
	var objects egressObjects
	err = spec.LoadAndAssign(&objects, &ebpf.CollectionOptions{
		Programs: ebpf.ProgramOptions{LogLevel: ebpf.LogLevelStats},
	})
	var refused *ebpf.VerifierError
	if errors.As(err, &refused) {
		t.Fatalf("%+v", refused)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer objects.Close()
	for _, p := range []*ebpf.Program{
		objects.TbConnect4, objects.TbConnect6, objects.TbSendmsg4, objects.TbSendmsg6, objects.TbFromJail, objects.TbToJail,
	} {
		info, err := p.Info()
		if err != nil {
			t.Fatal(err)
		}
		n, _ := info.VerifiedInstructions()
		t.Logf("%s: the verifier walked %d instructions", info.Name, n)
	}
}

func TestLoadAttachesOneProgramAHook(t *testing.T) {
	hosttest.Root(t)
	e := load(t, Options{})
	for range 3 {
		next, err := Load(Options{Cgroup: e.cgroup.Name()})
		if err != nil {
			t.Fatal(err)
		}
		if !next.Adopted() {
			t.Error("the maps were not taken over")
		}
		for _, h := range next.socketHooks() {
			ids, err := next.attachedPrograms(h.attach, h.name)
			if err != nil {
				t.Fatal(err)
			}
			if len(ids) != 1 {
				t.Errorf("%d programs at %s, want 1", len(ids), h.name)
			}
		}
		if err := next.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := e.Detach(); err != nil {
		t.Fatal(err)
	}
	if ids, _ := e.attachedPrograms(ebpf.AttachCGroupInet4Connect, "tb_connect4"); len(ids) != 0 {
		t.Errorf("%d programs left after Detach", len(ids))
	}
}
