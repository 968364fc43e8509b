package agent

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestSocketIsOursAlone(t *testing.T) {
	w := start(t, nil)
	info, err := os.Stat(w.cfg.Socket)
	if err != nil || info.Mode().Perm() != 0o660 {
		t.Errorf("%v %v", info.Mode(), err)
	}
	if _, _, err := listenUnix(w.cfg.Socket, -1); err == nil || !strings.Contains(err.Error(), "another agent") {
		t.Errorf("a second agent took the socket: %v", err)
	}
	if w.do("GET", "/health", "").status != 200 {
		t.Error("the first agent is gone")
	}
}

func TestStaleSocketIsReplaced(t *testing.T) {
	cfg := testConfig(t)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: cfg.Socket, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
	if startConfig(t, cfg).do("GET", "/health", "").status != 200 {
		t.Error("not served")
	}
}

func TestSocketOfAnotherIsLeft(t *testing.T) {
	cfg := testConfig(t)
	if err := os.WriteFile(cfg.Socket, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := listenUnix(cfg.Socket, -1); err == nil || !strings.Contains(err.Error(), "is no socket") {
		t.Error(err)
	}
	os.Remove(cfg.Socket)

	w := startConfig(t, cfg)
	if err := os.Rename(cfg.Socket, cfg.Socket+".old"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(cfg.Socket, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	w.signals <- syscall.SIGTERM
	if err := <-w.ended; err != nil {
		t.Error(err)
	}
	w.ended = nil
	if _, err := os.Lstat(cfg.Socket); err != nil {
		t.Error("the agent removed what was not its own: ", err)
	}
}

func TestPeerIsKnown(t *testing.T) {
	w := start(t, nil)
	w.post(`{"command":["print"]}`)
	if want := fmt.Sprintf("uid=%d gid=%d pid=%d", os.Geteuid(), os.Getegid(), os.Getpid()); !strings.Contains(w.log.String(), want) {
		t.Errorf("the log lacks %s", want)
	}
	if gid, err := lookupGroup("root"); err != nil || gid != 0 {
		t.Error(gid, err)
	}
	if gid, err := lookupGroup("1234"); err != nil || gid != 1234 {
		t.Error(gid, err)
	}
	if _, err := lookupGroup("no-such-group"); err == nil {
		t.Error("a group that does not exist")
	}
}

func TestStrangerIsRefused(t *testing.T) {
	w := start(t, nil)
	handler := w.server.http.Handler
	rec := func(p peer, path string) int {
		c, s := net.Pipe()
		defer c.Close()
		defer s.Close()
		req, _ := http.NewRequest("GET", path, nil)
		rw := newRecorder()
		handler.ServeHTTP(rw, req.WithContext(contextWithPeer(t, p)))
		return rw.status
	}
	stranger := peer{unix: true, uid: 4711, refused: "it is neither root nor the agent's user nor in the socket's group"}
	if got := rec(stranger, "/v1/jobs"); got != 403 {
		t.Error(got)
	}
	if got := rec(stranger, "/metrics"); got != 403 {
		t.Error(got)
	}
	if got := rec(stranger, "/health"); got != 200 {
		t.Error(got)
	}
}

const testToken = "0123456789abcdef0123456789abcdef"

func TestTCPNeedsItsToken(t *testing.T) {
	w := start(t, func(c *Config) { c.Listen, c.Token = "127.0.0.1:0", testToken })
	w.client = &http.Client{}
	w.base = "http://" + w.server.listeners[1].Addr().String()
	if r := w.do("GET", "/health", ""); r.status != 200 {
		t.Errorf("%d", r.status)
	}
	for _, header := range []string{"", "Bearer", "Bearer wrong", "Bearer " + testToken + "x", "Basic " + testToken, testToken, "Bearer  " + testToken} {
		for _, path := range []string{"/v1/jobs", "/metrics", "/openapi.yaml", "/nothing"} {
			req, err := http.NewRequest("GET", w.base+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Authorization", header)
			resp, err := w.client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if resp.StatusCode != 401 || resp.Header.Get("WWW-Authenticate") == "" {
				t.Errorf("%q on %s: %d", header, path, resp.StatusCode)
			}
		}
	}
	w.problem(w.do("POST", "/health", "{}"), "unauthorized", "")
	req, err := http.NewRequest("GET", w.base+"/v1/jobs", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "bearer "+testToken)
	resp, err := w.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 200 {
		t.Error(resp.StatusCode)
	}
	if strings.Contains(w.log.String(), testToken) {
		t.Error("the log shows the token")
	}
}

func TestMutualTLS(t *testing.T) {
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	pair := selfSigned(t, cert, key)
	w := start(t, func(c *Config) {
		c.Listen, c.Token, c.TLSCert, c.TLSKey, c.TLSClientCA = "127.0.0.1:0", testToken, cert, key, cert
	})
	pool := x509.NewCertPool()
	pool.AddCert(pair.Leaf)
	get := func(path string, certs ...tls.Certificate) int {
		t.Helper()
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, ServerName: "localhost", Certificates: certs}}}
		defer client.CloseIdleConnections()
		req, err := http.NewRequest("GET", "https://"+w.server.listeners[1].Addr().String()+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+testToken)
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	if got := get("/health"); got != 200 {
		t.Errorf("health without a certificate: %d", got)
	}
	if got := get("/v1/jobs"); got != 401 {
		t.Errorf("jobs without a certificate: %d", got)
	}
	if got := get("/v1/jobs", pair); got != 200 {
		t.Errorf("jobs with a certificate: %d", got)
	}
}

func selfSigned(t *testing.T, certFile, keyFile string) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "t"}, DNSNames: []string{"localhost"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for path, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: der}, keyFile: {Type: "PRIVATE KEY", Bytes: keyDER}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

func TestConnectionsAreBounded(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := newLimitListener(inner, 1)
	dial := func() net.Conn {
		t.Helper()
		c, err := net.Dial("tcp", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	dial()
	first, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	dial()
	second := make(chan error, 1)
	go func() {
		c, err := l.Accept()
		if err == nil {
			c.Close()
		}
		second <- err
	}()
	select {
	case <-second:
		t.Fatal("two at once")
	case <-time.After(30 * time.Millisecond):
	}
	first.Close()
	first.Close()
	if err := <-second; err != nil {
		t.Error(err)
	}
	l.slots <- struct{}{}
	go l.Close()
	if _, err := l.Accept(); err == nil {
		t.Error("accepted after the end")
	}
}
