"""A disk that takes longer for one sync than the server waits for a sign of life."""

import subprocess
import time

import harness
from faults import LOOK, faulty
from harness import Server, Tidemark, check, scaled, timeout

SYNC_MS = 5500


@timeout(300)
def test_large_transaction_on_a_slow_disk():
    rows = scaled(500000)
    with Server(settings={"wal_sender_timeout": "5s"}) as server, Tidemark(server, "public.t,public.u") as tm:
        server.sql("CREATE TABLE t (id int PRIMARY KEY, v text); CREATE TABLE u (id int PRIMARY KEY, n int);"
                   "INSERT INTO u VALUES (1, 0)")
        tm.start()
        tm.wait_live("t", "u")
        tm.stop()
        tm.env = faulty(sync_ms=SYNC_MS)
        tm.start()
        server.sql("INSERT INTO t SELECT g, md5(g::text) FROM generate_series(1, %s) g", rows)
        for n in range(6):
            server.sql("UPDATE u SET n = %s", n)
            time.sleep(0.5)
        reader = harness.spawn([LOOK, "stay", tm.store], "KILL", stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
        tm.equal("t", "u", timeout=200)
        reader.stdin.close()
        log = tm.log()
        check("will try again" not in log, lambda: f"a connection was lost: {log[-600:]}")
        check("terminating walsender" not in server.log(), "the server gave the connection up")
        tm.stop(timeout=60)
