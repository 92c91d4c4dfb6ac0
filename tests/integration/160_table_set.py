"""Tables that join, leave and come back."""

from harness import Server, Tidemark, check, until


def make(server, *names):
    for name in names:
        server.sql(f"CREATE TABLE {name} (id int PRIMARY KEY, v text);"
                   f"INSERT INTO {name} SELECT g, '{name}' FROM generate_series(1, 1000) g")


def test_added_while_stopped():
    with Server() as server, Tidemark(server, "public.a") as tm:
        make(server, "a", "b")
        tm.start()
        tm.wait_live("a")
        tm.stop()
        server.sql("UPDATE a SET v = 'stopped' WHERE id < 100; UPDATE b SET v = 'stopped' WHERE id < 100")
        tm.tables_option = "public.a,public.b"
        tm.start()
        server.sql("UPDATE b SET v = 'joined' WHERE id > 900; DELETE FROM b WHERE id = 500; "
                   "INSERT INTO b VALUES (0, 'new')")
        tm.wait_live("a", "b")
        tm.equal("a", "b")
        check(len([r for r in tm.status()["runs"] if r["table"] == "a"]) == 1, "a was copied again")


def test_added_while_it_is_written():
    """A transaction that wrote before the table was published, and commits after: not in the stream."""
    with Server() as server, Tidemark(server, "public.a") as tm:
        make(server, "a", "b")
        tm.start()
        tm.wait_live("a")
        tm.stop()
        con = server.connect(autocommit=False)
        cur = con.cursor()
        cur.execute("UPDATE public.b SET v = 'before' WHERE id = 5; DELETE FROM public.b WHERE id = 6;"
                    "INSERT INTO public.b VALUES (-1, 'before')")
        tm.tables_option = "public.a,public.b"
        tm.start()
        until("b is published", lambda: server.sql("SELECT 1 FROM pg_publication_tables WHERE tablename = 'b'"))
        tm.wait_log(f"pid {con.get_backend_pid()}")
        check(tm.state("b") != "live", "it did not wait for a writer whose changes are not published")
        cur.execute("UPDATE public.b SET v = 'after' WHERE id = 7")
        con.commit()
        tm.wait_live("a", "b")
        tm.equal("a", "b")


def test_left_and_back():
    """While it is out its changes are missed; when it is back it is read again, ghosts included."""
    with Server() as server, Tidemark(server, "public.a,public.b") as tm:
        make(server, "a", "b")
        tm.start()
        tm.wait_live("a", "b")
        tm.stop()
        tm.tables_option = "public.a"
        tm.start()
        until("b has left", lambda: tm.state("b") == "left")
        before = tm.scan("b")
        server.sql("UPDATE b SET v = 'missed' WHERE id < 50; DELETE FROM b WHERE id BETWEEN 100 AND 200; "
                   "INSERT INTO b VALUES (0, 'x');"
                   "UPDATE a SET v = 'seen' WHERE id < 50")
        tm.equal("a")
        check(tm.scan("b") == before, "a table that left changed")
        tm.stop()
        tm.tables_option = "public.a,public.b"
        tm.start()
        tm.wait_live("a", "b")
        tm.equal("a", "b")


def test_patterns():
    with Server() as server, Tidemark(server, "public.t_*,other.?") as tm:
        server.sql("CREATE SCHEMA other")
        make(server, "t_one", "t_two", "u", "other.x", "other.xx")
        tm.start()
        tm.wait_live("t_one", "t_two", ("other", "x"))
        check(set(tm.tables()) == {("public", "t_one"), ("public", "t_two"), ("other", "x")},
              lambda: f"took {set(tm.tables())}")
        tm.equal("t_one", "t_two", ("other", "x"))
