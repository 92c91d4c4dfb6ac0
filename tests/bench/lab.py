"""What the measurements share: servers as a user would run them, a program with its time and memory, results."""

import json
import os
import shutil
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "integration"))

import harness  # noqa: E402
from harness import Failure, MemoryWatch, Server, anonymous_kib, check, lsn, place, until  # noqa: E402,F401

HELPERS = os.environ.get("BENCH", os.path.join(harness.ROOT, "build", "bench"))
LOAD, LOOK = (os.path.join(HELPERS, n) for n in ("load", "look"))
SCALE = float(os.environ.get("BENCH_SCALE", "1"))
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "5"))
SLOT = PUBLICATION = "tidemark"

# The harness's servers are small and their settings odd on purpose. Here: PostgreSQL's defaults, as far as
# they matter for speed.
DEFAULTS = {
    "shared_buffers": "128MB", "max_wal_size": "1GB", "max_worker_processes": 8, "max_parallel_workers": 8,
    "max_connections": 100, "datestyle": "ISO, MDY", "intervalstyle": "postgres", "extra_float_digits": 1,
    "bytea_output": "hex", "timezone": "UTC", "search_path": '"$user", public', "logical_decoding_work_mem": "64MB",
}
# The source besides: no checkpoint of its own in the middle of a measurement.
SOURCE = {**DEFAULTS, "max_wal_size": "32GB", "checkpoint_timeout": "1h", "max_wal_senders": 20,
          "max_replication_slots": 20}


def scaled(n):
    return max(1000, int(n * SCALE))


def say(text):
    print(text, file=sys.stderr, flush=True)


def rotated(things, n):
    """Another one goes first in each round."""
    n %= len(things)
    return [*things[n:], *things[:n]]


class Measured:
    """What one run of a program took."""

    def __init__(self, seconds, cpu_us=0.0, peak_kib=0):
        self.seconds, self.cpu_us, self.peak_kib = seconds, cpu_us, peak_kib


def run_measured(argv, timeout=3600, to=subprocess.DEVNULL):
    """Runs it to its end, which must be a good one."""
    log = place("bench.log")
    began = time.monotonic()
    with open(log, "wb") as err:
        child = harness.spawn(argv, "KILL", stdin=subprocess.DEVNULL, stdout=to, stderr=err,
                              env=harness.environment(), cwd="/")
        watch = MemoryWatch(child.pid)
        watch.start()
        _, status, usage = os.wait4(child.pid, 0)
        seconds = time.monotonic() - began
        child.returncode = os.waitstatus_to_exitcode(status)
    peak = watch.stop()
    if child.returncode != 0:
        with open(log, errors="replace") as f:
            raise Failure(f"exit {child.returncode}: {' '.join(argv)}\n{f.read()[-3000:]}")
    return Measured(seconds, (usage.ru_utime + usage.ru_stime) * 1e6, peak)


def look(*args):
    """One look at a store (look.c)."""
    r = subprocess.run([LOOK, *map(str, args)], capture_output=True, text=True)
    check(r.returncode == 0, lambda: f"look {args}: {r.stderr}")
    return json.loads(r.stdout)


class Helper:
    """load or look in the background; finish() gives what it says."""

    def __init__(self, *argv):
        self.process = harness.spawn([*map(str, argv)], "KILL", stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                     text=True)

    def finish(self, stop=False):
        if stop and self.process.poll() is None:
            self.process.terminate()
        out, err = self.process.communicate()
        check(self.process.returncode == 0, lambda: f"{self.process.args}: {err}")
        return json.loads(out)


def load(server, db, sql, rate, connections, seconds, keys, *times):
    return Helper(LOAD, server.dsn(db), sql, rate, connections, seconds, keys, *times)


# ---- a database with its three consumers ----

class Bench:
    """One database of the source and what consumes it: tidemark, PostgreSQL's own replication, pg_recvlogical."""

    def __init__(self, source, peer, db, schema):
        self.source, self.peer, self.db = source, peer, source.database(db)
        self.store = place("store")
        source.sql(schema, db=db)
        source.sql(f"CREATE PUBLICATION {PUBLICATION} FOR ALL TABLES WITH (publish_via_partition_root = true)", db=db)
        self.has_peer = False
        if peer:
            peer.sql(schema, db=peer.database(db))

    def sql(self, text):
        return self.source.sql(text, db=self.db)

    def value(self, text):
        return self.source.value(text, db=self.db)

    # -- tidemark --

    def argv(self, *more):
        return [harness.PROGRAM, "run", "--source", self.source.dsn(self.db), "--store", self.store,
                "--slot", f"{SLOT}_{self.db}", "--publication", PUBLICATION, "--tables", "public.*", *map(str, more)]

    def tidemark(self, *more):
        return run_measured(self.argv(*more))

    def start(self, *more):
        """As a daemon; the caller ends it with stop()."""
        self.log = place("daemon.log")
        with open(self.log, "wb") as f:
            daemon = harness.spawn(self.argv(*more), "KILL", stdin=subprocess.DEVNULL, stdout=f, stderr=f,
                                   env=harness.environment(), cwd="/")
        self.watch = MemoryWatch(daemon.pid)
        self.watch.start()
        return daemon

    def stop(self, daemon):
        """Its peak of anonymous memory, MiB."""
        peak = self.watch.stop() / 1024
        daemon.terminate()
        if daemon.wait(60) != 0:
            with open(self.log, errors="replace") as f:
                raise Failure(f"the daemon ended with {daemon.returncode}: {f.read()[-3000:]}")
        return peak

    def wait_streaming(self):
        until("a slot in use", lambda: self.value(
            f"SELECT active FROM pg_replication_slots WHERE slot_name = '{SLOT}_{self.db}'"), interval=0.005)
        until("a store", lambda: os.path.exists(os.path.join(self.store, "data.mdb")), interval=0.005)

    def at_end(self):
        """Waits until the running daemon has stored everything up to now."""
        r = harness.command("wait", "--store", self.store, harness.end_of_wal(self.source, self.db), timeout=600)
        check(r.code == 0, lambda: f"wait: {r}")

    def resnapshot(self):
        """Asks the running daemon for all rows again."""
        r = harness.command("snapshot", "start", "--store", self.store, "public.rows")
        check(r.code == 0, lambda: f"snapshot start: {r}")

    def drop_slot(self, name):
        until(f"slot {name} is free", lambda: not self.value(
            f"SELECT active FROM pg_replication_slots WHERE slot_name = '{name}'"))
        self.sql(f"SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = '{name}'")

    def new_store(self):
        shutil.rmtree(self.store, ignore_errors=True)
        self.drop_slot(f"{SLOT}_{self.db}")

    def store_bytes(self):
        return os.stat(os.path.join(self.store, "data.mdb")).st_size

    # -- native --

    def peer_sql(self, text):
        return self.peer.sql(text, db=self.db)

    def subscribe(self):
        """Copies every table; seconds until the last one is ready."""
        began = time.monotonic()
        self.peer_sql(f"CREATE SUBSCRIPTION native_{self.db} CONNECTION '{self.source.dsn(self.db)}'"
                      f" PUBLICATION {PUBLICATION}")
        until("the subscription is ready", lambda: self.peer.value(
            "SELECT bool_and(srsubstate = 'r') FROM pg_subscription_rel", db=self.db), timeout=3600)
        self.has_peer = True
        return time.monotonic() - began

    def unsubscribe(self):
        self.peer_sql(f"DROP SUBSCRIPTION native_{self.db}")
        self.has_peer = False

    def native(self, mark):
        """From ENABLE to the row that was changed last; seconds."""
        began = time.monotonic()
        self.peer_sql(f"ALTER SUBSCRIPTION native_{self.db} ENABLE")
        until("native replication arrives", lambda: self.peer.value("SELECT n FROM mark", db=self.db) == mark,
              timeout=3600, interval=0.005)
        seconds = time.monotonic() - began
        self.disable()
        return seconds

    def disable(self):
        self.peer_sql(f"ALTER SUBSCRIPTION native_{self.db} DISABLE")
        until("the subscription is disabled", lambda: not self.value(
            f"SELECT active FROM pg_replication_slots WHERE slot_name = 'native_{self.db}'"), timeout=600)

    # -- the limit --

    def recvlogical(self, end):
        """pg_recvlogical with pgoutput to /dev/null."""
        return run_measured([
            os.path.join(self.source.pgbin, "pg_recvlogical"), "-d", self.source.dsn(self.db), "--slot",
            f"limit_{self.db}", "--start", "--no-loop", "-f", "/dev/null", "--endpos", end, "-o", "proto_version=1",
            "-o", f"publication_names={PUBLICATION}"])

    def copy_out(self, table, key):
        """COPY in key order to /dev/null."""
        with open("/dev/null", "wb") as null:
            return run_measured(["psql", "-X", "-q", "-d", self.source.dsn(self.db), "-c",
                                 f"COPY (SELECT * FROM {table} ORDER BY {key}) TO STDOUT"], to=null)

    # -- all three, over the same part of the log --

    def mark(self):
        """A change to wait for, a position before it, and another change: what ends with the position ends now."""
        update = "UPDATE mark SET n = n + 1 RETURNING n"
        self.value(update)
        end = self.value("SELECT pg_current_wal_insert_lsn()::text")
        return self.value(update), end

    def settle(self):
        """Everybody is up to date, and begins to decode not far from here next time."""
        self.source.sql("CHECKPOINT")
        mark, _ = self.mark()
        self.tidemark("--until", "caught-up")
        if self.has_peer:
            self.native(mark)
        self.sql(f"SELECT pg_replication_slot_advance('limit_{self.db}', pg_current_wal_flush_lsn())")

    def attach(self):
        """Copies for all of them; the limit gets a slot."""
        self.sql("INSERT INTO mark VALUES (1, 0)")
        self.sql(f"SELECT pg_create_logical_replication_slot('limit_{self.db}', 'pgoutput')")
        self.tidemark("--until", "caught-up")
        if self.peer:
            self.subscribe()
            self.disable()

    def burst(self, sql):
        """Runs it, with commits that wait for nothing; then brings the server to rest."""
        con = self.source.connect(self.db)
        with con.cursor() as cur:
            cur.execute("SET statement_timeout = 0; SET synchronous_commit = off")
            cur.execute(sql)
        con.close()
        marked = self.mark()
        self.source.sql("CHECKPOINT")
        return marked

    def round(self, number, sql):
        """{name: Measured} of one burst, each of the three alone."""
        self.settle()
        mark, end = self.burst(sql)
        ways = [("limit", lambda: self.recvlogical(end)), ("tidemark", lambda: self.tidemark("--until", end))]
        if self.has_peer:
            ways.append(("native", lambda: Measured(self.native(mark))))
        return {name: way() for name, way in rotated(ways, number)}

    def drop(self):
        if self.has_peer:
            self.unsubscribe()
        for name in (f"{SLOT}_{self.db}", f"limit_{self.db}"):
            self.drop_slot(name)
        for server in filter(None, (self.source, self.peer)):
            kept = server._admin.pop(self.db, None)
            if kept:
                kept.close()
            server.sql(f"DROP DATABASE {self.db} WITH (FORCE)")
        shutil.rmtree(self.store, ignore_errors=True)


# ---- results ----

class Results:
    """Figures with their goals. A goal is ("at least" | "at most", number), or None."""

    def __init__(self):
        self.figures, self.samples, self.failed = [], {}, []

    def keep(self, work, **samples):
        """Everything that was measured, for the JSON."""
        self.samples.setdefault(work, []).append(samples)

    def add(self, work, what, value, unit="", goal=None):
        reached = None
        if goal:
            reached = value >= goal[1] if goal[0] == "at least" else value <= goal[1]
        self.figures.append({"work": work, "what": what, "value": value, "unit": unit,
                             "goal": " ".join(map(str, goal)) if goal else "", "reached": reached})
        say(f"  {self.line(self.figures[-1])}")

    @staticmethod
    def line(f):
        verdict = {None: "", True: "reached", False: "NOT REACHED"}[f["reached"]]
        return f"{f['what']:<46} {f['value']:>10.3f} {f['unit']:<9} {f['goal']:<14} {verdict}".rstrip()

    def table(self):
        lines, work = [], None
        for f in self.figures:
            if f["work"] != work:
                lines.append(f"\n{f['work']}")
                work = f["work"]
            lines.append("  " + self.line(f))
        return "\n".join(lines)


def median(values):
    return statistics.median(list(values))


def seconds(measured):
    return {k: round(m.seconds, 4) for k, m in measured.items()}
