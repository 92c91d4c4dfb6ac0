"""Replica identity and keys: what a table is followed by, what is refused before it is published, and that the
application's own writes never start to fail because of us."""

import psycopg2

from harness import EXIT_USAGE, Failure, Server, Tidemark, check, incompressible, rng, timeout, until
from schema_changes import each_case

TWO_ROWS = ["--chunk-rows", 2]
WRITES = ("UPDATE {t} SET v = v || '.' WHERE v LIKE '%7%'", "DELETE FROM {t} WHERE v LIKE '%19%'", "INSERT INTO {t} (v) VALUES ('new')")


def equal(tm, *names):
    """Until the tables are live and equal: what only the catalog tells takes seconds."""
    def settled():
        tm.wait_live(*names)
        try:
            tm.equal(*names)
        except Failure:
            return False
        return True
    until(f"{names} equal", settled, timeout=30, interval=0.2)


# name: columns, what follows, usable
TABLES = {
    "by_default": ("id serial PRIMARY KEY, v text", "", True),
    "by_default_composite": ("a int DEFAULT 1, v text, id serial, PRIMARY KEY (id, a)", "", True),
    "by_index": ("id serial PRIMARY KEY, n serial, v text", "CREATE UNIQUE INDEX by_index_n ON {t} (n); ALTER TABLE {t} ALTER n SET NOT NULL, REPLICA IDENTITY USING INDEX by_index_n", True),
    "by_index_alone": ("v text, n serial NOT NULL", "CREATE UNIQUE INDEX by_index_alone_n ON {t} (n) INCLUDE (v); ALTER TABLE {t} REPLICA IDENTITY USING INDEX by_index_alone_n", True),
    "full_with_key": ("id serial PRIMARY KEY, v text", "ALTER TABLE {t} REPLICA IDENTITY FULL", True),
    "full_with_unique": ("v text, n serial NOT NULL UNIQUE", "ALTER TABLE {t} REPLICA IDENTITY FULL", True),
    "full_without_key": ("id serial, v text", "ALTER TABLE {t} REPLICA IDENTITY FULL", False),
    "full_nullable": ("v text, n serial UNIQUE", "ALTER TABLE {t} ALTER n DROP NOT NULL; ALTER TABLE {t} REPLICA IDENTITY FULL", False),
    "full_partial": ("v text, n serial NOT NULL", "CREATE UNIQUE INDEX ON {t} (n) WHERE n > 0; ALTER TABLE {t} REPLICA IDENTITY FULL", False),
    "full_expression": ("v text, n serial NOT NULL", "CREATE UNIQUE INDEX ON {t} ((n + 1)); ALTER TABLE {t} REPLICA IDENTITY FULL", False),
    "keyless": ("id serial, v text", "", False),
    "unique_only": ("v text, n serial NOT NULL UNIQUE", "", False),
    "nothing": ("id serial PRIMARY KEY, v text", "ALTER TABLE {t} REPLICA IDENTITY NOTHING", False),
    "deferred": ("id serial PRIMARY KEY DEFERRABLE, v text", "", False),
    "unlogged": ("id serial PRIMARY KEY, v text", "ALTER TABLE {t} SET UNLOGGED", False),
}
USABLE = [t for t, (_, _, usable) in TABLES.items() if usable]
REFUSED = [t for t, (_, _, usable) in TABLES.items() if not usable]


def make_tables(server):
    for t, (columns, more, _) in TABLES.items():
        server.sql(f"CREATE TABLE {t} ({columns}); {more.format(t=t)}")
        server.sql(f"INSERT INTO {t} (v) SELECT 'v' || g FROM generate_series(1, 60) g")


def write(server):
    """What an application does: none of it may fail."""
    for t in TABLES:
        for statement in WRITES:
            server.sql(statement.format(t=t))


def test_every_kind():
    """Each table that is left out is named with its reason, and exit is 2; with --skip-unsupported the others are replicated."""
    with Server() as server, Tidemark(server, args=TWO_ROWS) as tm:
        make_tables(server)
        write(server)
        r = tm.run("--until", "caught-up", timeout=30)
        check(r.code == EXIT_USAGE, lambda: f"expected exit {EXIT_USAGE}: {r}")
        for t in REFUSED:
            check(f"public.{t} " in r.err, lambda: f"{t} is not named: {r.err}")
        for t in USABLE:
            check(f"public.{t} " not in r.err, lambda: f"{t} is refused: {r.err}")
        check(server.publications() == set() and server.slots() == {}, "it left something behind")
        write(server)
        tm.start("--skip-unsupported")
        tm.wait_live(*USABLE)
        write(server)
        tm.equal(*USABLE)
        check(set(tm.tables()) == {("public", t) for t in USABLE}, lambda: f"tables are {set(tm.tables())}")
        for t in REFUSED:
            check(f"public.{t} " in tm.log(), lambda: f"{t} is not named: {tm.log()}")
        published = {name for name, in server.sql("SELECT tablename FROM pg_publication_tables")}
        check(published == set(USABLE), lambda: f"published: {published}")
        tm.stop()
        write(server)
        tm.start("--skip-unsupported")
        tm.wait_live(*USABLE)
        tm.equal(*USABLE)


def test_changes_of_keys_and_large_values():
    """Under each identity: the key changes, with a large value beside it that does not."""
    for identity in ("DEFAULT", "FULL", "USING INDEX t_n"):
        with Server() as server, Tidemark(server, "public.t", args=TWO_ROWS) as tm:
            large = rng("identity", identity)
            server.sql("CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL, v text, w text); CREATE UNIQUE INDEX t_n ON t (n)")
            server.sql(f"ALTER TABLE t REPLICA IDENTITY {identity}; ALTER TABLE t ALTER v SET STORAGE EXTERNAL; INSERT INTO t SELECT g, -g, 'small', 'w' FROM generate_series(1, 4000) g")
            for i in range(10, 16):
                server.sql("UPDATE t SET v = %s WHERE id = %s", incompressible(large, 9000), i)
            tm.start()
            tm.hold_copy("t", past=20)
            def change(add):
                server.sql("UPDATE t SET id = id + %s WHERE id %% 10 IN (0, 1, 2); UPDATE t SET n = n - %s WHERE id %% 10 IN (2, 3); UPDATE t SET w = w || '!' WHERE id %% 10 < 6", add, add)
                server.sql("BEGIN; UPDATE t SET w = 'a' WHERE n < -90; DELETE FROM t WHERE id % 10 = 9; UPDATE t SET n = -n WHERE id % 10 = 5; UPDATE t SET n = -n, w = NULL WHERE id % 10 = 5; COMMIT")
            change(100000)
            tm.release_copy()
            tm.wait_live("t")
            tm.equal("t")
            change(1000000)
            tm.equal("t")
            server.sql("UPDATE t SET id = CASE id WHEN 13 THEN 14 ELSE 13 END WHERE FALSE; BEGIN; UPDATE t SET id = -1, n = 500 WHERE id = 13; UPDATE t SET id = 13, n = 501 WHERE id = 14;"
                       "UPDATE t SET id = 14 WHERE id = -1; COMMIT")
            equal(tm, "t")


@timeout(240)
def test_identity_changes():
    """While running and while stopped; the table is never wrong, and is copied anew when its key is another."""
    with Server() as server, Tidemark(server, "public.t", args=TWO_ROWS) as tm:
        server.sql("CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL, v text); CREATE UNIQUE INDEX t_n ON t (n); INSERT INTO t SELECT g, -g, 'v' || g FROM generate_series(1, 200) g")
        tm.start()
        tm.wait_live("t")
        turn = 0
        for identity in ("FULL", "USING INDEX t_n", "DEFAULT"):
            for stopped in (False, True):
                turn += 1
                if stopped:
                    tm.stop()
                server.sql("UPDATE t SET n = n - 1000, v = 'before' WHERE id % 7 = 0")
                server.sql("ALTER TABLE t REPLICA IDENTITY " + (identity if not stopped else "FULL"))
                server.sql(f"UPDATE t SET id = id + 1000 WHERE id % 11 = {turn}; UPDATE t SET v = 'after' WHERE id % 5 = 0; DELETE FROM t WHERE id % 31 = {turn}")
                server.sql("ALTER TABLE t REPLICA IDENTITY " + identity)
                if stopped:
                    tm.start()
                equal(tm, "t")


def fails(server, statement):
    try:
        server.sql(statement)
    except psycopg2.Error:
        return True
    return False


def test_key_is_dropped_while_running():
    """A published table without a key cannot be updated. It leaves the publication, and its writers go on."""
    for statement in ("ALTER TABLE t DROP CONSTRAINT t_pkey", "ALTER TABLE t REPLICA IDENTITY NOTHING"):
        with Server() as server, Tidemark(server, "public.*") as tm:
            server.sql("CREATE TABLE t (id int PRIMARY KEY, v text); INSERT INTO t SELECT g, 'v' FROM generate_series(1, 50) g; CREATE TABLE u (id int PRIMARY KEY, v text)")
            tm.start()
            tm.wait_live("t", "u")
            server.sql(statement)
            until("updates of t work again", lambda: not fails(server, "UPDATE t SET v = 'x' WHERE id = 1"), timeout=20)
            until("t has left", lambda: tm.state("t") == "left", timeout=20)
            check("public.t " in tm.log(), lambda: f"t is not named: {tm.log()}")
            server.sql("INSERT INTO u VALUES (1, 'goes on'); DELETE FROM t WHERE id < 10")
            tm.equal("u")
            check(tm.is_running(), "it ended")
            server.sql("ALTER TABLE t REPLICA IDENTITY DEFAULT; ALTER TABLE t DROP CONSTRAINT IF EXISTS t_pkey; ALTER TABLE t ADD PRIMARY KEY (id)")
            tm.stop()
            tm.start()
            equal(tm, "t", "u")
            server.sql("UPDATE t SET v = 'back' WHERE id < 20")
            tm.equal("t", "u")


def test_a_key_comes_while_running():
    """Refused at first, replicated once it can be."""
    with Server() as server, Tidemark(server, "public.*", args=["--skip-unsupported"]) as tm:
        server.sql("CREATE TABLE t (id int, v text); INSERT INTO t SELECT g, 'v' FROM generate_series(1, 50) g; CREATE TABLE u (id int PRIMARY KEY)")
        tm.start()
        tm.wait_live("u")
        server.sql("UPDATE t SET v = 'x' WHERE id < 10")
        server.sql("ALTER TABLE t ADD PRIMARY KEY (id); CREATE TABLE w (id int PRIMARY KEY)")
        until("t is replicated", lambda: tm.state("t") == "live", timeout=20)
        server.sql("UPDATE t SET v = 'y' WHERE id < 5")
        tm.equal("t", "u", "w")


WHILE = [
    ("by another index", "ALTER TABLE t REPLICA IDENTITY USING INDEX t_n", "ALTER TABLE t REPLICA IDENTITY DEFAULT"),
    ("the key under another name", "ALTER TABLE t RENAME id TO key", "ALTER TABLE t RENAME key TO id"),
    ("another key", "ALTER TABLE t DROP CONSTRAINT t_pkey, ADD PRIMARY KEY (n)", "ALTER TABLE t DROP CONSTRAINT t_pkey, ADD PRIMARY KEY (id)"),
    ("two columns changed places", "ALTER TABLE t RENAME a TO c; ALTER TABLE t RENAME b TO a; ALTER TABLE t RENAME c TO b",
     "ALTER TABLE t RENAME a TO c; ALTER TABLE t RENAME b TO a; ALTER TABLE t RENAME c TO b"),
]


def work(server, statement_list):
    for s in statement_list:
        server.sql(s)


def test_otherwise_for_a_while():
    """Back as it was when anybody looks, but the log of between tells rows by another key, or columns by other names."""
    def body(server, tm, away, back):
        key, a = ("key" if "TO key" in away else "id"), ("b" if "TO c" in away else "a")
        between = (f"UPDATE t SET {key} = {key} + 1000 WHERE {key} % 10 = 1", f"UPDATE t SET {a} = 'a between' WHERE {key} % 10 = 2", f"DELETE FROM t WHERE {key} % 10 = 3",
                   f"UPDATE t SET {key} = -{key}, n = n + 5000 WHERE {key} % 10 = 4")
        server.sql("CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL, a text, b text); CREATE UNIQUE INDEX t_n ON t (n); INSERT INTO t SELECT g, 100000 + g, 'a', 'b' FROM generate_series(1, 200) g")
        tm.start()
        tm.wait_live("t")
        work(server, (away, *between, back, "UPDATE t SET a = 'later' WHERE id % 10 = 5"))
        equal(tm, "t")
        tm.stop()
        work(server, ("UPDATE t SET b = 'before' WHERE id % 10 = 6", away, *between, back, "UPDATE t SET b = 'later' WHERE id % 10 = 7"))
        tm.start()
        equal(tm, "t")
        server.sql("UPDATE t SET a = 'last' WHERE id % 10 = 8")
        tm.equal("t")
    each_case(WHILE, body, args=TWO_ROWS)
