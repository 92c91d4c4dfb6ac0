"""A 10 kB text that an UPDATE leaves alone is not in the log: it is kept all the same."""

from harness import Server, Tidemark, check, incompressible, rng, until

ROWS = 3000


def with_documents(server, identity="DEFAULT"):
    text = rng("toast")
    server.sql("CREATE TABLE t (id int PRIMARY KEY, n int, body text, pad text)")
    server.sql(f"ALTER TABLE t ALTER body SET STORAGE EXTERNAL, REPLICA IDENTITY {identity}")
    server.sql("INSERT INTO t SELECT g, 0, repeat(md5(g::text), 1), 'pad' FROM generate_series(1, %s) g", ROWS)
    for key in KEYS:
        server.sql("UPDATE t SET body = %s WHERE id = %s", incompressible(text, 10000), key)
    check(server.value("SELECT count(*) FROM t WHERE octet_length(body) = 10000") == len(KEYS), "no long texts")
    return text


KEYS = (1, 2, 3, 100, 1500, 1501, 1502, 2000, 2999, 3000)


def test_live():
    """(b) and later: the row is in the store."""
    with Server() as server, Tidemark(server, "public.t") as tm:
        text = with_documents(server)
        tm.start()
        tm.wait_live("t")
        server.sql("UPDATE t SET n = 1 WHERE id = 1")
        server.sql("UPDATE t SET id = -2 WHERE id = 2")
        server.sql("UPDATE t SET n = 3 WHERE id = 3; UPDATE t SET n = 4 WHERE id = 3; "
                   "UPDATE t SET id = 5000, n = 5 WHERE id = 3")
        server.sql("BEGIN; INSERT INTO t VALUES (6000, 0, %s, ''); UPDATE t SET n = 9 WHERE id = 6000;"
                   " UPDATE t SET id = 6001 WHERE id = 6000; COMMIT", incompressible(text, 10000))
        server.sql("BEGIN; UPDATE t SET id = -1 WHERE id = 100; UPDATE t SET id = 100 WHERE id = 1500;"
                   " UPDATE t SET id = 1500 WHERE id = -1; COMMIT")
        server.sql("BEGIN; DELETE FROM t WHERE id = 1501; UPDATE t SET id = 1501 WHERE id = 1502; COMMIT")
        server.sql("BEGIN; UPDATE t SET n = 8 WHERE id = 2000; DELETE FROM t WHERE id = 2000; "
                   "INSERT INTO t VALUES (2000, 1, 'short', NULL);"
                   " UPDATE t SET n = 2 WHERE id = 2000; COMMIT")
        tm.equal("t")
        check(tm.state("t") == "live", lambda: f"state {tm.state('t')}")


def while_copying(server, tm, statement, past, before):
    """Runs statement when the copy has read more than `past` rows, and fewer than `before`."""
    read = tm.hold_copy("t", past)
    check(read < before, f"the copy was at {read} already: nothing is tested")
    server.sql(statement)
    tm.wait()
    tm.release_copy()


def test_before_it_was_copied():
    """(a): the update arrives for a key that the store does not have yet."""
    with Server() as server, Tidemark(server, "public.t", args=["--chunk-rows", 2]) as tm:
        with_documents(server)
        tm.start()
        while_copying(server, tm, "UPDATE t SET n = 1 WHERE id = 3000; UPDATE t SET n = 2 WHERE id = 3000;"
                                  "UPDATE t SET n = 1 WHERE id = 2999; UPDATE t SET pad = NULL WHERE id = 2000",
                      past=0, before=2000)
        def never_a_placeholder():
            row = tm.get("t", 3000)
            check(row is None or len(row["body"]) == 10000, lambda: f"a row without its text was shown: "
                                                                    f"{str(row)[:200]}")
            return tm.state("t") == "live"
        until("live", never_a_placeholder, timeout=60)
        tm.equal("t")


def test_inside_its_window():
    """(b): all the time, everywhere, while chunks are read."""
    with Server() as server, Tidemark(server, "public.t", args=["--chunk-rows", 3]) as tm:
        with_documents(server)
        tm.start()
        tm.wait_slot()
        turn = 0
        def keep_updating():
            nonlocal turn
            turn += 1
            server.sql("UPDATE t SET n = %s WHERE id = ANY(%s)", turn, list(KEYS))
            return turn > 20 and tm.state("t") == "live"
        until("live", keep_updating, timeout=60, interval=0)
        tm.equal("t")


def test_key_change_while_copying():
    """(d): forward over the cursor, and back behind it, text untouched."""
    with Server() as server, Tidemark(server, "public.t", args=["--chunk-rows", 2]) as tm:
        with_documents(server)
        tm.start()
        while_copying(server, tm, "UPDATE t SET id = 5000 WHERE id = 3;"      # forward: to be copied again
                                  "UPDATE t SET id = -3 WHERE id = 3000;"     # back: no page will come there
                                  "UPDATE t SET id = -2 WHERE id = 2;"        # behind the cursor
                                  "UPDATE t SET id = 5001 WHERE id = 2999;"   # ahead of it
                                  "UPDATE t SET n = 5 WHERE id IN (5000, -3, -2, 5001)", past=200, before=2000)
        tm.wait_live("t")
        tm.equal("t")


def test_inserted_and_updated_in_one_transaction():
    """(c): before the copy gets there, and behind it."""
    with Server() as server, Tidemark(server, "public.t", args=["--chunk-rows", 2]) as tm:
        text = with_documents(server)
        tm.start()
        tm.hold_copy("t")
        for key in (0, 4000, -1, 4001):
            server.sql("BEGIN; INSERT INTO t VALUES (%s, 0, %s, ''); UPDATE t SET n = 1 WHERE id = %s; COMMIT",
                       key, incompressible(text, 10000), key)
            server.sql("UPDATE t SET n = 2 WHERE id = %s", key)
        tm.release_copy()
        tm.wait_live("t")
        tm.equal("t")


def test_replica_identity_full():
    """(e): the old row carries the text."""
    with Server() as server, Tidemark(server, "public.t", args=["--chunk-rows", 2]) as tm:
        with_documents(server, "FULL")
        tm.start()
        while_copying(server, tm, "UPDATE t SET n = 1 WHERE id = 3000; UPDATE t SET id = 7000 WHERE id = 2999;"
                                  "UPDATE t SET id = -3 WHERE id = 2000; DELETE FROM t WHERE id = 1502",
                      past=0, before=1500)
        tm.wait_live("t")
        tm.equal("t")
        server.sql("UPDATE t SET n = 2; UPDATE t SET id = id + 10000 WHERE id > 2000")
        tm.equal("t")
