package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// ErrNotConfigured is what every call of a client without a URL answers: a missing sandbox is an error at the first
// call, not a feature that silently is not there.
var ErrNotConfigured = errors.New("no sandbox: SANDBOX_MANAGER_URL is empty; set it to unix:///run/tolbooth/tolbooth.sock or http(s)://host:port of a tolbooth agent")

// Client calls one agent.
type Client struct {
	base     string // scheme and authority of every request, without a trailing slash
	name     string // what the caller calls the agent, for errors
	token    string
	http     *http.Client
	err      error // set when the URL is unusable; every call answers it
	attempts int   // how often a call is sent while the agent answers 429 or 503
}

// New makes a client for the agent at rawURL: unix:///path, http://host:port or https://host:port. Token is the bearer
// token of the TCP listener; empty sends none. New does no I/O: what is wrong with rawURL is the error of every call.
func New(rawURL, token string) *Client {
	c := &Client{name: rawURL, token: token, attempts: 1}
	transport := &http.Transport{
		MaxIdleConnsPerHost: 16,
		IdleConnTimeout:     time.Minute,
		DisableCompression:  true,
	}
	c.http = &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	if rawURL == "" {
		c.err = ErrNotConfigured
		return c
	}
	u, err := url.Parse(rawURL)
	if err != nil {
		c.err = errors.New("sandbox URL: not a URL; want unix:///path or http(s)://host:port") // the cause repeats it, and with it a password
		return c
	}
	switch {
	case u.Scheme == "unix" && u.Host == "" && strings.HasPrefix(u.Path, "/"):
		c.base = "http://tolbooth"
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", u.Path)
		}
	case (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && u.User == nil:
		c.base = u.Scheme + "://" + u.Host + strings.TrimSuffix(u.EscapedPath(), "/")
	default:
		c.err = fmt.Errorf("sandbox URL %.128q: want unix:///path or http(s)://host:port", u.Redacted())
	}
	return c
}

// Retrying is the same client, but a call that the agent refuses with 429 or 503 is sent again after the time the answer
// names, up to attempts times in all. Both are answered before a job is admitted, so nothing runs twice.
func (c *Client) Retrying(attempts int) *Client {
	d := *c
	d.attempts = max(attempts, 1)
	return &d
}

// Close drops idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }
