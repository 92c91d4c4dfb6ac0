"""kill -9 before, after and in the middle of every write and sync of data.mdb, one after the other."""

import itertools
import os
import signal
import time

from faults import Look, faulty
from harness import Server, Tidemark, check, compare, lsn, place, rng, timeout


def points():
    """(n, how): before a call is after the one before it, but for what the server is told in between."""
    for n in itertools.count(1):
        yield n, ("before", "after")[n % 2]
        yield n, "torn"


def died(process, patience):
    """True: at its point. False: it came to a good end, or goes on after `patience` seconds."""
    deadline = time.monotonic() + patience
    while process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.005)
    check(process.returncode in (None, 0, -signal.SIGKILL), lambda: f"exit {process.returncode} before the point")
    return process.returncode == -signal.SIGKILL


def check_left(server, look, tm):
    """What a killed daemon leaves: a store that agrees with itself and has what was acknowledged."""
    if not os.path.exists(os.path.join(tm.store, "data.mdb")):
        return
    seen = look.good(tm.store)
    for slot, (_, _, confirmed) in server.slots().items():
        check(seen["checkpoint"] == 0 or lsn(confirmed) <= seen["checkpoint"],
              lambda: f"slot {slot} was acknowledged at {confirmed}, the store is at {seen['checkpoint']:X}")


@timeout(180)
def test_every_point_of_a_copy():
    """From no store to a live one: killed at its Nth call, and completed by the next daemon."""
    with Server() as server, Look() as look:
        server.sql("CREATE TABLE t (id int PRIMARY KEY, v text); CREATE TABLE u (k text PRIMARY KEY, n int);"
                   "INSERT INTO t SELECT g, repeat(md5(g::text), 1 + g % 90) FROM generate_series(1, 200) g;"
                   "INSERT INTO u SELECT md5(g::text), g FROM generate_series(1, 100) g")
        count = 0
        for n, how in points():
            tm = Tidemark(server, ["t", "u"], store=place("store"), env=faulty(kill=f"{n}:{how}"),
                          args=["--chunk-rows", 64, "--until", "caught-up", "--slot", "copy"])
            tm.start()
            killed = died(tm.process, 60)
            check_left(server, look, tm)
            tm.env, tm.process = None, None
            r = tm.run()
            check(r.code == 0, lambda: f"after a kill {how} call {n}: {r}")
            look.good(tm.store)
            for name in ("t", "u"):
                compare(server, "postgres", name, tm.scan(name))
            server.sql("SELECT pg_drop_replication_slot('copy')")
            if not killed:
                break
            count += 1
        check(count > 30, f"only {count} points: nothing was tested")


CHANGES = (
    "INSERT INTO t SELECT max(id) + 1, repeat('x', 3000) FROM t",
    "UPDATE t SET v = v || 'y' WHERE id % 7 = 3",
    "DELETE FROM t WHERE id % 11 = 5; UPDATE u SET n = n + 1",
    "UPDATE t SET id = (SELECT max(id) + 1 FROM t) WHERE id = (SELECT min(id) FROM t)",
    "TRUNCATE u; INSERT INTO u SELECT md5(g::text), g FROM generate_series(1, 5) g",
)


@timeout(180)
def test_every_point_of_a_stream():
    """One store all along. Each daemon meets a few transactions, one commit each, and dies at its Nth call."""
    draw = rng("kill points")
    with Server() as server, Look() as look, Tidemark(server, ["t", "u"]) as tm:
        server.sql("CREATE TABLE t (id int PRIMARY KEY, v text); CREATE TABLE u (k text PRIMARY KEY, n int);"
                   "INSERT INTO t SELECT g, md5(g::text) FROM generate_series(1, 50) g; INSERT INTO u VALUES ('a', 1)")
        tm.start()
        tm.wait_live("t", "u")
        tm.kill()
        count = 0
        for n, how in points():
            tm.env = faulty(kill=f"{n}:{how}")
            tm.start()
            for _ in range(6):
                server.sql(draw.choice(CHANGES))
                if died(tm.process, 0.03):
                    break
            killed = died(tm.process, 1.5)
            tm.process.kill()
            tm.process.wait()
            check_left(server, look, tm)
            tm.env = None
            tm.start()
            tm.equal("t", "u")
            tm.kill()
            if not killed:
                break
            count += 1
        check(count > 20, f"only {count} points: nothing was tested")
