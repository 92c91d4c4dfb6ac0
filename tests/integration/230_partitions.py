"""A partitioned table is one table: moves between its partitions, whole partitions that come, go or are emptied, and
who else publishes them. Inheritance is not partitioning: each table for itself."""

from harness import EXIT_USAGE, Failure, Server, Tidemark, check, incompressible, rng, scaled, since, timeout, until

ROWS = scaled(900)


def make_parts(server, rows=ROWS):
    """Three levels: m by n, its second partition by id. Columns stand in another order in one of them."""
    server.sql("CREATE TABLE m (id int, n int, v text, PRIMARY KEY (id, n)) PARTITION BY RANGE (n);"
               "CREATE TABLE m_1 PARTITION OF m FOR VALUES FROM (0) TO (10);"
               "CREATE TABLE m_2 PARTITION OF m FOR VALUES FROM (10) TO (20) PARTITION BY LIST (id);"
               "CREATE TABLE m_2_odd (dropped text, v text, n int NOT NULL, id int NOT NULL, PRIMARY KEY (id, n)); ALTER TABLE m_2_odd DROP dropped;"
               "CREATE TABLE m_2_rest PARTITION OF m_2 DEFAULT; CREATE TABLE m_rest PARTITION OF m DEFAULT")
    server.sql("INSERT INTO m SELECT g, g %% 30, 'v' || g FROM generate_series(1, %s) g", rows)
    server.sql("BEGIN; CREATE TEMP TABLE odd AS SELECT * FROM m WHERE n BETWEEN 10 AND 19 AND id IN (11, 13, 15); DELETE FROM m WHERE id IN (11, 13, 15);"
               "ALTER TABLE m_2 ATTACH PARTITION m_2_odd FOR VALUES IN (11, 13, 15); INSERT INTO m SELECT * FROM odd; DROP TABLE odd; COMMIT")


def start(server, tm, *names):
    tm.start()
    tm.wait_live(*names)
    tm.equal(*names)


def settle(tm, *names):
    """Until a look at the catalog, every few seconds, has told what the log does not."""
    def equal():
        tm.wait_live(*names)
        try:
            tm.equal(*names)
        except Failure:
            return False
        return True
    tm.wait()
    until("equal again", equal, timeout=30, interval=0.2)


def shuffle(server, seed):
    """Rows move between partitions, with keys, large values and all."""
    large = rng("partitions", seed)
    server.sql("UPDATE m SET n = (n + 7) %% 30 WHERE id %% 3 = 0; DELETE FROM m WHERE id %% 11 = 0; INSERT INTO m VALUES (%s, 5, %s)",
               100000 + seed, incompressible(large, 9000))
    server.sql("UPDATE m SET n = 15 WHERE id = %s; UPDATE m SET n = 25, id = id + 1000 WHERE id = %s", 100000 + seed, 100000 + seed)
    server.sql("UPDATE m SET v = v || '.' WHERE n < 20")
    server.sql("BEGIN; UPDATE m SET n = 12 WHERE id = 11; UPDATE m SET n = 3 WHERE id = 11; UPDATE m SET n = 13 WHERE id = 11; COMMIT")


def test_one_table():
    """Copied two rows at a time while rows move."""
    with Server() as server, Tidemark(server, "public.m", args=["--chunk-rows", 2]) as tm:
        make_parts(server)
        tm.start()
        tm.hold_copy("m", past=100)
        shuffle(server, 1)
        tm.release_copy()
        tm.wait_live("m")
        tm.equal("m")
        check(set(tm.tables()) == {("public", "m")}, lambda: f"tables are {set(tm.tables())}")
        shuffle(server, 2)
        tm.equal("m")
        tm.stop()
        shuffle(server, 3)
        tm.start()
        tm.wait_live("m")
        tm.equal("m")
        check(len(tm.status()["runs"]) == 1, "it was copied again")


def test_named_with_its_partitions():
    """Patterns that match the whole and the parts: the whole is replicated, and nothing is refused or found new for ever."""
    with Server() as server, Tidemark(server) as tm:
        make_parts(server)
        server.sql("CREATE TABLE plain (id int PRIMARY KEY); INSERT INTO plain VALUES (1)")
        start(server, tm, "m", "plain")
        check(set(tm.tables()) == {("public", "m"), ("public", "plain")}, lambda: f"tables are {set(tm.tables())}")
        server.sql("CREATE TABLE m_4 PARTITION OF m FOR VALUES FROM (100) TO (200); INSERT INTO m VALUES (1, 150, 'new')")
        settle(tm, "m", "plain")
        until("it has settled", lambda: tm.log().count("attaching again") == 1)
        published = server.sql("SELECT tablename FROM pg_publication_tables ORDER BY 1")
        check(published == [("m",), ("plain",)], lambda: f"published: {published}")




def list_parts(server, rows=ROWS):
    server.sql("CREATE TABLE m (id int, n int, v text, PRIMARY KEY (id, n)) PARTITION BY LIST (n)")
    for n in range(3):
        server.sql(f"CREATE TABLE m_{n} PARTITION OF m FOR VALUES IN ({n})")
    server.sql("INSERT INTO m SELECT g, g %% 3, 'v' || g FROM generate_series(1, %s) g", rows)


ATTACH = ("CREATE TABLE m_new (id int, n int, v text, PRIMARY KEY (id, n)); INSERT INTO m_new SELECT g, 100, 'attached' FROM generate_series(1, 300) g;"
          "ALTER TABLE m ATTACH PARTITION m_new FOR VALUES IN (100)")
WHOLE = [
    ("attach with rows", ATTACH),
    ("detach", "ALTER TABLE m DETACH PARTITION m_1"),
    ("detach and write on", "ALTER TABLE m DETACH PARTITION m_2; UPDATE m_2 SET v = 'not ours'; DELETE FROM m_2 WHERE id < 100; UPDATE m SET v = 'ours' WHERE id < 100"),
    ("drop", "DROP TABLE m_new"),
    ("truncate", "TRUNCATE m_0"),
    ("attach again", "ALTER TABLE m ATTACH PARTITION m_1 FOR VALUES IN (1)"),
    ("truncate and fill", "BEGIN; TRUNCATE m_1; INSERT INTO m SELECT g, 1, 'filled' FROM generate_series(1, 50) g; COMMIT"),
    ("truncate the whole", "TRUNCATE m; INSERT INTO m VALUES (1, 0, 'alone')"),
]


@timeout(240)
def test_whole_partitions():
    """None of these has row events. While streaming."""
    with Server() as server, Tidemark(server, "public.m") as tm:
        list_parts(server)
        start(server, tm, "m")
        for i, (name, statement) in enumerate(WHOLE):
            server.sql(statement)
            if i > 1:  # the server describes the table at its next change; without one it takes a few seconds
                server.sql("INSERT INTO m VALUES (%s, 0, 'next')", 10000 + i)
            try:
                settle(tm, "m")
            except AssertionError as e:
                raise AssertionError(f"{name}: {e}") from e


@timeout(240)
def test_whole_partitions_while_stopped():
    with Server() as server, Tidemark(server, "public.m") as tm:
        list_parts(server)
        start(server, tm, "m")
        for name, statement in WHOLE:
            tm.stop()
            server.sql("UPDATE m SET v = 'before' WHERE id < 20")
            server.sql(statement)
            tm.start()
            try:
                settle(tm, "m")
            except AssertionError as e:
                raise AssertionError(f"{name}: {e}") from e


@timeout(240)
def test_whole_partitions_during_the_copy():
    for name, statement in WHOLE[0:2] + WHOLE[4:5]:
        with Server() as server, Tidemark(server, "public.m", args=["--chunk-rows", 2]) as tm:
            list_parts(server)
            tm.start()
            tm.hold_copy("m", past=200)
            server.sql(statement)
            server.sql("UPDATE m SET v = 'later' WHERE id % 10 = 1")
            tm.release_copy()
            try:
                settle(tm, "m")
            except AssertionError as e:
                raise AssertionError(f"{name}: {e}") from e


def test_detached_concurrently():
    with Server() as server, Tidemark(server, "public.m") as tm:
        list_parts(server)
        start(server, tm, "m")
        server.sql("ALTER TABLE m DETACH PARTITION m_1 CONCURRENTLY")
        server.sql("UPDATE m_1 SET v = 'not ours'; UPDATE m SET v = 'ours' WHERE id < 100")
        settle(tm, "m")


def test_detached_becomes_a_table_of_its_own():
    with Server() as server, Tidemark(server) as tm:
        list_parts(server)
        start(server, tm, "m")
        server.sql("ALTER TABLE m DETACH PARTITION m_1; UPDATE m_1 SET v = 'mine'")
        until("m_1 is copied", lambda: tm.state("m_1") == "live", timeout=20)
        settle(tm, "m", "m_1")
        server.sql("ALTER TABLE m ATTACH PARTITION m_1 FOR VALUES IN (1); UPDATE m SET v = 'back' WHERE id < 100")
        until("m_1 has left", lambda: tm.state("m_1") == "left", timeout=20)
        settle(tm, "m")


@timeout(240)
def test_altered():
    """Columns of the whole, with rows rewritten in the parts."""
    with Server() as server, Tidemark(server, "public.m") as tm:
        make_parts(server)
        start(server, tm, "m")
        for statement in ("ALTER TABLE m ADD extra text", "ALTER TABLE m ADD flag bool NOT NULL DEFAULT true", "ALTER TABLE m ADD at timestamptz DEFAULT clock_timestamp()",
                          "ALTER TABLE m ALTER v TYPE text USING v || '!'", "ALTER TABLE m RENAME COLUMN v TO w", "ALTER TABLE m DROP COLUMN extra"):
            server.sql(statement)
            try:
                settle(tm, "m")
                server.sql("UPDATE m SET n = (n + 11) % 30 WHERE id % 7 = 0; INSERT INTO m (id, n) SELECT max(id) + 1, 3 FROM m")
                settle(tm, "m")
            except AssertionError as e:
                raise AssertionError(f"{statement}: {e}") from e


def test_published_by_others_too():
    """Publications that are not ours have no say in what we get, and ours none in theirs."""
    for others in ("FOR TABLE m_1", "FOR TABLE m_1, m_rest WITH (publish_via_partition_root = true)", "FOR ALL TABLES",
                   "FOR TABLE m WITH (publish = 'insert')"):
        with Server() as server, Tidemark(server, "public.m") as tm:
            make_parts(server)
            server.sql(f"CREATE PUBLICATION others {others}")
            server.sql("SELECT pg_create_logical_replication_slot('others', 'pgoutput')")
            start(server, tm, "m")
            shuffle(server, 1)
            tm.equal("m")
            names = [r[0] for r in server.sql("SELECT tablename FROM pg_publication_tables WHERE pubname = 'tidemark'")]
            check(names == ["m"], lambda: f"published: {names}")


def test_partitions_by_their_names():
    """A partition alone, under a table that nobody publishes; then the whole in its place."""
    with Server() as server, Tidemark(server, "public.m_1,public.m_2") as tm:
        make_parts(server)
        start(server, tm, "m_1", "m_2")
        shuffle(server, 1)
        tm.equal("m_1", "m_2")
        server.sql("TRUNCATE m_1; UPDATE m SET n = 1 WHERE id < 100")
        settle(tm, "m_1", "m_2")
        tm.stop()
        tm.tables_option = "public.m"
        tm.start()
        until("the parts have left", lambda: tm.state("m_1") == tm.state("m_2") == "left")
        settle(tm, "m")


def refused(tm, *fragments):
    r = tm.run("--until", "caught-up", timeout=30)
    check(r.code == EXIT_USAGE, lambda: f"expected exit {EXIT_USAGE}: {r}")
    for f in fragments:
        check(f in r.err, lambda: f"{f!r} is not in: {r.err}")
    check(tm.server.slots() == {}, "it made a slot")


def test_published_by_partition():
    """publish_via_partition_root off: the parts are the tables, and the whole is refused where it would miss some."""
    with Server() as server, Tidemark(server) as tm:
        make_parts(server)
        server.sql("CREATE PUBLICATION tidemark FOR TABLE m")
        parts = ("m_1", "m_2_odd", "m_2_rest", "m_rest")
        tm.tables_option = "public.m"
        refused(tm, "public.m is published partition by partition", "publish_via_partition_root")
        tm.tables_option = "*.*"
        start(server, tm, *parts)
        check(set(tm.tables()) == {("public", p) for p in parts}, lambda: f"tables are {set(tm.tables())}")
        shuffle(server, 1)
        tm.equal(*parts)
        server.sql("TRUNCATE m_1; INSERT INTO m VALUES (1, 1, 'after')")
        tm.equal(*parts)
        server.sql("ALTER PUBLICATION tidemark SET (publish_via_partition_root = true)")
        shuffle(server, 2)
        until("the parts have left", lambda: all(tm.state(p) == "left" for p in parts), timeout=20)
        settle(tm, "m")


def test_published_as_a_part():
    with Server() as server, Tidemark(server, "public.m_1") as tm:
        make_parts(server)
        server.sql("CREATE PUBLICATION tidemark FOR TABLE m WITH (publish_via_partition_root = true)")
        refused(tm, "public.m_1 is published as a part of public.m")


def test_parts_that_cannot_be_followed():
    for statement, fragments in (
            ("ALTER TABLE m_1 REPLICA IDENTITY NOTHING", ("public.m_1", "replica identity", "ALTER TABLE public.m_1")),
            ("CREATE UNIQUE INDEX other ON m_rest (v); ALTER TABLE m_rest ALTER v SET NOT NULL; ALTER TABLE m_rest REPLICA IDENTITY USING INDEX other",
             ("public.m_rest", "replica identity")),
            ("CREATE UNLOGGED TABLE m_9 PARTITION OF m FOR VALUES FROM (90) TO (99)", ("public.m_9", "unlogged")),
            ("ALTER TABLE m DROP CONSTRAINT m_pkey", ("public.m has no usable key",))):
        with Server() as server, Tidemark(server, "public.m") as tm:
            make_parts(server)
            server.sql(statement)
            refused(tm, *fragments)
            server.sql("UPDATE m SET n = 3 WHERE id = 5; DELETE FROM m WHERE id = 7")
            check(server.publications() == set(), "it was published")


def test_identity_of_the_parts_differs():
    """FULL above, DEFAULT below and the other way round: an old row has what the part logs, under the letter of the whole."""
    with Server() as server, Tidemark(server, "public.m") as tm:
        make_parts(server)
        server.sql("ALTER TABLE m ALTER v SET STORAGE EXTERNAL; ALTER TABLE m_1 ALTER v SET STORAGE EXTERNAL; ALTER TABLE m ADD w int;"
                   "ALTER TABLE m REPLICA IDENTITY FULL; ALTER TABLE m_rest REPLICA IDENTITY FULL")
        start(server, tm, "m")
        value = incompressible(rng("parts"), 9000)
        server.sql("INSERT INTO m VALUES (5000, 1, %s), (5001, 25, %s)", value, value)
        server.sql("UPDATE m SET id = id + 1000 WHERE id IN (5000, 5001)")
        server.sql("UPDATE m SET w = 7 WHERE id IN (6000, 6001)")
        server.sql("DELETE FROM m WHERE id < 50")
        tm.equal("m")
        server.sql("ALTER TABLE m REPLICA IDENTITY DEFAULT")
        server.sql("UPDATE m SET id = id + 1000 WHERE id IN (6000, 6001); DELETE FROM m WHERE id < 100")
        settle(tm, "m")


def test_inheritance():
    """Parent and children are tables of their own: no row is shown twice."""
    with Server() as server, Tidemark(server, args=["--chunk-rows", 2]) as tm:
        server.sql("CREATE TABLE parent (id int PRIMARY KEY, v text); CREATE TABLE child (extra int, PRIMARY KEY (id)) INHERITS (parent);"
                   "CREATE TABLE grandchild (PRIMARY KEY (id)) INHERITS (child)")
        server.sql("INSERT INTO parent SELECT g, 'parent' FROM generate_series(1, 50) g; INSERT INTO child SELECT g, 'child', g FROM generate_series(1, 50) g;"
                   "INSERT INTO grandchild SELECT g, 'grandchild', g FROM generate_series(40, 90) g")
        tm.start()
        def equal():
            tm.wait()
            tm.wait_live("parent", "child", "grandchild")
            for name in ("parent", "child", "grandchild"):
                want = sorted(server.sql(f"SELECT concat_ws(chr(9), {'id, v' if name == 'parent' else 'id, v, extra'}) FROM ONLY {name}"))
                got = sorted((line.decode(),) for line in tm.scan(name).split(b"\n") if line)
                check(got == want, lambda: f"{name}: store {got[:3]} of {len(got)}, source {want[:3]} of {len(want)}")
        equal()
        server.sql("UPDATE parent SET v = v || '.' WHERE id > 30; DELETE FROM child WHERE id > 80; UPDATE ONLY parent SET id = -id WHERE id < 10")
        equal()
        server.sql("TRUNCATE child; INSERT INTO child VALUES (1, 'again', 1)")
        equal()
        server.sql("TRUNCATE ONLY parent")
        equal()
