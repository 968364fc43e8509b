package bpf

// Ports is a range of ports (inclusive) and the protocols that it holds for.
type Ports struct {
	Low, High uint16
	Protocols Protocols
}

// MergePorts is what allow opens and deny does not close, as disjoint ranges in order.
func MergePorts(allow, deny []Ports) []Ports {
	var spans []span
	for _, p := range allow {
		spans = append(spans, span{p.Low, p.High, p.Protocols, 0})
	}
	for _, p := range deny {
		spans = append(spans, span{p.Low, p.High, 0, p.Protocols})
	}
	var out []Ports
	for _, s := range flatten(spans) {
		if s.allow != 0 {
			out = append(out, Ports{s.low, s.high, s.allow})
		}
	}
	return out
}
