"""The server stops, crashes and restarts in each phase of the daemon's life; nobody answers for a while."""

import time

from faults import Proxy
from harness import Server, Tidemark, check, lsn, scaled, timeout, until
from workload import TABLES, Workload

MODES = ("fast", "immediate")


def stop(server, mode, limit=10):
    """A fast stop waits until walsenders have had everything acknowledged: we must not hold it up."""
    began = time.monotonic()
    server.stop(mode)
    took = time.monotonic() - began
    check(took < limit, lambda: f"a {mode} stop took {took:.1f} s")


def bounce(server, tm, mode, pause=0.2):
    stop(server, mode)
    time.sleep(pause)
    check(tm.is_running(), lambda: f"it gave up: {tm.log()[-500:]}")
    server.start()


@timeout(150)
def test_while_starting():
    """Before the slot, while it is made, and right behind it."""
    with Server(fsync=True) as server:
        server.sql("CREATE TABLE t (id int PRIMARY KEY, v text); INSERT INTO t SELECT g, 'v' FROM generate_series(1, 500) g")
        for n, (mode, wait) in enumerate((m, w) for m in MODES for w in (0.0, 0.03, 0.08, 0.2)):
            with Tidemark(server, "public.t", args=["--slot", f"s{n}", "--chunk-rows", 50]) as tm:
                tm.start()
                time.sleep(wait)
                bounce(server, tm, mode)
                tm.wait_live("t")
                tm.equal("t")
                tm.stop()
            server.sql("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE NOT active")


@timeout(150)
def test_under_load():
    """During the copy and during the stream, with writers all the time."""
    with Server(fsync=True) as server:
        load = Workload(server, rows=scaled(20000), rate=200)
        load.create()
        with load, Tidemark(server, TABLES, args=["--chunk-rows", 100]) as tm:
            tm.start()
            for mode in MODES:
                until("copying", lambda: tm.rows_read("big") > 0, interval=0.005)
                bounce(server, tm, mode)
            tm.wait_live(*TABLES, timeout=60)
            for mode in MODES * 2:
                time.sleep(0.7)
                bounce(server, tm, mode)
            load.stop()
            tm.equal(*TABLES)


@timeout(150)
def test_in_the_middle_of_a_large_transaction():
    """Half of it has arrived when the server goes: the half is dropped and all of it comes again."""
    rows = scaled(150000)
    with Server(fsync=True) as server, Tidemark(server, "public.t") as tm:
        server.sql("CREATE TABLE t (id int PRIMARY KEY, v text)")
        tm.start()
        tm.wait_live("t")
        for turn, mode in enumerate(MODES):
            first = turn * rows
            server.sql("INSERT INTO t SELECT g, md5(g::text) FROM generate_series(%s, %s) g", first + 1, first + rows)
            written = lsn(server.value("SELECT pg_current_wal_insert_lsn()::text"))
            def received():
                return tm.status()["checkpoint"]["lsn"], server.value("SELECT sent_lsn::text FROM pg_stat_replication")
            at, sent = received()
            check(lsn(at) < written, "it was there at once: nothing was tested")
            stop(server, mode, limit=60)
            check(tm.scan("t").count(b"\n") in (first, first + rows), "a part of the transaction can be seen")
            server.start()
            tm.equal("t")


def test_nobody_answers():
    """Refused for longer than the longest pause between two attempts; then it is back by itself."""
    with Server() as server, Tidemark(server, "public.t") as tm:
        server.sql("CREATE TABLE t (id int PRIMARY KEY, v text); INSERT INTO t VALUES (1, 'before')")
        tm.start()
        tm.wait_live("t")
        server.stop()
        time.sleep(12)
        attempts = tm.log().count("will try again")
        check(3 <= attempts <= 12, lambda: f"{attempts} attempts in 12 s")
        check(tm.get("t", 1) == {"id": 1, "v": "before"}, "the store cannot be read meanwhile")
        server.start()
        server.sql("INSERT INTO t VALUES (2, 'after')")
        tm.equal("t", timeout=15)


def test_cut_again_and_again():
    """A line that lasts a moment: progress all the same."""
    with Server() as server, Proxy(server) as proxy, Tidemark(
            server, "public.t", source=proxy.source(), args=["--chunk-rows", 50]) as tm:
        server.sql("CREATE TABLE t (id int PRIMARY KEY, v text); INSERT INTO t SELECT g, 'v' FROM generate_series(1, 20000) g")
        tm.start()
        for n in range(12):
            time.sleep(0.4)
            server.sql("UPDATE t SET v = v || 'x' WHERE id %% 1000 = %s", n)
            proxy.cut()
        check(tm.rows_read("t") > 0, "it got nowhere")
        tm.wait_live("t")
        tm.equal("t")
