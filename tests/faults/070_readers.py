"""Readers that die while they read, and readers that never end."""

import os
import signal
import subprocess
import time

import harness
from faults import LOOK, Disk, faulty
from harness import Server, Tidemark, check, place, timeout, until

MIB = 1 << 20
FASTER = 12         # the daemon's clock: its minute is five seconds
MANY = 11000        # commits; run warns from 10,000 on


def size(tm):
    return os.path.getsize(os.path.join(tm.store, "data.mdb"))


def stay(tm):
    reader = harness.spawn([LOOK, "stay", tm.store], "KILL", stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    check(reader.stdout.readline() == "reading\n", "the reader did not begin")
    return reader


def oldest(tm):
    """(pid, commits behind) of the oldest reader, as status tells it."""
    readers = tm.status().get("readers", {})
    return readers.get("oldest_pid"), readers.get("oldest_behind")


class Churn:
    """Updates of a few rows, a transaction each; most become a commit of the store."""

    def __init__(self, server):
        self.con = server.connect()
        self.cur = self.con.cursor()
        self.cur.execute("SET search_path = public")

    def __call__(self, tm, n):
        for i in range(n):
            self.cur.execute("UPDATE t SET v = %s WHERE id = %s", (f"{i}" + "v" * 400, i * 7919 % 3000))
        tm.wait()


def store_on_shm():
    """Thousands of commits: without the waits for a real disk."""
    path = f"/dev/shm/{os.path.basename(harness.area())}.store"
    return path if os.path.isdir("/dev/shm") else place("store")


def prepared(server, tm):
    server.sql("CREATE TABLE t (id int PRIMARY KEY, v text); INSERT INTO t SELECT g, repeat('v', 400) FROM generate_series(0, 2999) g")
    tm.start()
    tm.wait_live("t")
    return Churn(server)


def settle(tm, churn):
    """Until the file no longer grows with the changes: from then on pages are used again."""
    for _ in range(20):
        before = size(tm)
        churn(tm, 300)
        if size(tm) - before < MIB // 8:
            return
    raise harness.Failure(f"the file grows without a reader: {size(tm)} bytes")


@timeout(120)
def test_killed_while_reading():
    """Its slot is freed within a minute of the daemon's clock, and the file stops growing."""
    with Server() as server, Tidemark(server, "public.t", env=faulty(clock=FASTER)) as tm:
        churn = prepared(server, tm)
        settle(tm, churn)
        reader = stay(tm)
        reader.send_signal(signal.SIGKILL)
        reader.wait()
        before = size(tm)
        churn(tm, 1500)
        grown = size(tm) - before
        tm.wait_log("freed the slots of readers that died", timeout=30)
        settle(tm, churn)
        check(tm.is_running() and oldest(tm)[0] is None, lambda: f"status still shows a reader: {tm.status()}")
        check(grown > MIB, "the dead reader held nothing: nothing was tested")


@timeout(180)
def test_never_ends():
    """Status names it, run warns, the file grows; when it has ended the growth ends too."""
    with Server() as server, Tidemark(server, "public.t", store=store_on_shm(), env=faulty(clock=FASTER)) as tm:
        tm.log_path = place("log")
        try:
            churn = prepared(server, tm)
            settle(tm, churn)
            reader = stay(tm)
            before = size(tm)
            churn(tm, 1000)
            pid, behind = oldest(tm)
            check(pid == reader.pid and behind > 100, lambda: f"status: {tm.status()}")
            text = tm.cmd("status").out.decode()
            check(str(reader.pid) in text, lambda: f"status does not name it: {text}")
            check(size(tm) > before + MIB, "the file did not grow: nothing was tested")
            deadline = time.monotonic() + 100
            while "a reader stays on an old state" not in tm.log() and time.monotonic() < deadline:
                churn(tm, 1000)
            check(f"pid={reader.pid}" in tm.log(), "run does not warn")
            reader.stdin.write("\n")
            reader.stdin.flush()
            check(reader.stdout.readline() == "done\n", "the reader did not end")
            until("status shows no reader", lambda: oldest(tm)[0] is None)
            settle(tm, churn)
            tm.equal("t")
            reader.stdin.close()
        finally:
            tm.kill()
            harness.shutil.rmtree(tm.store, ignore_errors=True)


LARGE = "UPDATE t SET v = repeat(chr(97 + %s), 900)"


@timeout(120)
def test_few_large_commits():
    """A hundred commits can be as much as ten thousand; new rows alone are no reason to warn."""
    with Server() as server, Tidemark(server, "public.t", store=store_on_shm(), env=faulty(clock=FASTER)) as tm:
        tm.log_path = place("log")
        try:
            server.sql("CREATE TABLE t (id int PRIMARY KEY, v text); INSERT INTO t SELECT g, 'v' FROM generate_series(1, 20000) g")
            tm.start()
            tm.wait_live("t")
            reader = stay(tm)
            time.sleep(60 / FASTER + 1)
            for first in range(20001, 95001, 5000): # each too small to be staged, which would leave the stage's pages behind
                server.sql("INSERT INTO t SELECT g, repeat('n', 900) FROM generate_series(%s, %s) g", first, first + 4999)
            tm.wait()
            grown = size(tm)
            time.sleep(2 * 60 / FASTER)
            check(grown > 70 * MIB, "the file did not grow: nothing was tested")
            check("stays on an old state" not in tm.log(), "it warns of new rows")
            for n in range(2):
                server.sql(LARGE, n)
                tm.wait()
            tm.wait_log(f"pid={reader.pid}", timeout=30)
            reader.stdin.close()
            tm.equal("t")
        finally:
            tm.kill()
            harness.shutil.rmtree(tm.store, ignore_errors=True)


@timeout(120)
def test_dead_reader_on_a_full_disk():
    """What it holds is why the disk is full: its slot is freed before the next attempt, not a minute later."""
    disk = Disk.make("tmpfs", 40)
    if disk is None:
        return
    with disk, Server() as server, Tidemark(server, "public.t", store=os.path.join(disk.path, "store")) as tm:
        tm.log_path = place("log")
        server.sql("CREATE TABLE t (id int PRIMARY KEY, v text); INSERT INTO t SELECT g, 'v' FROM generate_series(1, 4000) g")
        tm.start()
        tm.wait_live("t")
        for n in range(4):
            server.sql(LARGE, n)
            tm.wait()
        reader = stay(tm)
        reader.kill()
        reader.wait()
        for n in range(12):
            server.sql(LARGE, n)
            time.sleep(0.2)
        tm.equal("t", timeout=30)
        check("the disk is full" in tm.log(), "the disk was never full: nothing was tested")
