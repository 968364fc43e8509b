"""Run modules of CPython's regression suite, all when none is named, and print a line for each test: outcome, name, and
what it said, with tabs between."""

import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

from test.libregrtest.runtest import findtests

# Those that take longest start first, and the others run beside them.
LONG = """test_multiprocessing_spawn test_concurrent_futures test_multiprocessing_forkserver test_asyncio
test_multiprocessing_fork test_signal test_ssl test_venv test_imaplib test_io test_regrtest test_largefile test_xmlrpc
test_subprocess test_socket test_logging""".split()


def line(outcome, name, text):
    print(outcome, name, " ".join(text.split())[-400:], sep="\t")


def listed(text, heading):
    """The modules below a heading of the summary, such as "3 tests failed:"."""
    found = re.search(rf"^\d+ tests? {heading}:\n((?:    .*\n)+)", text, re.MULTILINE)
    return found.group(1).split() if found else []


def main():
    modules = sys.argv[1:] or LONG + sorted(set(findtests()) - set(LONG))
    command = [sys.executable, "-m", "test", "-j4", "--timeout", "1200", "--junit-xml", "report.xml", *modules]
    run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    if "Tests result:" not in run.stdout:
        sys.exit(f"regrtest broke off with status {run.returncode}:\n{run.stdout[-4000:]}")

    failed = set()
    for case in ElementTree.parse("report.xml").iter("testcase"):
        name, ends = case.get("name"), {child.tag: child for child in case}
        bad = ends.get("error", ends.get("failure"))
        if bad is not None:
            failed.add(name)
            line("failed", name, bad.get("message") or bad.text or "")
        elif "skipped" in ends:
            line("skipped", name, ends["skipped"].text or "")
        elif name not in failed:
            line("passed", name, "")
    for module in listed(run.stdout, "failed"):
        if not any(f".{module}." in name for name in failed):  # a subtest, or the module itself
            start = run.stdout.find(f"test {module} failed")
            line("failed", module, run.stdout[start:start + 3000])
    for module in listed(run.stdout, "skipped"):
        line("skipped", module, "")


main()
