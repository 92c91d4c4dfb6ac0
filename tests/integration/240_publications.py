"""Publications made by others: the copy reads what the stream would send, rows and columns; what cannot be exact is refused."""

from harness import EXIT_USAGE, Server, Tidemark, check, incompressible, rng, server_major, since, timeout, until

TWO_ROWS = ["--chunk-rows", 2]


def make_table(server, rows=300):
    server.sql("CREATE TABLE t (id int PRIMARY KEY, a int, b text, c text); INSERT INTO t SELECT g, g %% 7, 'b' || g, 'c' FROM generate_series(1, %s) g", rows)


def shown(tm, table="t"):
    return sorted((line.decode(),) for line in tm.scan(table).split(b"\n") if line)


def wanted(server, columns, condition="true", table="t"):
    fields = " || chr(9) || ".join(f"coalesce({c}::text, '\\N')" for c in columns)
    return sorted(server.sql(f"SELECT {fields} FROM {table} WHERE {condition}"))


def equal(server, tm, columns, condition="true", table="t", timeout=30):
    """Until the store shows these columns of these rows. What only the catalog tells takes seconds."""
    tm.wait()
    until(f"{table}: {', '.join(columns)} where {condition}",
          lambda: tm.state(table) == "live" and shown(tm, table) == wanted(server, columns, condition, table), timeout, interval=0.1)


def refused(tm, *fragments, slot=False):
    r = tm.run("--until", "caught-up", timeout=30)
    check(r.code == EXIT_USAGE, lambda: f"expected exit {EXIT_USAGE}: {r}")
    for f in fragments:
        check(f in r.err, lambda: f"{f!r} is not in: {r.err}")
    check(slot or tm.server.slots() == {}, "it made a slot")


def write(server):
    server.sql("UPDATE t SET a = a + 1 WHERE id % 3 = 0; UPDATE t SET id = -id WHERE id % 50 = 7; DELETE FROM t WHERE id % 20 = 5;"
               "INSERT INTO t SELECT g, g % 7, 'new', NULL FROM generate_series(10000, 10020) g ON CONFLICT DO NOTHING; UPDATE t SET c = NULL, b = b || '.' WHERE a = 2")


@since(15)
def test_column_list():
    """Only what is listed, in the table's own order; altered while running and while stopped."""
    with Server() as server, Tidemark(server, "public.t", args=TWO_ROWS) as tm:
        make_table(server, 4000)
        server.sql("CREATE PUBLICATION tidemark FOR TABLE t (c, id)")
        tm.start()
        tm.hold_copy("t", past=20)
        write(server)
        tm.release_copy()
        equal(server, tm, ["id", "c"])
        check(tm.get("t", "4").keys() == {"id", "c"}, lambda: f"columns are {tm.get('t', '4')}")
        server.sql("ALTER PUBLICATION tidemark SET TABLE t (id, b, c)")
        write(server)
        equal(server, tm, ["id", "b", "c"])
        tm.stop()
        server.sql("UPDATE t SET b = 'before' WHERE id = 4; ALTER PUBLICATION tidemark SET TABLE t (id, a); UPDATE t SET a = 77 WHERE id = 6")
        tm.start()
        equal(server, tm, ["id", "a"])
        server.sql("ALTER PUBLICATION tidemark SET TABLE t")
        equal(server, tm, ["id", "a", "b", "c"])
        server.sql("ALTER TABLE t ADD d int DEFAULT 5; UPDATE t SET d = 6 WHERE id < 10")
        equal(server, tm, ["id", "a", "b", "c", "d"])


@since(15)
def test_column_list_stays_out_of_alter_table():
    """Columns that are not listed come, go and change: the copy has nothing to do with them."""
    with Server() as server, Tidemark(server, "public.t") as tm:
        make_table(server)
        server.sql("CREATE PUBLICATION tidemark FOR TABLE t (id, b)")
        tm.start()
        equal(server, tm, ["id", "b"])
        server.sql("ALTER TABLE t ADD d int DEFAULT 5; ALTER TABLE t DROP COLUMN c; ALTER TABLE t ALTER a TYPE bigint")
        server.sql("UPDATE t SET b = 'x' WHERE id < 10; UPDATE t SET d = 1, a = 2")
        equal(server, tm, ["id", "b"])


@since(15)
def test_column_list_without_the_key():
    with Server() as server, Tidemark(server, "public.t") as tm:
        make_table(server)
        server.sql("CREATE PUBLICATION tidemark FOR TABLE t (a, b)")
        refused(tm, "public.t has a key with columns that are not published")


@since(15)
def test_large_values_with_a_column_list():
    with Server() as server, Tidemark(server, "public.t", args=TWO_ROWS) as tm:
        make_table(server, 20)
        large = rng("column list")
        server.sql("ALTER TABLE t ALTER b SET STORAGE EXTERNAL; ALTER TABLE t ALTER c SET STORAGE EXTERNAL")
        server.sql("UPDATE t SET b = %s, c = %s WHERE id < 5", incompressible(large, 9000), incompressible(large, 9000))
        server.sql("CREATE PUBLICATION tidemark FOR TABLE t (id, a, c)")
        tm.start()
        equal(server, tm, ["id", "a", "c"])
        server.sql("UPDATE t SET a = 9 WHERE id < 5; UPDATE t SET b = 'x' WHERE id = 2; UPDATE t SET id = 100 WHERE id = 3")
        equal(server, tm, ["id", "a", "c"])


@since(15)
def test_several_publications():
    """Filters are ORed; a publication without one sends all. Rows enter and leave by each."""
    with Server() as server, Tidemark(server, "public.t,public.u", args=[*TWO_ROWS, "--publication", "one, two,\"the, third\""]) as tm:
        make_table(server)
        server.sql("ALTER TABLE t REPLICA IDENTITY FULL; CREATE TABLE u (id int PRIMARY KEY, v text); INSERT INTO u SELECT g, 'u' FROM generate_series(1, 50) g")
        refused(tm, "publications", "exist")
        server.sql("CREATE PUBLICATION one FOR TABLE t WHERE (a = 1); CREATE PUBLICATION two FOR TABLE t WHERE (b LIKE '%9' AND a > 2);"
                   "CREATE PUBLICATION \"the, third\"")
        refused(tm, "public.u is in none of the publications")
        server.sql("ALTER PUBLICATION \"the, third\" ADD TABLE u")
        tm.start()
        either = "(a = 1) OR (b LIKE '%9' AND a > 2)"
        equal(server, tm, ["id", "a", "b", "c"], either)
        server.sql("UPDATE t SET a = (a + 1) % 7 WHERE id % 2 = 0; UPDATE t SET b = b || '9' WHERE id % 5 = 0; DELETE FROM t WHERE id % 11 = 0; UPDATE u SET v = 'x' WHERE id < 9")
        equal(server, tm, ["id", "a", "b", "c"], either)
        equal(server, tm, ["id", "v"], table="u")
        server.sql("ALTER PUBLICATION \"the, third\" ADD TABLE t")
        equal(server, tm, ["id", "a", "b", "c"])
        server.sql("ALTER PUBLICATION \"the, third\" DROP TABLE t; UPDATE t SET a = (a + 1) % 7 WHERE id % 2 = 1")
        equal(server, tm, ["id", "a", "b", "c"], either)
        tm.stop()
        server.sql("ALTER PUBLICATION two SET TABLE t WHERE (a = 4)")
        tm.start()
        equal(server, tm, ["id", "a", "b", "c"], "a IN (1, 4)")
        members = server.sql("SELECT pubname, tablename FROM pg_publication_tables ORDER BY 1, 2")
        check(members == [("one", "t"), ("the, third", "u"), ("two", "t")], lambda: f"it changed publications: {members}")


@since(15)
def test_column_lists_that_differ():
    """The server would refuse to decode them."""
    with Server() as server, Tidemark(server, "public.t", args=["--publication", "one,two"]) as tm:
        make_table(server)
        server.sql("CREATE PUBLICATION one FOR TABLE t (id, a); CREATE PUBLICATION two FOR TABLE t (id, b)")
        refused(tm, "public.t is published with other columns in one publication than in another")
        server.sql("ALTER PUBLICATION two SET TABLE t (a, id)")
        tm.start()
        equal(server, tm, ["id", "a"])
        write(server)
        equal(server, tm, ["id", "a"])


def test_kinds_of_change():
    """One publication for each kind: together they have all. A filter on some kinds only cannot be copied."""
    with Server() as server, Tidemark(server, "public.t", args=["--publication", "ins,upd,del"]) as tm:
        make_table(server)
        server.sql("CREATE PUBLICATION ins FOR TABLE t WITH (publish = 'insert'); CREATE PUBLICATION upd FOR TABLE t WITH (publish = 'update');"
                   "CREATE PUBLICATION del FOR TABLE t WITH (publish = 'delete')")
        refused(tm, "public.t is published without some kinds of change")
        server.sql("ALTER PUBLICATION del SET (publish = 'delete, truncate')")
        tm.start()
        equal(server, tm, ["id", "a", "b", "c"])
        write(server)
        equal(server, tm, ["id", "a", "b", "c"])
        server.sql("TRUNCATE t; INSERT INTO t VALUES (1, 1, 'b', 'c')")
        equal(server, tm, ["id", "a", "b", "c"])
        if server_major() < 15:
            return
        tm.stop()
        server.sql("ALTER PUBLICATION ins SET TABLE t WHERE (id > 5)")
        refused(tm, "public.t is published without some kinds of change", slot=True)


@since(15)
def test_partitions_with_filters_and_lists():
    """Via the root its filter and columns count; the partitions' own do not."""
    with Server() as server, Tidemark(server, "public.m", args=TWO_ROWS) as tm:
        server.sql("CREATE TABLE m (id int, n int, v text, w text, PRIMARY KEY (id, n)) PARTITION BY LIST (n); CREATE TABLE m_0 (w text, v text, n int NOT NULL, id int NOT NULL);"
                   "ALTER TABLE m ATTACH PARTITION m_0 FOR VALUES IN (0); CREATE TABLE m_1 PARTITION OF m FOR VALUES IN (1)")
        server.sql("INSERT INTO m SELECT g, g % 2, 'v' || g, 'w' FROM generate_series(1, 300) g")
        server.sql("CREATE PUBLICATION tidemark FOR TABLE m (id, n, w) WHERE (id % 3 = 0), m_0 WHERE (id = 1) WITH (publish_via_partition_root = true)")
        tm.start()
        equal(server, tm, ["id", "n", "w"], "id % 3 = 0", "m")
        server.sql("UPDATE m SET n = 1 - n WHERE id % 5 = 0; UPDATE m SET id = id + 1000 WHERE id % 10 = 3; UPDATE m SET w = 'x', v = 'y' WHERE id < 50; DELETE FROM m WHERE id % 21 = 0")
        equal(server, tm, ["id", "n", "w"], "id % 3 = 0", "m")


def test_all_tables_and_partitions():
    for via_root in ("false", "true"):
        with Server() as server, Tidemark(server) as tm:
            server.sql("CREATE TABLE m (id int, n int, v text, PRIMARY KEY (id, n)) PARTITION BY LIST (n); CREATE TABLE m_0 PARTITION OF m FOR VALUES IN (0);"
                       "CREATE TABLE m_1 PARTITION OF m FOR VALUES IN (1); INSERT INTO m SELECT g, g % 2, 'v' FROM generate_series(1, 100) g; CREATE TABLE t (id int PRIMARY KEY)")
            server.sql(f"CREATE PUBLICATION tidemark FOR ALL TABLES WITH (publish_via_partition_root = {via_root})")
            names = ["t", "m"] if via_root == "true" else ["t", "m_0", "m_1"]
            tm.start()
            tm.wait_live(*names)
            check(set(tm.tables()) == {("public", n) for n in names}, lambda: f"tables are {set(tm.tables())}")
            server.sql("UPDATE m SET n = 1 - n WHERE id < 20; INSERT INTO t VALUES (1); DELETE FROM m WHERE id > 90")
            tm.equal(*names)
            tm.stop()
            server.sql("CREATE TABLE m_2 PARTITION OF m FOR VALUES IN (2); INSERT INTO m VALUES (1000, 2, 'x')")
            tm.start()
            if via_root == "false":
                names.append("m_2")
            until("m_2", lambda: all(tm.state(n) == "live" for n in names))
            tm.equal(*names)


@since(15)
def test_schema_and_filter():
    """In a schema that is published as a whole a filter on the same table counts for nothing."""
    with Server() as server, Tidemark(server, "public.t", args=["--publication", "one,two"]) as tm:
        make_table(server)
        server.sql("CREATE PUBLICATION one FOR TABLE t WHERE (id < 10); CREATE PUBLICATION two FOR TABLES IN SCHEMA public")
        tm.start()
        equal(server, tm, ["id", "a", "b", "c"])
        write(server)
        equal(server, tm, ["id", "a", "b", "c"])
        server.sql("ALTER PUBLICATION two DROP TABLES IN SCHEMA public; ALTER PUBLICATION two ADD TABLE t WHERE (id > 200)")
        equal(server, tm, ["id", "a", "b", "c"], "id < 10 OR id > 200")


def test_generated_and_identity_columns():
    """Generated ones are left out of copy and stream; identity is a column like others; some were dropped long ago."""
    with Server() as server, Tidemark(server, "public.t", args=TWO_ROWS) as tm:
        server.sql("CREATE TABLE t (gone int, id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, gone_too text, a int, twice int GENERATED ALWAYS AS (a * 2) STORED,"
                   " b int GENERATED BY DEFAULT AS IDENTITY, last text); ALTER TABLE t DROP gone, DROP gone_too")
        server.sql("INSERT INTO t (a, last) SELECT g, 'l' FROM generate_series(1, 60) g")
        tm.start()
        equal(server, tm, ["id", "a", "b", "last"])
        server.sql("UPDATE t SET a = -a WHERE id < 20; INSERT INTO t (a, b) VALUES (7, -1); DELETE FROM t WHERE id = 30")
        equal(server, tm, ["id", "a", "b", "last"])
        server.sql("ALTER TABLE t ALTER twice DROP EXPRESSION; INSERT INTO t (a, twice) VALUES (8, 9)")
        equal(server, tm, ["id", "a", "twice", "b", "last"])


@since(18)
def test_generated_columns_in_a_list():
    """A column list has the stored ones that it names, whatever the publication says of the others."""
    with Server() as server, Tidemark(server, "public.t") as tm:
        server.sql("CREATE TABLE t (id int PRIMARY KEY, a int, twice int GENERATED ALWAYS AS (a * 2) STORED, thrice int GENERATED ALWAYS AS (a * 3) STORED)")
        server.sql("INSERT INTO t (id, a) SELECT g, g FROM generate_series(1, 60) g; CREATE PUBLICATION tidemark FOR TABLE t (id, thrice)")
        tm.start()
        equal(server, tm, ["id", "thrice"])
        server.sql("UPDATE t SET a = -a WHERE id < 20; INSERT INTO t (id, a) VALUES (100, 7)")
        equal(server, tm, ["id", "thrice"])


def test_names_of_publications():
    """Taken as they are."""
    with Server() as server, Tidemark(server, "public.t", args=["--publication", " My \"pub\"/é "]) as tm:
        make_table(server)
        tm.start()
        equal(server, tm, ["id", "a", "b", "c"])
        write(server)
        equal(server, tm, ["id", "a", "b", "c"])
        check(server.publications() == {'My "pub"/é'}, lambda: f"made {server.publications()}")
    with Server() as server, Tidemark(server, "public.t", args=["--publication", "a,,b"]) as tm:
        refused(tm, "--publication: a,,b is not a list of names")


def test_partitions_in_several_publications():
    """The topmost table that any of them sends as a whole has the rows of all below it."""
    for first, second, names in (("FOR TABLE m WITH (publish_via_partition_root = true)", "FOR TABLE m_0", ["m"]),
                                 ("FOR TABLE m", "FOR TABLE m_0 WITH (publish_via_partition_root = true)", ["m_0", "m_1"])):
        with Server() as server, Tidemark(server, args=["--publication", "one,two"]) as tm:
            server.sql("CREATE TABLE m (id int, n int, v text, PRIMARY KEY (id, n)) PARTITION BY LIST (n); CREATE TABLE m_0 PARTITION OF m FOR VALUES IN (0);"
                       "CREATE TABLE m_1 PARTITION OF m FOR VALUES IN (1); INSERT INTO m SELECT g, g % 2, 'v' FROM generate_series(1, 100) g")
            server.sql(f"CREATE PUBLICATION one {first}; CREATE PUBLICATION two {second}")
            tm.start()
            tm.wait_live(*names)
            check(set(tm.tables()) == {("public", n) for n in names}, lambda: f"tables are {set(tm.tables())}")
            server.sql("UPDATE m SET n = 1 - n WHERE id < 20; UPDATE m SET v = 'x' WHERE id > 80; DELETE FROM m WHERE id > 95")
            tm.equal(*names)


def test_published_otherwise_while_running():
    """From the whole to its partitions: what was one table is left, and said so; and back."""
    with Server() as server, Tidemark(server) as tm:
        server.sql("CREATE TABLE m (id int, n int, v text, PRIMARY KEY (id, n)) PARTITION BY LIST (n); CREATE TABLE m_0 PARTITION OF m FOR VALUES IN (0);"
                   "CREATE TABLE m_1 PARTITION OF m FOR VALUES IN (1); INSERT INTO m SELECT g, g % 2, 'v' FROM generate_series(1, 100) g")
        tm.start()
        tm.wait_live("m")
        for via_root, names in (("false", ["m_0", "m_1"]), ("true", ["m"])):
            server.sql(f"ALTER PUBLICATION tidemark SET (publish_via_partition_root = {via_root}); UPDATE m SET n = 1 - n WHERE id % 5 = 0")
            until(f"{names} are live", lambda: {n for (_, n), t in tm.tables().items() if t["state"] == "live"} == set(names), timeout=20)
            server.sql("UPDATE m SET v = v || '.' WHERE id < 50; DELETE FROM m WHERE id % 17 = 3")
            for n in names:
                equal(server, tm, ["id", "n", "v"], table=n)
