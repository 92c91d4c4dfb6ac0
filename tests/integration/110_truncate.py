"""TRUNCATE: while chunks are read, with inserts in the same transaction, of several tables, undone."""

import threading

from harness import Server, Tidemark, check, until


def test_while_copying():
    """Rows of a chunk read before the TRUNCATE must not come back after it."""
    with Server() as server, Tidemark(server, "public.t,public.u", args=["--chunk-rows", 5]) as tm:
        server.sql("CREATE TABLE t (id int PRIMARY KEY, v text); CREATE TABLE u (id int PRIMARY KEY, v text);"
                   "INSERT INTO u SELECT g, 'u' FROM generate_series(1, 3000) g")
        fill = "INSERT INTO t SELECT g, %s FROM generate_series(1, 3000) g"
        server.sql(fill, "first")
        tm.start()
        tm.hold_copy("t")
        for turn in range(1, 16):
            server.sql("BEGIN; TRUNCATE t;" + fill + "; COMMIT", f"turn {turn}")
            server.sql("UPDATE t SET v = v || ' updated' WHERE id % 50 = 0; DELETE FROM t WHERE id % 60 = 0")
            tm.release_copy()
        for turn in range(5):
            server.sql("TRUNCATE t")
            server.sql("INSERT INTO t VALUES (%s, 'alone')", turn * 100)
        tm.wait_live("t", "u")
        tm.equal("t", "u")
        server.sql("BEGIN; TRUNCATE t; INSERT INTO t SELECT g, 'last' FROM generate_series(1, 3000, 7) g;"
                   "UPDATE t SET v = 'updated' WHERE id < 50; DELETE FROM t WHERE id > 2900; COMMIT")
        tm.wait_live("t", "u")
        tm.equal("t", "u")


def test_several_tables_and_cascade():
    with Server() as server, Tidemark(server, "public.*") as tm:
        server.sql("CREATE TABLE a (id int PRIMARY KEY); "
                   "CREATE TABLE b (id int PRIMARY KEY, a int REFERENCES a);"
                   "CREATE TABLE c (id int PRIMARY KEY, b int REFERENCES b); "
                   "CREATE TABLE d (id serial PRIMARY KEY, v int)")
        def fill():
            server.sql("INSERT INTO a SELECT g FROM generate_series(1, 20) g; "
                       "INSERT INTO b SELECT g, g FROM generate_series(1, 20) g;"
                       "INSERT INTO c SELECT g, g FROM generate_series(1, 20) g; "
                       "INSERT INTO d (v) SELECT g FROM generate_series(1, 20) g")
        fill()
        tm.start()
        tm.wait_live("a", "b", "c", "d")
        everything = ("a", "b", "c", "d")
        for statement in ("TRUNCATE c, d", "TRUNCATE a CASCADE", "TRUNCATE d RESTART IDENTITY",
                          "BEGIN; TRUNCATE a CASCADE; INSERT INTO a VALUES (1); INSERT INTO b VALUES (1, 1); "
                          "COMMIT",
                          "BEGIN; INSERT INTO d (v) VALUES (1); TRUNCATE d; INSERT INTO d (v) VALUES (2); "
                          "TRUNCATE d; COMMIT"):
            server.sql("DELETE FROM c; DELETE FROM b; DELETE FROM a; DELETE FROM d")
            fill()
            tm.equal(*everything)
            server.sql(statement)
            tm.equal(*everything)


def test_undone():
    """A rolled back TRUNCATE, whole or to a savepoint, leaves every row."""
    with Server() as server, Tidemark(server, "public.t", args=["--chunk-rows", 10]) as tm:
        server.sql("CREATE TABLE t (id int PRIMARY KEY, v text); "
                   "INSERT INTO t SELECT g, 'v' FROM generate_series(1, 5000) g")
        tm.start()
        tm.hold_copy("t")
        for _ in range(5):
            server.sql("BEGIN; TRUNCATE t; INSERT INTO t VALUES (1, 'undone'); ROLLBACK")
            server.sql("BEGIN; SAVEPOINT s; TRUNCATE t; ROLLBACK TO s; "
                       "INSERT INTO t VALUES (0, 'kept') ON CONFLICT DO NOTHING; COMMIT")
        tm.release_copy()
        tm.wait_live("t")
        tm.equal("t")


def test_while_stopped():
    with Server() as server, Tidemark(server, "public.t") as tm:
        server.sql("CREATE TABLE t (id int PRIMARY KEY, v text); "
                   "INSERT INTO t SELECT g, 'v' FROM generate_series(1, 1000) g")
        tm.start()
        tm.wait_live("t")
        tm.stop()
        server.sql("UPDATE t SET v = 'before' WHERE id = 5; TRUNCATE t; "
                   "INSERT INTO t VALUES (5, 'after'), (7, 'after')")
        tm.start()
        tm.equal("t")
        check(tm.tables()[("public", "t")]["rows"] == 2, "wrong count of rows")


class Truncating(threading.Thread):
    """Replaces a table's rows again and again, each time in a transaction of its own."""

    def __init__(self, server):
        super().__init__(daemon=True)
        self.con = server.connect(autocommit=False)
        self.stopping = threading.Event()

    def run(self):
        with self.con.cursor() as cur:
            while not self.stopping.wait(0.01):
                cur.execute("TRUNCATE public.t; INSERT INTO public.t SELECT g, now()::text FROM generate_series(1, 10) g")
                self.con.commit()
        self.con.close()

    def stop(self):
        self.stopping.set()
        self.join(30)


def test_while_the_slot_is_made():
    """The server makes one in some dozens of such slots so that it cannot decode it, or with an odd snapshot."""
    with Server() as server:
        server.sql("CREATE TABLE t (id int PRIMARY KEY, v text); CREATE TABLE u (id int PRIMARY KEY); INSERT INTO u SELECT generate_series(1, 500)")
        writers = [Truncating(server) for _ in range(3)]
        for w in writers:
            w.start()
        for n in range(25):
            with Tidemark(server, "public.t,public.u", args=["--slot", f"s{n}"]) as tm:
                r = tm.run("--until", "caught-up", timeout=30)
                check(r.code == 0, lambda: f"slot {n}: {r}")
                until("the slot is free", lambda: not server.slots()[f"s{n}"][0])
                server.sql("SELECT pg_drop_replication_slot(%s)", f"s{n}")
        for w in writers:
            w.stop()
