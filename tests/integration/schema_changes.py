"""What the tests of ALTER TABLE share."""

import time
from concurrent.futures import ThreadPoolExecutor

from harness import Failure, Server, Tidemark, place

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


def runs(tm):
    return len(tm.status()["runs"])


class Database:
    """A server as seen from one database."""

    def __init__(self, server, name):
        self.server, self.name = server, name

    def sql(self, text, *params):
        return self.server.sql(text, *params, db=self.name)


def each_case(cases, body, args=()):
    """body(database, tidemark, *rest) for each (name, *rest), some at a time: most of their time is waiting for a look at the catalog."""
    with Server(settings={"max_wal_senders": 20, "max_replication_slots": 20}) as server:
        def run(n, name, rest):
            db = f"case{n}"
            with Tidemark(server, "public.t", db=db, store=place(db), args=["--slot", db, *args]) as tm:
                try:
                    body(Database(server, db), tm, *rest)
                except AssertionError as e:
                    raise AssertionError(f"{name}: {e}") from e
        for n in range(len(cases)):
            server.database(f"case{n}")
        with ThreadPoolExecutor(4) as pool:
            running = [pool.submit(run, n, name, rest) for n, (name, *rest) in enumerate(cases)]
        for future in running:
            future.result()
