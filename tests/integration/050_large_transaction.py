"""One large transaction is seen by readers all at once."""

from harness import Background, MemoryWatch, Server, Tidemark, check, scaled, timeout, until

BEFORE = 1000


@timeout(600)
def test_all_or_nothing():
    size = scaled(300000)
    with Server() as server, Tidemark(server, "public.t,public.small") as tm:
        server.sql("CREATE TABLE t (id int PRIMARY KEY, v text); CREATE TABLE small (id int PRIMARY KEY, n int)")
        server.sql("INSERT INTO t SELECT g, 'before' FROM generate_series(1, %s) g", BEFORE)
        server.sql("INSERT INTO small VALUES (1, 0)")
        tm.start()
        tm.wait_live("t", "small")
        memory = MemoryWatch(tm.pid)
        memory.start()
        whole = Background(
            server, f"BEGIN; UPDATE small SET n = {size};"
            f" INSERT INTO t SELECT g, md5(g::text) FROM generate_series({BEFORE + 1}, {BEFORE + size}) g; "
            f"COMMIT")
        seen = set()
        def arrived():
            first = tm.get("small", 1)["n"]
            rows = tm.tables()[("public", "t")]["rows"]
            last = tm.get("t", BEFORE + size) is not None
            counted = tm.scan("t").count(b"\n") if len(seen) % 5 == 0 else rows
            seen.add(rows)
            for n in (rows, counted):
                check(n in (BEFORE, BEFORE + size), f"a reader saw {n} rows of {BEFORE} or {BEFORE + size}")
            check(not first or rows == BEFORE + size, "one table shows the transaction before the other")
            check(rows == BEFORE or last, "the count is ahead of the rows")
            return rows > BEFORE
        until("the transaction in the store", arrived, timeout=scaled(60) + 60)
        whole.join()
        print(f"       {size} rows in one transaction: {memory.stop()} KiB anonymous at most")
        check(BEFORE in seen, "the state before was never seen: nothing was tested")
        tm.equal("t", "small")
        server.sql("DELETE FROM t WHERE id > %s", BEFORE)
        tm.equal("t", timeout=120)
        check(tm.tables()[("public", "t")]["rows"] == BEFORE, "wrong count after the delete")
