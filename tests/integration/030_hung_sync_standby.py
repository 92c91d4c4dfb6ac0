"""A synchronous standby is missing: commits are streamed, yet no other session sees them.

The textbook window then copies the old row over the new one.
"""

import time

from harness import Background, Server, Tidemark, check, scaled, until, wait_event

ROWS = scaled(10000)


def make_table(server):
    server.sql("CREATE TABLE t (id int PRIMARY KEY, v text)")
    server.sql("INSERT INTO t SELECT g, 'old' FROM generate_series(1, %s) g", ROWS)


def lose_standby(server):
    """From when this returns every COMMIT hangs: the checkpointer has read the setting."""
    server.set("synchronous_standby_names", "missing")
    while True:
        probe = Background(server, "SELECT pg_logical_emit_message(true, 'probe', '')")
        until("a probe hangs or ends", lambda: probe.is_done() or wait_event(server, probe.pid) == "SyncRep")
        hangs = not probe.is_done()
        server.sql("SELECT pg_cancel_backend(%s)", probe.pid)
        probe.join()
        if hangs:
            return


def hang(server, statement):
    """Runs a statement whose COMMIT is in the log, and hangs."""
    b = Background(server, statement)
    until("COMMIT waits for the standby", lambda: wait_event(server, b.pid) == "SyncRep")
    return b


def release(server, *hung):
    server.set("synchronous_standby_names", None)
    for b in hung:
        b.join()


def test_hung_before_its_chunk():
    """Streamed first, its chunk read afterwards, released last: update, delete and insert."""
    with Server() as server, Tidemark(server, "public.t", args=["--chunk-rows", 10]) as tm:
        make_table(server)
        server.sql("CREATE TABLE witness (id int PRIMARY KEY)")
        tm.start()
        tm.hold_copy("t")
        lose_standby(server)
        hung = [hang(server, f"UPDATE t SET v = 'new' WHERE id = {ROWS}"),
                hang(server, f"DELETE FROM t WHERE id = {ROWS - 1}"),
                hang(server, f"INSERT INTO t VALUES ({ROWS + 1}, 'new')"),
                hang(server, f"UPDATE t SET id = -1 WHERE id = {ROWS - 2}")]
        check(server.value("SELECT v FROM t WHERE id = %s", ROWS) == "old",
              "the update should not be visible yet")
        until("the new value in the store", lambda: (tm.get("t", ROWS) or {}).get("v") == "new")
        tm.release_copy()

        def newest():
            row = tm.get("t", ROWS)
            check(row and row["v"] == "new", f"went back to {row}")
            check(tm.get("t", ROWS + 1) == {"id": ROWS + 1, "v": "new"}, "an inserted row vanished")
            check(tm.get("t", ROWS - 1) is None, "a deleted row came back")
            check(tm.get("t", ROWS - 2) is None, "a row came back under its old key")
        def live():
            newest()
            return tm.state("t") == "live"
        until("live although the commits hang", live, timeout=60)
        check(server.value("SELECT v FROM t WHERE id = %s", ROWS) == "old",
              "released too early: nothing was tested")
        for _ in range(20):
            newest()
        tm.stop()
        tm.start()
        tm.wait_slot()
        newest()
        release(server, *hung)
        newest()
        tm.equal("t")


def test_hung_over_a_restart():
    """What is not yet visible is remembered: kill -9 between the stream and the chunk."""
    with Server() as server, Tidemark(server, "public.t", args=["--chunk-rows", 10]) as tm:
        make_table(server)
        tm.start()
        tm.hold_copy("t")
        lose_standby(server)
        hung = hang(server, f"UPDATE t SET v = 'new' WHERE id = {ROWS}")
        until("the new value in the store", lambda: (tm.get("t", ROWS) or {}).get("v") == "new")
        tm.release_copy()
        tm.kill()
        tm.start()
        def live():
            row = tm.get("t", ROWS)
            check(row and row["v"] == "new", f"went back to {row}")
            return tm.state("t") == "live"
        until("live although the commit hangs", live, timeout=60)
        release(server, hung)
        tm.equal("t")


def waits_for(server, xid):
    return server.value("SELECT count(*) FROM pg_locks WHERE locktype = 'transactionid' AND NOT granted"
                        " AND transactionid = %s::text::xid", xid)


def writer(server):
    """An open transaction with an xid."""
    con = server.connect(autocommit=False)
    with con.cursor() as cur:
        cur.execute("SELECT pg_current_xact_id()::text")
        return con, cur.fetchone()[0]


def hang_before_the_slot(server):
    """Call it while a slot is being created and waits for the first writer's end; returns the hung UPDATE.

    A slot starts at the third of the running-xacts records that its creation writes. Two open writers
    hold it at the first and the second; the hung transaction begins after the second.
    """
    first, xid = writer(server)
    yield
    until("slot creation waits for the first writer", lambda: waits_for(server, xid))
    second, xid = writer(server)
    first.rollback()
    until("slot creation waits for the second writer", lambda: waits_for(server, xid))
    lose_standby(server)
    hung = hang(server, "UPDATE t SET v = 'new' WHERE id IN (1, 500, 1000)")
    second.rollback()
    yield hung


def small_table(server):
    server.sql("CREATE TABLE t (id int PRIMARY KEY, v text)")
    server.sql("INSERT INTO t SELECT g, 'old' FROM generate_series(1, 1000) g")


def must_not_copy_the_old_row(tm):
    for _ in range(20):
        row = tm.get("t", 500)
        check(row is None or row["v"] == "new", f"copied {row} from a snapshot that lacks a commit before the "
                                                f"slot")
        time.sleep(0.05)


def test_hung_before_our_slot():
    """Committed before the slot's start, still invisible: neither streamed nor in a chunk read too early."""
    with Server() as server, Tidemark(server, "public.t", args=["--chunk-rows", 50]) as tm:
        small_table(server)
        steps = hang_before_the_slot(server)
        next(steps)
        tm.start()
        hung = next(steps)
        tm.wait_log(f"pid {hung.pid}")
        must_not_copy_the_old_row(tm)
        release(server, hung)
        tm.wait_live("t")
        tm.equal("t")
        check(tm.get("t", 500)["v"] == "new", "the commit before the slot was lost")


def test_hung_before_a_slot_made_by_someone_else():
    """Its creator did not wait: the copy must, and say for whom."""
    with Server() as server, Tidemark(server, "public.t", args=["--chunk-rows", 50]) as tm:
        small_table(server)
        server.sql("CREATE PUBLICATION tidemark FOR TABLE t")
        steps = hang_before_the_slot(server)
        next(steps)
        slot = Background(server, "SELECT pg_create_logical_replication_slot('tidemark', 'pgoutput')")
        hung = next(steps)
        slot.join()
        check(not hung.is_done(), "released too early: nothing was tested")
        tm.start()
        tm.wait_slot()
        tm.wait_log(f"pid {hung.pid}")
        must_not_copy_the_old_row(tm)
        tm.kill()
        tm.start()
        must_not_copy_the_old_row(tm)
        release(server, hung)
        tm.wait_live("t")
        tm.equal("t")
        check(tm.get("t", 500)["v"] == "new", "the commit before the slot was lost")
