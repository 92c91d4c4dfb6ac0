"""Five tables copied while eight writers change them, and streamed after it."""

import time

from harness import MemoryWatch, Server, Tidemark, check, is_sanitized, scaled, timeout, until
from workload import TABLES, Workload

MEMORY_LIMIT_KIB = 64 * 1024


def copy_under_load(*args, rows, seconds):
    with Server() as server:
        load = Workload(server, rows=rows)
        load.create()
        with load, Tidemark(server, TABLES, args=args) as tm:
            began = time.monotonic()
            tm.start()
            memory = MemoryWatch(tm.pid)
            memory.start()
            until("copying", lambda: tm.rows_read("big") > 0, timeout=30)
            tm.wait_live(*TABLES, timeout=scaled(120))
            took = time.monotonic() - began
            time.sleep(seconds)
            done = load.stop()
            tm.equal(*TABLES)
            peak = memory.stop()
            check(peak < MEMORY_LIMIT_KIB or is_sanitized(), f"peak anonymous memory was {peak} KiB")
            tm.stop()
            tm.start()
            tm.equal(*TABLES)
            print(f"       {rows} rows live after {took:.1f} s, {done} transactions, "
                  f"{peak} KiB anonymous at most")


@timeout(300)
def test_default_chunks():
    copy_under_load(rows=scaled(200000), seconds=5)


@timeout(300)
def test_small_chunks():
    """Many windows: writers meet every one of them."""
    copy_under_load("--chunk-rows", 100, rows=scaled(50000), seconds=2)
