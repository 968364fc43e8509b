package api

import (
	"errors"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

var errStdin = errors.New(`must be text, or {"open": true}`)

// MarshalJSONTo writes the text, or {"open":true}.
func (s Stdin) MarshalJSONTo(enc *jsontext.Encoder) error {
	if s.Open {
		return json.MarshalEncode(enc, openStdin{Open: true})
	}
	return enc.WriteToken(jsontext.String(s.Text))
}

// UnmarshalJSONFrom reads a string, or an object with the one member "open".
func (s *Stdin) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	switch dec.PeekKind() {
	case '"':
		*s = Stdin{}
		return json.UnmarshalDecode(dec, &s.Text)
	case '{':
		var o openStdin
		if err := json.UnmarshalDecode(dec, &o); err != nil {
			return err
		}
		*s = Stdin{Open: o.Open}
		return nil
	default:
		if _, err := dec.ReadValue(); err != nil {
			return err
		}
		return errStdin
	}
}

type openStdin struct {
	Open bool `json:"open"`
}
