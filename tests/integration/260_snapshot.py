"""Tables read again on demand: whole, a range, a condition, listed keys; damage that they repair; kills."""

import json
import os
import queue
import socket
import subprocess
import threading
import time

from harness import PROGRAM, Failure, Server, Tidemark, check, incompressible, rng, scaled, timeout, until

DAMAGE = os.path.join(os.path.dirname(PROGRAM), "damage")


def damage(tm, lines):
    """Meddles with the store of a daemon that does not run; see damage.c."""
    text = "".join("\t".join("\\N" if w is None else str(w) for w in line) + "\n" for line in lines)
    r = subprocess.run([DAMAGE, tm.store], input=text.encode(), capture_output=True, timeout=60)
    check(r.returncode == 0, lambda: f"damage: {r.stderr.decode()}")


def snapshot(tm, *words):
    r = tm.cmd("snapshot", *words, "--json")
    check(r.code == 0, lambda: f"snapshot {words}: {r}")
    return json.loads(r.out)


def find_runs(tm, name):
    return [r for r in tm.json("snapshot", "list") if r["name"] == name]


def wait_runs(tm, name, *states, timeout=60):
    found = []

    def there():
        found[:] = find_runs(tm, name)
        return found and all(r["state"] in (states or ("done",)) for r in found) and found
    try:
        return until(f"runs {name} are {states or 'done'}", there, timeout)
    except Failure as e:
        raise Failure(f"{e}: {found}") from None


def run_of(tm, *words, name="it"):
    """Starts one run and waits for its end."""
    snapshot(tm, "start", *words, "--id", name)
    run = wait_runs(tm, name, "done", "failed", "stopped")[0]
    check(run["state"] == "done", run)
    return run


def counts(run, **expected):
    wrong = {k: (run[k], v) for k, v in expected.items() if run[k] != v}
    check(not wrong, lambda: f"(counted, expected): {wrong} of {run}")


def rows(tm, table):
    """{first column: line} of the store."""
    return {line.split(b"\t", 1)[0]: line for line in tm.scan(table).splitlines()}


class Updater(threading.Thread):
    """Counts n up in rows above `low`, deletes some for good, until told to stop."""

    def __init__(self, server, table, low, high):
        super().__init__(daemon=True)
        self.rng = rng("updater", table)
        self.con = server.connect()
        self.table, self.low, self.high = table, low, high
        self.stopping = threading.Event()
        self.done = 0

    def run(self):
        with self.con.cursor() as cur:
            while not self.stopping.is_set():
                key = self.rng.randint(self.low, self.high)
                if self.rng.random() < 0.05:
                    cur.execute(f"DELETE FROM public.{self.table} WHERE id = %s", (key,))
                else:
                    cur.execute(f"UPDATE public.{self.table} SET n = n + 1 WHERE id BETWEEN %s AND %s", (key, key + 5))
                self.done += 1

    def stop(self):
        self.stopping.set()
        self.join()
        self.con.close()


class Watcher(threading.Thread):
    """Scans in a loop: n of a key never falls, and a key that was there and went does not come back."""

    def __init__(self, tm, table):
        super().__init__(daemon=True)
        self.tm, self.table = tm, table
        self.seen, self.gone = {}, set()
        self.stopping = threading.Event()
        self.problem = None
        self.scans = 0

    def look(self):
        now = {}
        for line in self.tm.scan(self.table).splitlines():
            cells = line.split(b"\t")
            now[cells[0]] = int(cells[1])
        for key, n in now.items():
            if key in self.gone:
                return f"{key} came back"
            if n < self.seen.get(key, n):
                return f"{key} fell from {self.seen[key]} to {n}"
        self.gone |= self.seen.keys() - now.keys()
        self.seen.update(now)
        self.scans += 1

    def run(self):
        while not self.stopping.is_set() and not self.problem:
            self.problem = self.look()

    def stop(self):
        self.stopping.set()
        self.join()
        check(not self.problem, self.problem)
        check(self.scans > 3, "the reader did not look often enough")


@timeout(180)
def test_one_run_repairs_all_damage():
    """Corrupted, lost and invented rows, under write load; counted exactly; no reader sees a key go backwards."""
    n = scaled(20000)
    with Server() as server, Tidemark(server, "public.t", args=["--chunk-rows", 500]) as tm:
        server.sql("CREATE TABLE t (id int PRIMARY KEY, n int, v text)")
        server.sql("INSERT INTO t SELECT g, 100, 'row ' || g FROM generate_series(1, %s) g", n)
        tm.start()
        tm.wait_live("t")
        tm.stop()
        corrupted, lost, invented = range(1, 301), range(400, 500), [*range(-150, 0), *range(n + 1, n + 51)]
        damage(tm, [*(("put", "t", k, 1, None if k % 2 else "wrong") for k in corrupted), *(("drop", "t", k) for k in lost),
                    *(("put", "t", k, 1, "ghost") for k in invented)])
        check(len(rows(tm, "t")) == n - len(lost) + len(invented), "the damage was not done")
        tm.start()
        tm.wait_live("t")
        check(b"ghost" in tm.scan("t"), "nothing is tested")
        load, watch = Updater(server, "t", 1000, n), Watcher(tm, "t")
        load.start()
        watch.start()
        until("the load is on", lambda: load.done > 20 and watch.scans > 1)
        run = run_of(tm, "t", "--max-rows-per-second", 8000, name="repair")
        load.stop()
        watch.stop()
        counts(run, rows_written=len(corrupted) + len(lost), rows_swept=len(invented))
        check(run["rows_suspect"] >= len(invented), run)
        check(run["rows_read"] == sum(run[k] for k in ("rows_written", "rows_same", "rows_superseded", "rows_newer", "rows_filled")), run)
        tm.equal("t")


def make_tenants(server, n=3000):
    server.sql("CREATE TABLE t (id int PRIMARY KEY, tenant_id int, v text)")
    server.sql("INSERT INTO t SELECT g, g %% 10, 'row ' || g FROM generate_series(1, %s) g", n)


def test_a_condition_leaves_the_rest_alone():
    with Server() as server, Tidemark(server, "public.t", args=["--chunk-rows", 100]) as tm:
        make_tenants(server)
        tm.start()
        tm.wait_live("t")
        tm.stop()
        # For each tenant: wrong, lost, invented. Rows that moved between tenants 5 and 6 while nobody looked.
        damage(tm, [*(("put", "t", k, k % 10, "wrong") for k in range(100, 200)), *(("drop", "t", k) for k in range(200, 300)),
                    *(("put", "t", k, k % 10, "ghost") for k in range(5000, 5100)),
                    ("put", "t", 15, 6, "moved away here"), ("put", "t", 16, 5, "moved here"), ("put", "t", 17, None, "no tenant")])
        before = rows(tm, "t")
        tm.start()
        tm.wait_live("t")
        run = run_of(tm, "t", "--where", "tenant_id = 5", name="five")
        after = rows(tm, "t")
        source = {str(k).encode(): v for k, v in server.sql("SELECT id, id || E'\\t' || tenant_id || E'\\t' || v FROM t WHERE tenant_id = 5")}
        for key, line in source.items():
            check(after.get(key) == line.encode(), lambda: f"tenant 5: {after.get(key)} instead of {line}")
        # What the store had of other tenants is untouched, right or wrong.
        for key in before.keys() | after.keys():
            if key in source or (before.get(key, b"").split(b"\t") + [b""] * 2)[1] == b"5":
                continue
            check(before.get(key) == after.get(key), lambda: f"{before.get(key)} became {after.get(key)}")
        check(not [v for v in after.values() if v.split(b"\t")[1] == b"5" and b"ghost" in v], "ghosts of tenant 5 stay")
        check(after[b"16"].startswith(b"16\t6\trow"), after[b"16"])
        counts(run, rows_swept=10)
        # The rest is put right by a run over all of it.
        run_of(tm, "t", name="all")
        tm.equal("t")


def test_ranges_keys_and_counting():
    with Server() as server, Tidemark(server, "public.*", args=["--chunk-rows", 50]) as tm:
        make_tenants(server, 1000)
        server.sql("CREATE TABLE p (b text, v text, a int, PRIMARY KEY (b, a));"
                   "INSERT INTO p SELECT 'k' || g % 10, 'v', g FROM generate_series(1, 300) g")
        tm.start()
        tm.wait_live("t", "p")
        tm.stop()
        damage(tm, [*(("put", "t", k, 1, "wrong") for k in range(1, 101)), *(("put", "t", k, 1, "ghost") for k in range(2000, 2100)),
                    *(("put", "p", f"k{k % 10}", "wrong", k) for k in range(1, 301)), *(("put", "p", "k5", "ghost", k) for k in range(900, 910))])
        tm.start()
        tm.wait_live("t", "p")
        before = rows(tm, "t")
        # Counting writes nothing of what it counts.
        run = run_of(tm, "t", "--from", 2000, "--to", 2049, "--sweep", "count", name="count")
        counts(run, rows_swept=50, rows_suspect=50, rows_read=0, sweep="count", **{"from": "2000", "to": "2049"})
        check(rows(tm, "t") == before, "counting changed something")
        run = run_of(tm, "t", "--from", 2000, "--sweep", "off", name="off")
        counts(run, rows_swept=0, rows_suspect=0)
        check(rows(tm, "t") == before, "it was swept")
        run = run_of(tm, "t", "--from", 51, "--to", 60, name="range")
        counts(run, rows_written=10, rows_read=10, rows_swept=0)
        changed = {k for k, v in rows(tm, "t").items() if v != before[k]}
        check(changed == {str(k).encode() for k in range(51, 61)}, changed)
        # Keys from the store itself; two that the source does not have, one that nobody has.
        path = os.path.join(os.path.dirname(tm.store), "keys")
        with open(path, "w") as f:
            f.write("".join(f"{k}\n" for k in (1, 2, 3, 2000, 2001, 77777)))
        run = run_of(tm, "t", "--keys", path, name="keys")
        counts(run, listed=6, rows_read=3, rows_written=3)
        now = rows(tm, "t")
        check(b"2000" not in now and b"2001" not in now and b"2002" in now and b"wrong" in now[b"4"], "not these keys")
        r = subprocess.run([PROGRAM, "snapshot", "start", "p", "--store", tm.store, "--keys", "-", "--id", "pairs"],
                           input=b"k1\t1\nk5\t900\n\\x6b2\t2\n", capture_output=True)
        check(r.returncode == 0, r)
        wait_runs(tm, "pairs")
        p = {tuple(line.split(b"\t")[::2]): line.split(b"\t")[1] for line in tm.scan("p").splitlines()}
        check(p[b"k1", b"1"] == p[b"k2", b"2"] == b"v" and (b"k5", b"900") not in p and p[b"k1", b"11"] == b"wrong", p)
        run = run_of(tm, "p", "--from", "k5,100", "--to", "k7,50", name="pair range")
        pairs = server.value("SELECT count(*) FROM p WHERE (b, a) >= ('k5', 100) AND (b, a) <= ('k7', 50)")
        counts(run, rows_read=pairs, rows_written=pairs, rows_swept=9)
        # Both at once, and everything.
        run = run_of(tm, "t", "--from", 1, "--to", 50, "--where", "v LIKE '%5'", name="both")
        counts(run, rows_read=5, rows_written=5)
        snapshot(tm, "start", "t", "p", "--id", "both tables")
        wait_runs(tm, "both tables")
        tm.equal("t", "p")


def test_pause_resume_stop():
    with Server() as server, Tidemark(server, "public.t", args=["--chunk-rows", 10]) as tm:
        make_tenants(server)
        tm.start()
        tm.wait_live("t")
        # A hard cap makes it slow.
        began = time.monotonic()
        snapshot(tm, "start", "t", "--id", "slow", "--max-rows-per-second", 200)
        until("it reads", lambda: find_runs(tm, "slow")[0]["rows_read"] > 50)
        read, passed = find_runs(tm, "slow")[0]["rows_read"], time.monotonic() - began
        check(read <= 200 * passed + 100, f"{read} rows in {passed:.1f} s")
        check(tm.state("t") == "live", "a table that is read again is not live")
        snapshot(tm, "pause", "slow")
        paused = wait_runs(tm, "slow", "paused")[0]["rows_read"]
        # One behind it is not held up.
        run_of(tm, "t", "--where", "tenant_id = 1", name="other")
        for end in ("stop", "kill", "kill"):
            getattr(tm, end)()
            tm.start()
            tm.wait_live("t")
            server.sql("UPDATE t SET v = %s WHERE id = 5", f"after a {end}")
            tm.equal("t")
        check(wait_runs(tm, "slow", "paused")[0]["rows_read"] == paused, "it went on while it was paused")
        snapshot(tm, "resume", "t")
        until("it goes on", lambda: find_runs(tm, "slow")[0]["rows_read"] > paused)
        # Asked for while the daemon is down.
        tm.stop()
        snapshot(tm, "pause", "slow")
        tm.start()
        tm.wait_live("t")
        wait_runs(tm, "slow", "paused")
        tm.stop()
        snapshot(tm, "resume", "slow")
        snapshot(tm, "stop", "slow")
        tm.start()
        tm.wait_live("t")
        run = wait_runs(tm, "slow", "stopped")[0]
        check(run["ended"] and "on request" in run["error"] and run["rows_read"] >= paused, run)
        # Again under the same name: it is that one, for ever.
        again = snapshot(tm, "start", "t", "--id", "slow")["runs"][0]
        check(not again["new"] and again["state"] == "stopped", again)
        snapshot(tm, "start", "t", "--id", "more", "--max-rows-per-second", 10)
        until("it reads", lambda: find_runs(tm, "more")[0]["rows_read"] > 0)
        snapshot(tm, "stop", "more")
        wait_runs(tm, "more", "stopped")
        tm.equal("t")


def test_first_copy_can_be_paused():
    with Server() as server, Tidemark(server, "public.t", args=["--chunk-rows", 10]) as tm:
        make_tenants(server, scaled(20000))
        tm.start()
        until("copying", lambda: tm.rows_read("t") > 0, interval=0.005)
        r = tm.cmd("snapshot", "stop", "t")
        check(r.code == 2 and ("no open run" in r.err or "not stopped" in r.err), r)
        snapshot(tm, "pause", "t")
        server.sql("UPDATE t SET v = 'while paused' WHERE id % 7 = 0")
        tm.wait()
        check(tm.state("t") == "copying", "it was copied before it was paused: nothing is tested")
        tm.kill()
        tm.start()
        tm.wait()
        check(tm.state("t") == "copying", "it did not stay paused")
        snapshot(tm, "resume", "t")
        tm.wait_live("t")
        tm.equal("t")


@timeout(240)
def test_killed_in_every_phase():
    """The same result, and each row read by one closed chunk: a kill costs no more than the chunks that were open."""
    moments = rng("snapshot", "kill")
    n = 4000
    with Server(fsync=True) as server, Tidemark(server, "public.t", args=["--chunk-rows", 40]) as tm:
        server.sql("CREATE TABLE t (id int PRIMARY KEY, n int, body text); ALTER TABLE t ALTER body SET STORAGE EXTERNAL")
        server.sql("INSERT INTO t SELECT g, 100, repeat(md5(g::text), 80) FROM generate_series(1, %s) g", n)
        tm.start()
        tm.wait_live("t")
        tm.stop()
        damage(tm, [*(("drop", "t", k) for k in range(1, n, 9)), *(("put", "t", k, 1, "ghost") for k in range(n + 1, 2 * n))])
        snapshot(tm, "start", "t", "--id", "it", "--max-rows-per-second", 1500)
        phases, read = {}, 0
        for kill in range(90):
            if kill >= 30 and phases.keys() >= {"copying", "sweeping"}:
                break
            tm.start()
            if kill % 3 != 2:
                tm.wait_slot()
            # Some of the lost rows: their unchanged values have to be fetched by key.
            for key in moments.sample(range(1, n, 9), 5):
                server.sql("UPDATE t SET n = n + 1 WHERE id = %s", key)
            time.sleep(moments.uniform(0.0, 0.3))
            tm.kill()
            run = find_runs(tm, "it")[0]
            check(run["rows_read"] >= read, lambda: f"{run['rows_read']} rows read after {read}")
            read = run["rows_read"]
            phases[run["state"]] = phases.get(run["state"], 0) + 1
        check(phases.get("copying") and phases.get("sweeping"), f"killed only while {phases}")
        tm.start()
        run = wait_runs(tm, "it", timeout=90)[0]
        counts(run, rows_read=n, rows_swept=n - 1)
        tm.wait_live("t")
        tm.equal("t")


def test_texts_that_the_log_does_not_have():
    """10 kB texts, lost in the store and updated beside: exact without REPLICA IDENTITY FULL."""
    with Server() as server, Tidemark(server, "public.t", args=["--chunk-rows", 20]) as tm:
        server.sql("CREATE TABLE t (id int PRIMARY KEY, n int, body text); ALTER TABLE t ALTER body SET STORAGE EXTERNAL")
        texts = rng("texts")
        for key in range(1, 101):
            server.sql("INSERT INTO t VALUES (%s, 0, %s)", key, incompressible(texts, 10000))
        tm.start()
        tm.wait_live("t")
        tm.stop()
        damage(tm, [*(("drop", "t", k) for k in range(1, 60)), *(("put", "t", k, 0, "wrong") for k in range(60, 90))])
        snapshot(tm, "start", "t", "--id", "it", "--max-rows-per-second", 40)
        server.sql("UPDATE t SET n = 1 WHERE id % 2 = 0")
        tm.start()
        until("it reads", lambda: find_runs(tm, "it")[0]["rows_read"] > 0)
        for key in (1, 59, 60, 89, 100):
            server.sql("UPDATE t SET n = 2 WHERE id = %s", key)
        wait_runs(tm, "it")
        tm.wait_live("t")
        tm.equal("t")


def test_several_tables_on_several_connections():
    names = [f"t{i}" for i in range(4)]
    with Server() as server, Tidemark(server, "public.*", args=["--chunk-rows", 50, "--snapshot-connections", 3]) as tm:
        for name in names:
            server.sql(f"CREATE TABLE {name} (id int PRIMARY KEY, n int, v text);"
                       f"INSERT INTO {name} SELECT g, 0, '{name}' FROM generate_series(1, 5000) g")
        tm.start()
        tm.wait_live(*names)
        check(tm.log().count("one more connection") == 2, tm.log())
        snapshot(tm, "start", *names, "--id", "all")
        for name in names:
            server.sql(f"UPDATE {name} SET n = n + 1 WHERE id % 10 = 0")
        wait_runs(tm, "all")
        tm.equal(*names)


def test_no_room_for_more_connections():
    """What the server refuses is done without."""
    with Server() as server:
        server.sql("CREATE ROLE few LOGIN REPLICATION CONNECTION LIMIT 2; GRANT CREATE ON DATABASE postgres TO few")
        for name in ("a", "b", "c"):
            server.sql(f"CREATE TABLE {name} (id int PRIMARY KEY, n int); ALTER TABLE {name} OWNER TO few;"
                       f"INSERT INTO {name} SELECT g, 0 FROM generate_series(1, 3000) g")
        with Tidemark(server, "public.*", args=["--chunk-rows", 50, "--snapshot-connections", 8],
                      source=server.dsn(user="few")) as tm:
            tm.start()
            tm.wait_live("a", "b", "c")
            check(tm.log().count("no further connection") == 1, tm.log())
            tm.equal("a", "b", "c")


class Distance(threading.Thread):
    """A way to the server that takes `seconds` there, and as long back."""

    def __init__(self, server, seconds):
        super().__init__(daemon=True)
        self.server, self.seconds = server, seconds
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]

    def run(self):
        while True:
            near, _ = self.listener.accept()
            far = socket.create_connection(("127.0.0.1", self.server.port))
            for a, b in ((near, far), (far, near)):
                sent = queue.Queue()
                threading.Thread(target=self.take, args=(a, sent), daemon=True).start()
                threading.Thread(target=self.give, args=(b, sent), daemon=True).start()

    def take(self, a, sent):
        try:
            while data := a.recv(1 << 16):
                sent.put((time.monotonic() + self.seconds, data))
        except OSError:
            pass
        sent.put((0, b""))

    def give(self, b, sent):
        while True:
            at, data = sent.get()
            time.sleep(max(0, at - time.monotonic()))
            if not data:
                return b.close()
            try:
                b.sendall(data)
            except OSError:
                return


@timeout(120)
def test_a_server_far_away():
    """The way there takes longer than a chunk is to take: chunks are as large as they would be close by."""
    with Server(tcp=True) as server:
        way = Distance(server, 0.05)
        way.start()
        server.sql("CREATE TABLE t (id int PRIMARY KEY, n int); INSERT INTO t SELECT g, 0 FROM generate_series(1, 20000) g")
        with Tidemark(server, "public.t", args=["--chunk-time", 20], source=server.dsn(host="127.0.0.1", port=way.port)) as tm:
            tm.start()
            tm.wait_live("t")
            chunks = tm.status()["runs"][0]["chunks"]
            check(chunks < 2000, f"{chunks} chunks")
            tm.equal("t")


def test_queued_runs_and_until():
    """`run --until caught-up` does what was asked for while the daemon was down, and then ends."""
    with Server() as server, Tidemark(server, "public.t") as tm:
        make_tenants(server)
        check(tm.run("--until", "caught-up").code == 0, "first copy")
        damage(tm, [("put", "t", 1, 1, "wrong"), ("put", "t", 9999, 1, "ghost")])
        for n in range(5):
            snapshot(tm, "start", "t", "--id", f"q{n}", "--where", f"id >= {n}")
        snapshot(tm, "start", "t", "--id", "paused")
        snapshot(tm, "pause", "paused")
        check(tm.run("--until", "caught-up").code == 0, "second run")
        check({r["state"] for n in range(5) for r in find_runs(tm, f"q{n}")} == {"done"}, tm.json("snapshot", "list"))
        counts(find_runs(tm, "q0")[0], rows_written=1, rows_swept=1)
        check(find_runs(tm, "paused")[0]["state"] == "paused", "it did not stay paused")
        tm.start()
        tm.equal("t")


def test_many_conditions():
    """Each is a statement of its own at the server; they do not pile up."""
    with Server(settings={"log_statement": "all"}) as server, Tidemark(server, "public.t") as tm:
        make_tenants(server, 100)
        tm.start()
        tm.wait_live("t")
        for n in range(90):
            snapshot(tm, "start", "t", "--id", f"n{n}", "--where", f"id = {n + 1}")
        wait_runs(tm, "n89")
        check({find["rows_read"] for find in tm.json("snapshot", "list") if find["name"]} == {1}, "not one row each")
        check(server.log().count("DEALLOCATE") > 20, "statements pile up")
        tm.equal("t")


def test_schema_change_before_and_during():
    with Server() as server, Tidemark(server, "public.*", args=["--chunk-rows", 20]) as tm:
        make_tenants(server, 2000)
        tm.start()
        tm.wait_live("t")
        snapshot(tm, "start", "t", "--id", "slow", "--max-rows-per-second", 1000)
        until("it reads", lambda: find_runs(tm, "slow")[0]["rows_read"] > 0)
        server.sql("ALTER TABLE t ADD extra int; ALTER TABLE t ALTER v TYPE varchar(40)")
        server.sql("UPDATE t SET extra = 1 WHERE id % 3 = 0")
        wait_runs(tm, "slow", "done")
        tm.wait_live("t")
        tm.equal("t")
        # A condition on a column that goes.
        snapshot(tm, "start", "t", "--id", "column", "--where", "extra = 1", "--max-rows-per-second", 50)
        until("it reads", lambda: find_runs(tm, "column")[0]["rows_read"] > 0)
        server.sql("ALTER TABLE t DROP extra")
        server.sql("UPDATE t SET v = 'without' WHERE id < 10")
        failed = wait_runs(tm, "column", "failed")[0]
        check('"extra" does not exist' in failed["error"], failed)
        tm.wait_live("t")
        tm.equal("t")
        # A key that changes: what was asked for is about another table now.
        snapshot(tm, "start", "t", "--id", "key", "--max-rows-per-second", 50)
        server.sql("ALTER TABLE t DROP CONSTRAINT t_pkey; ALTER TABLE t ADD PRIMARY KEY (id, v)")
        wait_runs(tm, "key", "stopped")
        tm.wait_live("t")
        tm.equal("t")
