package api

import (
	"fmt"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Quantity is an amount, in bytes unless a field says otherwise, written as a Kubernetes quantity: "512Mi", "1G".
// It is a whole number from 0 to MaxQuantity.
type Quantity int64

// MaxQuantity is 1 EiB: more is a mistake.
const MaxQuantity Quantity = 1 << 60

// quantityText is what is handed to the parser. It takes minutes and gigabytes for an exponent of ten digits
// ("1e2147483647"), so two digits are the most here.
var quantityText = regexp.MustCompile(`^[+-]?[0-9]{1,24}(\.[0-9]{0,24})?([eE][+-]?[0-9]{1,2}|[numkMGTPE]|[KMGTPE]i)?$`)

// ParseQuantity reads a Kubernetes quantity.
func ParseQuantity(s string) (Quantity, error) {
	if !quantityText.MatchString(s) {
		return 0, fmt.Errorf(`%.64q is not a quantity such as "256Mi" or "1G"`, s)
	}
	q, err := resource.ParseQuantity(s)
	if err != nil {
		return 0, fmt.Errorf(`%q is not a quantity such as "256Mi" or "1G"`, s)
	}
	if q.Sign() < 0 {
		return 0, fmt.Errorf("%q is negative", s)
	}
	if q.Cmp(*resource.NewQuantity(int64(MaxQuantity), resource.BinarySI)) > 0 {
		return 0, fmt.Errorf("%q is more than %s", s, MaxQuantity)
	}
	n, whole := q.AsInt64()
	if !whole {
		// Parsing rounds up to nano units at the least, so a fraction shows here and only here.
		n = q.Value()
		if q.Cmp(*resource.NewQuantity(n, resource.BinarySI)) != 0 {
			return 0, fmt.Errorf("%q is not a whole number", s)
		}
	}
	return Quantity(n), nil
}

// String is the canonical text: the shorter of the binary (Ki, Mi) and the decimal (k, M) form.
func (q Quantity) String() string {
	binary := resource.NewQuantity(int64(q), resource.BinarySI).String()
	decimal := resource.NewQuantity(int64(q), resource.DecimalSI).String()
	if len(decimal) < len(binary) {
		return decimal
	}
	return binary
}

// MarshalJSON writes the canonical text.
func (q Quantity) MarshalJSON() ([]byte, error) { return []byte(`"` + q.String() + `"`), nil }

// UnmarshalJSON accepts a quantity as text and, as Kubernetes does, a bare number. A null is no value, as in any field.
func (q *Quantity) UnmarshalJSON(b []byte) error {
	text := string(b)
	if text == "null" {
		return nil
	}
	if strings.HasPrefix(text, `"`) {
		text = strings.Trim(text, `"`)
	}
	v, err := ParseQuantity(text)
	if err != nil {
		return err
	}
	*q = v
	return nil
}
