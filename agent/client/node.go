package client

import (
	"context"
	"mime"
	"net/http"

	"github.com/tolbooth-dev/tolbooth/agent/api"
)

// Health answers the node's health. An agent that cannot run jobs answers with status 503 and says why in the same
// shape: that is a Health here, not an error.
func (c *Client) Health(ctx context.Context) (*api.Health, error) {
	if c.err != nil {
		return nil, c.err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+"/health", nil)
	if err != nil {
		return nil, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.unreached(err)
	}
	defer resp.Body.Close()
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	isHealth := kind == "application/json" &&
		(resp.StatusCode == http.StatusOK || resp.StatusCode == http.StatusServiceUnavailable)
	if !isHealth {
		return nil, readProblem(resp)
	}
	h := &api.Health{}
	if err := decode(resp, h); err != nil {
		return nil, err
	}
	return h, nil
}

// Node answers what the node can do, as the agent knows it.
func (c *Client) Node(ctx context.Context) (*api.Node, error) {
	n := &api.Node{}
	if err := c.call(ctx, http.MethodGet, "/v1/node", nil, nil, n); err != nil {
		return nil, err
	}
	return n, nil
}
