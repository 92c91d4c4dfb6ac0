"""Faults of all kinds at random, for FAULT_SECONDS (60), while writers go on. Then the store equals the source.

The plan of faults is drawn before anything happens. SEED=N draws it again, with the same changes.
"""

import os
import random
import signal
import subprocess
import time

import harness
from faults import LOOK, Disk, Look, Proxy, faulty
from harness import EXIT_RUNTIME, Server, Tidemark, check, timeout
from workload import TABLES, Workload

SECONDS = int(os.environ.get("FAULT_SECONDS", "60"))
DISK_MIB = 300

# (weight, what). Most end by themselves after the pause that follows, or when the run is over.
KINDS = [
    (5, "kill"), (8, "die at a write"), (3, "terminate"), (2, "slow syncs"), (3, "freeze the daemon"),
    (3, "stop the server fast"), (3, "crash the server"), (3, "end backends"), (2, "freeze a backend"),
    (3, "cut lines"), (3, "silence the stream"), (3, "silence everything"), (2, "answer nobody"), (2, "slow line"),
    (4, "fill the disk"), (2, "kill a reader"),
]


def draw_plan(seed, seconds):
    """[(pause in s, what, a number)]: the pause comes first."""
    draw = random.Random(f"plan {seed}")
    plan, at = [], 0.0
    while at < seconds:
        pause = draw.choice((0.1, 0.3, 0.8, 1.5, 3.0)) * draw.uniform(0.5, 1.5)
        plan.append((pause, draw.choices([k for _, k in KINDS], [w for w, _ in KINDS])[0], draw.random()))
        at += pause + 0.5
    return plan


class Run:
    def __init__(self, server, proxy, disk, tm):
        self.server, self.proxy, self.disk, self.tm = server, proxy, disk, tm
        self.done = []
        self.asked_to_end = False
        self.last_tick = 0
        self.expected = set()   # exit codes that the faults since the last start explain

    # -- the daemon --

    def start(self, env=None):
        self.tm.env = env
        self.tm.start()
        self.expected = set()

    def watch(self):
        """Starts the daemon again when it has gone, if it may have."""
        if self.tm.process is None or self.tm.is_running():
            return
        code = self.tm.process.returncode
        full = code == EXIT_RUNTIME and "the disk is full" in self.tm.log()[-500:]
        check(code in self.expected or code == -signal.SIGKILL or full,
              lambda: f"the daemon ended with {code}: {self.tm.log()[-800:]}")
        if full:
            time.sleep(0.2)
        self.start()

    def wait(self, seconds):
        """Lets time pass, looks after the daemon, and at what the store says."""
        deadline = time.monotonic() + seconds
        while True:
            self.watch()
            self.look_at_ticks()
            left = deadline - time.monotonic()
            if left <= 0:
                return
            time.sleep(min(left, 0.1))

    def look_at_ticks(self):
        """What only grows at the source never goes back here."""
        r = harness.command("get", "--store", self.tm.store, "public.ticks", "1")
        if r.code == 0:
            now = harness.json.loads(r.out)["n"]
            check(now >= self.last_tick, f"a reader saw {now} after {self.last_tick}")
            self.last_tick = now

    # -- the faults --

    def do(self, what, x):
        self.done.append(what)
        getattr(self, what.replace(" ", "_"))(x)

    def kill(self, x):
        self.tm.process.kill()

    def die_at_a_write(self, x):
        self.tm.process.kill()
        self.tm.process.wait()
        how = ("before", "after", "torn")[int(x * 999) % 3]
        self.start(faulty(kill=f"{1 + int(x * x * 300)}:{how}"))

    def terminate(self, x):
        self.expected = {0}
        self.tm.terminate()
        self.tm.process.wait(30)

    def slow_syncs(self, x):
        self.terminate(x)
        self.start(faulty(sync_ms=int(10 + x * 500)))

    def freeze_the_daemon(self, x):
        if not self.tm.is_running():
            return
        os.kill(self.tm.pid, signal.SIGSTOP)
        time.sleep(0.2 + x * 3)
        os.kill(self.tm.pid, signal.SIGCONT)

    def restart_server(self, mode, x):
        self.server.stop(mode)
        time.sleep(x * x * 3)
        self.server.start()

    def stop_the_server_fast(self, x):
        self.restart_server("fast", x)

    def crash_the_server(self, x):
        self.restart_server("immediate", x)

    def backends(self):
        return [r[0] for r in self.server.sql("SELECT pid FROM pg_stat_activity WHERE application_name = 'tidemark' ORDER BY pid")]

    def end_backends(self, x):
        for pid in self.backends()[:1 if x < 0.5 else None]:
            self.server.sql("SELECT pg_terminate_backend(%s)", pid)

    def freeze_a_backend(self, x):
        """Only for a moment: it may hold what others need."""
        for pid in self.backends()[:1]:
            try:
                os.kill(pid, signal.SIGSTOP)
                time.sleep(x * 0.8)
                os.kill(pid, signal.SIGCONT)
            except ProcessLookupError:
                pass

    def cut_lines(self, x):
        self.proxy.cut()

    def silence_the_stream(self, x):
        self.proxy.hush("stream")

    def silence_everything(self, x):
        self.proxy.hush()

    def answer_nobody(self, x):
        self.proxy.black_hole = True
        self.proxy.cut()
        self.wait(x * 3)
        self.proxy.black_hole = False

    def slow_line(self, x):
        self.proxy.rate = int(20000 + x * 300000)
        self.wait(1 + x * 2)
        self.proxy.rate = None

    def fill_the_disk(self, x):
        if self.disk is None:
            return
        self.disk.fill(but=int(x * 400000))
        self.wait(0.5 + x * 2)
        self.disk.empty()

    def kill_a_reader(self, x):
        reader = harness.spawn([LOOK, "stay", self.tm.store], "KILL", stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
        self.wait(0.3 + x)
        reader.kill()
        reader.wait()
        reader.stdin.close()


def summary(plan):
    count = {}
    for _, what, _ in plan:
        count[what] = count.get(what, 0) + 1
    return ", ".join(f"{what} {n}" for what, n in sorted(count.items(), key=lambda e: -e[1]))


@timeout(SECONDS + 180)
def test_random_faults():
    seed = int(os.environ.get("SEED") or random.SystemRandom().randrange(1, 10**6))
    harness.SEED = seed
    plan = draw_plan(seed, SECONDS)
    print(f"       SEED={seed}: {summary(plan)}", flush=True)
    disk = Disk.make("tmpfs", DISK_MIB)
    store = os.path.join(disk.path, "store") if disk else harness.place("store")
    with Server(fsync=True, settings={"wal_sender_timeout": "10s"}) as server, Proxy(server) as proxy, \
            Tidemark(server, (*TABLES, "ticks"), store=store, source=proxy.source(),
                     args=["--receive-timeout", 2, "--chunk-rows", 200]) as tm:
        tm.log_path = harness.place("log")
        load = Workload(server, rows=15000, small=1500, docs=150, rate=150, writers=6)
        load.create()
        server.sql("CREATE TABLE ticks (id int PRIMARY KEY, n bigint); INSERT INTO ticks VALUES (1, 0)")
        run = Run(server, proxy, disk, tm)
        run.start()
        try:
            with load:
                began = time.monotonic()
                for pause, what, x in plan:
                    if time.monotonic() - began > SECONDS:
                        break
                    run.wait(pause)
                    server.sql("UPDATE ticks SET n = n + 1")
                    run.do(what, x)
                run.wait(0.5)
            check_end(run, load)
        except BaseException:
            print(f"       SEED={seed} failed behind: {' > '.join(run.done)}", flush=True)
            raise
        finally:
            if disk:
                disk.__exit__()


def check_end(run, load):
    """Nothing disturbs any more: it catches up by itself, is equal, and is still equal after a restart."""
    tm = run.tm
    run.watch()
    if not tm.is_running() or tm.env:
        tm.kill()
        run.start()
    tm.wait_live(*TABLES, "ticks", timeout=90)
    tm.equal(*TABLES, "ticks")
    with Look() as look:
        look.good(tm.store)
    tm.stop()
    tm.start()
    tm.equal(*TABLES, "ticks")
