"""Connections that break: the daemon comes back by itself and nothing is lost or doubled."""

import os
import signal
import time

import psycopg2.extras

from harness import Server, Tidemark, check, rng, timeout, until
from workload import TABLES, Workload


@timeout(180)
def test_terminated_backends():
    """The walsender, the backend that reads chunks, and both, again and again during the copy under load."""
    moments = rng("reconnect")
    with Server() as server:
        load = Workload(server, rows=50000, rate=200)
        load.create()
        with load, Tidemark(server, TABLES, args=["--chunk-rows", 100]) as tm:
            tm.start()
            tm.wait_slot()
            ended = 0
            for turn in range(12):
                kinds = [("walsender",), ("client backend",), ("walsender", "client backend")][turn % 3]
                ended += server.value(
                    "SELECT count(*) FROM (SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                    " WHERE application_name LIKE 'tidemark%%' AND backend_type = ANY(%s)) x", list(kinds))
                time.sleep(moments.uniform(0.1, 1.0))
            check(ended >= 8, f"only {ended} backends were terminated: nothing was tested")
            tm.wait_live(*TABLES, timeout=90)
            load.stop()
            tm.equal(*TABLES)
            check(tm.is_running(), "it exited")


def test_walsender_ends_with_the_slots_snapshot():
    """What the new slot's snapshot lives on is gone before the other connection has taken it over."""
    with Server() as server, Tidemark(server, "public.t") as tm:
        server.sql("CREATE TABLE t (id int PRIMARY KEY, v text); INSERT INTO t VALUES (1, 'v')")
        older = server.connect(autocommit=False)
        older.cursor().execute("SELECT pg_current_xact_id()")
        tm.start()

        def backend(kind):
            return server.value("SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'tidemark%%'"
                                " AND backend_type = %s", kind)
        until("the slot waits for the older transaction", lambda: server.value(
            "SELECT count(*) FROM pg_locks WHERE pid = %s AND NOT granted", backend("walsender") or 0))
        reader = backend("client backend")
        os.kill(reader, signal.SIGSTOP)
        try:
            older.commit()
            sender = backend("walsender")
            until("the slot is there, and the walsender has said so", lambda: server.value(
                "SELECT count(*) FROM pg_replication_slots, pg_stat_activity"
                " WHERE confirmed_flush_lsn IS NOT NULL AND pid = %s AND state LIKE 'idle%%'", sender))
            server.value("SELECT pg_terminate_backend(%s)", sender)
            until("the walsender is gone", lambda: backend("walsender") != sender)
        finally:
            os.kill(reader, signal.SIGCONT)
        older.close()
        tm.wait_live("t")
        tm.wait_log("the slot's snapshot is gone")
        tm.equal("t")
        tm.stop()


def test_server_stops_and_comes_back():
    with Server(settings={"wal_sender_timeout": "10s"}) as server, Tidemark(server, "public.t",
                                                                            args=["--chunk-rows", 10]) as tm:
        server.sql("CREATE TABLE t (id int PRIMARY KEY, v text);"
                   "INSERT INTO t SELECT g, 'v' FROM generate_series(1, 10000) g")
        tm.start()
        tm.hold_copy("t")
        for mode, pause in (("fast", 0.0), ("fast", 2.0), ("immediate", 0.5)):
            tm.release_copy()
            server.stop(mode)
            time.sleep(pause)
            check(tm.is_running(), lambda: f"it gave up: {tm.log()[-500:]}")
            server.start()
            server.sql("UPDATE t SET v = v || 'x' WHERE id % 100 = 0")
        tm.wait_live("t", timeout=60)
        tm.equal("t")
        tm.stop()


def test_stop_while_the_server_is_down():
    with Server() as server, Tidemark(server, "public.t") as tm:
        server.sql("CREATE TABLE t (id int PRIMARY KEY, v text); INSERT INTO t VALUES (1, 'v')")
        tm.start()
        tm.wait_live("t")
        server.stop()
        time.sleep(1)
        tm.stop(timeout=10)
        check(tm.get("t", 1) == {"id": 1, "v": "v"}, "cannot read while both are down")


def test_until_caught_up_in_spite_of_failures():
    """A failure on the way does not change what is said at the end."""
    with Server() as server, Tidemark(server, "public.t") as tm:
        server.sql("CREATE TABLE t (id int PRIMARY KEY, v text); INSERT INTO t VALUES (1, 'v')")
        server.stop()
        tm.start("--until", "caught-up")
        tm.wait_log("will try again")
        server.start()
        code = tm.wait_exit()
        tm.process = None
        check(code == 0, lambda: f"exit {code}: {tm.log()}")
        check("msg=done" in tm.log().splitlines()[-1], lambda: f"said after the end: {tm.log()}")


def test_slot_held_by_another_process():
    """A session that is dying on the server still has the slot: wait, and say so."""
    with Server() as server, Tidemark(server, "public.t") as tm:
        server.sql("CREATE TABLE t (id int PRIMARY KEY, v text); INSERT INTO t VALUES (1, 'v')")
        tm.start()
        tm.wait_live("t")
        tm.stop()
        slot, = server.slots()
        publication, = server.publications()
        until("the slot is free", lambda: not server.slots()[slot][0])
        holder = psycopg2.connect(server.dsn(), connection_factory=psycopg2.extras.LogicalReplicationConnection)
        holder.cursor().start_replication(slot_name=slot, options={"proto_version": "1",
                                                                   "publication_names": publication})
        pid = holder.get_backend_pid()
        server.sql("INSERT INTO t VALUES (2, 'while held')")
        tm.start()
        tm.wait_log(str(pid))
        time.sleep(1)
        check(tm.is_running(), "it gave up")
        check(tm.get("t", 2) is None, "it has what it cannot have")
        holder.close()
        tm.equal("t")
