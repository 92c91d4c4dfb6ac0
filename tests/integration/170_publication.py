"""The publication under the copy: dropped, made again, made too late, changed in what it publishes, with filters.

A slot decodes with the catalogs of its time. Up to version 17 the server ends the stream at a change
for which the publication does not exist; from 18 on it only warns, and leaves the change out.
"""

from harness import EXIT_GAP, EXIT_USAGE, Server, Tidemark, check, end_of_wal, incompressible, lsn, rng, since, until


def make_table(server, rows=1000):
    server.sql("CREATE TABLE t (id int PRIMARY KEY, v text); INSERT INTO t SELECT g, 'v' FROM generate_series(1, %s) g", rows)


def live(server, tm):
    tm.start()
    tm.wait_live("t")
    tm.equal("t")


def settle(tm, *names):
    """Until what changed in the catalog has been noticed, and the table is live again."""
    tm.wait()
    until("equal again", lambda: tm.state("t") == "live" and is_equal(tm, *(names or ("t",))), timeout=30, interval=0.2)


def is_equal(tm, *names):
    try:
        tm.equal(*names)
    except AssertionError:
        return False
    return True


def ends_with_a_gap(tm, *fragments):
    """A running daemon: exit 3, and the last line says why."""
    code = tm.wait_exit()
    tm.process = None
    sentence = tm.log().splitlines()[-1]
    check(code == EXIT_GAP, lambda: f"expected exit {EXIT_GAP}, got {code}: {sentence}")
    for f in fragments:
        check(f in sentence, lambda: f"{f!r} is not in: {sentence}")


def test_dropped_while_running():
    """Told by the stream at the next change, by the catalog when nobody writes."""
    for statement in ("UPDATE t SET v = 'not published' WHERE id = 5", "SELECT"):
        with Server() as server, Tidemark(server, "public.t") as tm:
            make_table(server)
            live(server, tm)
            rows = tm.scan("t")
            server.sql("DROP PUBLICATION tidemark")
            server.sql(statement)
            ends_with_a_gap(tm, "publication", "start over")
            check(tm.scan("t") == rows, "rows changed without a publication")
            check(server.publications() == set(), "it made the publication again without being asked")


def test_dropped_while_stopped():
    with Server() as server, Tidemark(server, "public.t") as tm:
        make_table(server)
        live(server, tm)
        tm.stop()
        server.sql("DROP PUBLICATION tidemark; UPDATE t SET v = 'not published' WHERE id = 5")
        tm.refuses("publication tidemark does not", "start over")
        check(server.publications() == set(), "it made the publication again without being asked")


def made_again_too_late(server, tm):
    rows = tm.scan("t")
    server.sql("DROP PUBLICATION tidemark")
    gap = server.value("SELECT pg_current_wal_insert_lsn()::text")
    server.sql("UPDATE t SET v = 'not published' WHERE id = 5")
    server.sql("CREATE PUBLICATION tidemark FOR TABLE t")
    r = tm.run("--until", "caught-up", timeout=30)
    check(r.code == EXIT_GAP, lambda: f"a change without a publication: {r}")
    check(tm.scan("t") == rows, "rows from behind the gap were written")
    now = tm.status()["checkpoint"]["lsn"]
    check(lsn(now) <= lsn(gap), lambda: f"it went on to {now}, past the gap at {gap}")
    sentence = r.err.strip().splitlines()[-1]
    check("publication" in sentence and "start over" in sentence, lambda: f"not said: {sentence}")
    check(tm.state("t") != "live", "a table that misses a change is said to be live")


def test_made_again_while_stopped():
    """The name is there, but the slot comes to a change made while it was not."""
    with Server() as server, Tidemark(server, "public.t") as tm:
        make_table(server)
        live(server, tm)
        tm.stop()
        made_again_too_late(server, tm)


def test_made_again_and_the_role_hears_no_warnings():
    """The warning of version 18 must come through whatever the role's own setting."""
    with Server() as server, Tidemark(server, "public.t") as tm:
        make_table(server)
        server.sql("ALTER ROLE postgres SET client_min_messages = 'error'")
        live(server, tm)
        tm.stop()
        made_again_too_late(server, tm)


def test_made_again_while_running():
    with Server() as server, Tidemark(server, "public.t") as tm:
        make_table(server)
        live(server, tm)
        server.sql("DROP PUBLICATION tidemark")
        server.sql("UPDATE t SET v = 'not published' WHERE id = 5")
        server.sql("CREATE PUBLICATION tidemark FOR TABLE t")
        ends_with_a_gap(tm, "publication", "start over")


def test_made_again_in_one_transaction():
    """No change falls between: it goes on, and reads the rows again."""
    with Server() as server, Tidemark(server, "public.t") as tm:
        make_table(server)
        live(server, tm)
        again = "BEGIN; DROP PUBLICATION tidemark; CREATE PUBLICATION tidemark FOR TABLE t; UPDATE t SET v = '{}' WHERE id < 10; COMMIT"
        server.sql(again.format("running"))
        settle(tm)
        tm.stop()
        server.sql(again.format("stopped"))
        tm.start()
        settle(tm)


def test_somebody_else_is_making_it():
    """A second daemon on its first start, say, with the same default publication: ours comes second each time."""
    with Server() as server, Tidemark(server, "public.t,public.u") as tm:
        server.sql("CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1);"
                   "CREATE TABLE u (id int PRIMARY KEY); INSERT INTO u VALUES (1)")
        other = server.connect(autocommit=False)
        for n, (statement, code) in enumerate((
                ("CREATE PUBLICATION tidemark FOR TABLE t WITH (publish_via_partition_root = true)", "23505"),
                ("ALTER PUBLICATION tidemark ADD TABLE u", "42710"))):
            other.cursor().execute(statement)
            if n == 0:
                tm.start()
            until("ours waits for it", lambda: server.value(
                "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'tidemark%%'"
                " AND wait_event_type = 'Lock'"))
            other.commit()
            tm.wait_log(code)
        other.close()
        tm.wait_live("t", "u")
        tm.equal("t", "u")
        tm.stop()


def test_made_after_the_slot():
    with Server() as server, Tidemark(server, "public.t") as tm:
        make_table(server)
        server.sql("SELECT pg_create_logical_replication_slot('tidemark', 'pgoutput')")
        server.sql("UPDATE t SET v = 'between' WHERE id = 5")
        server.sql("CREATE PUBLICATION tidemark FOR TABLE t")
        r = tm.run("--until", "caught-up", timeout=30)
        check(r.code == EXIT_GAP and "publication" in r.err.splitlines()[-1], lambda: f"slot, change, publication: {r}")
        check(tm.state("t") != "live", "a table that misses a change is said to be live")


def test_published_kinds_change():
    """Some kinds of change left out for a while: they are not lost."""
    with Server() as server, Tidemark(server, "public.t") as tm:
        make_table(server)
        live(server, tm)
        def away(first):
            server.sql("ALTER PUBLICATION tidemark SET (publish = 'insert')")
            server.sql("UPDATE t SET v = 'left out' WHERE id BETWEEN %s AND %s; DELETE FROM t WHERE id = %s", first, first + 9, first + 20)
            server.sql("ALTER PUBLICATION tidemark SET (publish = 'insert, update, delete, truncate')")
        away(100)
        settle(tm)
        tm.stop()
        away(200)
        tm.start()
        settle(tm)
        tm.stop()
        server.sql("ALTER PUBLICATION tidemark SET (publish = 'insert, update, delete')")
        r = tm.run(timeout=30)
        check(r.code == EXIT_USAGE and "truncate" in r.err, lambda: f"TRUNCATE is not published: {r}")


def test_for_all_tables():
    with Server() as server, Tidemark(server, "public.t,other.u") as tm:
        make_table(server)
        server.sql("CREATE PUBLICATION tidemark FOR ALL TABLES; CREATE SCHEMA other; CREATE TABLE other.u (id int PRIMARY KEY, v text);"
                   "INSERT INTO other.u SELECT g, 'v' FROM generate_series(1, 100) g; CREATE TABLE other.w (id int PRIMARY KEY)")
        tm.start()
        tm.wait_live("t", ("other", "u"))
        server.sql("UPDATE t SET v = 'x' WHERE id < 9; DELETE FROM other.u WHERE id < 9; INSERT INTO other.w VALUES (1)")
        tm.equal("t", ("other", "u"))


@since(15)
def test_for_a_schema():
    """Its schema taken out of the publication and put back, with changes between."""
    with Server() as server, Tidemark(server, "public.t") as tm:
        make_table(server)
        server.sql("CREATE PUBLICATION tidemark FOR TABLES IN SCHEMA public")
        live(server, tm)
        def away(first):
            server.sql("ALTER PUBLICATION tidemark DROP TABLES IN SCHEMA public")
            server.sql("UPDATE t SET v = 'left out' WHERE id BETWEEN %s AND %s; DELETE FROM t WHERE id = %s", first, first + 9, first + 20)
            server.sql("ALTER PUBLICATION tidemark ADD TABLES IN SCHEMA public")
        away(100)
        settle(tm)
        tm.stop()
        away(200)
        tm.start()
        settle(tm)


def filtered(server, condition):
    return sorted(server.sql(f"SELECT id || chr(9) || v FROM t WHERE {condition}"))


def shown(tm):
    return sorted((line.decode(),) for line in tm.scan("t").split(b"\n") if line)


def equal_where(server, tm, condition):
    tm.wait()
    until(f"the rows where {condition}", lambda: tm.state("t") == "live" and shown(tm) == filtered(server, condition), timeout=30)


@since(15)
def test_row_filter():
    """Rows enter and leave it, by key and, under REPLICA IDENTITY FULL, by value, with a large value that did not change."""
    for identity, condition in (("DEFAULT", "id > 100"), ("FULL", "v ~ '^[a-m]'")):
        with Server() as server, Tidemark(server, "public.t") as tm:
            large = rng("filter")
            server.sql(f"CREATE TABLE t (id int PRIMARY KEY, v text); ALTER TABLE t REPLICA IDENTITY {identity};"
                       "ALTER TABLE t ALTER v SET STORAGE EXTERNAL; INSERT INTO t SELECT g, md5(g::text) FROM generate_series(1, 300) g")
            server.sql("INSERT INTO t VALUES (50, %s), (400, %s) ON CONFLICT (id) DO UPDATE SET v = excluded.v",
                       "a" + incompressible(large, 9000), "z" + incompressible(large, 9000))
            server.sql(f"CREATE PUBLICATION tidemark FOR TABLE t WHERE ({condition})")
            tm.start()
            equal_where(server, tm, condition)
            server.sql("UPDATE t SET id = id + 1000 WHERE id BETWEEN 40 AND 60; UPDATE t SET id = -id WHERE id BETWEEN 200 AND 220")
            server.sql("UPDATE t SET v = 'a' || v WHERE id % 10 = 1; UPDATE t SET v = 'z' || v WHERE id % 10 = 2; DELETE FROM t WHERE id % 10 = 3")
            equal_where(server, tm, condition)
            other = condition + " AND id % 2 = 0"
            server.sql(f"ALTER PUBLICATION tidemark SET TABLE t WHERE ({other})")
            equal_where(server, tm, other)


@since(18)
def test_generated_columns():
    """Stored ones are copied if the publication has them; virtual ones never are."""
    for published in ("none", "stored"):
        with Server() as server, Tidemark(server, "public.t") as tm:
            server.sql("CREATE TABLE t (id int PRIMARY KEY, a int, twice int GENERATED ALWAYS AS (a * 2) STORED,"
                       " thrice int GENERATED ALWAYS AS (a * 3) VIRTUAL, v text)")
            server.sql("INSERT INTO t (id, a, v) SELECT g, g, 'v' FROM generate_series(1, 500) g")
            server.sql(f"CREATE PUBLICATION tidemark FOR TABLE t WITH (publish_generated_columns = {published})")
            columns = "id, a, twice, v" if published == "stored" else "id, a, v"
            def equal():
                tm.wait()
                tm.wait_live("t")
                want = sorted(server.sql(f"SELECT concat_ws(chr(9), {columns}) FROM t"))
                check(shown(tm) == want, lambda: f"{published}: store {shown(tm)[:3]}, source {want[:3]}")
            tm.start()
            equal()
            runs = len(tm.status()["runs"])
            server.sql("UPDATE t SET a = -a WHERE id < 100; INSERT INTO t (id, a, v) VALUES (1000, 7, 'new'); DELETE FROM t WHERE id = 5")
            equal()
            tm.stop()
            server.sql("UPDATE t SET a = 3 WHERE id < 10")
            tm.start()
            equal()
            check(len(tm.status()["runs"]) == runs, "it copied the table again")
            check("attaching again" not in tm.log(), lambda: f"it attached again: {tm.log()[-800:]}")
