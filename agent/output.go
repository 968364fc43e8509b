package agent

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/tolbooth-dev/tolbooth/agent/api"
	"github.com/tolbooth-dev/tolbooth/jail"
	"github.com/tolbooth-dev/tolbooth/jail/spool"
)

// collected is what one pass over a spool finds for the result.
type collected struct {
	Stdout, Stderr []byte
	Truncated      bool         // the spool holds more than the cap; what was never kept is in Exit
	Exit           *jail.Exit   // nil: no exit was recorded, so how the command ended is not known
	State          api.State    // the last one recorded
	Refusals       []api.Denial // the agent's own
	Calls          [][]byte     // the warden's records of refused calls
}

// collect reads a run's output from its spool, at most keep bytes of each stream. A spool that ends in rubbish gives
// what is before it, and the error.
func collect(path string, keep int64) (collected, error) {
	var c collected
	r, err := spool.Open(path)
	if err != nil {
		return c, err
	}
	defer r.Close()
	err = spool.Scan(r, func(rec spool.Record) error {
		switch rec.Kind {
		case spool.Stdout:
			c.Stdout = c.keep(c.Stdout, rec.Payload, keep)
		case spool.Stderr:
			c.Stderr = c.keep(c.Stderr, rec.Payload, keep)
		case spool.Denial:
			c.Calls = append(c.Calls, rec.Payload)
		case spool.Exit:
			c.Exit = &jail.Exit{}
			return json.Unmarshal(rec.Payload, c.Exit)
		case spool.State:
			var e api.StateEvent
			if err := json.Unmarshal(rec.Payload, &e); err != nil {
				return err
			}
			c.State = e.State
		case spool.Refusal:
			var d api.Denial
			if err := json.Unmarshal(rec.Payload, &d); err != nil {
				return err
			}
			c.Refusals = append(c.Refusals, d)
		}
		return nil
	})
	if err != nil {
		return c, fmt.Errorf("read the output: %w", err)
	}
	return c, nil
}

func (c *collected) keep(have, more []byte, most int64) []byte {
	if room := most - int64(len(have)); int64(len(more)) > room {
		c.Truncated = true
		more = more[:max(room, 0)]
	}
	return append(have, more...)
}

// fill puts the output into a result: as text when both streams are UTF-8, else both as base64. Where output was cut,
// the cut may have gone through a character; that character is dropped rather than everything turned into base64.
func (c *collected) fill(r *api.Result) {
	r.Truncated = r.Truncated || c.Truncated
	r.StdoutBytes, r.StderrBytes = max(r.StdoutBytes, int64(len(c.Stdout))), max(r.StderrBytes, int64(len(c.Stderr)))
	out, errs := c.Stdout, c.Stderr
	if r.Truncated {
		out, errs = wholeRunes(out), wholeRunes(errs)
	}
	if utf8.Valid(out) && utf8.Valid(errs) {
		r.Stdout, r.Stderr, r.Encoding = string(out), string(errs), "utf-8"
		return
	}
	encode := base64.StdEncoding.EncodeToString
	r.Stdout, r.Stderr, r.Encoding = encode(c.Stdout), encode(c.Stderr), "base64"
}

// wholeRunes drops an incomplete character at the end.
func wholeRunes(b []byte) []byte {
	for i := len(b) - 1; i >= 0 && i >= len(b)-utf8.UTFMax; i-- {
		if utf8.RuneStart(b[i]) {
			if !utf8.FullRune(b[i:]) {
				return b[:i]
			}
			break
		}
	}
	return b
}

// encodeBytes writes bytes as text where they are UTF-8, else as base64.
func encodeBytes(b []byte) (content, encoding string) {
	if utf8.Valid(b) {
		return string(b), "utf-8"
	}
	return base64.StdEncoding.EncodeToString(b), "base64"
}

// hasExit tells whether a spool holds the record of the command's end.
func hasExit(path string) (bool, error) {
	r, err := spool.Open(path)
	if err != nil {
		return false, err
	}
	defer r.Close()
	errFound := errors.New("found")
	err = spool.Scan(r, func(rec spool.Record) error {
		if rec.Kind == spool.Exit {
			return errFound
		}
		return nil
	})
	if errors.Is(err, errFound) {
		return true, nil
	}
	return false, err
}
