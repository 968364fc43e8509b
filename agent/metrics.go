package agent

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/tolbooth-dev/tolbooth/agent/api"
)

// metrics are the agent's numbers. Every label is from a closed set and starts at zero; no id, path or address is ever a
// label.
type metrics struct {
	handler  http.Handler
	jobs     *prometheus.CounterVec
	steps    *prometheus.HistogramVec
	denials  *prometheus.CounterVec
	problems *prometheus.CounterVec
	dropped  prometheus.Counter
	unaudit  prometheus.Counter
}

func outcomes() []api.Outcome {
	return []api.Outcome{
		api.OutcomeOK, api.OutcomeExit, api.OutcomeSignal, api.OutcomeWallLimit, api.OutcomeCPULimit, api.OutcomeMemoryLimit,
		api.OutcomeDiskLimit, api.OutcomePidsLimit, api.OutcomeOutputLimit, api.OutcomeDenied, api.OutcomeCancelled,
		api.OutcomeStartFailed, api.OutcomeAgentLost,
	}
}

var (
	stepNames   = []string{"queue", "workspace", "network", "jail", "run", "flush"}
	layerNames  = []string{"syscall", "network", "dns", "file", "limit", "signal"}
	stepBuckets = []float64{.0005, .001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 30, 60, 300, 1800}
)

// newMetrics registers everything. Report and capacity are asked when someone scrapes.
func newMetrics(version string, reported func() report, capacity func() api.Capacity) *metrics {
	reg := prometheus.NewRegistry()
	m := &metrics{
		jobs:     prometheus.NewCounterVec(prometheus.CounterOpts{Name: "tolbooth_jobs_total", Help: "Jobs finished, by outcome."}, []string{"outcome"}),
		steps:    prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "tolbooth_job_step_seconds", Help: "Time that jobs spent in each step.", Buckets: stepBuckets}, []string{"step"}),
		denials:  prometheus.NewCounterVec(prometheus.CounterOpts{Name: "tolbooth_denials_total", Help: "Refused attempts of jobs, by layer."}, []string{"layer"}),
		problems: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "tolbooth_http_problems_total", Help: "Requests answered with a problem, by class."}, []string{"class"}),
		dropped:  prometheus.NewCounter(prometheus.CounterOpts{Name: "tolbooth_events_dropped_total", Help: "Events of jobs that could not be recorded."}),
		unaudit:  prometheus.NewCounter(prometheus.CounterOpts{Name: "tolbooth_audit_lost_total", Help: "Runs that could not be written to the audit log."}),
	}
	for _, o := range outcomes() {
		m.jobs.WithLabelValues(string(o))
	}
	for _, s := range stepNames {
		m.steps.WithLabelValues(s)
	}
	for _, l := range layerNames {
		m.denials.WithLabelValues(l)
	}
	for _, c := range api.Classes() {
		m.problems.WithLabelValues(c.Class)
	}
	reg.MustRegister(m.jobs, m.steps, m.denials, m.problems, m.dropped, m.unaudit,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	gauge := func(name, help string, value func() float64) {
		reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value))
	}
	counter := func(name, help string, value func(figures) int64) {
		reg.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, func() float64 { return float64(value(reported().Figures)) }))
	}
	gauge("tolbooth_jobs_running", "Jobs that hold a place.", func() float64 { return float64(capacity().Running) })
	gauge("tolbooth_jobs_queued", "Jobs that wait for a place.", func() float64 { return float64(capacity().Queued) })
	gauge("tolbooth_jobs_max", "Jobs that can run at once.", func() float64 { return float64(capacity().Max) })
	gauge("tolbooth_problems", "Problems that health shows.", func() float64 { return float64(len(reported().Problems)) })
	gauge("tolbooth_disk_quota", "1 when the file system holds jobs to their disk limits, 0 when the agent counts.", func() float64 {
		if reported().Figures.Quota {
			return 1
		}
		return 0
	})
	gauge("tolbooth_prepared_places", "Jails ready for the next jobs.", func() float64 { return float64(reported().Figures.Prepared) })
	gauge("tolbooth_unflushed_workspaces", "Workspaces whose work is on this node only.", func() float64 { return float64(reported().Figures.Unflushed) })
	counter("tolbooth_reclaimed_total", "Leftovers of an earlier agent that were removed.", func(f figures) int64 { return f.Reclaimed })
	counter("tolbooth_flushes_total", "Workspaces flushed to the bucket.", func(f figures) int64 { return f.Flushes })
	counter("tolbooth_flush_failures_total", "Flushes that failed.", func(f figures) int64 { return f.FlushFaults })
	counter("tolbooth_flushed_bytes_total", "Bytes written to the bucket.", func(f figures) int64 { return f.FlushedBytes })
	gauge("tolbooth_hanging_steps", "Steps of jobs and of the agent that hang in the kernel now; each keeps what it holds.", func() float64 { return float64(reported().Figures.Hanging) })
	counter("tolbooth_left_behind_total", "Steps that hung and that nobody waited for any longer.", func(f figures) int64 { return f.LeftBehind })
	counter("tolbooth_faults_total", "Things that went wrong in the agent itself.", func(f figures) int64 { return f.Faults })
	reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "tolbooth_build_info", Help: "1, with the version as its label.", ConstLabels: prometheus.Labels{"version": version},
	}, func() float64 { return 1 }))
	m.handler = promhttp.HandlerFor(reg, promhttp.HandlerOpts{})
	return m
}

// finished counts a finished job.
func (m *metrics) finished(r api.Result) {
	m.jobs.WithLabelValues(string(r.Outcome)).Inc()
	t := r.Timings
	for i, us := range []int64{t.Queue, t.Workspace, t.Network, t.Jail, t.Run, t.Flush} {
		m.steps.WithLabelValues(stepNames[i]).Observe(float64(us) / 1e6)
	}
	for _, d := range r.Denials {
		m.denials.WithLabelValues(d.Layer).Add(float64(max(d.Count, 1)))
	}
}

func (m *metrics) problem(class string) { m.problems.WithLabelValues(class).Inc() }

func (m *metrics) auditLost() { m.unaudit.Inc() }

func (m *metrics) eventDropped() { m.dropped.Inc() }
