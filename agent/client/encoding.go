package client

import (
	"encoding/base64"
	"fmt"
)

// Decode gives the bytes of a field that the API carries as text with an encoding beside it.
func Decode(text, encoding string) ([]byte, error) {
	switch encoding {
	case "", "utf-8":
		return []byte(text), nil
	case "base64":
		b, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return nil, fmt.Errorf("decode base64: %w", err)
		}
		return b, nil
	default:
		return nil, fmt.Errorf("unknown encoding %.32q", encoding)
	}
}
