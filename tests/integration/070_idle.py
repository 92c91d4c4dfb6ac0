"""Nothing to do: the slot moves, the copy ends at once, stopping and starting copy nothing again."""

import time

from harness import EXIT_OK, Server, Tidemark, check, end_of_wal, lsn, until


def with_table(server, rows=5000):
    server.sql("CREATE TABLE t (id int PRIMARY KEY, v text)")
    server.sql("INSERT INTO t SELECT g, 'v' || g FROM generate_series(1, %s) g", rows)


def confirmed(server):
    (_, _, position), = server.slots().values()
    return lsn(position)


def test_idle_table_on_a_busy_server():
    """An idle published table must not pin the log that others write."""
    with Server(settings={"wal_sender_timeout": "6s"}) as server, Tidemark(server, "public.t") as tm:
        with_table(server)
        server.sql("CREATE TABLE busy (id int PRIMARY KEY, v text)")
        tm.start()
        tm.wait_live("t")
        for turn in range(3):
            before = confirmed(server)
            server.sql("INSERT INTO busy SELECT g, repeat('x', 500) FROM generate_series(%s, %s) g",
                       turn * 10000, turn * 10000 + 9999)
            end = lsn(end_of_wal(server))
            check(end - before > 4 << 20, "the busy table wrote too little: nothing was tested")
            until("the slot follows the log", lambda: confirmed(server) >= end, timeout=15)
        check(tm.status(), "no status")
        tm.stop()


def test_idle_server():
    """Nobody writes: the windows close and the copy ends within seconds."""
    with Server() as server:
        with_table(server, 50000)
        server.sql("CHECKPOINT")
        for tables in ("public.t", "public.t,public.u"):
            server.sql("CREATE TABLE IF NOT EXISTS u (id int PRIMARY KEY)")
            began = time.monotonic()
            with Tidemark(server, tables, args=["--slot", f"s{len(tables)}"]) as tm:
                r = tm.run("--until", "caught-up")
                check(r.code == EXIT_OK, lambda: f"--until caught-up: {r}")
                took = time.monotonic() - began
                check(took < 10, f"copying 50,000 rows from an idle server took {took:.1f} s")
                tm.start()
                tm.equal("t", timeout=15)
                tm.stop()


def test_empty_table():
    with Server() as server, Tidemark(server, "public.t") as tm:
        with_table(server, 0)
        check(tm.run("--until", "caught-up").code == EXIT_OK, "an empty table is not caught up")
        tm.start()
        tm.wait_live("t", timeout=10)
        server.sql("INSERT INTO t VALUES (1, 'first')")
        tm.equal("t")


def test_restart_copies_nothing_again():
    with Server() as server, Tidemark(server, "public.t") as tm:
        with_table(server)
        tm.start()
        tm.wait_live("t")
        first = tm.status()["runs"]
        tm.stop()
        server.sql("UPDATE t SET v = 'while stopped' WHERE id < 10; DELETE FROM t WHERE id > 4000;"
                   "INSERT INTO t VALUES (0, 'new')")
        tm.start()
        tm.equal("t")
        check(tm.state("t") == "live", "not live after the restart")
        tm.kill()
        tm.start()
        tm.equal("t")
        check(tm.status()["runs"] == first, "it copied again")
        tm.stop()
        at_rest = tm.status()
        check(at_rest, "status needs the daemon")


def test_stop_in_the_middle_of_the_copy():
    with Server() as server, Tidemark(server, "public.t", args=["--chunk-rows", 10]) as tm:
        with_table(server, 20000)
        tm.start()
        tm.hold_copy("t", past=100)
        tm.stop()
        tm.release_copy()
        read = tm.rows_read("t")
        check(0 < read < 20000, f"stopped after {read} rows: nothing was tested")
        r = tm.run("--until", "caught-up")
        check(r.code == EXIT_OK, lambda: f"the copy did not go on: {r}")
        check(tm.rows_read("t") == 20000, lambda: f"read {tm.rows_read('t')} rows in all, of 20000")
        tm.start()
        tm.equal("t")


def test_until():
    with Server() as server, Tidemark(server, "public.t") as tm:
        with_table(server)
        r = tm.run("--until", "caught-up")
        check(r.code == EXIT_OK, lambda: f"--until caught-up: {r}")
        server.sql("UPDATE t SET v = 'one' WHERE id = 1")
        here = server.value("SELECT pg_current_wal_insert_lsn()::text")
        server.sql("UPDATE t SET v = 'two' WHERE id = 2")
        r = tm.run("--until", here)
        check(r.code == EXIT_OK, lambda: f"--until {here}: {r}")
        check(tm.get("t", 1)["v"] == "one", "--until LSN stopped before that position")
        r = tm.run("--until", "caught-up")
        check(r.code == EXIT_OK and tm.get("t", 2)["v"] == "two",
              lambda: f"caught up without the last change: {r}")
