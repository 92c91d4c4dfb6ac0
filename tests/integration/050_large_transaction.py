"""One large transaction is seen by readers all at once."""

import threading
import time

from harness import Background, MemoryWatch, Server, Tidemark, check, is_sanitized, rng, scaled, timeout, until

BEFORE = 1000
MEMORY_KIB = 64 * 1024  # the default of --memory


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
        peak = memory.stop()
        print(f"       {size} rows in one transaction: {peak} KiB anonymous at most")
        check(peak < MEMORY_KIB or is_sanitized(), f"{peak} KiB of anonymous memory for one transaction of {size} rows")
        check(BEFORE in seen, "the state before was never seen: nothing was tested")
        tm.equal("t", "small")
        server.sql("DELETE FROM t WHERE id > %s", BEFORE)
        tm.equal("t", timeout=120)
        check(tm.tables()[("public", "t")]["rows"] == BEFORE, "wrong count after the delete")


def large(server, n, size):
    """Every kind of change in one transaction, which leaves the rows of its number behind."""
    server.sql(
        f"BEGIN; UPDATE t SET v = '{n} ' || v WHERE id % 3 = 0; DELETE FROM t WHERE id % 5 = {n % 5};"
        f" UPDATE t SET id = -1000000 * {n + 1} - id WHERE id % 7 = 0 AND id > 0;"
        f" INSERT INTO t SELECT g, '{n} ' || md5(g::text), repeat(md5(g::text), 100) FROM generate_series(1, {size}) g"
        f"   ON CONFLICT (id) DO UPDATE SET v = '{n} again';"
        f" TRUNCATE u; INSERT INTO u SELECT g, {n} FROM generate_series(1, {size // 2}) g; COMMIT")


@timeout(400)
def test_killed_on_the_way():
    """Staged, shown, being moved: wherever it is killed, it ends as the source has it, and other changes go on."""
    moments = rng("large", "kill")
    size = scaled(15000)
    with Server() as server, Tidemark(server, "public.t,public.u,public.small", args=["--memory", 16]) as tm:
        server.sql("CREATE TABLE t (id int PRIMARY KEY, v text, long text); CREATE TABLE u (id int PRIMARY KEY, n int);"
                   "ALTER TABLE t ALTER long SET STORAGE EXTERNAL;"
                   "CREATE TABLE small (id int PRIMARY KEY, n int); INSERT INTO small VALUES (1, 0)")
        tm.start()
        tm.wait_live("t", "u", "small")
        over = threading.Event()

        def others():
            con = server.connect()
            while not over.wait(0.01):
                con.cursor().execute("UPDATE public.small SET n = n + 1")
            con.close()

        writer = threading.Thread(target=others)
        writer.start()
        try:
            for n in range(4):
                large(server, n, size)
                for _ in range(3):
                    time.sleep(moments.uniform(0.05, 0.8))
                    tm.kill()
                    counted = {len(tm.scan("u").splitlines()) for _ in range(2)}
                    check(counted <= {0, size // 2}, f"a reader saw {counted} rows of {size // 2}")
                    tm.start()
        finally:
            over.set()
            writer.join()
        tm.equal("t", "u", "small", timeout=120)


def spilled(options=None):
    """Transactions that the server wrote to files to decode them, of one of about 15 MB."""
    with Server(settings={"logical_decoding_work_mem": "1MB"}) as server:
        server.sql("CREATE TABLE t (id int PRIMARY KEY, v text)")
        source = server.dsn(**({"options": options} if options else {}))
        with Tidemark(server, "public.t", source=source) as tm:
            tm.start()
            tm.wait_live("t")
            server.sql("INSERT INTO t SELECT g, repeat('x', 100) FROM generate_series(1, 50000) g")
            tm.equal("t")
            tm.stop()
        until("the slot's statistics", lambda: server.value("SELECT sum(total_txns) FROM pg_stat_replication_slots"))
        return server.value("SELECT sum(spill_txns) FROM pg_stat_replication_slots")


def test_the_server_decodes_in_memory():
    """Our own session has more of it than the server's default; who chose otherwise for it keeps that."""
    check(spilled() == 0, "the server spilled")
    check(spilled("-c logical_decoding_work_mem=1MB") > 0, "the source's own setting was overruled")
