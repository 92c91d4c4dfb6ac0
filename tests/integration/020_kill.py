"""kill -9 of tidemark at random moments, and crashes of the server, while writers go on."""

import time

from harness import Server, Tidemark, rng, scaled, timeout
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
