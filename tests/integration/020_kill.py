"""kill -9 of tidemark at random moments, and crashes of the server, while writers go on."""

import time

from harness import Server, Tidemark, rng, scaled, timeout, until
from workload import TABLES, Workload

KILLS, CRASHES = 30, 5


@timeout(300)
def test_kills_and_server_crashes():
    moments = rng("kill")
    with Server(fsync=True) as server:
        load = Workload(server, rows=scaled(100000), rate=200)
        load.create()
        crash_at = set(moments.sample(range(2, KILLS), CRASHES))
        with load, Tidemark(server, TABLES, args=["--chunk-rows", 200]) as tm:
            for n in range(KILLS):
                tm.start()
                # Some die while connecting, some between chunks, some long after the copy.
                time.sleep(moments.choice([0.05, 0.3, 1.0, 1.5]) * moments.uniform(0.2, 1.8))
                if n in crash_at:
                    server.restart("immediate")
                    time.sleep(moments.uniform(0.0, 1.0))
                tm.kill()
            tm.start()
            tm.wait_live(*TABLES, timeout=scaled(120))
            load.stop()
            tm.equal(*TABLES)
            tm.kill()
            tm.start()
            tm.equal(*TABLES)


def test_killed_at_the_first_start():
    """Somewhere between an empty directory and the first checkpoint: the next start goes on from there."""
    moments = rng("kill", "first")
    with Server() as server:
        server.sql("CREATE TABLE t (id int PRIMARY KEY, v text);"
                   "INSERT INTO t SELECT g, 'v' FROM generate_series(1, 300) g")
        for n in range(12):
            with Tidemark(server, "public.t", args=["--slot", f"s{n}", "--publication", f"p{n}"]) as tm:
                for _ in range(3):
                    tm.start()
                    time.sleep(moments.uniform(0.0, 0.15))
                    tm.kill()
                tm.start()
                tm.wait_live("t")
                server.sql("UPDATE t SET v = %s WHERE id = %s", f"turn {n}", n)
                tm.equal("t")
                tm.stop()
                until("the slot is free", lambda: not server.slots()[f"s{n}"][0])
                server.sql("SELECT pg_drop_replication_slot(%s)", f"s{n}")


def test_killed_while_the_slot_is_made():
    """The server goes on making it: half made, it has no position to start from."""
    with Server() as server, Tidemark(server, "public.t") as tm:
        server.sql("CREATE TABLE t (id int PRIMARY KEY, v text); INSERT INTO t VALUES (1, 'v')")
        con = server.connect(autocommit=False)
        con.cursor().execute("INSERT INTO public.t VALUES (2, 'older than the slot')")
        tm.start()
        until("a slot without a position", lambda: [s for s in server.slots().values() if s[2] is None])
        tm.kill()
        tm.start()
        time.sleep(1)
        tm.kill()
        tm.start()
        con.commit()
        tm.wait_live("t")
        tm.equal("t")


@timeout(120)
def test_what_readers_see_survives():
    """A counter that only grows at the source never goes back in the store, however often the daemon dies."""
    moments = rng("kill", "reader")
    with Server(fsync=True) as server:
        server.sql("CREATE TABLE t (id int PRIMARY KEY, n int)")
        server.sql("INSERT INTO t VALUES (1, 0)")
        with Tidemark(server, "public.t") as tm:
            tm.start()
            tm.wait_live("t")
            seen = n = 0
            for _ in range(8):
                until_kill = time.monotonic() + moments.uniform(0.05, 0.5)
                while time.monotonic() < until_kill:
                    n += 1
                    server.sql("UPDATE t SET n = %s", n)
                    now = tm.get("t", 1)["n"]
                    assert seen <= now <= n, f"read {now} after {seen}, source at {n}"
                    seen = now
                tm.kill()
                now = tm.get("t", 1)["n"]
                assert seen <= now, f"read {now} after {seen}"
                tm.start()
            tm.equal("t")
