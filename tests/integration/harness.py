"""Real servers, the real program, and the comparison that decides every test.

A test takes a Server (a throwaway PostgreSQL) and a Tidemark (the daemon on a
store of its own). Everything lives in one temporary directory that is removed
at exit, with every process in it; KEEP=1 keeps the directory.

Environment: TIDEMARK (the program), PGBIN (the server's programs), SCALE
(multiplies table sizes), KEEP, SEED.
"""

import atexit
import contextlib
import functools
import glob
import hashlib
import io
import json
import os
import pwd
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

import psycopg2
import psycopg2.extensions

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAM = os.path.abspath(os.environ.get("TIDEMARK", os.path.join(ROOT, "build", "tidemark")))
SCALE = float(os.environ.get("SCALE", "1"))
SEED = int(os.environ.get("SEED", "1"))

EXIT_OK, EXIT_RUNTIME, EXIT_USAGE, EXIT_GAP, EXIT_DIFFERENCE, EXIT_STORE = range(6)

# A value has one text form under these (DESIGN 10); the servers' own defaults differ on purpose.
PINNED = {
    "datestyle": "ISO", "intervalstyle": "postgres", "extra_float_digits": "3", "bytea_output": "hex",
    "TimeZone": "UTC", "lc_monetary": "C", "search_path": "", "row_security": "off",
    "quote_all_identifiers": "off", "array_nulls": "on",
}
CONTRARY = {
    "datestyle": "SQL, DMY", "intervalstyle": "sql_standard", "extra_float_digits": "0",
    "bytea_output": "escape", "timezone": "America/New_York", "search_path": "nowhere, public",
}


class Failure(AssertionError):
    """A test's verdict."""


def timeout(seconds):
    """Gives a test another time limit."""
    def mark(function):
        function.limit = seconds
        return function
    return mark


def since(major):
    """A test of what older servers do not have: it does not exist there."""
    def mark(function):
        function.since = major
        return function
    return mark


def check(condition, message):
    if not condition:
        raise Failure(message() if callable(message) else message)


def until(what, condition, timeout=30, interval=0.02):
    """The first true value of condition(), or a Failure that names what did not happen."""
    deadline = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise Failure(f"not within {timeout} s: {what}")
        time.sleep(interval)


def scaled(n):
    return max(1, int(n * SCALE))


def words(*pairs, **named):
    """key=value words of a libpq connection string, quoted."""
    def quote(v):
        v = str(v).replace("\\", "\\\\").replace("'", "\\'")
        return f"'{v}'" if v == "" or any(c in v for c in " '\\") else v
    return " ".join(f"{k}={quote(v)}" for k, v in [*pairs, *named.items()])


# ---- the temporary directory and what must not outlive it ----

_areas = {}
_children = []


def area(base=None):
    """This test's directory. Short: Unix socket paths end at 107 bytes."""
    base = base or os.environ.get("TMPDIR", "/tmp")
    if len(base) > 40:
        base = "/tmp"
    if base not in _areas:
        _areas[base] = tempfile.mkdtemp(prefix=f"tmk.{os.getpid()}.", dir=base)
        os.chmod(_areas[base], 0o755)
    return _areas[base]


def areas():
    return list(_areas.values())


def remove_areas_of(pid):
    """What a process that had to be killed left behind."""
    for base in {os.environ.get("TMPDIR", "/tmp"), "/tmp", "/dev/shm"}:
        for path in glob.glob(f"{base}/tmk.{pid}.*"):
            shutil.rmtree(path, ignore_errors=True)


def place(name, base=None):
    """A fresh path in the area."""
    path = os.path.join(area(base), name)
    n = 1
    while os.path.lexists(path):
        n += 1
        path = os.path.join(area(base), f"{name}{n}")
    return path


def memory_disk():
    """Where a server that nobody syncs lives: in memory if there is plenty. A cluster is a thousand small files."""
    try:
        free = shutil.disk_usage("/dev/shm").free
    except OSError:
        return None
    return "/dev/shm" if free > 8 * 2**30 * max(1, SCALE) else None


@atexit.register
def clean_up():
    """Ends every process and removes the directories; the next one asked for is new."""
    for child in reversed(_children):
        if child.poll() is None:
            child.send_signal(signal.SIGQUIT if getattr(child, "is_server", False) else signal.SIGKILL)
    for child in _children:
        try:
            child.wait(10)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
    _children.clear()
    for path in areas():
        if os.environ.get("KEEP"):
            print(f"kept {path}", file=sys.stderr)
        else:
            shutil.rmtree(path, ignore_errors=True)
    _areas.clear()


def spawn(argv, death_signal, **popen):
    """Starts a process that gets death_signal when this one dies, however it dies."""
    child = subprocess.Popen(["setpriv", "--pdeathsig", death_signal, *argv], **popen)
    _children.append(child)
    return child


# ---- PostgreSQL ----

def find_pgbin():
    if "PGBIN" in os.environ:
        return os.environ["PGBIN"]
    found = [d for d in glob.glob("/usr/lib/postgresql/*/bin") if os.path.exists(d + "/initdb")]
    if not found:
        sys.exit("no PostgreSQL server programs in /usr/lib/postgresql: run tests/setup or set PGBIN")
    return max(found, key=lambda d: int(d.split("/")[-2].split(".")[0]))


@functools.lru_cache
def server_major():
    """The major version of the servers of this run."""
    r = subprocess.run([os.path.join(find_pgbin(), "postgres"), "--version"], capture_output=True, text=True, check=True)
    return int(r.stdout.split()[2].split(".")[0])


def server_user():
    """initdb refuses root: whom to be instead, or None when we are not root."""
    if os.getuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    sys.exit("running as root and there is neither a user postgres nor nobody to run the server as")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Server:
    """One PostgreSQL on a Unix socket, with logical replication on.

    settings: postgresql.conf lines. hba: lines put before `trust`. tcp: also listen on a free local
    port. fsync: off unless the test crashes it. fresh: its own system identifier. data: a data
    directory to copy, of a server that does not run. start=False: not started.
    """

    def __init__(self, name="pg", *, settings=None, hba=(), tcp=False, fsync=False, fresh=False, data=None,
                 start=True):
        self.dir = place(name, None if fsync else memory_disk())
        self.data = os.path.join(self.dir, "data")
        self.log_path = os.path.join(self.dir, "log")
        self.port = free_port() if tcp else 5432
        self.tcp = tcp
        self.process = None
        self._admin = {}
        self.user = server_user()
        self.pgbin = find_pgbin()
        os.mkdir(self.dir)
        if self.user:
            os.chown(self.dir, self.user.pw_uid, self.user.pw_gid)
        self._create(fresh, data)
        self.configure({
            "listen_addresses": "127.0.0.1" if tcp else "", "port": self.port,
            "unix_socket_directories": self.dir, "wal_level": "logical", "fsync": "on" if fsync else "off",
            "shared_buffers": "64MB", "max_connections": 60, "max_wal_senders": 8, "max_replication_slots": 8,
            "max_wal_size": "2GB", "jit": "off", "log_line_prefix": "%m [%p] ", "log_timezone": "UTC",
            "log_min_messages": "warning", "max_worker_processes": 4, "max_parallel_workers": 0,
            **CONTRARY, **(settings or {}),
        })
        if hba:
            path = os.path.join(self.data, "pg_hba.conf")
            with open(path) as f:
                rest = f.read()
            with open(path, "w") as f:
                f.write("\n".join(hba) + "\n" + rest)
        if start:
            self.start()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.stop("immediate")

    def _as_user(self, argv):
        if not self.user:
            return argv
        ids = [f"--reuid={self.user.pw_uid}", f"--regid={self.user.pw_gid}", "--clear-groups"]
        return ["setpriv", *ids, "--", *argv]

    def _create(self, fresh, data):
        template = data or (not fresh and os.environ.get("TIDEMARK_PG_TEMPLATE"))
        if template:
            subprocess.run(["cp", "-a", "--reflink=auto", template, self.data], check=True)
            return
        argv = [os.path.join(self.pgbin, "initdb"), "-D", self.data, "-U", "postgres", "-A", "trust",
                "-E", "UTF8", "--locale=C", "--no-sync"]
        r = subprocess.run(self._as_user(argv), capture_output=True, text=True, cwd="/")
        if r.returncode:
            raise Failure(f"initdb: {r.stdout}{r.stderr}")

    def configure(self, settings):
        """Appends to postgresql.conf; a later line wins. Takes effect at start."""
        with open(os.path.join(self.data, "postgresql.conf"), "a") as f:
            for name, value in settings.items():
                value = str(value).replace("'", "''")
                f.write(f"{name} = '{value}'\n")

    def start(self):
        argv = [os.path.join(self.pgbin, "postgres"), "-D", self.data]
        if self.user:
            argv = [f"--reuid={self.user.pw_uid}", f"--regid={self.user.pw_gid}", "--clear-groups", "--", *argv]
        env = {k: v for k, v in os.environ.items() if not k.startswith("PG")}
        with open(self.log_path, "ab") as log:
            self.process = spawn(argv, "QUIT", stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd="/",
                                 env=env)
        self.process.is_server = True
        until("the server accepts connections", self._is_up, timeout=60)

    def _is_up(self):
        if self.process.poll() is not None:
            raise Failure(f"the server did not start:\n{self.log()[-2000:]}")
        try:
            self.connect().close()
            return True
        except psycopg2.OperationalError:
            return False

    def stop(self, mode="fast"):
        if self.process is None:
            return
        self.process.send_signal({"smart": signal.SIGTERM, "fast": signal.SIGINT,
                                  "immediate": signal.SIGQUIT}[mode])
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGQUIT)
            self.process.wait(30)
        self.process = None
        self._admin = {}

    def restart(self, mode="fast"):
        self.stop(mode)
        self.start()


    def log(self):
        try:
            with open(self.log_path, errors="replace") as f:
                return f.read()
        except FileNotFoundError:
            return ""

    def dsn(self, db="postgres", **more):
        return words(**{"host": self.dir, "port": self.port, "user": "postgres", "dbname": db, **more})

    def connect(self, db="postgres", *, autocommit=True, pinned=False, **more):
        options = "-c statement_timeout=120000 -c idle_in_transaction_session_timeout=0"
        if pinned:
            options += "".join(f" -c {k}={v}" for k, v in PINNED.items())
            more["client_encoding"] = "UTF8"
        con = psycopg2.connect(self.dsn(db, options=options, **more))
        con.autocommit = autocommit
        return con

    def sql(self, text, *params, db="postgres"):
        """Rows of one statement, or of the last of several; on a kept autocommit connection."""
        con = self._admin.get(db)
        if con is None or con.closed:
            con = self._admin[db] = self.connect(db)
            with con.cursor() as cur:
                cur.execute("SET search_path = public; SET datestyle = ISO")
        with con.cursor() as cur:
            cur.execute(text, params or None)
            return cur.fetchall() if cur.description else []

    def value(self, text, *params, db="postgres"):
        rows = self.sql(text, *params, db=db)
        return rows[0][0] if rows else None

    def database(self, name):
        self.sql(f'CREATE DATABASE "{name}"')
        return name

    def set(self, name, value):
        """ALTER SYSTEM and reload, without waiting for a standby."""
        self.sql("SET synchronous_commit = local")
        self.sql(f"ALTER SYSTEM SET {name} = %s" if value is not None else f"ALTER SYSTEM RESET {name}",
                 *([value] if value is not None else []))
        self.sql("SELECT pg_reload_conf()")
        self.sql("RESET synchronous_commit")

    def slots(self):
        return {r[0]: r[1:] for r in self.sql(
            "SELECT slot_name, active, active_pid, confirmed_flush_lsn FROM pg_replication_slots")}

    def publications(self, db="postgres"):
        return {r[0] for r in self.sql("SELECT pubname FROM pg_publication", db=db)}


def lsn(text):
    hi, lo = text.split("/")
    return int(hi, 16) << 32 | int(lo, 16)


def lsn_text(n):
    return f"{n >> 32:X}/{n & 0xffffffff:X}"


def end_of_wal(server, db="postgres"):
    """What has been committed ends here, at the latest.

    At a page boundary the insert position already counts the header of a page that nobody has
    written yet, and on an idle server nobody will: take the boundary instead.
    """
    n = lsn(server.value("SELECT pg_current_wal_insert_lsn()::text", db=db))
    if n % 8192 in (24, 40):
        n -= n % 8192
    return lsn_text(n)


# ---- Tidemark ----

class Result:
    def __init__(self, completed):
        self.code = completed.returncode
        self.out = completed.stdout
        self.err = completed.stderr.decode(errors="replace")

    def __repr__(self):
        return f"exit {self.code}, stdout {self.out[-300:]!r}, stderr {self.err[-600:]!r}"


def environment(extra=None):
    """Ours without anything that libpq or tidemark would take settings from."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PG", "TIDEMARK_"))}
    env["PGPASSFILE"] = "/nonexistent"
    env.update(extra or {})
    return env


def command(*argv, env=None, timeout=60, user=None, program=PROGRAM):
    """Runs `tidemark ARGV...` to its end."""
    argv = [program, *map(str, argv)]
    if user:
        argv = ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups", "--", *argv]
    try:
        return Result(subprocess.run(argv, capture_output=True, env=environment(env), timeout=timeout,
                                     stdin=subprocess.DEVNULL, cwd="/"))
    except subprocess.TimeoutExpired as e:
        raise Failure(f"not finished after {timeout} s: {' '.join(argv)}\n{(e.stderr or b'').decode()[-2000:]}")


def table_name(name):
    """A table as the commands take it: (schema, table) or a name in public, quoted where SQL would."""
    schema, name = name if isinstance(name, tuple) else ("public", name)
    def quote(s):
        plain = s.isascii() and s.islower() and s.replace("_", "a").isalnum() and not s[0].isdigit()
        return s if plain else '"' + s.replace('"', '""') + '"'
    return f"{quote(schema)}.{quote(name)}"


class Tidemark:
    """A daemon and its store. tables: the --tables value, or a list of names."""

    def __init__(self, server, tables=None, *, db="postgres", store=None, args=(), env=None, source=None):
        self.server, self.db = server, db
        self.store = store or place("store")
        if isinstance(tables, (list, tuple)):
            tables = ",".join(table_name(t) for t in tables)
        self.tables_option = tables
        self.args = [str(a) for a in args]
        self.env = env
        self.source = source
        self.log_path = self.store + ".log"
        self.process = None
        self.starts = 0
        self._held = []

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.release_copy()
        self.kill()

    def argv(self, *more):
        argv = ["run", "--source", self.source or self.server.dsn(self.db), "--store", self.store]
        if self.tables_option is not None:
            argv += ["--tables", self.tables_option]
        return [*argv, *self.args, *map(str, more)]

    def start(self, *more):
        self.starts += 1
        with open(self.log_path, "ab") as log:
            self.process = spawn([PROGRAM, *self.argv(*more)], "KILL", stdout=log, stderr=log,
                                 stdin=subprocess.DEVNULL, env=environment(self.env), cwd="/")
        return self

    def run(self, *more, timeout=60):
        """Runs the daemon in the foreground until it exits by itself."""
        return command(*self.argv(*more), env=self.env, timeout=timeout)

    @property
    def pid(self):
        return self.process.pid

    def is_running(self):
        return self.process is not None and self.process.poll() is None

    def kill(self):
        if self.is_running():
            self.process.kill()
            self.process.wait()
        self.process = None

    def wait_exit(self, timeout=30):
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise Failure(f"tidemark did not exit within {timeout} s")

    def terminate(self):
        """Sends SIGTERM, to a program that has come as far as to catch it: before that it dies of it, like any."""
        until("it catches SIGTERM", lambda: not self.is_running() or catches(self.pid, signal.SIGTERM), interval=0.002)
        self.process.send_signal(signal.SIGTERM)

    def stop(self, timeout=30):
        """SIGTERM must end it with 0."""
        self.terminate()
        code = self.wait_exit(timeout)
        self.process = None
        check(code == 0, lambda: f"SIGTERM gave exit {code}")

    def log(self):
        try:
            with open(self.log_path, errors="replace") as f:
                return f.read()
        except FileNotFoundError:
            return ""

    def wait_log(self, text, timeout=30, start=0):
        until(f"{text!r} in tidemark's log", lambda: text in self.log()[start:] or self._must_run(), timeout)

    def _must_run(self):
        """A daemon that was started and not stopped must not have gone."""
        if self.process is not None and self.process.poll() is not None:
            raise Failure(f"tidemark exited with {self.process.returncode}")

    # -- reading --

    def cmd(self, name, *args, timeout=60):
        self._must_run()
        return command(name, "--store", self.store, *args, timeout=timeout)

    def json(self, name, *args):
        """Objects of `NAME --json`, [] while the store does not exist yet."""
        r = self.cmd(name, "--json", *args)
        if r.code != 0:
            return []
        return [json.loads(line) for line in r.out.splitlines() if line.strip()]

    def status(self):
        found = self.json("status")
        return found[0] if found else {}

    def tables(self):
        """{(schema, table): object of `tables --json`}; of several under one name the one in use."""
        found = {}
        for t in self.json("tables"):
            name = (t["schema"], t["table"])
            if t["state"] != "left" or name not in found:
                found[name] = t
        return found

    def state(self, table):
        key = table if isinstance(table, tuple) else ("public", table)
        return self.tables().get(key, {}).get("state")

    def wait_live(self, *names, timeout=60):
        """Until the named tables, or all there are, are live."""
        keys = [n if isinstance(n, tuple) else ("public", n) for n in names]
        def live():
            self._must_run()
            found = self.tables()
            wanted = [found.get(k) for k in keys] if keys else list(found.values())
            return wanted and all(t and t["state"] == "live" for t in wanted)
        until(f"live: {names or 'all tables'}", live, timeout)

    def wait_slot(self, timeout=30):
        """Until the daemon streams: its slot exists and is in use."""
        def streaming():
            self._must_run()
            return any(active for active, *_ in self.server.slots().values())
        until("a slot in use", streaming, timeout, interval=0.005)

    def rows_read(self, table):
        """Rows that the latest run over the table has read."""
        schema, name = table if isinstance(table, tuple) else ("public", table)
        runs = [r for r in self.status().get("runs", []) if (r["schema"], r["table"]) == (schema, name)]
        return runs[-1]["rows_read"] if runs else 0

    def _chunk_server(self):
        """The server's process that answers chunks; None: there is none yet."""
        return self.server.value("SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend'"
                                 " AND application_name LIKE 'tidemark%%' AND datname = %s", self.db)

    @staticmethod
    def _stop_idle(pid):
        """Stops it while it idles, so that it holds nothing."""
        while True:
            os.kill(pid, signal.SIGSTOP)
            until("stopped", lambda: process_state(pid) == "T", interval=0.0001)
            with open(f"/proc/{pid}/cmdline") as f:
                if f.read().rstrip("\0 ").endswith(" idle"):
                    return
            os.kill(pid, signal.SIGCONT)
            time.sleep(0.0003)

    def _has_read(self, table, past):
        """Whether more rows than that are stored, once what was read is: that takes the store a moment."""
        for _ in range(12):
            if self.rows_read(table) > past:
                return True
            time.sleep(0.02)
        return False

    def hold_copy(self, table, past=0):
        """Stops the copy between two chunks once it has read more than `past` rows; the stream goes on.

        A copy of few rows is over in less than the time it takes to look: so the server is let go for moments.
        """
        pid = until("a connection for chunks", self._chunk_server, interval=0.001)
        self._stop_idle(pid)
        self._held.append(pid)
        give_up = time.monotonic() + 60
        while not self._has_read(table, past):
            check(time.monotonic() < give_up, "the copy does not begin")
            os.kill(pid, signal.SIGCONT)
            time.sleep(0.004)
            self._stop_idle(pid)
        check(self.state(table) == "copying", "the copy was over before it could be held: nothing is tested")
        return self.rows_read(table)

    def release_copy(self):
        while self._held:
            try:
                os.kill(self._held.pop(), signal.SIGCONT)
            except ProcessLookupError:
                pass

    def wait(self, timeout=60):
        """Until the store has everything the source has committed by now."""
        where = self.server.value("SELECT pg_current_wal_insert_lsn()::text", db=self.db)
        argv = [PROGRAM, "wait", "--store", self.store, where, "--timeout", str(timeout)]
        waiting = spawn(argv, "KILL", stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment(),
                        cwd="/")
        while waiting.poll() is None:
            self._must_run()
            time.sleep(0.01)
        check(waiting.returncode == 0, lambda: f"tidemark wait {where}: {waiting.stderr.read().decode()}")
        waiting.stderr.close()

    def get(self, table, *key):
        """The row as a dict, or None."""
        r = self.cmd("get", "--", table_name(table), *key)
        if r.code != 0:
            return None
        return json.loads(r.out)

    def scan(self, table, *args):
        r = self.cmd("scan", table_name(table), "--format", "copy", *args, timeout=300)
        check(r.code == 0, lambda: f"tidemark scan {table_name(table)}: {r}")
        return r.out

    def content(self):
        """Everything the store says: rows, tables, runs, position, lineage. Opening it for writing leaves this alone."""
        status = self.status()
        told = {k: status[k] for k in ("store_id", "source", "tables", "unseen", "runs")}
        told["checkpoint"] = {k: v for k, v in status["checkpoint"].items() if k != "written_age_s"}
        return json.dumps(told), self.cmd("tables", "--json").out, [self.scan(t) for t in sorted(self.tables())]

    # -- the verdict --

    def refuses(self, *fragments):
        """Its history is gone or is not ours: exit 3 with one sentence, and the store stays as it was."""
        before = self.content()
        r = self.run("--until", "caught-up", timeout=30)
        check(r.code == EXIT_GAP, lambda: f"expected exit {EXIT_GAP}, got {r}")
        sentence = r.err.strip().splitlines()[-1]
        for f in fragments:
            check(f.lower() in sentence.lower(), lambda: f"{f!r} is not in: {sentence}")
        check(self.content() == before, "the store changed")
        return sentence

    def equal(self, *names, timeout=60, twin=None):
        """The store shows these tables byte for byte as the source has them. Writers must have stopped.

        twin: a database made by twin(); what the store shows is loaded into its tables and compared again.
        """
        self.wait(timeout)
        with contextlib.ExitStack() as stack:
            def connect(db, **more):
                return stack.enter_context(contextlib.closing(self.server.connect(db, **more)))
            source = connect(self.db, pinned=True)
            pinned, loading = (connect(twin, pinned=True), connect(twin)) if twin else (None, None)
            for name in names:
                rows = self.scan(name)
                compare(self.server, self.db, name, rows, source)
                if twin:
                    load_copy(self.server, twin, name, rows, loading)
                    compare(self.server, self.db, name, source_copy(self.server, twin, name, pinned), source)


def twin(server, db="postgres"):
    """A database with the same schema and no rows; nobody may be connected to db."""
    name = db + "_twin"
    con = server._admin.pop(db, None)
    if con:
        con.close()
    def create():
        try:
            server.sql(f'CREATE DATABASE "{name}" TEMPLATE "{db}"', db="template1")
            return True
        except psycopg2.errors.ObjectInUse:  # a session that is closed takes a moment to go
            return False
    until("a twin database", create)
    for (table,) in server.sql("SELECT format('%I.%I', nspname, relname) FROM pg_class c JOIN pg_namespace n"
                               " ON n.oid = relnamespace WHERE relkind IN ('r', 'p') AND nspname !~ '^pg_'"
                               " AND nspname <> 'information_schema'", db=name):
        server.sql(f"TRUNCATE {table} CASCADE", db=name)
    return name


def load_copy(server, db, name, rows, con):
    """What a user does with \\copy: under the server's own settings, replacing what is there."""
    schema, table = name if isinstance(name, tuple) else ("public", name)
    quoted = ".".join('"' + s.replace('"', '""') + '"' for s in (schema, table))
    con.set_client_encoding("UTF8")
    with con.cursor() as cur:
        cur.execute(f"SET session_replication_role = replica; TRUNCATE {quoted}")
        cur.copy_expert(f"COPY {quoted} ({', '.join(columns_of(server, db, name))}) FROM STDIN", io.BytesIO(rows))


def columns_of(server, db, name):
    schema, table = name if isinstance(name, tuple) else ("public", name)
    return [r[0] for r in server.sql(
        "SELECT quote_ident(attname) FROM pg_attribute WHERE attrelid = (SELECT c.oid FROM pg_class c"
        " JOIN pg_namespace n ON n.oid = relnamespace WHERE nspname = %s AND relname = %s)"
        " AND attnum > 0 AND NOT attisdropped AND attgenerated = '' ORDER BY attnum", schema, table, db=db)]


def source_copy(server, db, name, con=None):
    """COPY text of the whole table under the pinned settings, on a connection of its own or on con, which has them."""
    schema, table = name if isinstance(name, tuple) else ("public", name)
    quoted = ".".join('"' + s.replace('"', '""') + '"' for s in (schema, table))
    with contextlib.nullcontext(con) if con else contextlib.closing(server.connect(db, pinned=True)) as con:
        out = io.BytesIO()
        with con.cursor() as cur:
            cur.copy_expert(f"COPY (SELECT {', '.join(columns_of(server, db, name))} FROM {quoted}) TO STDOUT",
                            out)
        return out.getvalue()


def compare(server, db, name, store, con=None):
    """Raises a Failure with a short diff unless store holds the same lines as the source."""
    source = sorted(source_copy(server, db, name, con).split(b"\n"))
    store = sorted(store.split(b"\n"))
    if source == store:
        return
    def show(lines):
        return "".join(f"\n    {line[:160]!r}" for line in sorted(lines)[:5])
    def first_difference():
        """Of a row that both have: long rows do not fit a line."""
        ours = {line.split(b"\t")[0]: line.split(b"\t") for line in extra}
        for line in sorted(missing):
            theirs = line.split(b"\t")
            for n, (a, b) in enumerate(zip(theirs, ours.get(theirs[0], theirs)), 1):
                if a != b:
                    return f"\n  row {theirs[0][:40]!r}, column {n}: source {a[:160]!r}, store {b[:160]!r}"
        return ""
    missing, extra = set(source) - set(store), set(store) - set(source)
    raise Failure(
        f"{table_name(name)} differs: source {len(source) - 1} rows, store {len(store) - 1};"
        f"\n  {len(missing)} only in the source:{show(missing)}\n  {len(extra)} only in the store:{show(extra)}{first_difference()}")


# ---- small things several tests want ----

class Background:
    """One statement in a session of its own, in a thread: for what hangs or takes long."""

    def __init__(self, server, text, db="postgres", before=""):
        self.con = server.connect(db)
        self.pid = self.con.get_backend_pid()
        self.error = None
        with self.con.cursor() as cur:
            cur.execute("SET statement_timeout = 0; SET search_path = public;" + before)
        self.thread = threading.Thread(target=self._run, args=(text,), daemon=True)
        self.thread.start()

    def _run(self, text):
        try:
            with self.con.cursor() as cur:
                cur.execute(text)
        except psycopg2.Error as e:
            self.error = e

    def is_done(self):
        return not self.thread.is_alive()

    def join(self, timeout=30):
        self.thread.join(timeout)
        check(self.is_done(), "a statement in the background did not end")
        self.con.close()
        if self.error:
            raise Failure(f"a statement in the background failed: {self.error}")


def wait_event(server, pid):
    return server.value("SELECT wait_event FROM pg_stat_activity WHERE pid = %s", pid)


def process_state(pid):
    """R, S, D, T ... of proc(5)."""
    with open(f"/proc/{pid}/stat") as f:
        return f.read().rpartition(")")[2].split()[0]


def is_sanitized():
    """The program was built with a sanitizer, whose own memory is many times its."""
    with open(PROGRAM, "rb") as f:
        data = f.read()
    return b"__asan_init" in data or b"__tsan_init" in data


def process_status(pid, field):
    """A field of proc(5)'s status, "0" if there is no such process."""
    try:
        with open(f"/proc/{pid}/status") as f:
            for line in f:
                if line.startswith(f"{field}:"):
                    return line.split()[1]
    except (FileNotFoundError, ProcessLookupError):
        pass
    return "0"


def anonymous_kib(pid):
    """Anonymous resident memory: RssAnon, which the store's mapped file is not part of."""
    return int(process_status(pid, "RssAnon"))


def catches(pid, signum):
    return int(process_status(pid, "SigCgt"), 16) >> (signum - 1) & 1 == 1


class MemoryWatch(threading.Thread):
    """Samples the anonymous memory of a process; stop() returns the peak in KiB."""

    def __init__(self, pid):
        super().__init__(daemon=True)
        self.pid, self.peak, self.over = pid, 0, threading.Event()

    def run(self):
        while not self.over.wait(0.05):
            self.peak = max(self.peak, anonymous_kib(self.pid))

    def stop(self):
        self.over.set()
        self.join()
        return self.peak


def checksum(path):
    """Of every byte below path but the lock files: a reader table and a daemon's pid are not content."""
    h = hashlib.sha256()
    if os.path.isfile(path):
        with open(path, "rb") as f:
            return hashlib.sha256(f.read()).hexdigest()
    for base, dirs, files in sorted(os.walk(path)):
        for name in sorted(dirs + files):
            full = os.path.join(base, name)
            h.update(full.encode())
            if os.path.isfile(full) and not name.endswith((".lock", "lock.mdb")):
                with open(full, "rb") as f:
                    h.update(f.read())
    return h.hexdigest()


def incompressible(rng, length):
    """Text that TOAST stores out of line, whole."""
    return rng.randbytes(length // 2 + 1).hex()[:length]


def rng(*what):
    """A generator of its own for each purpose; SEED gives another history."""
    return random.Random(repr((SEED, *what)))
