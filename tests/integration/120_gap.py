"""History that is gone or is not ours: named, exit 3, and nothing is written."""

import os
import shutil
import signal

import harness
from harness import EXIT_GAP, Server, Tidemark, check, place, server_major, since, until


def live_store(server, tm):
    server.sql("CREATE TABLE t (id int PRIMARY KEY, v text); "
               "INSERT INTO t SELECT g, 'v' FROM generate_series(1, 1000) g")
    tm.start()
    tm.wait_live("t")
    tm.equal("t")
    tm.stop()
    slot, = server.slots()
    return slot


def test_slot_dropped():
    with Server() as server, Tidemark(server, "public.t") as tm:
        slot = live_store(server, tm)
        server.sql("SELECT pg_drop_replication_slot(%s)", slot)
        server.sql("UPDATE t SET v = 'missed' WHERE id = 1")
        tm.refuses(slot)
        check(server.slots() == {}, "it made a new slot without being asked")


def test_slot_recreated():
    """Under the same name, further on: what lies between is lost."""
    with Server() as server, Tidemark(server, "public.t") as tm:
        slot = live_store(server, tm)
        server.sql("SELECT pg_drop_replication_slot(%s)", slot)
        server.sql("UPDATE t SET v = 'missed' WHERE id = 1")
        server.sql("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", slot)
        tm.refuses(slot)


def test_slot_moved():
    with Server() as server, Tidemark(server, "public.t") as tm:
        slot = live_store(server, tm)
        server.sql("UPDATE t SET v = 'missed' WHERE id = 1")
        server.sql("SELECT pg_replication_slot_advance(%s, pg_current_wal_lsn())", slot)
        tm.refuses(slot)


def test_older_store_copied_back():
    with Server() as server, Tidemark(server, "public.t") as tm:
        slot = live_store(server, tm)
        kept = place("kept")
        shutil.copytree(tm.store, kept)
        server.sql("UPDATE t SET v = 'later'")
        tm.start()
        tm.equal("t")
        tm.stop()
        shutil.rmtree(tm.store)
        shutil.copytree(kept, tm.store)
        tm.refuses(slot)


def test_another_cluster():
    with Server(fresh=True) as server, Tidemark(server, "public.t") as tm:
        slot = live_store(server, tm)
        server.stop()
        with Server(fresh=True) as other:
            other.sql("CREATE TABLE t (id int PRIMARY KEY, v text); CREATE PUBLICATION tidemark FOR TABLE t")
            other.sql("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", slot)
            tm.source = other.dsn()
            tm.refuses()


def test_restored_server():
    """The same cluster from a backup: it has not reached our checkpoint."""
    with Server(fsync=True) as server, Tidemark(server, "public.t") as tm:
        slot = live_store(server, tm)
        server.stop()
        kept = place("backup")
        harness.subprocess.run(["cp", "-a", server.data, kept], check=True)
        server.start()
        server.sql("UPDATE t SET v = 'in the lost part'")
        tm.start()
        tm.equal("t")
        tm.stop()
        server.stop()
        shutil.rmtree(server.data)
        harness.subprocess.run(["cp", "-a", kept, server.data], check=True)
        server.start()
        tm.refuses()


def test_slot_of_another_plugin():
    with Server() as server, Tidemark(server, "public.t", args=["--slot", "theirs"]) as tm:
        server.sql("CREATE TABLE t (id int PRIMARY KEY)")
        server.sql("SELECT pg_create_physical_replication_slot('theirs')")
        r = tm.run(timeout=30)
        check(r.code in (harness.EXIT_USAGE, EXIT_GAP), lambda: f"a physical slot: {r}")
        check("theirs" in r.err, lambda: f"the slot is not named: {r}")


def put_slot_aside(server, name, work):
    """Does something while the server does not know of the slot."""
    where, aside = os.path.join(server.data, "pg_replslot", name), os.path.join(server.dir, name)
    server.stop()
    os.rename(where, aside)
    server.start()
    work()
    server.stop()
    os.rename(aside, where)
    server.start()


def undecodable(server):
    """A slot from before a TRUNCATE, with a catalog that has forgotten the file from before it."""
    server.sql("INSERT INTO t VALUES (-1, 'into the old file')")
    server.sql("TRUNCATE t")
    put_slot_aside(server, "tidemark", lambda: server.sql("VACUUM pg_class"))


def test_slot_of_someone_else_that_cannot_be_decoded():
    with Server() as server, Tidemark(server, "public.t") as tm:
        server.sql("CREATE TABLE t (id int PRIMARY KEY, v text); CREATE PUBLICATION tidemark FOR TABLE t")
        server.sql("SELECT pg_create_logical_replication_slot('tidemark', 'pgoutput')")
        undecodable(server)
        r = tm.run()
        check(r.code == EXIT_GAP, lambda: f"expected exit {EXIT_GAP}: {r}")
        for part in ("could not map file", "new slot", "pg_drop_replication_slot('tidemark')"):
            check(part in r.err.splitlines()[-1], lambda: f"{part!r} is not said: {r}")


def test_slot_that_cannot_be_decoded_any_more():
    """Our own, in a store that was live: what it has stays."""
    with Server() as server, Tidemark(server, "public.t") as tm:
        live_store(server, tm)
        undecodable(server)
        before = tm.scan("t")
        r = tm.run()
        check(r.code == EXIT_GAP and "could not map file" in r.err, lambda: f"expected exit {EXIT_GAP}: {r}")
        check(tm.scan("t") == before, "the rows have changed")


def lose_slot(server, slot):
    """The log that the slot needs is removed; on a server with max_slot_wal_keep_size."""
    server.sql("CREATE TABLE IF NOT EXISTS filler (v text); ALTER TABLE filler ALTER v SET STORAGE EXTERNAL")
    def lost():
        server.sql("INSERT INTO filler SELECT repeat(md5(g::text), 200) FROM generate_series(1, 4000) g")
        server.sql("CHECKPOINT")
        return server.value("SELECT wal_status FROM pg_replication_slots WHERE slot_name = %s", slot) == "lost"
    until("the slot is lost", lost)


def test_slot_lost_while_stopped():
    with Server(settings={"max_slot_wal_keep_size": "16MB", "max_wal_size": "48MB"}) as server, Tidemark(server, "public.t") as tm:
        slot = live_store(server, tm)
        server.sql("UPDATE t SET v = 'missed' WHERE id = 1")
        lose_slot(server, slot)
        why = "wal_removed" if server_major() >= 17 else "required WAL"
        tm.refuses(slot, f"invalidated ({why}")


def test_slot_lost_while_running():
    """A daemon that is stopped in its tracks until the server gives up on it."""
    with Server(settings={"max_slot_wal_keep_size": "16MB", "max_wal_size": "48MB"}) as server, Tidemark(server, "public.t") as tm:
        live_store(server, tm)
        tm.start()
        tm.wait_slot()
        slot, = server.slots()
        os.kill(tm.pid, signal.SIGSTOP)
        server.sql("UPDATE t SET v = 'missed' WHERE id = 1")
        lose_slot(server, slot)
        os.kill(tm.pid, signal.SIGCONT)
        code = tm.wait_exit()
        tm.process = None
        check(code == EXIT_GAP, lambda: f"expected exit {EXIT_GAP}, got {code}: {tm.log()[-500:]}")
        check("invalidated" in tm.log().splitlines()[-1], lambda: f"not said: {tm.log()[-500:]}")


@since(18)
def test_slot_unused_for_too_long():
    with Server(settings={"idle_replication_slot_timeout": "1s"}) as server, Tidemark(server, "public.t") as tm:
        slot = live_store(server, tm)
        def invalidated():
            server.sql("CHECKPOINT")
            return server.value("SELECT invalidation_reason FROM pg_replication_slots")
        until("the slot is invalidated", invalidated, interval=0.5)
        tm.refuses(slot, "invalidated (idle_timeout)")
