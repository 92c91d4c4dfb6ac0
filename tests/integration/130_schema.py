"""ALTER TABLE while streaming, during a copy and while stopped: the live table equals the source."""

from harness import Failure, Server, Tidemark, check, until
from schema_changes import CHANGES, each_case, make_table, settle, write


def test_while_streaming():
    def body(server, tm, statement):
        make_table(server, 500)
        tm.start()
        tm.wait_live("t")
        server.sql(statement)
        write(server)
        settle(tm)
        server.sql("UPDATE t SET last = 'later' WHERE id % 3 = 0")
        settle(tm)
    each_case(CHANGES, body)


def test_during_the_copy():
    def body(server, tm, statement):
        make_table(server, 2000)
        tm.start()
        tm.hold_copy("t")
        server.sql(statement)
        write(server)
        tm.release_copy()
        settle(tm)
    each_case(CHANGES, body, args=["--chunk-rows", 2])


def test_while_stopped():
    def body(server, tm, statement):
        make_table(server, 500)
        tm.start()
        tm.wait_live("t")
        tm.stop()
        server.sql("UPDATE t SET last = 'old shape' WHERE id < 20")
        server.sql(statement)
        write(server)
        tm.start()
        settle(tm)
    each_case(CHANGES, body)


def test_rewritten_while_idle():
    """No change follows that would make the server describe the table: the catalog tells."""
    with Server() as server, Tidemark(server, "public.t") as tm:
        make_table(server, 500)
        tm.start()
        tm.wait_live("t")
        server.sql("ALTER TABLE t ALTER v TYPE text USING v || '!'")
        settle(tm)
        server.sql("ALTER TABLE t RENAME TO other; ALTER TABLE other RENAME COLUMN last TO final; ALTER TABLE other RENAME TO t")
        settle(tm)


def test_key_changes():
    """Another key is another table for the store: the old one is left, the new one copied."""
    with Server() as server, Tidemark(server, "public.t") as tm:
        make_table(server, 500)
        tm.start()
        tm.wait_live("t")
        server.sql("ALTER TABLE t RENAME COLUMN id TO key; UPDATE t SET n = -n WHERE key < 100")
        settle(tm)
        server.sql("BEGIN; UPDATE t SET v = 'before' WHERE key = 5; ALTER TABLE t DROP CONSTRAINT t_pkey;"
                   "ALTER TABLE t ADD PRIMARY KEY (key, n); UPDATE t SET v = 'after' WHERE key = 5; COMMIT")
        settle(tm)
        server.sql("DROP TABLE t; CREATE TABLE t (v text PRIMARY KEY, w int); INSERT INTO t VALUES ('a', 1), ('b', 2)")
        settle(tm)
        server.sql("UPDATE t SET w = 3")
        settle(tm)


def test_new_and_dropped_tables():
    """Noticed while running; one without a key is left out and said so, and ends nothing."""
    with Server() as server, Tidemark(server, "public.*") as tm:
        make_table(server, 500)
        tm.start()
        tm.wait_live("t")
        server.sql("CREATE TABLE u (id int PRIMARY KEY); INSERT INTO u SELECT generate_series(1, 50); CREATE TABLE keyless (v int)")
        until("u is noticed", lambda: tm.state("u") == "live", timeout=20)
        tm.equal("t", "u")
        server.sql("INSERT INTO keyless VALUES (1)")
        until("keyless is named", lambda: "keyless" in tm.log(), timeout=20)
        server.sql("DROP TABLE t; INSERT INTO u VALUES (0)")
        until("t is left", lambda: tm.state("t") == "left", timeout=20)
        tm.equal("u")
        check(tm.is_running(), "it ended")


def test_out_of_the_publication():
    """Taken out and put back while running and while stopped: what happened meanwhile is not lost."""
    with Server() as server, Tidemark(server, "public.t") as tm:
        make_table(server, 500)
        tm.start()
        tm.wait_live("t")
        away = ("ALTER PUBLICATION tidemark DROP TABLE t; UPDATE t SET v = v || '?'; DELETE FROM t WHERE id % 7 = 0;"
                "INSERT INTO t (id) SELECT generate_series(2000, 2020); ALTER PUBLICATION tidemark ADD TABLE t")
        server.sql(away)
        settle(tm)
        tm.stop()
        server.sql(away.replace("2000, 2020", "3000, 3020"))
        tm.start()
        settle(tm)


def test_not_a_change():
    """CREATE INDEX, GRANT, ANALYZE and VACUUM send the table's description again: nothing is copied again."""
    with Server() as server, Tidemark(server, "public.t") as tm:
        make_table(server, 500)
        tm.start()
        tm.wait_live("t")
        runs = len(tm.status()["runs"])
        for statement in ("CREATE INDEX ON t (n)", "GRANT SELECT ON t TO PUBLIC", "ANALYZE t", "VACUUM t",
                          "ALTER TABLE t ADD CHECK (id IS NOT NULL)", "BEGIN; UPDATE t SET n = n; CREATE INDEX ON t (v); UPDATE t SET n = n; COMMIT"):
            server.sql(statement)
            server.sql("UPDATE t SET n = n + 1 WHERE id < 10")
        tm.equal("t")
        check(len(tm.status()["runs"]) == runs, "it copied the table again")


def test_between_changes_of_one_transaction():
    """Each row is read in the columns of its time: running and stopped."""
    def body(server, tm, statement):
        make_table(server, 300)
        tm.start()
        tm.wait_live("t")
        between = ("BEGIN; UPDATE t SET v = 'before' WHERE id BETWEEN 10 AND 20; INSERT INTO t (id, n) VALUES (5000, 1); " + statement +
                   "; UPDATE t SET last = 'after' WHERE id BETWEEN 15 AND 25; INSERT INTO t (id) VALUES (5001); DELETE FROM t WHERE id = 12; COMMIT")
        server.sql(between)
        settle(tm)
        tm.stop()
        server.sql("DROP TABLE t")
        make_table(server, 300)
        tm.start()
        settle(tm)
        tm.stop()
        server.sql(between)
        tm.start()
        settle(tm)
    each_case(CHANGES, body)


def test_tables_change_names():
    """Names follow the tables: to a new one, swapped, and taken by a table that is new. Running and stopped."""
    with Server() as server, Tidemark(server, "public.*") as tm:
        make_table(server, 300)
        server.sql("CREATE TABLE u (k text PRIMARY KEY, w int); INSERT INTO u SELECT 'u' || g, g FROM generate_series(1, 100) g")
        tm.start()
        tm.wait_live("t", "u")
        def turn(statement, *names):
            server.sql(statement)
            def equal():
                if {n for (s, n), t in tm.tables().items() if t["state"] == "live" and s == "public"} != set(names):
                    return False
                try:
                    tm.equal(*names)
                except Failure:
                    return False
                return True
            until(f"equal under the names {names}", equal, timeout=20, interval=0.2)
        turn("ALTER TABLE t RENAME TO v; UPDATE v SET last = 'v' WHERE id < 10", "u", "v")
        turn("ALTER TABLE v RENAME TO x; ALTER TABLE u RENAME TO v; ALTER TABLE x RENAME TO u; UPDATE u SET last = 'u' WHERE id < 20; UPDATE v SET w = 0 WHERE w < 10", "u", "v")
        check(len(tm.status()["runs"]) == 2, "it read a table again")
        tm.stop()
        server.sql("UPDATE v SET w = 1 WHERE w = 0; ALTER TABLE v RENAME TO x; ALTER TABLE u RENAME TO v; ALTER TABLE x RENAME TO u; UPDATE u SET w = 2 WHERE w = 1; DELETE FROM v WHERE id < 5")
        tm.start()
        turn("SELECT", "u", "v")
        check(len(tm.status()["runs"]) == 2, "it read a table again")
        turn("ALTER TABLE v RENAME TO old; CREATE TABLE v (id int PRIMARY KEY); INSERT INTO v VALUES (1), (2); UPDATE old SET last = 'old' WHERE id < 30", "u", "v", "old")
        turn("CREATE SCHEMA away; ALTER TABLE old SET SCHEMA away; INSERT INTO v VALUES (3)", "u", "v")
