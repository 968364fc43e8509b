package agent

import (
	_ "embed"
	"fmt"
	"maps"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/tolbooth-dev/tolbooth/agent/api"
)

//go:embed openapi.yaml
var openAPI []byte

// handler answers one route. An error that it returns is answered as a problem; then it has written nothing.
type handler func(http.ResponseWriter, *http.Request) error

// routes lists the API: path, method, handler.
func (s *Server) routes() map[string]map[string]handler {
	return map[string]map[string]handler{
		"/health":               {"GET": s.getHealth},
		"/metrics":              {"GET": s.getMetrics},
		"/openapi.yaml":         {"GET": s.getOpenAPI},
		"/v1/node":              {"GET": s.getNode},
		"/v1/jobs":              {"GET": s.listJobs, "POST": s.postJob},
		"/v1/jobs/{id}":         {"GET": s.getJob, "DELETE": s.deleteJob},
		"/v1/jobs/{id}/events":  {"GET": s.events},
		"/v1/jobs/{id}/stdin":   {"POST": s.postStdin},
		"/v1/jobs/{id}/signal":  {"POST": s.postSignal},
		"/v1/jobs/{id}/network": {"PUT": s.putNetwork},
	}
}

// roomsToCome are parts of the API that this build refuses by name, whatever the method.
var roomsToCome = map[string]string{"sessions": "sessions", "workspaces": "the workspaces API", "plugins": "plugins"}

// newHandler puts the routes behind authority and the catch of panics.
func (s *Server) newHandler() http.Handler {
	mux := http.NewServeMux()
	for path, methods := range s.routes() {
		for method, h := range methods {
			mux.Handle(method+" "+path, s.serve(h))
		}
		mux.Handle(path, s.serve(wrongMethod(methods)))
	}
	for room, name := range roomsToCome {
		h := s.serve(s.notInThisBuild(name))
		mux.Handle("/v1/"+room, h)
		mux.Handle("/v1/"+room+"/{rest...}", h)
	}
	mux.Handle("/", s.serve(func(_ http.ResponseWriter, r *http.Request) error {
		return refuse(api.ClassNotFound, "", "there is no route %s", quoted(r.URL.Path)).hint("GET /openapi.yaml lists every route")
	}))
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w := &answering{ResponseWriter: rw}
		defer s.catch(w, r)
		s.log.Debug("request", "method", r.Method, "path", clip(r.URL.Path), "peer", peerOf(r.Context()))
		open := r.URL.Path == "/health" && (r.Method == http.MethodGet || r.Method == http.MethodHead)
		if !open {
			if err := s.authorize(r); err != nil {
				// The body is not read: what an unknown sender sends is not worth the time.
				w.Header().Set("Connection", "close")
				s.answerProblem(w, r, err)
				return
			}
		}
		if err := s.expectBody(w, r); err != nil {
			s.answerProblem(w, r, err)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

func (s *Server) serve(h handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := h(w, r); err != nil {
			s.answerProblem(w, r, err)
		}
	})
}

// answering knows whether an answer has begun.
type answering struct {
	http.ResponseWriter
	begun bool
}

func (a *answering) WriteHeader(status int) {
	a.begun = true
	a.ResponseWriter.WriteHeader(status)
}

func (a *answering) Write(p []byte) (int, error) {
	a.begun = true
	return a.ResponseWriter.Write(p)
}

// Unwrap lets http.ResponseController through.
func (a *answering) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// catch turns a panic into a problem that tells nothing of the inside, and goes on serving others. An answer that has
// begun is broken off: only that says that it is not whole.
func (s *Server) catch(w *answering, r *http.Request) {
	p := recover()
	if p == nil {
		return
	}
	if p == http.ErrAbortHandler {
		panic(p)
	}
	s.log.Error("a handler panicked", "method", r.Method, "path", clip(r.URL.Path), keyErr, fmt.Sprint(p), "stack", string(debug.Stack()))
	s.fault("http", fmt.Errorf("panic: %v", p))
	if w.begun {
		panic(http.ErrAbortHandler)
	}
	s.answerProblem(w, r, refuse(api.ClassInternal, "", "tolbooth failed; the agent's log says why"))
}

func wrongMethod(methods map[string]handler) handler {
	allowed := slices.Sorted(maps.Keys(methods))
	if _, get := methods["GET"]; get {
		allowed = append(allowed, "HEAD")
		slices.Sort(allowed)
	}
	return func(w http.ResponseWriter, r *http.Request) error {
		w.Header().Set("Allow", strings.Join(allowed, ", "))
		p := refuse(api.ClassInvalid, "", "%s is not a method of this route; it has: %s", quoted(r.Method), strings.Join(allowed, ", "))
		p.Status, p.Title = http.StatusMethodNotAllowed, "The route has no such method"
		return p
	}
}

func (s *Server) notInThisBuild(what string) handler {
	return func(http.ResponseWriter, *http.Request) error {
		return refuse(api.ClassUnsupported, "", "%s: not supported by this build", what)
	}
}

func (s *Server) getOpenAPI(w http.ResponseWriter, r *http.Request) error {
	w.Header().Set("Content-Type", "application/yaml")
	s.writeBytes(w, r, http.StatusOK, openAPI)
	return nil
}

func (s *Server) getMetrics(w http.ResponseWriter, r *http.Request) error {
	s.metrics.handler.ServeHTTP(w, r)
	return nil
}
