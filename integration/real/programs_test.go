package real

import (
	"encoding/base64"
	"strings"
	"testing"

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
	// P01: the libraries of a data job are imported and compute under the default policy.
	{name: "matrix", needs: "/usr/lib/python3/dist-packages/numpy", req: python("import numpy as np\nprint(int((np.ones((300,300))@np.ones((300,300))).sum()))"), want: "27000000\n"},
	{name: "data", needs: "/usr/lib/python3/dist-packages/pandas", req: python("import numpy, pandas as pd\nprint(pd.DataFrame({'a':[1,2]}).sum().a)"), want: "3\n"},
	{name: "pandas", needs: "/usr/lib/python3/dist-packages/pandas", req: python("import pandas as pd\nprint(pd.DataFrame({'k':list('aab'),'v':[1,2,3]}).groupby('k').v.sum().to_dict())"), want: "{'a': 3, 'b': 3}\n"},
	{name: "node_workers", needs: "/usr/bin/node", req: api.JobRequest{Language: "javascript", Code: `
const {Worker, isMainThread, parentPort} = require('worker_threads');
if (isMainThread) { let n = 0; for (let i = 0; i < 4; i++) new Worker(__filename).on('message', v => { n += v; if (++got === 4) console.log(n) }); var got = 0 }
else { let s = 0; for (let i = 0; i < 1e6; i++) s += i % 7; parentPort.postMessage(s) }`}, want: "11999988\n"},
	{name: "node_child_process", needs: "/usr/bin/node", req: api.JobRequest{Language: "javascript", Code: `console.log(require('child_process').execSync('echo $((6*7))').toString().trim())`}, want: "42\n"},
	{name: "gcc", needs: "/usr/bin/gcc", req: bash(`printf '#include <stdio.h>\n#include <math.h>\nint main(void){printf("%%.3f\\n",sqrt(2));}' >a.c && gcc -O2 -o a a.c -lm && ./a`), want: "1.414\n"},
	{name: "git", needs: "/usr/bin/git", req: bash(`git init -q r && cd r && git config user.email a@b.c && git config user.name n && echo hi >f && git add f && git commit -qm first && git log --format=%s && git status --porcelain | wc -l`), want: "first\n0\n"},
	{name: "pipeline", req: bash(`seq 1 100000 | sort -R | sort -n | awk '{s+=$1} END {printf "%.0f\n", s}' ; cat <(echo a) <(echo b) | tr -d '\n'; echo; set -o pipefail; yes | head -n 3 | wc -l || true`), want: "5000050000\nab\n3\n"},
	// P02: one run imports what of the standard library reaches for the kernel.
	{name: "standard_library", req: python("import importlib\nfor m in '" + standardLibrary + "'.split(): importlib.import_module(m)\nprint('ok')"), want: "ok\n"},
	// P04: a C library that starts threads with clone3 goes back to clone, since clone3 answers ENOSYS and not EPERM.
	{name: "threads", req: python("import threading\nt=threading.Thread(target=print,args=('hi',));t.start();t.join()"), want: "hi\n"},
	// P06: locks between processes need a /dev/shm that they can use; it is the job's own.
	{name: "multiprocessing", req: python("import multiprocessing as m\nif __name__=='__main__':\n print(sum(m.Pool(2).map(abs,range(5))))"), want: "10\n"},
	// P11: modules that load shared libraries of the system; TestWholeRuntime looks at all there are.
	{name: "libraries", req: python("import ssl,sqlite3,lzma,bz2,zlib,ctypes,readline;print('ok')"), want: "ok\n"},
	// P14: the program's uid has a name, and a home that it may write to.
	{name: "user", req: python("import getpass,os,pwd;print(getpass.getuser(),pwd.getpwuid(os.getuid()).pw_dir,os.access(os.path.expanduser('~'),os.W_OK))"), want: "sandbox /workspace True\n"},
	// P17: time zones are there.
	{name: "timezone", needs: "/usr/share/zoneinfo/Europe/Berlin", req: python("import zoneinfo,datetime;print(datetime.datetime(2026,7,1,tzinfo=zoneinfo.ZoneInfo('Europe/Berlin')).utcoffset())"), want: "2:00:00\n"},
	// P18: long code and output outside ASCII, and output that is no text, arrive byte by byte.
	{name: "utf8", req: python("print('日本語'*20000)"), want: strings.Repeat("日本語", 20000) + "\n"},
	{name: "utf8_code", req: python("x = '" + strings.Repeat("日本語", 20000) + "'\nprint(len(x), x[-1])"), want: "60000 語\n"},
	{name: "bytes", req: python("import os;os.write(1,bytes(range(256)))"), want: everyByte()},
	{name: "stdin", req: api.JobRequest{Language: "python", Code: "print(input())", Stdin: api.Stdin{Text: "5\n"}}, want: "5\n"},
	{name: "stdin_reopened", req: api.JobRequest{Command: []string{"sh", "-c", "cat /dev/stdin"}, Stdin: api.Stdin{Text: "again\n"}}, want: "again\n"},
	{name: "no_stdin", req: python("import sys\nprint(repr(sys.stdin.read()))"), want: "''\n"},
	{name: "both_streams", req: python("import sys;sys.stdout.write('o'*10**6);sys.stderr.write('e'*10**6)"), want: strings.Repeat("o", 1e6)},
	{name: "tmp_and_shm", req: bash(`echo a >/tmp/x; echo b >/dev/shm/x; echo c >/run/x; echo d >/dev/null; cat /tmp/x /dev/shm/x /run/x; echo e >/dev/stdout; echo f >/proc/self/fd/1; mkfifo p; (echo g >p &) ; cat p`), want: "a\nb\nc\ne\nf\ng\n"},
	{name: "own_proc", req: bash(`ls -d /proc/[0-9]* | wc -l; cat /proc/1/comm`), want: ""},
	{name: "loopback", req: python("import socket,threading\ns=socket.create_server(('127.0.0.1',0))\nthreading.Thread(target=lambda:s.accept()[0].sendall(b'hi'),daemon=True).start()\nprint(socket.create_connection(s.getsockname()).recv(9))\ns6=socket.create_server(('::1',0),family=socket.AF_INET6)\nprint(s6.getsockname()[0])"), want: "b'hi'\n::1\n"},
}

// standardLibrary is more than thirty modules.
const standardLibrary = "asyncio bz2 csv ctypes curses datetime dbm decimal email fcntl hashlib http.server json locale logging lzma mmap multiprocessing " +
	"os pathlib platform pwd random resource select selectors shutil signal socket sqlite3 ssl subprocess tempfile threading unittest uuid xml.etree.ElementTree zlib zoneinfo"

// everyByte is each byte once, which is no UTF-8 and so comes in base64.
func everyByte() string {
	b := make([]byte, 256)
	for i := range b {
		b[i] = byte(i)
	}
	return base64.StdEncoding.EncodeToString(b)
}

// TestPrograms runs each honest program; none may meet a refusal.
func TestPrograms(t *testing.T) {
	a := harness.Start(t, harness.Options{})
	for _, p := range programs {
		t.Run(p.name, func(t *testing.T) {
			if p.needs != "" {
				hosttest.File(t, p.needs, "make deps")
			}
			p.req.Limits = api.Limits{Memory: api.Quantity(1 << 30), Wall: api.Duration(60 * harness.Slow), CPU: api.Duration(60 * harness.Slow)}
			res := a.Run(p.req)
			if res.Outcome != api.OutcomeOK || p.want != "" && res.Stdout != p.want {
				t.Errorf("%s %s\nstdout %.300q\nstderr %.2000s\n%s", res.Outcome, res.Detail, res.Stdout, res.Stderr, denials(res))
			}
			if len(res.Denials) != 0 {
				t.Errorf("refused:\n%s", denials(res))
			}
		})
	}
}
