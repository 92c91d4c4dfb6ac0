"""ALTER TABLE while streaming, during a copy and while stopped: the live table equals the source."""

import time

from harness import Failure, Server, Tidemark, check, timeout, until

CHANGES = [
    ("add column", "ALTER TABLE t ADD extra text"),
    ("add column with default", "ALTER TABLE t ADD flag bool NOT NULL DEFAULT true, ADD at timestamptz DEFAULT '2026-01-01'"),
    ("drop column", "ALTER TABLE t DROP COLUMN gone"),
    ("rename column", "ALTER TABLE t RENAME COLUMN v TO text_v"),
    ("change type", "ALTER TABLE t ALTER n TYPE bigint USING n * 2"),
    ("change type to text", "ALTER TABLE t ALTER n TYPE text"),
    ("rewrite with equal types", "ALTER TABLE t ALTER v TYPE text USING v || '!'"),
    ("drop and add again", "ALTER TABLE t DROP COLUMN gone; ALTER TABLE t ADD gone int DEFAULT 7"),
    ("rename table", "ALTER TABLE t RENAME TO t2; ALTER TABLE t2 RENAME TO t"),
]


def make_table(server, rows):
    server.sql("CREATE TABLE t (id int PRIMARY KEY, n int, v text, gone int, last text)")
    server.sql("INSERT INTO t SELECT g, g, 'v' || g, g, NULL FROM generate_series(1, %s) g", rows)


def write(server):
    """A few rows that name no column but the key."""
    server.sql("UPDATE t SET id = -id WHERE id IN (3, 5); DELETE FROM t WHERE id = 7;"
               "INSERT INTO t (id) VALUES (0), (100000); UPDATE t SET last = 'w' WHERE id % 10 = 1")


def settle(tm):
    """Until the table is live again. What the log does not tell (a rewrite, a column dropped and added again) is
    noticed by a look at the catalog every few seconds."""
    deadline = time.monotonic() + 20
    while True:
        tm.wait()
        tm.wait_live("t")
        try:
            return tm.equal("t")
        except Failure:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


@timeout(240)
def test_while_streaming():
    for name, statement in CHANGES:
        with Server() as server, Tidemark(server, "public.t") as tm:
            make_table(server, 500)
            tm.start()
            tm.wait_live("t")
            server.sql(statement)
            write(server)
            try:
                settle(tm)
                server.sql("UPDATE t SET last = 'later' WHERE id % 3 = 0")
                settle(tm)
            except AssertionError as e:
                raise AssertionError(f"{name}: {e}") from e


@timeout(240)
def test_during_the_copy():
    for name, statement in CHANGES:
        with Server() as server, Tidemark(server, "public.t", args=["--chunk-rows", 5]) as tm:
            make_table(server, 2000)
            tm.start()
            tm.hold_copy("t")
            server.sql(statement)
            write(server)
            tm.release_copy()
            try:
                settle(tm)
            except AssertionError as e:
                raise AssertionError(f"{name}: {e}") from e


@timeout(240)
def test_while_stopped():
    for name, statement in CHANGES:
        with Server() as server, Tidemark(server, "public.t") as tm:
            make_table(server, 500)
            tm.start()
            tm.wait_live("t")
            tm.stop()
            server.sql("UPDATE t SET last = 'old shape' WHERE id < 20")
            server.sql(statement)
            write(server)
            tm.start()
            try:
                settle(tm)
            except AssertionError as e:
                raise AssertionError(f"{name}: {e}") from e


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
