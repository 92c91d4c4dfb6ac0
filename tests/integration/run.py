#!/usr/bin/python3
"""Runs tests/integration/NNN_topic.py: every function test_*, each topic in a process of its own, a
few at a time.

    tests/integration/run.py                  all
    tests/integration/run.py 060 keys         topics and tests whose name has one of the words
    tests/integration/run.py -j 1 ...         one topic at a time
    tests/integration/run.py --suite DIR ...  the topics of another directory

A test's time limit is 120 s, or the `limit` that @harness.timeout gives it. The last line counts tests.
"""

import argparse
import faulthandler
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
suite = HERE

import harness  # noqa: E402

LIMIT = 120


class OutOfTime(BaseException):
    """Not an Exception: no test may take it for one of its own."""


def use_suite(directory):
    """Its own modules come before ours."""
    global suite
    suite = os.path.abspath(directory)
    if suite != HERE:
        sys.path.insert(0, suite)


def load(topic):
    spec = importlib.util.spec_from_file_location("topic_" + topic, os.path.join(suite, topic + ".py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def tests_of(module):
    return [(n, f) for n, f in vars(module).items() if n.startswith("test_") and callable(f)
            and getattr(f, "since", 0) <= harness.server_major()]


def topics():
    return sorted(n[:-3] for n in os.listdir(suite) if n.endswith(".py") and n[0].isdigit())


def limit_of(function):
    return getattr(function, "limit", LIMIT)


# ---- in the child: one topic ----

# What the server says of every walsender, whatever happens.
CHATTER = ("logical decoding", "Streaming transactions", "There are no running", "START_REPLICATION",
           "CREATE_REPLICATION_SLOT", "starting up", "listening on", "was shut down at", "ready to accept")


def show_logs():
    """The end of the logs last written to: server and daemon of the failed test."""
    paths = [os.path.join(base, name) for area in harness.areas() for base, _, files in os.walk(area) for name in files
             if (name.endswith(".log") or name == "log") and "/data/" not in base + "/"]
    for path in sorted(paths, key=os.path.getmtime)[-3:]:
        with open(path, errors="replace") as f:
            tail = [line for line in f if not any(c in line for c in CHATTER)][-20:]
        print(f"    --- {path}\n" + "".join(f"    {line.rstrip()[:400]}\n" for line in tail), end="")


def out_of_time(*_):
    raise OutOfTime


def run_one(topic, name, function):
    began = time.monotonic()
    signal.signal(signal.SIGALRM, out_of_time)
    signal.alarm(limit_of(function))
    try:
        function()
        verdict = None
    except OutOfTime:
        verdict = f"not finished after {limit_of(function)} s\n{traceback.format_exc()}"
    except harness.Failure as e:
        where = traceback.extract_tb(e.__traceback__)
        lines = [f"{os.path.basename(f.filename)}:{f.lineno}" for f in where if f.filename.startswith((HERE, suite))]
        verdict = f"{e}\n  at {' > '.join(lines[1:])}"
    except Exception:
        verdict = traceback.format_exc()
    finally:
        signal.alarm(0)
    seconds = time.monotonic() - began
    if verdict is None:
        print(f"ok     {topic}.{name} ({seconds:.1f} s)", flush=True)
        return True
    print(f"FAILED {topic}.{name} ({seconds:.1f} s)\n    " + verdict.rstrip().replace("\n", "\n    "))
    show_logs()
    sys.stdout.flush()
    return False


def run_topic(topic, names):
    faulthandler.register(signal.SIGUSR1)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    module = load(topic)
    good = []
    for name, function in tests_of(module):
        if name in names:
            good.append(run_one(topic, name, function))
            harness.clean_up()
    return 0 if all(good) else 1


# ---- in the parent: all topics ----

def make_template():
    """One initdb for all servers that do not need an identity of their own."""
    server = harness.Server("template", start=False)
    path = server.data
    conf = os.path.join(path, "postgresql.conf")
    with open(conf) as f:
        text = f.read()
    with open(conf, "w") as f:
        f.write(text.split("listen_addresses = ''\n")[0])
    return path


class Child:
    def __init__(self, topic, tests, log_dir):
        self.topic = topic
        self.names = [n for n, _ in tests]
        self.deadline = time.monotonic() + sum(limit_of(f) for _, f in tests) + 60
        self.path = os.path.join(log_dir, topic)
        self.out = open(self.path, "wb")
        argv = [sys.executable, "-u", os.path.abspath(__file__), "--suite", suite, "--topic", topic, *self.names]
        self.process = subprocess.Popen(argv, stdout=self.out, stderr=subprocess.STDOUT, start_new_session=True)
        self.shown = 0
        self.finished = {}

    def poll(self):
        """Prints what is new; true when it has ended."""
        ended = self.process.poll() is not None
        if not ended and time.monotonic() > self.deadline:
            os.kill(self.process.pid, signal.SIGUSR1)
            time.sleep(0.2)
            self.end()
        with open(self.path, errors="replace") as f:
            f.seek(self.shown)
            for line in iter(f.readline, ""):
                if not line.endswith("\n") and not ended:
                    break
                self.shown = f.tell()
                self.note(line)
        return ended

    def note(self, line):
        for verdict in ("ok", "FAILED"):
            if line.startswith(f"{verdict:<6} {self.topic}."):
                self.finished[line.split(".", 1)[1].split()[0]] = verdict == "ok"
        print(line, end="", flush=True)

    def end(self):
        """SIGINT first: the child removes its servers and its directory."""
        for number, patience in ((signal.SIGINT, 20), (signal.SIGKILL, 5)):
            if self.process.poll() is None:
                try:
                    self.process.send_signal(number)
                    self.process.wait(patience)
                except subprocess.TimeoutExpired:
                    continue
        harness.remove_areas_of(self.process.pid)

    def count(self):
        for name in self.names:
            if name not in self.finished:
                print(f"FAILED {self.topic}.{name}: did not come to an end")
        passed = sum(self.finished.get(n, False) for n in self.names)
        return passed, len(self.names) - passed


def select(patterns):
    """The tests to run by topic, and the topics that do not load."""
    chosen, broken = [], []
    for topic in topics():
        try:
            tests = tests_of(load(topic))
        except Exception:
            print(f"FAILED {topic}: does not load\n{traceback.format_exc()}")
            broken.append(topic)
            continue
        if patterns:
            tests = [(n, f) for n, f in tests if any(p in f"{topic}.{n}" for p in patterns)]
        if tests:
            chosen.append((topic, tests))
    return chosen, broken


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("pattern", nargs="*")
    p.add_argument("-j", type=int, default=2, help="topics at a time (2)")
    p.add_argument("-l", "--list", action="store_true", help="list the tests")
    p.add_argument("--suite", default=HERE, help="directory of the topics")
    p.add_argument("--topic", help=argparse.SUPPRESS)
    o = p.parse_args()
    use_suite(o.suite)
    if o.topic:
        return run_topic(o.topic, o.pattern)
    chosen, broken = select(o.pattern)
    if o.list:
        for topic, tests in chosen:
            for name, _ in tests:
                print(f"{topic}.{name}")
        return 0

    if not os.path.exists(harness.PROGRAM):
        sys.exit(f"{harness.PROGRAM} does not exist: build it, or name another in TIDEMARK")
    passed, failed = 0, len(broken)
    log_dir = tempfile.mkdtemp(prefix="tmk.", dir="/tmp")
    running = []
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        os.environ["TIDEMARK_PG_TEMPLATE"] = make_template()
        while chosen or running:
            while chosen and len(running) < o.j:
                topic, tests = chosen.pop(0)
                running.append(Child(topic, tests, log_dir))
            time.sleep(0.05)
            for child in [c for c in running if c.poll()]:
                running.remove(child)
                p_, f_ = child.count()
                passed, failed = passed + p_, failed + f_
    except KeyboardInterrupt:
        print("interrupted")
        failed += 1
    finally:
        for child in running:
            child.end()
        shutil.rmtree(log_dir, ignore_errors=True)
    print(f"{os.path.basename(suite)}: {passed} passed, {failed} failed")
    return 0 if failed == 0 and passed > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
