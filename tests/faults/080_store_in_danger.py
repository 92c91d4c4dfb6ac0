"""A second daemon on the store, and a store that is taken away from under a running one."""

import os
import shutil
import time

from harness import EXIT_STORE, Server, Tidemark, check, lsn, until


def live(server, tm):
    server.sql("CREATE TABLE IF NOT EXISTS t (id int PRIMARY KEY, v text); TRUNCATE t; INSERT INTO t VALUES (1, 'v')")
    tm.start()
    tm.wait_live("t")
    tm.equal("t")


def test_second_daemon():
    """Refused with the process to blame, also while the first one is busy; the first does not notice."""
    with Server() as server, Tidemark(server, "public.t") as tm:
        live(server, tm)
        for _ in range(3):
            server.sql("INSERT INTO t SELECT m + g, 'v' FROM (SELECT max(id) m FROM t) x, generate_series(1, 5000) g")
            r = tm.run("--until", "caught-up")
            check(r.code == EXIT_STORE, lambda: f"a second daemon: {r}")
            check(f"process {tm.pid}" in r.err and tm.store in r.err, lambda: f"not in: {r.err}")
        check(tm.is_running(), "the first one died")
        tm.equal("t")
        tm.kill()
        second = tm.run("--until", "caught-up")
        check(second.code == 0, lambda: f"the lock outlives its holder: {second}")


def ends(tm, *words):
    code = tm.wait_exit(20)
    check(code == EXIT_STORE, lambda: f"exit {code}: {tm.log()[-500:]}")
    last = tm.log().strip().splitlines()[-1]
    check(all(w in last for w in words), lambda: f"not {words} in: {last}")
    tm.process = None


def confirmed(server):
    (_, _, at), = server.slots().values()
    return lsn(at)


def test_directory_removed():
    """It ends and says so; what it could not store is not acknowledged, and the next daemon starts over."""
    with Server() as server, Tidemark(server, "public.t") as tm:
        live(server, tm)
        shutil.rmtree(tm.store)
        before = lsn(server.value("SELECT pg_current_wal_insert_lsn()::text"))
        server.sql("INSERT INTO t VALUES (2, 'after')")
        ends(tm, tm.store, "data.mdb", "removed")
        check(confirmed(server) <= before, "it acknowledged what was stored nowhere")
        tm.start()
        tm.wait_live("t")
        tm.equal("t")


def test_files_removed_or_replaced():
    """Each of the files, by itself: a new lock file would let in a second daemon, or hide readers."""
    with Server() as server, Tidemark(server, "public.t") as tm:
        for name in ("data.mdb", "lock.mdb", "tidemark.lock"):
            live(server, tm)
            path = os.path.join(tm.store, name)
            shutil.copy(path, path + ".copy")
            os.rename(path + ".copy", path)
            server.sql("INSERT INTO t VALUES (2, 'after')")
            ends(tm, tm.store, name, "replaced")
            tm.start()
            tm.equal("t")
            os.unlink(path)
            server.sql("INSERT INTO t VALUES (3, 'after')")
            ends(tm, tm.store, name, "removed")
            tm.start()
            tm.equal("t")
            tm.stop()


def test_idle_daemon_notices():
    """No change has to come for that: an idle position, within seconds."""
    with Server() as server, Tidemark(server, "public.t") as tm:
        live(server, tm)
        os.rename(tm.store, tm.store + ".moved")
        server.sql("CREATE TABLE other (id int)")
        until("it has ended", lambda: not tm.is_running(), 30)
        ends(tm, tm.store, "removed")
        os.rename(tm.store + ".moved", tm.store)
        time.sleep(0.1)
        tm.start()
        tm.equal("t")
