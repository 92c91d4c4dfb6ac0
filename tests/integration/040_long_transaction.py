"""A transaction writes before a row's chunk is read and commits after it closed: it wins."""

from harness import Server, Tidemark, check, scaled, until

ROWS = scaled(20000)


def test_commits_after_its_chunk():
    with Server() as server, Tidemark(server, "public.t", args=["--chunk-rows", 10]) as tm:
        server.sql("CREATE TABLE t (id int PRIMARY KEY, v text)")
        server.sql("INSERT INTO t SELECT g, 'old' FROM generate_series(1, %s) g", ROWS)
        tm.start()
        check(tm.hold_copy("t") < ROWS // 2, "held too late: nothing is tested")
        at = ROWS * 3 // 4
        con = server.connect(autocommit=False)
        cur = con.cursor()
        cur.execute("UPDATE public.t SET v = 'long' WHERE id = %s", (at,))
        cur.execute("DELETE FROM public.t WHERE id = %s", (at + 1,))
        cur.execute("INSERT INTO public.t VALUES (0, 'long')")
        cur.execute("UPDATE public.t SET id = %s WHERE id = %s", (ROWS + 5, at + 2))
        cur.execute("SAVEPOINT s; UPDATE public.t SET v = 'undone' WHERE id = %s; ROLLBACK TO s", (at + 3,))
        tm.release_copy()
        until("its chunk is closed", lambda: tm.get("t", at + 200), timeout=60)
        check(tm.get("t", at) == {"id": at, "v": "old"}, "an open transaction's row is there")
        server.sql("UPDATE t SET v = 'short' WHERE id = %s", at + 4)
        con.commit()
        tm.wait()
        check(tm.get("t", at) == {"id": at, "v": "long"},
              lambda: f"the long transaction lost: {tm.get('t', at)}")
        tm.wait_live("t")
        check(tm.get("t", at) == {"id": at, "v": "long"}, "it was overwritten later")
        tm.equal("t")


def test_open_before_the_slot():
    """Slot creation waits for a writer that is older; the log says so and names it."""
    with Server() as server, Tidemark(server, "public.t") as tm:
        server.sql("CREATE TABLE t (id int PRIMARY KEY, v text)")
        server.sql("INSERT INTO t SELECT g, 'old' FROM generate_series(1, 100) g")
        con = server.connect(autocommit=False)
        cur = con.cursor()
        cur.execute("UPDATE public.t SET v = 'older' WHERE id = 7")
        tm.start()
        tm.wait_log(f"pid {con.get_backend_pid()}")
        check(tm.is_running(), "it gave up")
        con.commit()
        tm.wait_live("t")
        tm.equal("t")
        check(tm.get("t", 7)["v"] == "older", "the older transaction's row was lost")


def test_two_writers_interleave_on_one_page():
    """Begin A, begin B, both write neighbours, commit B, commit A."""
    with Server() as server, Tidemark(server, "public.t", args=["--chunk-rows", 2]) as tm:
        server.sql("CREATE TABLE t (id int PRIMARY KEY, v int)")
        server.sql("INSERT INTO t SELECT g, 0 FROM generate_series(1, 2000) g")
        tm.start()
        tm.wait_slot()
        for turn in range(1, 15):
            a, b = server.connect(autocommit=False), server.connect(autocommit=False)
            for i in range(4):
                a.cursor().execute("UPDATE public.t SET v = v + 1 WHERE id = %s", (turn * 100 + 2 * i,))
                b.cursor().execute("UPDATE public.t SET v = v + 10 WHERE id = %s", (turn * 100 + 2 * i + 1,))
            b.cursor().execute("INSERT INTO public.t VALUES (%s, 1)", (-turn,))
            b.commit()
            a.cursor().execute("UPDATE public.t SET v = 99 WHERE id = %s", (-turn,))
            a.cursor().execute("UPDATE public.t SET v = v + 100 WHERE id = %s", (turn * 100 + 1,))
            a.commit()
            a.close()
            b.close()
        tm.wait_live("t")
        tm.equal("t")
