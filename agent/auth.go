package agent

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"strings"

	"github.com/tolbooth-dev/tolbooth/agent/api"
)

// authorize says whether a request may go on: by the process on the unix socket, by the token (and the certificate, with
// mTLS) on TCP.
func (s *Server) authorize(r *http.Request) error {
	p := peerOf(r.Context())
	if p.unix {
		if p.refused != "" {
			s.log.Warn("connection refused", "peer", p, "why", p.refused)
			return refuse(api.ClassForbidden, "", "this process may not use the socket: %s", p.refused).
				hint("run it as root, or in the group that socket_group names")
		}
		return nil
	}
	if s.cfg.TLSClientCA != "" && (r.TLS == nil || len(r.TLS.VerifiedChains) == 0) {
		return refuse(api.ClassUnauthorized, "", "a client certificate of this node's CA is needed")
	}
	if !s.tokenMatches(r.Header.Get("Authorization")) {
		return refuse(api.ClassUnauthorized, "", "a valid token is needed").hint("send Authorization: Bearer with the node's SIDECAR_AUTH_TOKEN")
	}
	return nil
}

// tokenMatches compares hashes, so that neither length nor content of the token shows in the time it takes.
func (s *Server) tokenMatches(header string) bool {
	scheme, token, _ := strings.Cut(header, " ")
	got, want := sha256.Sum256([]byte(token)), sha256.Sum256([]byte(s.cfg.Token))
	same := subtle.ConstantTimeCompare(got[:], want[:]) == 1
	return same && strings.EqualFold(scheme, "Bearer") && s.cfg.Token != ""
}
