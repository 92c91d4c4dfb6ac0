"""A physical standby is promoted: it goes on where it has everything that the store has, and is refused
where it lacks something: the last changes, or the slot.

Up to version 16 no logical slot exists on a standby; from 17 on one made with `failover` is kept there.
"""

import os
import time

from harness import EXIT_GAP, EXIT_USAGE, Server, Tidemark, check, end_of_wal, lsn, since, until, words

SYNC = {"sync_replication_slots": "on"}


def pair(settings=None):
    """A primary and a standby that follows it."""
    primary = Server("primary")
    primary.sql("SELECT pg_create_physical_replication_slot('standby')")
    primary.stop()
    standby = Server("standby", data=primary.data, start=False, settings={
        "primary_conninfo": primary.dsn(), "primary_slot_name": "standby", "hot_standby_feedback": "on",
        "wal_receiver_status_interval": "1s", "wal_retrieve_retry_interval": "200ms", **(settings or {})})
    open(os.path.join(standby.data, "standby.signal"), "w").close()
    primary.start()
    standby.start()
    return primary, standby


def table(primary, rows=2000):
    primary.sql("CREATE TABLE t (id int PRIMARY KEY, v text)")
    primary.sql("INSERT INTO t SELECT g, 'v' FROM generate_series(1, %s) g", rows)


def replay(primary, standby):
    end = lsn(end_of_wal(primary))
    until("the standby has replayed everything", lambda: lsn(standby.value("SELECT pg_last_wal_replay_lsn()::text")) >= end)


def cut_off(standby):
    """From when this returns the standby receives nothing more."""
    standby.set("primary_conninfo", "")
    until("no wal receiver", lambda: not standby.value("SELECT count(*) FROM pg_stat_wal_receiver"))


def promote(standby):
    check(standby.value("SELECT pg_promote()"), "the standby was not promoted")
    until("promoted", lambda: not standby.value("SELECT pg_is_in_recovery()"))


def either(primary, standby):
    """One of both, whichever accepts writes: the connection string of an application that survives a failover."""
    return words(host=f"{primary.dir},{standby.dir}", port=f"{primary.port},{standby.port}", user="postgres", dbname="postgres",
                 target_session_attrs="read-write")


def live_with_a_kept_slot(primary, standby, tm):
    """What an administrator of version 17 or newer does so that the slot survives a failover, up to when it would.

    The standby takes the slot over once it has moved on from where it was made.
    """
    table(primary)
    primary.sql("CREATE PUBLICATION tidemark FOR TABLE t")
    primary.sql("SELECT pg_create_logical_replication_slot('tidemark', 'pgoutput', failover => true)")
    tm.start()
    tm.wait_live("t")
    def kept():
        primary.sql("SELECT pg_log_standby_snapshot()")
        return standby.value("SELECT count(*) FROM pg_replication_slots WHERE slot_name = 'tidemark' AND synced AND NOT temporary")
    until("the slot is kept on the standby", kept, timeout=60, interval=0.2)


def test_without_the_slot():
    """The new primary has every change, but no slot: what it commits before one exists is lost."""
    primary, standby = pair()
    with primary, standby, Tidemark(primary, "public.t") as tm:
        table(primary)
        tm.start()
        tm.wait_live("t")
        primary.sql("UPDATE t SET v = 'streamed' WHERE id < 100")
        tm.equal("t")
        tm.stop()
        replay(primary, standby)
        primary.stop()
        promote(standby)
        standby.sql("UPDATE t SET v = 'on the new primary' WHERE id < 10")
        tm.source = standby.dsn()
        tm.refuses("slot tidemark does not exist", "start over with an empty --store directory")
        check("tidemark" not in standby.slots(), "it made a slot without being asked")
        with Tidemark(standby, "public.t") as fresh:
            fresh.start()
            fresh.wait_live("t")
            fresh.equal("t")


def test_without_our_last_changes():
    """A running daemon comes to the new primary, which never had what the store holds."""
    primary, standby = pair()
    with primary, standby, Tidemark(primary, "public.t", source=either(primary, standby)) as tm:
        table(primary)
        tm.start()
        tm.wait_live("t")
        tm.equal("t")
        replay(primary, standby)
        cut_off(standby)
        primary.sql("UPDATE t SET v = 'only the old primary had it' WHERE id = 1")
        tm.equal("t")
        before = tm.content()
        primary.stop("immediate")
        promote(standby)
        check(standby.value("SELECT v FROM t WHERE id = 1") == "v", "the standby has the change: nothing was tested")
        check(tm.wait_exit() == EXIT_GAP, f"expected exit {EXIT_GAP}")
        tm.process = None
        check("the server was promoted at" in tm.log().splitlines()[-1], lambda: f"not said: {tm.log()[-500:]}")
        check(tm.content() == before, "the store changed")
        tm.refuses("promoted at", "it never had")


@since(17)
def test_slot_kept():
    """Promoted with the slot: a running daemon goes on, copies nothing again, and then refuses the old primary."""
    primary, standby = pair(SYNC)
    with primary, standby, Tidemark(primary, "public.t", source=either(primary, standby)) as tm:
        live_with_a_kept_slot(primary, standby, tm)
        primary.sql("UPDATE t SET v = 'before' WHERE id % 3 = 0; DELETE FROM t WHERE id % 5 = 0")
        tm.equal("t")
        runs = tm.status()["runs"]
        replay(primary, standby)
        primary.stop()
        promote(standby)
        tm.server = standby
        standby.sql("UPDATE t SET v = 'after' WHERE id % 7 = 0; DELETE FROM t WHERE id = 1; INSERT INTO t VALUES (0, 'after')")
        tm.equal("t")
        check(tm.is_running() and tm.status()["runs"] == runs, "it copied the table again")
        tm.stop()
        standby.stop()
        primary.start()
        tm.source = primary.dsn()
        tm.refuses("on timeline 1, behind timeline 2")


@since(17)
def test_slot_kept_without_our_last_changes():
    primary, standby = pair(SYNC)
    with primary, standby, Tidemark(primary, "public.t") as tm:
        live_with_a_kept_slot(primary, standby, tm)
        tm.equal("t")
        replay(primary, standby)
        cut_off(standby)
        primary.sql("UPDATE t SET v = 'only the old primary had it' WHERE id = 1")
        tm.equal("t")
        tm.stop()
        primary.stop()
        promote(standby)
        check("tidemark" in standby.slots(), "the slot was not kept: nothing was tested")
        tm.source = standby.dsn()
        tm.refuses("promoted at", "it never had")


def test_standby_that_is_not_promoted_yet():
    """An address may lead to the standby before its promotion: with a store of its own the daemon waits for that."""
    primary, standby = pair()
    with primary, standby, Tidemark(primary, "public.t") as tm:
        table(primary)
        with Tidemark(standby, "public.t") as fresh:
            r = fresh.run(timeout=30)
            check(r.code == EXIT_USAGE and "standby" in r.err, lambda: f"a standby, and an empty store: {r}")
        tm.start()
        tm.wait_live("t")
        tm.equal("t")
        tm.stop()
        replay(primary, standby)
        primary.stop()
        tm.source = standby.dsn()
        tm.start()
        tm.wait_log("the server is a standby")
        time.sleep(1)
        check(tm.is_running(), "it gave up")
        promote(standby)
        check(tm.wait_exit() == EXIT_GAP, "a promoted standby without the slot")
        tm.process = None
