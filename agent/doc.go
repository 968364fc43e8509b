// Package agent is the spine of tolbooth: it admits a job, takes it through its life and answers the API.
package agent
