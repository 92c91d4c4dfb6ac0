#!/usr/bin/python3
"""Measures Tidemark against what limits it and against PostgreSQL's own logical replication.

    tests/bench/run.py [RESULT.json]

On servers that it starts, on the disk of TMPDIR. Every figure that is compared comes from rounds in which each of the
compared goes once, in turn; ratios are made inside a round, and what is shown is their median. BENCH_SCALE (1) shrinks
the tables, BENCH_ONLY ("copy large small latency resnapshot reads foreground growth size") chooses, BENCH_ROUNDS (5).
"""

import json
import os
import platform
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import lab  # noqa: E402
import works  # noqa: E402
from harness import Failure, Server, find_pgbin, server_major  # noqa: E402
from lab import DEFAULTS, SCALE, SOURCE, say  # noqa: E402


def machine():
    with open("/proc/cpuinfo") as f:
        model = next((line.split(":")[1].strip() for line in f if line.startswith("model name")), platform.machine())
    with open("/proc/meminfo") as f:
        memory = int(f.readline().split()[1]) / 2**20
    return {"cpu": model, "cores": os.cpu_count(), "memory_gib": round(memory, 1), "kernel": platform.release(),
            "postgresql": server_major(), "load_at_start": os.getloadavg()[0]}


def chosen():
    words = os.environ.get("BENCH_ONLY", "").split() or list(works.ALL)
    unknown = set(words) - set(works.ALL)
    if unknown:
        sys.exit(f"BENCH_ONLY: there is no {' '.join(sorted(unknown))}; there are {' '.join(works.ALL)}")
    return words


def write(path, results, began):
    if not path:
        return
    with open(path, "w") as f:
        json.dump({"machine": machine(), "scale": SCALE, "rounds": lab.ROUNDS, "seconds": round(time.time() - began),
                   "failed": results.failed, "figures": results.figures, "samples": results.samples}, f, indent=1)


def main():
    path = os.path.abspath(sys.argv[1]) if len(sys.argv) > 1 else None
    words, results, began = chosen(), lab.Results(), time.time()
    say(f"{machine()}, scale {SCALE}, {lab.ROUNDS} rounds, servers of {find_pgbin()}")
    with Server("source", settings=SOURCE, fsync=True, fresh=True) as source, \
            Server("peer", settings=DEFAULTS, fsync=True, fresh=True) as peer:
        for word in words:
            say(f"{word}: {works.ALL[word].__doc__}")
            try:
                works.ALL[word](results, source, peer)
            except Failure as e:
                results.failed.append(word)
                say(f"  FAILED: {e}")
            write(path, results, began)
    print(results.table())
    missed = sum(f["reached"] is False for f in results.figures)
    print(f"\n{sum(bool(f['reached']) for f in results.figures)} goals reached, {missed} not reached"
          + "".join(f"; {word} failed" for word in results.failed))
    return 1 if results.failed else 0


if __name__ == "__main__":
    sys.exit(main())
