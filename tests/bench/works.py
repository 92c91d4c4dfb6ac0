"""What is measured. Each function is one work: it makes its database, measures in interleaved rounds, drops it."""

import os
import time

import harness
import lab
from harness import Server
from lab import LOOK, ROUNDS, SOURCE, Bench, Helper, load, look, median, rotated, scaled, seconds

ROWS_SCHEMA = """
CREATE TABLE rows (id bigint PRIMARY KEY, n int NOT NULL, at timestamptz NOT NULL, amount numeric(12,2),
                   note text NOT NULL);
CREATE TABLE mark (id int PRIMARY KEY, n bigint NOT NULL)
"""

# About 130 bytes in PostgreSQL's heap.
ROW = ("i, i % 1000, timestamptz '2024-01-01' + i * interval '1 second', i % 10000 / 100.0,"
       " md5(i::text) || md5((-i)::text)")

# So many transactions of one row each, by a procedure: the client's round trips are not what is measured.
UPDATES = """
DO $$ DECLARE k bigint; BEGIN
    FOR i IN 1..{count} LOOP
        k := {key};
        UPDATE rows SET n = n + 1, at = clock_timestamp() WHERE id = k;
        COMMIT;
    END LOOP;
END $$
"""


def fill(bench, first, last):
    con = bench.source.connect(bench.db)
    with con.cursor() as cur:
        cur.execute("SET statement_timeout = 0; SET synchronous_commit = off")
        cur.execute(f"INSERT INTO rows SELECT {ROW} FROM generate_series({first}, {last}) i")
        cur.execute("VACUUM ANALYZE rows")
        cur.execute("CHECKPOINT")
    con.close()


def ratios(rounds, of):
    """How many times as fast as `of` tidemark was; the median of the rounds."""
    return median(r[of].seconds / r["tidemark"].seconds for r in rounds)


def report_memory(results, work, rounds):
    results.add(work, "peak anonymous memory", max(r["tidemark"].peak_kib for r in rounds) / 1024, "MiB",
                ("at most", 64))


def report_cpu(results, work, rounds, rows, goal):
    results.add(work, "user + system of tidemark", median(r["tidemark"].cpu_us for r in rounds) / rows, "us/row", goal)


def report_speed(results, work, rounds, rows, names):
    for name, what in names:
        if name in rounds[0]:
            results.add(work, what, rows / median(r[name].seconds for r in rounds), "rows/s")


# ---- (a) ----

def copy_once(bench):
    bench.new_store()
    return bench.tidemark("--until", "caught-up")


def native_copy(bench):
    took = bench.subscribe()
    bench.unsubscribe()
    bench.peer_sql("TRUNCATE rows, mark")
    return lab.Measured(took)


def copy(results, source, peer):
    """Initial copy into an empty store."""
    work, rows = f"(a) copy of {scaled(3000000):,} rows", scaled(3000000)
    bench = Bench(source, peer, "copy", ROWS_SCHEMA)
    fill(bench, 1, rows)
    ways = [("limit", lambda: bench.copy_out("rows", "id")), ("tidemark", lambda: copy_once(bench)),
            ("native", lambda: native_copy(bench))]
    bench.copy_out("rows", "id")  # warm
    rounds = []
    for i in range(ROUNDS):
        rounds.append({name: way() for name, way in rotated(ways, i)})
        results.keep("copy", **seconds(rounds[-1]))
    results.add(work, "x COPY in key order to /dev/null", ratios(rounds, "limit"), "", ("at least", 0.5))
    results.add(work, "x native tablesync", ratios(rounds, "native"), "", ("at least", 3.0))
    report_speed(results, work, rounds, rows, [("tidemark", "tidemark"), ("limit", "COPY"), ("native", "native")])
    report_cpu(results, work, rounds, rows, ("at most", 1.5))
    report_memory(results, work, rounds)
    report_size(results, work, bench)
    report_idle(results, work, bench)
    bench.drop()
    return rows / median(r["tidemark"].seconds for r in rounds)


def report_size(results, work, bench):
    table = bench.value("SELECT pg_table_size('rows')")
    results.add(work, "store's file / pg_table_size", bench.store_bytes() / table, "", ("at most", 1.4))


def report_idle(results, work, bench):
    daemon = bench.start()
    time.sleep(3)
    results.add(work, "anonymous memory of the idle daemon", harness.anonymous_kib(daemon.pid) / 1024, "MiB",
                ("at most", 16))
    bench.stop(daemon)


# ---- (b), (c), (d) ----

def stream_rounds(results, name, bench, sql_of):
    rounds = []
    for i in range(ROUNDS):
        rounds.append(bench.round(i, sql_of(i)))
        results.keep(name, **seconds(rounds[-1]))
    return rounds


def report_stream(results, work, rounds, rows, limit, native, cpu):
    results.add(work, "x pg_recvlogical to /dev/null", ratios(rounds, "limit"), "", limit)
    if "native" in rounds[0]:
        results.add(work, "x native replication", ratios(rounds, "native"), "", native)
    names = [("tidemark", "tidemark"), ("limit", "pg_recvlogical"), ("native", "native")]
    report_speed(results, work, rounds, rows, names)
    report_cpu(results, work, rounds, rows, cpu)
    report_memory(results, work, rounds)


def insert_rows(first, count):
    return f"INSERT INTO rows SELECT {ROW} FROM generate_series({first}, {first + count - 1}) i"


def large(results, source, peer):
    """One large transaction; then a larger one, for its memory."""
    rows = scaled(1000000)
    work = f"(b) one transaction of {rows:,} rows"
    bench = Bench(source, peer, "large", ROWS_SCHEMA)
    bench.attach()
    rounds = stream_rounds(results, "large", bench, lambda i: insert_rows(1 + i * rows, rows))
    report_stream(results, work, rounds, rows, ("at least", 1.0), ("at least", 2.0), ("at most", 4.0))
    bench.settle()
    if peer:
        bench.unsubscribe()
    _, end = bench.burst(insert_rows(1 + ROUNDS * rows, 5 * rows))
    most = bench.tidemark("--until", end)
    results.keep("large", five_times=round(most.seconds, 3), peak_kib=most.peak_kib)
    results.add(work, f"peak anonymous memory, {5 * rows:,} rows", most.peak_kib / 1024, "MiB", ("at most", 64))
    bench.drop()


def small(results, source, peer):
    """Many small transactions, random keys and keys in order."""
    table, count = scaled(2000000), scaled(200000)
    bench = Bench(source, peer, "small", ROWS_SCHEMA)
    fill(bench, 1, table)
    bench.attach()
    work = f"(c) {count:,} transactions of one row, random keys of {table:,}"
    key = f"1 + (random() * {table - 1})::bigint"
    rounds = stream_rounds(results, "small", bench, lambda i: UPDATES.format(count=count, key=key))
    report_stream(results, work, rounds, count, ("at least", 0.95), ("at least", 1.3), None)
    work = f"(d) {count:,} transactions of one row, keys in order"
    rounds = stream_rounds(results, "ordered", bench, lambda i: UPDATES.format(
        count=count, key=f"{i % (table // count) * count} + i"))
    report_stream(results, work, rounds, count, ("at least", 0.97), None, ("at most", 4.0))
    bench.drop()


# ---- (e) ----

def fdatasync_us(path, rate, count=300):
    """Of one page, written over: what a commit cannot be without. At the pace of the commits, since one right behind
    another is quicker."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    os.pwrite(fd, bytes(4096 * 16), 0)
    os.fsync(fd)
    took = []
    for i in range(count):
        time.sleep(1 / rate)
        os.pwrite(fd, os.urandom(4096), 4096 * (i % 16))
        began = time.monotonic()
        os.fdatasync(fd)
        took.append((time.monotonic() - began) * 1e6)
    os.close(fd)
    return median(took)


BEAT = "CREATE TABLE beat (id bigint PRIMARY KEY, n bigint)"
BEAT_SQL = "INSERT INTO beat VALUES ($1, $2)"


def beat(bench, rate, connections, duration):
    """Commits at that rate, and the process that looks for each of them in the store."""
    times = lab.place("times")
    bench.sql("DELETE FROM beat")
    bench.at_end()
    watch = Helper(LOOK, "visible", bench.store, "beat", times, rate * duration)
    writers = load(bench.source, bench.db, BEAT_SQL, rate, connections, duration, 1000, times)
    return writers, watch


def latency(results, source, peer):
    """From COMMIT to readable. The source is in memory: its disk is not what is measured."""
    work, rate, duration = "(e) commit to visible, 500 transactions a second", 500, 8
    samples = []
    with Server("latency", settings=SOURCE) as quick:
        bench = Bench(quick, None, "latency", BEAT)
        daemon = bench.start()
        bench.wait_streaming()
        for _ in range(ROUNDS):
            sync = fdatasync_us(os.path.join(bench.store, "sync"), rate)
            writers, watch = beat(bench, rate, 8, duration)
            seen = watch.finish()
            writers.finish()
            samples.append((sync, seen))
            results.keep("latency", fdatasync_us=round(sync, 1), **seen)
        peak = bench.stop(daemon)
    for name, factor in (("p50", 2), ("p99", 5)):
        limit = median(sync * factor + 2000 for sync, _ in samples)
        results.add(work, name, median(seen[f"{name}_us"] for _, seen in samples) / 1000, "ms",
                    ("at most", round(limit / 1000, 2)))
    results.add(work, "one fdatasync", median(sync for sync, _ in samples) / 1000, "ms")
    results.add(work, "peak anonymous memory", peak, "MiB", ("at most", 64))


# ---- (f), and what the source's own clients feel ----

def resnapshot(results, source, peer):
    """All rows again, under the load of single-row updates; the lag is that of a row committed every 20 ms."""
    rows, rate = scaled(3000000), 2000
    work = f"(f) re-snapshot of {rows:,} rows, {rate:,} random updates a second"
    bench = Bench(source, None, "again", f"{ROWS_SCHEMA}; {BEAT}")
    fill(bench, 1, rows)
    samples = []
    for _ in range(ROUNDS):
        first = copy_once(bench).seconds
        samples.append((first, *resnapshot_once(bench, rows, rate)))
        results.keep("resnapshot", copy=round(first, 3), again=samples[-1][1], lag=samples[-1][2])
    results.add(work, "x the first copy, without load", median(s[0] / s[1] for s in samples), "", ("at least", 0.3))
    results.add(work, "longest from COMMIT to visible", max(s[2]["max_us"] for s in samples) / 1e6, "s",
                ("at most", 2))
    results.add(work, "peak anonymous memory", max(s[3] for s in samples), "MiB", ("at most", 64))
    bench.drop()


UPDATE = "UPDATE rows SET n = $1 % 1000 WHERE id = $2"


def resnapshot_once(bench, rows, rate):
    """Seconds it took, how long commits took to be seen meanwhile, and the daemon's memory."""
    daemon = bench.start()
    bench.wait_streaming()
    writers = load(bench.source, bench.db, UPDATE, rate, 4, 3600, rows)
    beats, watch = beat(bench, 50, 1, 600)
    run = Helper(LOOK, "progress", bench.store, "rows")
    bench.resnapshot()
    took = run.finish()["seconds"]
    beats.finish(stop=True)
    seen = watch.finish()
    writers.finish(stop=True)
    return took, seen, bench.stop(daemon)


def foreground(results, source, peer):
    """An application's UPDATE, with a re-snapshot and without. The store is on another disk (in memory) here."""
    rows, rate = scaled(3000000), 200
    work = f"An UPDATE on the source, {rate} a second, during a re-snapshot of {rows:,} rows"
    bench = Bench(source, None, "foreground", f"{ROWS_SCHEMA}; {BEAT}")
    bench.store = lab.place("store", harness.memory_disk())
    fill(bench, 1, rows)
    bench.tidemark("--until", "caught-up")
    daemon = bench.start()
    bench.wait_streaming()
    samples = []
    for _ in range(ROUNDS):
        without = load(source, bench.db, UPDATE, rate, 4, 6, rows).finish()
        writers = load(source, bench.db, UPDATE, rate, 4, 3600, rows)
        run = Helper(LOOK, "progress", bench.store, "rows")
        time.sleep(0.55)  # what load leaves out
        bench.resnapshot()
        run.finish()
        samples.append((without, writers.finish(stop=True)))
        results.keep("foreground", without=without, during=samples[-1][1])
    bench.stop(daemon)
    results.add(work, "p99 during / p99 without", median(d["p99_us"] / w["p99_us"] for w, d in samples), "",
                ("at most", 1.5))
    for i, name in enumerate(("without", "during")):
        results.add(work, f"p99 {name}", median(s[i]["p99_us"] for s in samples) / 1000, "ms")
    bench.drop()


# ---- (g) ----

def reads(results, source, peer):
    """Scans and point reads by another process while random updates are applied."""
    rows, rate = scaled(2000000), 2000
    work = f"(g) reads of {rows:,} rows while {rate:,} random updates a second are applied"
    bench = Bench(source, None, "reads", ROWS_SCHEMA)
    fill(bench, 1, rows)
    bench.tidemark("--until", "caught-up")
    daemon = bench.start()
    bench.wait_streaming()
    writers = load(source, bench.db, UPDATE, rate, 4, 3600, rows)
    samples = []
    for i in range(ROUNDS):
        ways = rotated(["scan", "plain", "points"], i)
        seen = {way: look(way, bench.store, "rows", *([rows, 200000] if way == "points" else [])) for way in ways}
        samples.append(seen)
        results.keep("reads", **seen)
    writers.finish(stop=True)
    peak = bench.stop(daemon)
    ratio = median(s["plain"]["seconds"] / s["scan"]["seconds"] for s in samples)
    results.add(work, "scan, x a plain LMDB scan", ratio, "", ("at least", 0.8))
    results.add(work, "scan", median(rows / s["scan"]["seconds"] for s in samples), "rows/s")
    results.add(work, "one row by key, warm", median(s["points"]["us"] for s in samples), "us", ("at most", 3))
    results.add(work, "peak anonymous memory", peak, "MiB", ("at most", 64))
    bench.drop()


# ---- growth ----

def slope(samples, first, last):
    """Rows a second while between first and last: least squares."""
    points = [(t, n) for t, n in samples if first <= n <= last]
    mt, mn = (sum(p[i] for p in points) / len(points) for i in (0, 1))
    return sum((t - mt) * (n - mn) for t, n in points) / sum((t - mt) ** 2 for t, _ in points)


def growth(results, source, peer):
    """What a chunk costs where the table begins and where it ends."""
    rows = scaled(10000000)
    work = f"Growth: copy of {rows:,} rows"
    bench = Bench(source, None, "growth", ROWS_SCHEMA)
    fill(bench, 1, rows)
    samples = []
    for _ in range(min(ROUNDS, 3)):
        bench.new_store()
        daemon = bench.start()
        bench.wait_streaming()
        seen = Helper(LOOK, "progress", bench.store, "rows").finish()["samples"]
        bench.stop(daemon)
        samples.append((slope(seen, rows * 0.02, rows * 0.2), slope(seen, rows * 0.8, rows * 0.98)))
        results.keep("growth", rows_per_second_first=samples[-1][0], rows_per_second_last=samples[-1][1])
    results.add(work, "time of a chunk, last fifth / first fifth", median(a / b for a, b in samples), "",
                ("at most", 1.1))
    bench.drop()


# ---- the program ----

def size(results, source, peer):
    """The program without its symbols."""
    stripped = lab.place("stripped")
    lab.run_measured(["strip", "-o", stripped, harness.PROGRAM])
    results.add("The program", "size, stripped", os.stat(stripped).st_size / 1e6, "MB", ("at most", 1.0))


ALL = {f.__name__: f for f in (size, copy, large, small, latency, resnapshot, reads, foreground, growth)}
