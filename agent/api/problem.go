package api

import "net/http"

// Problem is every error answer, as application/problem+json (RFC 9457). Class is what a program decides on; Detail and
// Hint are for people and models.
type Problem struct {
	Type         string `json:"type"` // a URN made of the class; it identifies, it does not resolve
	Title        string `json:"title"`
	Status       int    `json:"status"`
	Detail       string `json:"detail"`
	Class        string `json:"class"`
	Field        string `json:"field,omitzero"` // which part of the request: "limits.memory", "network.allow[0]"
	Hint         string `json:"hint,omitzero"`  // what to do about it
	RetryAfterMS int64  `json:"retry_after_ms,omitzero"`
}

// ProblemType is the media type of a Problem.
const ProblemType = "application/problem+json"

// The classes of problems.
const (
	ClassInvalid      = "invalid"
	ClassUnauthorized = "unauthorized"
	ClassForbidden    = "forbidden"
	ClassNotFound     = "not_found"
	ClassConflict     = "conflict"
	ClassTooLarge     = "too_large"
	ClassUnsupported  = "unsupported"
	ClassCapacity     = "capacity"
	ClassInternal     = "internal"
	ClassUnavailable  = "unavailable"
)

// Classes lists every class with its HTTP status and title, in order of status.
func Classes() []ClassInfo {
	return []ClassInfo{
		{ClassInvalid, http.StatusBadRequest, "The request is not valid"},
		{ClassUnauthorized, http.StatusUnauthorized, "The request carries no valid token"},
		{ClassForbidden, http.StatusForbidden, "This node does not permit that"},
		{ClassNotFound, http.StatusNotFound, "There is no such thing here"},
		{ClassConflict, http.StatusConflict, "The request does not fit the present state"},
		{ClassTooLarge, http.StatusRequestEntityTooLarge, "The request is too large"},
		{ClassUnsupported, http.StatusUnprocessableEntity, "This node cannot do that"},
		{ClassCapacity, http.StatusTooManyRequests, "The node is full"},
		{ClassInternal, http.StatusInternalServerError, "tolbooth failed"},
		{ClassUnavailable, http.StatusServiceUnavailable, "The node takes no jobs at present"},
	}
}

// ClassInfo is one class of problem.
type ClassInfo struct {
	Class  string
	Status int
	Title  string
}

// NewProblem fills in what follows from the class. A class that Classes does not list becomes internal.
func NewProblem(class, detail string) Problem {
	for _, c := range Classes() {
		if c.Class == class {
			return Problem{Type: "urn:tolbooth:problem:" + class, Title: c.Title, Status: c.Status, Class: class, Detail: detail}
		}
	}
	return NewProblem(ClassInternal, detail)
}
