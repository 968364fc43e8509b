package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/sys/unix"

	"github.com/tolbooth-dev/tolbooth/agent/api"
)

// maxWait bounds one long poll.
const maxWait = time.Hour

// postJob answers POST /v1/jobs. A client that waits and leaves does not end its job: the job goes on, and can be asked
// for by its id.
func (s *Server) postJob(w http.ResponseWriter, r *http.Request) error {
	if _, err := parameters(r); err != nil {
		return err
	}
	b, err := s.readBody(w, r)
	if err != nil {
		return err
	}
	j, wait, err := s.submit(b, peerOf(r.Context()))
	if err != nil {
		return err
	}
	s.log.Debug("job posted", keyJob, j.id, "peer", peerOf(r.Context()))
	if !wait {
		return s.answerJob(w, r, http.StatusAccepted, j)
	}
	if err := j.wait(r); err != nil {
		return nil // nobody is there to be answered
	}
	return s.answerJob(w, r, http.StatusOK, j)
}

// submit decodes and admits a request. It owns the body.
func (s *Server) submit(b body, from peer) (*job, bool, error) {
	var req api.JobRequest
	work, err := s.decodeJob(b.data, &req)
	if err != nil {
		b.Release()
		return nil, false, err
	}
	hash, err := fingerprint(req)
	if err != nil {
		b.Release()
		return nil, false, err
	}
	work.Peer = from
	j, err := s.jobs.Submit(&req, hash, work, b.Release)
	return j, req.Wait == nil || *req.Wait, err
}

func (s *Server) decodeJob(data []byte, req *api.JobRequest) (*work, error) {
	if err := decodeJSON(data, req); err != nil {
		return nil, err
	}
	return s.rules.admit(req)
}

// wait returns when the job is finished; an error says that the client has left before.
func (j *job) wait(r *http.Request) error {
	select {
	case <-j.done:
		return nil
	case <-r.Context().Done():
		return r.Context().Err()
	}
}

// answerJob writes a job as it stands, a finished one with its result.
func (s *Server) answerJob(w http.ResponseWriter, r *http.Request, status int, j *job) error {
	if !j.hasAnswer() {
		s.answer(w, r, status, j.now())
		return nil
	}
	body, err := s.finishedJob(j)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	s.writeBytes(w, r, status, body)
	return nil
}

// finishedJob is the answer of a finished job.
func (s *Server) finishedJob(j *job) ([]byte, error) {
	j.mu.Lock()
	body, failed := j.body, j.failed
	j.mu.Unlock()
	if failed != nil || body != nil {
		return body, failed
	}
	body, err := s.jobs.readBody(j.id)
	if errors.Is(err, fs.ErrNotExist) {
		if _, gone := s.jobs.Get(j.id); gone != nil {
			return nil, gone
		}
	}
	return body, err
}

// getJob answers GET /v1/jobs/{id}, with ?wait= once it is finished or the time is over.
func (s *Server) getJob(w http.ResponseWriter, r *http.Request) error {
	query, err := parameters(r, "wait")
	if err != nil {
		return err
	}
	j, err := s.jobs.Get(r.PathValue("id"))
	if err != nil {
		return err
	}
	if text := query.Get("wait"); text != "" {
		d, err := api.ParseDuration(text)
		if err != nil {
			return refuse(api.ClassInvalid, "wait", "%s", err)
		}
		if time.Duration(d) > maxWait {
			return refuse(api.ClassInvalid, "wait", "%s is more than %s", d, api.Duration(maxWait)).hint("ask again when it is over")
		}
		timer := time.NewTimer(time.Duration(d))
		defer timer.Stop()
		select {
		case <-j.done:
		case <-timer.C:
		case <-r.Context().Done():
			return nil
		}
	}
	return s.answerJob(w, r, http.StatusOK, j)
}

// deleteJob answers DELETE /v1/jobs/{id}: the finished job. The cancellation goes on when the client leaves.
func (s *Server) deleteJob(w http.ResponseWriter, r *http.Request) error {
	if _, err := parameters(r); err != nil {
		return err
	}
	j, err := s.jobs.Get(r.PathValue("id"))
	if err != nil {
		return err
	}
	if !j.isDone() {
		s.log.Info("job cancelled", keyJob, j.id, "peer", peerOf(r.Context()))
		s.jobs.Cancel(j, errCancelled)
	}
	if err := j.wait(r); err != nil {
		return nil
	}
	return s.answerJob(w, r, http.StatusOK, j)
}

// jobAndBody finds the job that a request changes, and decodes into v what it asks for.
func (s *Server) jobAndBody(w http.ResponseWriter, r *http.Request, v any) (*job, error) {
	if _, err := parameters(r); err != nil {
		return nil, err
	}
	j, err := s.jobs.Get(r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	b, err := s.readBody(w, r)
	if err != nil {
		return nil, err
	}
	defer b.Release()
	return j, decodeJSON(b.data, v)
}

// postSignal answers POST /v1/jobs/{id}/signal.
func (s *Server) postSignal(w http.ResponseWriter, r *http.Request) error {
	var req api.Signal
	j, err := s.jobAndBody(w, r, &req)
	if err != nil {
		return err
	}
	signal := unix.SignalNum(req.Signal)
	if signal == 0 {
		return refuse(api.ClassInvalid, "signal", "%s is not the name of a signal such as SIGTERM", quoted(req.Signal))
	}
	if err := j.signal(signal); err != nil {
		return err
	}
	return s.answerJob(w, r, http.StatusOK, j)
}

// signal sends a signal to a running command.
func (j *job) signal(sig syscall.Signal) error {
	j.mu.Lock()
	state, proc := j.state, j.proc
	j.mu.Unlock()
	if proc == nil {
		return refuse(api.ClassConflict, "", "the job is %s; only a running job takes signals", state)
	}
	err := proc.Signal(sig)
	if errors.Is(err, syscall.ESRCH) {
		return refuse(api.ClassConflict, "", "the job's command has ended")
	}
	return err
}

// postStdin answers POST /v1/jobs/{id}/stdin. The body goes into the pipe as it arrives.
func (s *Server) postStdin(w http.ResponseWriter, r *http.Request) error {
	query, err := parameters(r, "close")
	if err != nil {
		return err
	}
	last := query.Get("close")
	if last != "" && last != "true" && last != "false" {
		return refuse(api.ClassInvalid, "close", "%s is not one of: true, false", quoted(last))
	}
	j, err := s.jobs.Get(r.PathValue("id"))
	if err != nil {
		return err
	}
	if j.isDone() {
		return refuse(api.ClassConflict, "", "the job is finished")
	}
	if j.stdin == nil {
		return refuse(api.ClassConflict, "", "the job's stdin is not open").hint(`start the job with "stdin": {"open": true}`)
	}
	if err := s.bodyArrived(w); err != nil { // it may come as slowly as a person types
		return err
	}
	n, err := j.stdin.Feed(r.Context(), r.Body, last == "true")
	if err != nil {
		if r.Context().Err() != nil {
			return nil
		}
		return s.stdinProblem(err)
	}
	s.answer(w, r, http.StatusOK, api.StdinTaken{Bytes: n, Closed: last == "true"})
	return nil
}

func (s *Server) stdinProblem(err error) error {
	if _, ok := errors.AsType[*problem](err); ok {
		return err
	}
	return s.readProblem(err)
}

// Pages of GET /v1/jobs.
const (
	defaultPage  = 50
	maxPage      = 500
	maxPageBytes = 8 << 20 // a page of jobs with much output ends early
)

// listJobs answers GET /v1/jobs, newest first. The cursor is the creation time of the last item, so a page is the same
// whatever came or went meanwhile.
func (s *Server) listJobs(w http.ResponseWriter, r *http.Request) error {
	f, err := readFilter(r)
	if err != nil {
		return err
	}
	page := api.List[jsontext.Value]{Items: []jsontext.Value{}}
	size := 0
	for _, j := range s.jobs.newestFirst() {
		if !f.matches(j) {
			continue
		}
		if len(page.Items) == f.limit || size > maxPageBytes {
			page.NextCursor = &f.last
			break
		}
		item, err := s.listed(j)
		if err != nil {
			s.log.Warn("a job is missing from a list", keyJob, j.id, keyErr, err)
			continue
		}
		page.Items = append(page.Items, item)
		size += len(item)
		f.last = strconv.FormatInt(j.created.UnixNano(), 36)
	}
	s.answer(w, r, http.StatusOK, page)
	return nil
}

// listed is one job of a list, the same as when it is asked for alone.
func (s *Server) listed(j *job) (jsontext.Value, error) {
	if !j.hasAnswer() {
		return encodeJSON(j.now())
	}
	return s.finishedJob(j)
}

// listFilter narrows a list.
type listFilter struct {
	state  api.State
	labels [][2]string
	before int64 // creation time in nanoseconds; 0: none
	limit  int
	last   string // cursor behind the last item taken
}

func readFilter(r *http.Request) (*listFilter, error) {
	query, err := parameters(r, "state", "label", "cursor", "limit")
	if err != nil {
		return nil, err
	}
	f := &listFilter{state: api.State(query.Get("state")), limit: defaultPage}
	if f.state != "" && !isState(f.state) {
		return nil, refuse(api.ClassInvalid, "state", "%s is not one of: queued, starting, running, finished", quoted(string(f.state)))
	}
	for _, label := range query["label"] {
		name, value, ok := strings.Cut(label, ":")
		if !ok || name == "" {
			return nil, refuse(api.ClassInvalid, "label", "%s is not name:value", quoted(label))
		}
		f.labels = append(f.labels, [2]string{name, value})
	}
	if text := query.Get("cursor"); text != "" {
		if f.before, err = strconv.ParseInt(text, 36, 64); err != nil || f.before <= 0 {
			return nil, refuse(api.ClassInvalid, "cursor", "%s is not a cursor of this API", quoted(text))
		}
	}
	if text := query.Get("limit"); text != "" {
		if f.limit, err = strconv.Atoi(text); err != nil || f.limit < 1 || f.limit > maxPage {
			return nil, refuse(api.ClassInvalid, "limit", "%s is not between 1 and %d", quoted(text), maxPage)
		}
	}
	return f, nil
}

func (f *listFilter) matches(j *job) bool {
	if f.before != 0 && j.created.UnixNano() >= f.before {
		return false
	}
	for _, l := range f.labels {
		if value, ok := j.meta.Labels[l[0]]; !ok || value != l[1] {
			return false
		}
	}
	return f.state == "" || j.currentState() == f.state
}

func isState(s api.State) bool {
	for _, known := range states {
		if s == known {
			return true
		}
	}
	return false
}

// parameters reads the query. One that cannot be read, one that the route does not have, and one given twice (but label)
// are refused: nothing of a request is passed over.
func parameters(r *http.Request, names ...string) (url.Values, error) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, refuse(api.ClassInvalid, "", "the query cannot be read: %.200s", err)
	}
	for name, values := range query {
		if !slices.Contains(names, name) {
			return nil, refuse(api.ClassInvalid, fmt.Sprintf("%.128s", name), "there is no query parameter %s here", quoted(name))
		}
		if len(values) > 1 && name != "label" {
			return nil, refuse(api.ClassInvalid, name, "is given twice")
		}
	}
	return query, nil
}
