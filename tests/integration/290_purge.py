"""Delete markers go once nothing can need them any more."""

from harness import Server, Tidemark, check, until


def test_markers_go():
    with Server() as server, Tidemark(server, "public.t", args=["--marker-retention", 0]) as tm:
        server.sql("CREATE TABLE t (id int PRIMARY KEY, v text); INSERT INTO t SELECT g, 'v' FROM generate_series(1, 5000) g")
        tm.start()
        tm.wait_live("t")
        server.sql("DELETE FROM t WHERE id % 2 = 0")
        tm.equal("t")
        until("the markers have gone", lambda: tm.status()["markers"]["count"] == 0)
        check(tm.status()["markers"]["purged"] == 2500, tm.status()["markers"])
        # They come back as rows, and go again. Few of them would not be worth a walk over the table.
        server.sql("INSERT INTO t SELECT g * 2, 'again' FROM generate_series(1, 2500) g; DELETE FROM t WHERE id < 2000")
        until("the markers have gone", lambda: tm.status()["markers"]["count"] == 0 and tm.status()["markers"]["purged"] == 4499)
        tm.equal("t")


def test_markers_are_kept():
    with Server() as server, Tidemark(server, "public.t") as tm:
        server.sql("CREATE TABLE t (id int PRIMARY KEY, v text); INSERT INTO t SELECT g, 'v' FROM generate_series(1, 100) g")
        tm.start()
        tm.wait_live("t")
        server.sql("DELETE FROM t WHERE id % 2 = 0")
        tm.wait()
        until("the daemon has looked", lambda: tm.status()["markers"]["retention_s"] == 3600)
        markers = tm.status()["markers"]
        check((markers["count"], markers["purged"], markers["held_by"]) == (50, 0, "retention"), markers)
        text = tm.cmd("status").out.decode()
        check("50 of deleted rows, 0 purged so far; kept for" in text, text)
        tm.equal("t")
