package agent

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/tolbooth-dev/tolbooth/agent/api"
)

// decodeJSON reads one JSON document. Unknown members, members given twice, text that is not UTF-8 and anything after
// the document are refused, and the problem names the field.
func decodeJSON(body []byte, into any) error {
	if len(body) == 0 {
		return refuse(api.ClassInvalid, "", "the body is empty; a JSON object is needed")
	}
	if len(body) > bigBody {
		if err := boundTokens(body); err != nil {
			return err
		}
	}
	err := json.Unmarshal(body, into, json.RejectUnknownMembers(true))
	if err == nil {
		return nil
	}
	if syntax, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		field := fieldOf(syntax.JSONPointer)
		if errors.Is(err, jsontext.ErrDuplicateName) {
			return refuse(api.ClassInvalid, field, "is given twice")
		}
		return refuse(api.ClassInvalid, field, "the body is not valid JSON: %.128s at byte %d", strings.TrimPrefix(syntax.Err.Error(), "jsontext: "), syntax.ByteOffset)
	}
	if semantic, ok := errors.AsType[*json.SemanticError](err); ok {
		return describe(semantic)
	}
	return refuse(api.ClassInvalid, "", "the body cannot be read: %.200s", err)
}

// A small JSON value takes some twenty times its text once it is decoded, so a large body may not consist of small values: a
// request of maxFiles files with every field has under 110,000 tokens.
const (
	bigBody   = 1 << 20
	maxTokens = 250_000
)

// boundTokens refuses a body of too many values before any of it is decoded.
func boundTokens(body []byte) error {
	d := jsontext.NewDecoder(bytes.NewBuffer(body), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	for range maxTokens {
		if _, err := d.ReadToken(); err != nil {
			return nil // its end, or an error that decoding words with the field
		}
	}
	return refuse(api.ClassTooLarge, "", "the body consists of more than %d values", maxTokens).
		hint("send many files as one archive, and unpack it in the job")
}

func describe(e *json.SemanticError) *problem {
	field := fieldOf(e.JSONPointer)
	switch {
	case errors.Is(e.Err, json.ErrUnknownName):
		return refuse(api.ClassInvalid, field, "there is no such field").hint("GET /openapi.yaml describes every field; unknown ones are never ignored")
	case errors.Is(e.Err, strconv.ErrRange):
		return refuse(api.ClassInvalid, field, "the number is out of range")
	case e.GoType == reflect.TypeFor[api.Duration]() && e.JSONKind != '"':
		return refuse(api.ClassInvalid, field, "must be %s, not %s", shape(e.GoType), kindName(e.JSONKind))
	case e.Err != nil && !errors.Is(e.Err, strconv.ErrSyntax):
		return refuse(api.ClassInvalid, field, "%.200s", e.Err)
	case field == "":
		return refuse(api.ClassInvalid, "", "the body must be %s", shape(e.GoType))
	case e.JSONKind == '0' && shape(e.GoType) == wholeNumbers:
		return refuse(api.ClassInvalid, field, "must be %s, written in digits alone", wholeNumbers)
	}
	return refuse(api.ClassInvalid, field, "must be %s, not %s", shape(e.GoType), kindName(e.JSONKind))
}

const wholeNumbers = "a whole number"

// shape says which JSON a Go type is written as.
func shape(t reflect.Type) string {
	if t == nil {
		return "something else"
	}
	switch t {
	case reflect.TypeFor[api.Duration]():
		return `a duration such as "1.5s"`
	case reflect.TypeFor[api.Quantity]():
		return `a quantity such as "256Mi"`
	}
	switch t.Kind() {
	case reflect.Pointer:
		return shape(t.Elem())
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "a string"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return wholeNumbers
	default:
		return "an object"
	}
}

func kindName(k jsontext.Kind) string {
	switch k {
	case '"':
		return "a string"
	case '0':
		return "a number"
	case 't', 'f':
		return "true or false"
	case '{':
		return "an object"
	case '[':
		return "a list"
	case 'n':
		return "null"
	}
	return "that"
}

// fieldOf writes a JSON pointer as people write a field: network.allow[0].
func fieldOf(p jsontext.Pointer) string {
	var b strings.Builder
	for token := range p.Tokens() {
		if _, err := strconv.ParseUint(token, 10, 31); err == nil {
			fmt.Fprintf(&b, "[%s]", token)
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('.')
		}
		if strings.ContainsFunc(token, func(r rune) bool { return r < ' ' || r == 0x7f }) || len(token) > 128 {
			token = quoted(token)
		}
		b.WriteString(token)
		if b.Len() > 512 {
			break
		}
	}
	return b.String()
}

// encodeJSON writes a value of ours. Names that a jailed program chose need not be UTF-8; their odd bytes become U+FFFD
// rather than an error.
func encodeJSON(v any) ([]byte, error) {
	return json.Marshal(v, json.Deterministic(true), jsontext.AllowInvalidUTF8(true))
}
