"""Connections that are dead without being closed, and connections that are merely slow."""

import os
import shutil
import signal
import time

from faults import Proxy
from harness import Background, Server, Tidemark, check, place, timeout, until

LIMIT = 2           # --receive-timeout
PATIENCE = 15       # by when it has noticed and is back, on a busy machine


def served(server, rows=100, width=20):
    server.sql("CREATE TABLE t (id int PRIMARY KEY, v text)")
    server.sql("INSERT INTO t SELECT g, repeat('v', %s) FROM generate_series(1, %s) g", width, rows)


def daemon(server, proxy, *args):
    return Tidemark(server, "public.t", source=proxy.source(), args=["--receive-timeout", LIMIT, *args])


def retries(tm):
    return tm.log().count("will try again")


def check_recovers(server, proxy, tm, *kinds):
    """The server's side stays: without help its walsender would keep the slot until wal_sender_timeout."""
    before = time.monotonic()
    check(proxy.hush(*kinds) >= 1, "there was no connection to silence")
    server.sql("INSERT INTO t SELECT max(id) + 1, 'in silence' FROM t")
    tm.equal("t", timeout=PATIENCE)
    check(time.monotonic() - before > LIMIT * 0.5, "it came back before it could have noticed")


def test_while_streaming():
    with Server(settings={"wal_sender_timeout": 0}) as server, Proxy(server) as proxy, daemon(server, proxy) as tm:
        served(server)
        tm.start()
        tm.wait_live("t")
        for kinds in (("stream",), ("stream", "sql"), ("stream",)):
            check_recovers(server, proxy, tm, *kinds)
        check("silent for 2 s" in tm.log(), "the log does not say why")
        check(len(server.slots()) == 1, "more than one slot")
        left = server.sql("SELECT pid FROM pg_stat_activity WHERE application_name = 'tidemark'")
        check(len(left) == 2, lambda: f"{len(left)} backends at the server, not 2: those left behind go on")


def backends(server):
    return {r[0] for r in server.sql("SELECT pid FROM pg_stat_activity WHERE application_name = 'tidemark'")}


def test_killed_in_silence():
    """What it left at the server is known to the next process, by the store."""
    with Server(settings={"wal_sender_timeout": 0}) as server, Proxy(server) as proxy, daemon(server, proxy) as tm:
        served(server)
        tm.start()
        tm.wait_live("t")
        left = backends(server)
        check(len(left) == 2 and proxy.hush() >= 2, lambda: f"backends {left}")
        tm.kill()
        check(backends(server) == left, "the server noticed")
        server.sql("UPDATE t SET v = 'meanwhile'")
        tm.start()
        tm.equal("t", timeout=PATIENCE)
        until("what was left has ended", lambda: not backends(server) & left)


def test_a_copy_of_the_store_ends_nothing():
    """Started beside the daemon by mistake, it waits for the slot; the daemon is left alone."""
    with Server() as server, Proxy(server) as proxy, daemon(server, proxy) as tm, \
            Tidemark(server, "public.t", store=place("copy"), source=proxy.source()) as copy:
        served(server)
        tm.start()
        tm.wait_live("t")
        tm.equal("t")
        ours = backends(server)
        os.kill(tm.pid, signal.SIGSTOP)
        shutil.copytree(tm.store, copy.store, ignore=shutil.ignore_patterns("control.sock"))
        os.kill(tm.pid, signal.SIGCONT)
        copy.start()
        copy.wait_log("will try again")
        check(ours <= backends(server), lambda: f"it had {ours}, there are {backends(server)}: {tm.log()[-500:]}")
        copy.stop()
        server.sql("UPDATE t SET v = 'meanwhile'")
        tm.equal("t")
        check(retries(tm) == 0, lambda: f"it was disturbed: {tm.log()[-500:]}")


def test_while_a_chunk_is_read():
    with Server() as server, Proxy(server) as proxy, daemon(server, proxy, "--chunk-rows", 10) as tm:
        served(server, rows=20000)
        tm.start()
        for _ in range(2):
            read = tm.rows_read("t")
            until("copying", lambda: tm.rows_read("t") > read + 50, interval=0.005)
            check(proxy.hush("sql") >= 1, "there was no SQL connection")
            before = retries(tm)
            until("it noticed", lambda: retries(tm) > before, PATIENCE)
        check("has not answered for 2 s" in tm.log(), "the log does not say why")
        tm.wait_live("t", timeout=60)
        tm.equal("t")


def test_while_connecting():
    with Server() as server, Proxy(server) as proxy, daemon(server, proxy) as tm:
        served(server)
        proxy.black_hole = True
        tm.start()
        tm.wait_log("did not answer in time", timeout=PATIENCE)
        proxy.black_hole = False
        tm.wait_live("t", timeout=PATIENCE)
        tm.equal("t")


def test_while_the_slot_is_made():
    """The server takes its time for it, so silence alone says nothing; then its answer is lost."""
    with Server() as server, Proxy(server) as proxy, daemon(server, proxy) as tm:
        served(server)
        open_transaction = server.connect(autocommit=False)
        with open_transaction.cursor() as cur:
            cur.execute("INSERT INTO public.t VALUES (-1, 'open')")
        tm.start()
        tm.wait_log("slot creation waits")
        time.sleep(LIMIT * 2)
        check(retries(tm) == 0, lambda: f"it did not wait: {tm.log()[-500:]}")
        check(proxy.hush("stream") == 1, "there was no connection to silence")
        open_transaction.commit()
        until("it noticed", lambda: retries(tm) > 0, 30)
        tm.wait_live("t", timeout=PATIENCE)
        tm.equal("t")
        open_transaction.close()


def test_a_lock_is_waited_for():
    """A table locked for long is no dead connection, and no reason to drop the stream."""
    with Server() as server, Proxy(server) as proxy, daemon(server, proxy, "--chunk-rows", 10) as tm:
        served(server, rows=3000)
        tm.start()
        until("copying", lambda: tm.rows_read("t") > 0, interval=0.005)
        lock = Background(server, f"BEGIN; LOCK TABLE t IN ACCESS EXCLUSIVE MODE; SELECT pg_sleep({LIMIT * 3}); COMMIT")
        lock.join()
        tm.wait_live("t", timeout=60)
        tm.equal("t")
        check(retries(tm) == 0, lambda: f"it gave the connection up: {tm.log()[-500:]}")


def stopped_at_work(server):
    """The process that reads a chunk, stopped while it does; None when it was quicker."""
    pid = server.value("SELECT pid FROM pg_stat_activity WHERE application_name = 'tidemark'"
                       " AND backend_type = 'client backend' AND state = 'active' AND query LIKE '%FROM ONLY%'")
    if pid is None:
        return None
    os.kill(pid, signal.SIGSTOP)
    time.sleep(0.02)
    if server.value("SELECT state FROM pg_stat_activity WHERE pid = %s", pid) == "active":
        return pid
    os.kill(pid, signal.SIGCONT)
    return None


def test_a_busy_server_gets_more_time():
    """A statement that runs longer than the limit: the next attempt finds out, ends it, and waits longer."""
    with Server() as server, Proxy(server) as proxy, daemon(server, proxy, "--chunk-rows", 100) as tm:
        served(server, rows=20000, width=1000)
        tm.start()
        busy = until("a chunk being read", lambda: stopped_at_work(server), interval=0.001)
        try:
            until("it noticed", lambda: retries(tm) > 0, PATIENCE)
            tm.wait_log("statements get more time", timeout=PATIENCE)
        finally:
            os.kill(busy, signal.SIGCONT)
        until("the old backend has ended", lambda: server.value("SELECT count(*) FROM pg_stat_activity WHERE pid = %s", busy) == 0)
        tm.wait_live("t", timeout=60)
        tm.equal("t")


@timeout(150)
def test_a_slow_link():
    """20 kB a second in each direction: progress, and no connection given up by either side."""
    with Server(settings={"wal_sender_timeout": "5s"}) as server, Proxy(server) as proxy, daemon(server, proxy) as tm:
        served(server, rows=100, width=1000)
        proxy.rate = 20000
        tm.start()
        tm.wait_live("t", timeout=60)
        server.sql("UPDATE t SET v = repeat('w', 2000)")
        tm.equal("t", timeout=60)
        server.sql("INSERT INTO t VALUES (0, repeat('large', 30000))")
        tm.equal("t", timeout=60)
        check(retries(tm) == 0, lambda: f"it gave a connection up: {tm.log()[-500:]}")
        check("terminating walsender" not in server.log(), "the server gave the connection up")


def test_tcp_watches_too():
    """A host that is gone answers no keepalive: the kernel is told to ask in time."""
    with Server(tcp=True) as server:
        served(server)
        source = f"host=127.0.0.1 port={server.port} user=postgres dbname=postgres"
        with Tidemark(server, "public.t", source=source, args=["--receive-timeout", 10]) as tm:
            tm.start()
            tm.wait_live("t")
            time.sleep(1)
            remote, timers = f"0100007F:{server.port:04X}", []
            with open("/proc/net/tcp") as f:
                for fields in (line.split() for line in f):
                    if fields[2] == remote:
                        timers.append(fields[5].split(":"))
            check(len(timers) >= 2, lambda: f"connections: {timers}")
            check(any(kind == "02" and int(when, 16) <= 500 for kind, when in timers),
                  lambda: f"no keepalive within 5 s: {timers}")
