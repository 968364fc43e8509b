package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tolbooth-dev/tolbooth/agent/api"
	"github.com/tolbooth-dev/tolbooth/jail/policy"
)

// Server is the agent towards its clients: the listeners, the HTTP API and the table of jobs. The work of a job is the
// runner's.
type Server struct {
	cfg     Config
	log     *slog.Logger
	metrics *metrics
	budget  *budget
	jobs    *manager
	rules   *rulebook
	report  func() report
	words   func(record, []byte) (api.Denial, error)
	fault   func(string, error)

	socketGID int           // -1: no group
	bodyTime  time.Duration // within which a body must arrive
	draining  atomic.Bool

	http      *http.Server
	listeners []net.Listener
	socket    socketFile
}

// Bounds of HTTP. Long polls and streams have none: they end with their job.
const (
	headerTime = 10 * time.Second
	idleTime   = 2 * time.Minute
	bodyTime   = 2 * time.Minute
	maxHeader  = 64 << 10
)

// newServer takes over the records of an earlier agent, and opens nothing to clients yet.
// Precondition: no jail of an earlier agent is left running.
func newServer(cfg Config, p serverParts) (*Server, error) {
	s := &Server{
		cfg: cfg, log: p.Log, report: p.Report, words: p.Words, fault: p.Fault,
		budget: &budget{left: int64(cfg.BodyMemory)}, bodyTime: bodyTime,
	}
	var err error
	if s.socketGID, err = lookupGroup(cfg.SocketGroup); err != nil {
		return nil, err
	}
	s.metrics = newMetrics(cfg.Version, p.Report, func() api.Capacity { return s.jobs.Capacity() })
	if s.jobs, err = newManager(&s.cfg, p.Runner, s.metrics, p.Fault, p.Log); err != nil {
		return nil, err
	}
	usual, err := policy.Default(runtime.GOARCH)
	if err != nil {
		return nil, err
	}
	most, err := newCeiling(cfg.Network.Permit)
	if err != nil {
		return nil, err
	}
	s.rules = &rulebook{usual: usual, ceiling: most, cfg: &s.cfg, languages: findLanguages(p.Programs), lacks: s.lacks, node: p.Report}
	s.http = &http.Server{
		Handler: s.newHandler(), ConnContext: s.withPeer, ReadHeaderTimeout: headerTime, IdleTimeout: idleTime,
		MaxHeaderBytes: maxHeader, ErrorLog: slog.NewLogLogger(p.Log.Handler(), slog.LevelDebug),
	}
	return s, nil
}

// Listen opens the listeners. Connections wait until Run.
func (s *Server) Listen() error {
	l, file, err := listenUnix(s.cfg.Socket, s.socketGID)
	if err != nil {
		return err
	}
	s.socket = file
	s.listeners = []net.Listener{l}
	if s.cfg.Listen == "" {
		return nil
	}
	tcp, err := listenTCP(&s.cfg)
	if err != nil {
		return errors.Join(err, s.closeListeners())
	}
	if s.cfg.TLSCert == "" {
		s.log.Warn("the TCP listener has no TLS: the token travels in clear", "listen", s.cfg.Listen)
	}
	s.listeners = append(s.listeners, tcp)
	return nil
}

func (s *Server) closeListeners() error {
	var errs []error
	for _, l := range s.listeners {
		if err := l.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	return errors.Join(append(errs, s.socket.Remove())...)
}

// Times of the end. They come on top of drain_timeout and grace.
const (
	endTime     = 30 * time.Second // for running jobs to end after they were cancelled
	answersTime = 5 * time.Second  // for last answers to be sent
)

// Run serves until the first signal, then drains: health says draining, new jobs are refused, admitted ones go on for
// drain_timeout and are then cancelled. A second signal cancels them at once. Run returns when no job is left, the last
// answers are sent and the socket is gone; an error says what was not so.
func (s *Server) Run(signals <-chan os.Signal) error {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Go(func() { s.jobs.keepPruning(ctx) })
	wg.Go(func() { s.jobs.blanks.keep(ctx) })

	failed := make(chan error, len(s.listeners))
	for _, l := range s.listeners {
		s.log.Info("listening", "address", l.Addr().String())
		wg.Go(func() {
			if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
				failed <- err
			}
		})
	}
	var serveErr error
	select {
	case <-signals:
	case serveErr = <-failed:
		s.log.Error("a listener failed; stopping", keyErr, serveErr)
	}
	return errors.Join(serveErr, s.drain(signals), s.stop())
}

// drain returns when no job is left.
func (s *Server) drain(signals <-chan os.Signal) error {
	s.draining.Store(true)
	idle := s.jobs.Drain()
	s.log.Info("draining", "timeout", s.cfg.DrainTimeout.String())
	timer := time.NewTimer(s.cfg.DrainTimeout)
	defer timer.Stop()
	select {
	case <-idle:
		return nil
	case <-timer.C:
		s.log.Warn("jobs did not end in time and are cancelled")
		s.jobs.End(errDrained)
	case <-signals:
		s.log.Warn("second signal: jobs are cancelled")
		s.jobs.End(errStopped)
	}
	timer.Reset(s.cfg.Grace + endTime)
	select {
	case <-idle:
		return nil
	case <-timer.C:
		return fmt.Errorf("jobs were still running when the agent stopped: %s", strings.Join(s.jobs.unfinished(), ", "))
	}
}

// stop lets answers that are on their way go out, and closes everything.
func (s *Server) stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), answersTime)
	defer cancel()
	err := s.http.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		s.log.Warn("clients that did not take their answers in time are cut off")
		err = s.http.Close()
	}
	return errors.Join(err, s.closeListeners(), s.jobs.audit.Close())
}
