package real

import (
	"strings"
	"testing"
	"time"

	"github.com/tolbooth-dev/tolbooth/agent/api"
	"github.com/tolbooth-dev/tolbooth/integration/harness"
	"github.com/tolbooth-dev/tolbooth/internal/hosttest"
)

// program is an honest job: what it runs, and what it must print.
type program struct {
	name  string
	needs string // a file of the host that the job's base must have
	req   api.JobRequest
	want  string // stdout, exactly; empty: only the outcome counts
}

func bash(script string) api.JobRequest {
	return api.JobRequest{Command: []string{"bash", "-ec", script}}
}
func python(code string) api.JobRequest { return api.JobRequest{Language: "python", Code: code} }

var programs = []program{
	{name: "numpy", needs: "/usr/lib/python3/dist-packages/numpy", req: python("import numpy as np\nprint(int(np.arange(6).reshape(2,3).dot(np.arange(3)).sum()))"), want: "19\n"},
	{name: "pandas", needs: "/usr/lib/python3/dist-packages/pandas", req: python("import pandas as pd\nprint(pd.DataFrame({'k':list('aab'),'v':[1,2,3]}).groupby('k').v.sum().to_dict())"), want: "{'a': 3, 'b': 3}\n"},
	{name: "node_workers", needs: "/usr/bin/node", req: api.JobRequest{Language: "javascript", Code: `
const {Worker, isMainThread, parentPort} = require('worker_threads');
if (isMainThread) { let n = 0; for (let i = 0; i < 4; i++) new Worker(__filename).on('message', v => { n += v; if (++got === 4) console.log(n) }); var got = 0 }
else { let s = 0; for (let i = 0; i < 1e6; i++) s += i % 7; parentPort.postMessage(s) }`}, want: "11999988\n"},
	{name: "node_child_process", needs: "/usr/bin/node", req: api.JobRequest{Language: "javascript", Code: `console.log(require('child_process').execSync('echo $((6*7))').toString().trim())`}, want: "42\n"},
	{name: "gcc", needs: "/usr/bin/gcc", req: bash(`printf '#include <stdio.h>\n#include <math.h>\nint main(void){printf("%%.3f\\n",sqrt(2));}' >a.c && gcc -O2 -o a a.c -lm && ./a`), want: "1.414\n"},
	{name: "git", needs: "/usr/bin/git", req: bash(`git init -q r && cd r && git config user.email a@b.c && git config user.name n && echo hi >f && git add f && git commit -qm first && git log --format=%s && git status --porcelain | wc -l`), want: "first\n0\n"},
	{name: "pipeline", req: bash(`seq 1 100000 | sort -R | sort -n | awk '{s+=$1} END {printf "%.0f\n", s}' ; cat <(echo a) <(echo b) | tr -d '\n'; echo; set -o pipefail; yes | head -n 3 | wc -l || true`), want: "5000050000\nab\n3\n"},
	{name: "threads", req: python("import threading\nt=threading.Thread(target=print,args=('hi',));t.start();t.join()"), want: "hi\n"},
	{name: "multiprocessing", req: python("import multiprocessing as m\nif __name__=='__main__':\n print(sum(m.Pool(2).map(abs,range(5))))"), want: "10\n"},
	{name: "libraries", req: python("import ssl,sqlite3,lzma,bz2,zlib,ctypes,readline;print('ok')"), want: "ok\n"},
	{name: "user", req: python("import getpass,os,pwd;print(getpass.getuser(),pwd.getpwuid(os.getuid()).pw_dir,os.access(os.path.expanduser('~'),os.W_OK))"), want: "sandbox /workspace True\n"},
	{name: "timezone", needs: "/usr/share/zoneinfo/Europe/Berlin", req: python("import zoneinfo,datetime;print(datetime.datetime(2026,7,1,tzinfo=zoneinfo.ZoneInfo('Europe/Berlin')).utcoffset())"), want: "2:00:00\n"},
	{name: "utf8", req: python("print('日本語'*20000)"), want: strings.Repeat("日本語", 20000) + "\n"},
	{name: "stdin", req: api.JobRequest{Language: "python", Code: "print(input())", Stdin: api.Stdin{Text: "5\n"}}, want: "5\n"},
	{name: "stdin_reopened", req: api.JobRequest{Command: []string{"sh", "-c", "cat /dev/stdin"}, Stdin: api.Stdin{Text: "again\n"}}, want: "again\n"},
	{name: "no_stdin", req: python("import sys\nprint(repr(sys.stdin.read()))"), want: "''\n"},
	{name: "both_streams", req: python("import sys;sys.stdout.write('o'*10**6);sys.stderr.write('e'*10**6)"), want: strings.Repeat("o", 1e6)},
	{name: "tmp_and_shm", req: bash(`echo a >/tmp/x; echo b >/dev/shm/x; echo c >/run/x; echo d >/dev/null; cat /tmp/x /dev/shm/x /run/x; echo e >/dev/stdout; echo f >/proc/self/fd/1; mkfifo p; (echo g >p &) ; cat p`), want: "a\nb\nc\ne\nf\ng\n"},
	{name: "own_proc", req: bash(`ls -d /proc/[0-9]* | wc -l; cat /proc/1/comm`), want: ""},
	{name: "loopback", req: python("import socket,threading\ns=socket.create_server(('127.0.0.1',0))\nthreading.Thread(target=lambda:s.accept()[0].sendall(b'hi'),daemon=True).start()\nprint(socket.create_connection(s.getsockname()).recv(9))\ns6=socket.create_server(('::1',0),family=socket.AF_INET6)\nprint(s6.getsockname()[0])"), want: "b'hi'\n::1\n"},
}

// TestPrograms runs each honest program; none may meet a refusal that changes what it prints.
func TestPrograms(t *testing.T) {
	a := harness.Start(t, harness.Options{})
	for _, p := range programs {
		t.Run(p.name, func(t *testing.T) {
			if p.needs != "" {
				hosttest.File(t, p.needs, "make deps")
			}
			p.req.Limits = api.Limits{Memory: api.Quantity(1 << 30), Wall: api.Duration(time.Minute * harness.Slow / time.Second), CPU: api.Duration(time.Minute * harness.Slow / time.Second)}
			res := a.Run(p.req)
			if res.Outcome != api.OutcomeOK || p.want != "" && res.Stdout != p.want {
				t.Errorf("%s %s\nstdout %.300q\nstderr %.2000s\n%s", res.Outcome, res.Detail, res.Stdout, res.Stderr, denials(res))
			}
		})
	}
}
