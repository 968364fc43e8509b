package agent

import "testing"

func TestCeiling(t *testing.T) {
	c, err := newCeiling([]string{"10.0.0.0/8:443/tcp", "192.0.2.0/24", "[fd00::/8]:53", "api.example.com:443", "*.files.example.com:1-1000/tcp"})
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{
		"10.1.2.0/24:443/tcp":   true,
		"10.0.0.0/8:443/tcp":    true,
		"10.0.0.0/7:443/tcp":    false, // wider
		"10.1.2.3:443":          false, // UDP too
		"10.1.2.3:442-443/tcp":  false,
		"10.1.2.3":              false,
		"192.0.2.7":             true,
		"192.0.2.7:80/udp":      true,
		"192.0.3.7":             false,
		"[fd00::1]:53/udp":      true,
		"[fe00::1]:53/udp":      false,
		"0.0.0.0/0":             false,
		"[::/0]":                false,
		"[::ffff:10.1.2.3]:443": false, // is refused as a rule anyway
		"api.example.com:443":   true,
		"API.example.com.:443":  true,
		"api.example.com:80":    false,
		"x.api.example.com:443": false,

		"*.api.example.com:443":         false,
		"a.files.example.com:80/tcp":    true,
		"*.files.example.com:80/tcp":    true,
		"*.a.files.example.com:80/tcp":  true,
		"files.example.com:80/tcp":      false,
		"*.example.com:80/tcp":          false,
		"evilfiles.example.com:80/tcp":  false,
		"a.files.example.com:80":        false,
		"a.files.example.com:999-1001":  false,
		"a.files.example.com.evil:80":   false,
		"nonsense rule that is no rule": false,
	} {
		if got := c.permits(text); got != want {
			t.Errorf("%s: %t, want %t", text, got, want)
		}
	}
	if c.check("none", nil) != nil || c.check("open", nil) == nil || c.check("allow", []string{"192.0.2.1", "192.0.3.1"}) == nil || c.check("allow", []string{"192.0.2.1"}) != nil {
		t.Error("check")
	}
	var all ceiling
	if all.check("open", nil) != nil || all.check("allow", []string{"192.0.3.1"}) != nil {
		t.Error("a node without network.permit permits everything")
	}
}
