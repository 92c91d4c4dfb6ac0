"""--on-schema-change, and columns added without a value in any row: what is read again, what is left, what ends the program."""

from harness import EXIT_USAGE, Server, Tidemark, check, end_of_wal, lsn, until
from schema_changes import each_case, make_table, runs, settle, write


def test_added_without_a_default():
    """NULL in every row there was: nothing is read again, and the table stays live."""
    with Server() as server, Tidemark(server, "public.t", args=["--chunk-rows", 2]) as tm:
        make_table(server, 4900)
        server.sql("ALTER TABLE t ADD old int; ALTER TABLE t DROP COLUMN old")
        tm.start()
        tm.hold_copy("t", past=100)
        server.sql("ALTER TABLE t ADD during text; UPDATE t SET during = 'set' WHERE id % 4 = 0")
        tm.release_copy()
        settle(tm)
        check(runs(tm) == 1, "it began the copy again")
        write(server)
        server.sql("BEGIN; UPDATE t SET n = 1 WHERE id = 20; ALTER TABLE t ADD running text, ADD running2 int; UPDATE t SET running = 'r' WHERE id = 21;"
                   "INSERT INTO t (id, running2) VALUES (5000, 7); COMMIT")
        settle(tm)
        server.sql("ALTER TABLE t ADD idle text")
        tm.wait_log("was altered")
        until("the new column is shown", lambda: "idle" in (tm.get("t", "20") or {}), timeout=20)
        tm.equal("t")
        tm.stop()
        server.sql("UPDATE t SET v = 'backlog', id = id + 100000 WHERE id BETWEEN 30 AND 40; INSERT INTO t (id, v) VALUES (6000, 'backlog'); UPDATE t SET n = 5 WHERE id = 41")
        server.sql("ALTER TABLE t ADD stopped text; ALTER TABLE t ALTER stopped SET DEFAULT 'later'; UPDATE t SET stopped = 's' WHERE id % 10 = 2; INSERT INTO t (id) VALUES (6001)")
        tm.start()
        tm.wait()
        tm.equal("t")
        check(tm.state("t") == "live" and runs(tm) == 1, lambda: f"it read the table again: {tm.status()['runs']}")


def test_added_under_a_name_that_rows_had():
    """Old rows are shown by name: they must not show the values of the column that was dropped."""
    with Server() as server, Tidemark(server, "public.t") as tm:
        make_table(server, 300)
        tm.start()
        tm.wait_live("t")
        for _ in range(2):
            server.sql("ALTER TABLE t DROP COLUMN gone")
            settle(tm)
            server.sql("ALTER TABLE t ADD gone int; UPDATE t SET gone = 5 WHERE id = 5")
            settle(tm)
        tm.stop()
        server.sql("ALTER TABLE t ADD x int; UPDATE t SET x = 1 WHERE id < 100; ALTER TABLE t RENAME COLUMN x TO y; ALTER TABLE t ADD x int; UPDATE t SET x = 2 WHERE id = 50")
        tm.start()
        settle(tm)
        tm.stop()
        server.sql("ALTER TABLE t ADD z int; UPDATE t SET z = 1 WHERE id < 100; ALTER TABLE t DROP z; ALTER TABLE t ADD z int; UPDATE t SET z = 2 WHERE id = 50")
        tm.start()
        settle(tm)


def test_killed_while_behind_an_added_column():
    """By the time the stream gets to its rows, the name of a column that came meanwhile is another's; the catalog is looked at twice before that."""
    for mode in ("backfill", "continue"):
        with Server() as server, Tidemark(server, "public.t", args=["--on-schema-change", mode]) as tm:
            make_table(server, 300)
            tm.start()
            tm.wait_live("t")
            tm.stop()
            server.sql("INSERT INTO t (id, v) SELECT g, 'long' FROM generate_series(1000, 80000) g")
            behind = lsn(end_of_wal(server))
            server.sql("ALTER TABLE t ADD x int, ADD y int; UPDATE t SET x = 1, y = 2 WHERE id < 100; UPDATE t SET last = 'named' WHERE id < 50")
            server.sql("ALTER TABLE t RENAME x TO z; ALTER TABLE t RENAME y TO x; ALTER TABLE t RENAME z TO y; UPDATE t SET x = 3 WHERE id = 50")
            tm.start()
            until("the columns of today", lambda: "y" in (tm.get("t", "200") or {}), interval=0.001)
            tm.kill()
            check(lsn(tm.status()["checkpoint"]["lsn"]) < behind, "it was not killed in time: nothing is tested")
            tm.start()
            settle(tm)
            server.sql("UPDATE t SET x = 3 WHERE id = 51")
            tm.equal("t")


def stopped(tm, *fragments):
    """Exit 2, and the last line says what was altered."""
    code = tm.wait_exit()
    tm.process = None
    sentence = tm.log().splitlines()[-1]
    check(code == EXIT_USAGE, lambda: f"expected exit {EXIT_USAGE}, got {code}: {sentence}")
    for f in fragments:
        check(f in sentence, lambda: f"{f!r} is not in: {sentence}")


STOPS = [
    ("added", "ALTER TABLE t ADD extra text", "column extra is new"),
    ("dropped", "ALTER TABLE t DROP COLUMN gone", "column gone is gone"),
    ("retyped", "ALTER TABLE t ALTER n TYPE bigint", "column n has another type"),
    ("rewritten", "ALTER TABLE t ALTER v TYPE text USING v || '!'", "rewritten"),
    ("another key", "ALTER TABLE t DROP CONSTRAINT t_pkey, ADD PRIMARY KEY (v)", "its key is another"),
    ("there and back", "ALTER TABLE t RENAME TO u; ALTER TABLE u RENAME TO t", None),
    ("made again", "DROP TABLE t; CREATE TABLE t (id int PRIMARY KEY, v text); INSERT INTO t VALUES (1, 'new')", "dropped and made again"),
]


def test_stop():
    """While streaming and at a start; nothing is lost when it goes on with backfill."""
    def body(server, tm, statement, said):
        make_table(server, 300)
        tm.start()
        tm.wait_live("t")
        server.sql("UPDATE t SET v = 'unlike' || id WHERE id < 10")
        tm.wait()
        server.sql(statement)
        server.sql("UPDATE t SET v = 'later' WHERE id = 1; INSERT INTO t (id, v) VALUES (1000, 'x')")
        if said is None:
            return settle(tm)
        stopped(tm, "public.t was altered", said, "--on-schema-change")
        before = tm.content()
        tm.start()
        stopped(tm, "public.t was altered", said)
        check(tm.content() == before, "the store changed")
        tm.start("--on-schema-change", "backfill")
        settle(tm)
    each_case(STOPS, body, args=["--on-schema-change", "stop"])


def test_stop_at_another_name():
    with Server() as server, Tidemark(server, "public.*", args=["--on-schema-change", "stop"]) as tm:
        make_table(server, 300)
        tm.start()
        tm.wait_live("t")
        server.sql("ALTER TABLE t RENAME TO u")
        stopped(tm, "public.u was altered (it was public.t)")
        tm.start("--on-schema-change", "continue")
        until("it has its new name", lambda: tm.state("u") == "live", timeout=20)
        server.sql("UPDATE u SET v = 'x' WHERE id < 10")
        tm.equal("u")
        check(runs(tm) == 1, "it was read again")


def test_continue():
    """Rows keep what they had until the source writes them. Names that move to other values are not left so."""
    with Server() as server, Tidemark(server, "public.t", args=["--on-schema-change", "continue"]) as tm:
        make_table(server, 300)
        tm.start()
        tm.wait_live("t")
        server.sql("ALTER TABLE t ADD flag int NOT NULL DEFAULT 1, DROP COLUMN gone; UPDATE t SET v = 'written' WHERE id <= 10")
        until("the new column", lambda: "flag" in (tm.get("t", "5") or {}), timeout=20)
        tm.wait()
        check(tm.get("t", "5")["flag"] == 1 and tm.get("t", "50")["flag"] is None, lambda: f"{tm.get('t', '5')} {tm.get('t', '50')}")
        check("gone" not in tm.get("t", "50") and tm.get("t", "50")["v"] == "v50", lambda: tm.get("t", "50"))
        check(tm.state("t") == "live" and runs(tm) == 1, "it read the table again")
        server.sql("ALTER TABLE t ALTER n TYPE bigint USING n * 2; UPDATE t SET v = 'written' WHERE id = 6")
        tm.wait()
        until("a row in the new type", lambda: (tm.get("t", "6") or {}).get("n") == 12, timeout=20)
        check(tm.get("t", "60")["n"] == 60 and runs(tm) == 1, "it read the table again")
        tm.stop()
        server.sql("UPDATE t SET last = 'backlog' WHERE id = 7; ALTER TABLE t ADD more text DEFAULT 'd'; UPDATE t SET last = 'later' WHERE id = 8")
        tm.start()
        tm.wait()
        until("the backlog", lambda: (tm.get("t", "8") or {}).get("more") == "d" and tm.get("t", "7")["more"] == "d", timeout=20)
        check(tm.state("t") == "live" and runs(tm) == 1, "it read the table again")
        server.sql("BEGIN; ALTER TABLE t RENAME v TO w; ALTER TABLE t RENAME last TO v; ALTER TABLE t RENAME w TO last; COMMIT; UPDATE t SET id = 1000 WHERE id = 9")
        settle(tm)
        check(runs(tm) == 2, "names moved, and the rows were not read again")
        server.sql("ALTER TABLE t ADD gone int; UPDATE t SET n = 0 WHERE id = 10")
        settle(tm)
        check(runs(tm) == 3, "a name came back, and the rows were not read again")
