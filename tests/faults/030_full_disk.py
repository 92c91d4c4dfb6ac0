"""The store's disk is full, limited, or read-only: said clearly, nothing lost, and over when it is over."""

import os
import resource
import subprocess
import time

import harness
from faults import LOOK, Disk, Look
from harness import EXIT_RUNTIME, EXIT_STORE, EXIT_USAGE, Server, Tidemark, check, lsn, timeout, until

GROW = ("INSERT INTO t SELECT m + g, md5(g::text) || repeat('x', 1000)"
        " FROM (SELECT max(id) m FROM t) x, generate_series(1, %s) g")


def live(server, disk, tm):
    server.sql("CREATE TABLE t (id int PRIMARY KEY, v text); INSERT INTO t SELECT g, 'v' || g FROM generate_series(1, 100) g")
    tm.start()
    tm.wait_live("t")


def check_readable(tm, look, rows):
    """Meanwhile: what was there before, in one piece."""
    seen = look.good(tm.store)
    check(seen["rows"] == rows, lambda: f"{seen['rows']} rows can be read, {rows} were there before")
    check(tm.get("t", 1) == {"id": 1, "v": "v1"}, "a row from before cannot be read")
    check(tm.status().get("daemon", {}).get("state") == "running", "status does not work")
    return seen


def check_gentle(server, disk, tm):
    """A disk that stays full is not asked several times a second, and neither is the server."""
    disk.fill(but=100000)
    at = len(tm.log())
    server.sql(GROW, 300)
    time.sleep(5)
    count = tm.log()[at:].count("the disk is full")
    check(1 <= count <= 7, lambda: f"{count} attempts in 5 s")
    disk.empty()
    tm.equal("t")


def fills_up(kind):
    disk = Disk.make(kind, 16)
    if disk is None:
        return
    with disk, Server() as server, Look() as look, Tidemark(server, "public.t", store=os.path.join(disk.path, "store")) as tm:
        tm.log_path = harness.place("log")
        live(server, disk, tm)
        rows = 100
        for left, more in ((300000, 1000), (0, 10), (100000, 300), (8192, 100)):
            tm.equal("t")
            disk.fill(but=left)
            at = len(tm.log())
            server.sql(GROW, more)
            tm.wait_log("the disk is full", start=at)
            line = next(x for x in tm.log()[at:].splitlines() if "the disk is full" in x)
            check(tm.store in line and "KiB" in line, lambda: f"path and free space are not in: {line}")
            time.sleep(0.5)
            seen = check_readable(tm, look, rows)
            (_, _, confirmed), = server.slots().values()
            check(lsn(confirmed) <= seen["checkpoint"], lambda: f"acknowledged at {confirmed}, stored: {seen}")
            disk.empty()
            tm.equal("t", timeout=30)
            rows += more
            check_readable(tm, look, rows)
        check_gentle(server, disk, tm)
        tm.stop()
        tm.start()
        tm.equal("t")


def test_tmpfs_fills_up():
    fills_up("tmpfs")


def test_ext4_fills_up():
    fills_up("ext4")


def test_full_at_the_start():
    """A daemon that cannot begin says so, and leaves what is there."""
    disk = Disk.make("tmpfs", 8)
    if disk is None:
        return
    with disk, Server() as server, Look() as look, Tidemark(server, "public.t", store=os.path.join(disk.path, "store")) as tm:
        tm.log_path = harness.place("log")
        server.sql("CREATE TABLE t (id int PRIMARY KEY, v text)")
        disk.fill()
        r = tm.run()
        check(r.code == EXIT_RUNTIME and "the disk is full" in r.err and tm.store in r.err, lambda: f"a new store: {r}")
        disk.empty()
        server.sql("INSERT INTO t SELECT g, 'v' || g FROM generate_series(1, 100) g")
        tm.start()
        tm.wait_live("t")
        tm.equal("t")
        tm.kill()
        server.sql(GROW, 100)
        disk.fill()
        r = tm.run("--until", "caught-up", "--retry-for", 1)
        check(r.code == EXIT_RUNTIME and "the disk is full" in r.err and tm.store in r.err, lambda: f"an old store: {r}")
        check(look.good(tm.store)["rows"] == 100, "its rows cannot be read")
        disk.empty()
        tm.start()
        tm.equal("t")


@timeout(180)
def test_many_readers_of_a_full_disk():
    """The table of readers is a file too. With no space left to write to it, readers would die of SIGBUS."""
    disk = Disk.make("tmpfs", 8)
    if disk is None:
        return
    with disk, Server() as server, Tidemark(server, "public.t", store=os.path.join(disk.path, "store")) as tm:
        tm.log_path = harness.place("log")
        live(server, disk, tm)
        tm.equal("t")
        disk.fill()
        readers = [harness.spawn([LOOK, "stay", tm.store], "KILL", stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
                   for _ in range(200)]
        try:
            answers = [r.stdout.readline().strip() for r in readers]
            check(all(a == "reading" for a in answers),
                  lambda: f"{sum(a != 'reading' for a in answers)} of 200 readers failed, the first with "
                  f"{next(r.wait() for r, a in zip(readers, answers) if a != 'reading')}")
        finally:
            for r in readers:
                r.stdin.close()
                r.wait(20)
                r.stdout.close()


def test_limited_file_size():
    """ulimit -f: an error of the same kind, not the signal that comes with it."""
    with Server() as server, Look() as look, Tidemark(server, "public.t") as tm:
        live(server, None, tm)
        tm.equal("t")
        size = os.path.getsize(os.path.join(tm.store, "data.mdb"))
        resource.prlimit(tm.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
        server.sql(GROW, 500)
        tm.wait_log("ulimit -f", timeout=20)
        check("input/output" not in tm.log(), "a write cut short was taken for an error of the disk")
        check_readable(tm, look, 100)
        resource.prlimit(tm.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        tm.equal("t")
        tm.stop()
        r = harness.command("--fsize=8192", harness.PROGRAM, *tm.argv("--until", "caught-up"), program="/usr/bin/prlimit")
        check(r.code == EXIT_RUNTIME and "ulimit -f" in r.err, lambda: f"started with a limit: {r}")


def test_file_system_becomes_read_only():
    """What ext4 does after an error of the disk. Nobody can go on by himself: the daemon ends and says why."""
    disk = Disk.make("ext4", 16, ",errors=remount-ro")
    if disk is None:
        return
    with disk, Server() as server, Look() as look, Tidemark(server, "public.t", store=os.path.join(disk.path, "store")) as tm:
        tm.log_path = harness.place("log")
        live(server, disk, tm)
        tm.equal("t")
        device = os.path.basename(subprocess.run(["findmnt", "-no", "SOURCE", disk.path], capture_output=True, text=True).stdout.strip())
        trigger = f"/sys/fs/ext4/{device}/trigger_fs_error"
        if not os.path.exists(trigger):
            print(f"       skipped: there is no {trigger}")
            return
        with open(trigger, "w") as f:
            f.write("test")
        server.sql(GROW, 10)
        code = tm.wait_exit(30)
        check(code == EXIT_USAGE and "read-only" in tm.log() and tm.store in tm.log(), lambda: f"exit {code}: {tm.log()[-500:]}")
        tm.process = None
        r = tm.run()
        check(r.code == EXIT_USAGE and "read-only" in r.err and tm.store in r.err, lambda: f"started again: {r}")
        r = tm.cmd("scan", "public.t")
        check(r.code in (0, EXIT_USAGE, EXIT_STORE) and (r.code == 0 or "read-only" in r.err), lambda: f"scan: {r}")
