"""Power losses, simulated: every write and sync of a real daemon is recorded, then data.mdb is made as it can be
after the power went at one of them.

What was written before the last sync that returned is there. Of what was written later any part is: each
sector or page has the content before any of these writes, or after one of them, and the file any length in between.
"""

import os
import struct
import time

from faults import Look, faulty
from harness import Server, Tidemark, check, lsn_text, place, rng, timeout

HEADER = struct.Struct("<QQQQ")
META = 8192         # LMDB's two meta pages; what is written there is short, and commits
LOSSES = 600


def read_record(path):
    """[(kind, at, bytes, durable)]"""
    events = []
    with open(path, "rb") as f:
        while head := f.read(HEADER.size):
            kind, at, length, durable = HEADER.unpack(head)
            events.append((chr(kind), at, f.read(length), bool(durable)))
    return events


def overlay(image, at, data):
    if len(image) < at + len(data):
        image.extend(bytes(at + len(data) - len(image)))
    image[at:at + len(data)] = data


class Disk:
    """data.mdb as the program sees it, and what of it is certain to survive."""

    def __init__(self):
        self.seen, self.certain, self.pending = bytearray(), bytearray(), []

    def take(self, event):
        kind, at, data, durable = event
        if kind == "w":
            overlay(self.seen, at, data)
            if durable:
                overlay(self.certain, at, data)
            else:
                self.pending.append((at, data))
        elif kind == "s":
            for at, data in self.pending:
                overlay(self.certain, at, data)
            self.pending = []

    def after_loss(self, draw):
        """One of the files there can be."""
        image = bytearray(self.certain)
        block, share = draw.choice((512, 4096)), draw.choice((0, 0.1, 0.5, 0.9, 1))
        longest = max([len(image), *(at + len(data) for at, data in self.pending)])
        blocks = {}
        for at, data in self.pending:
            for b in range(at // block, (at + len(data) - 1) // block + 1):
                blocks.setdefault(b, []).append((at, data))
        for b, writes in sorted(blocks.items()):
            if draw.random() < share:
                writes = writes[:draw.randint(1, len(writes))]
                for at, data in writes:
                    start, end = max(at, b * block), min(at + len(data), (b + 1) * block)
                    overlay(image, start, data[start - at:end - at])
        if len(image) < longest and draw.random() < 0.5:
            image.extend(bytes(draw.randint(0, longest - len(image))))
        return image


def is_commit(event):
    return event[0] == "w" and event[1] < META and len(event[2]) < 512


def put(path, image):
    with open(path, "wb") as f:
        f.write(image)


def record_a_life(server, path):
    """A copy and a stream with pauses, an end in good order, a kill, and beginnings after both."""
    draw = rng("power loss", "life")
    server.sql("CREATE TABLE t (id int PRIMARY KEY, v text); CREATE TABLE u (k text PRIMARY KEY, n int);"
               "INSERT INTO t SELECT g, repeat(md5(g::text), 1 + g % 90) FROM generate_series(1, 150) g;"
               "INSERT INTO u SELECT md5(g::text), g FROM generate_series(1, 100) g")
    changes = (
        "UPDATE t SET v = md5(v) WHERE id = %s", "DELETE FROM t WHERE id = %s", "UPDATE u SET n = n + 1 WHERE n %% 7 = %s %% 7",
        "INSERT INTO t SELECT %s, repeat('new', 900) ON CONFLICT DO NOTHING", "UPDATE t SET v = v || v WHERE id = %s",
        "TRUNCATE u; INSERT INTO u SELECT md5(g::text), g FROM generate_series(1, %s) g")
    with Tidemark(server, ["t", "u"], env=faulty(record=path), args=["--chunk-rows", 40]) as tm:
        tm.start()
        tm.wait_live("t", "u")
        for n in range(140):
            server.sql(draw.choices(changes, (6, 4, 3, 4, 2, 1))[0], draw.randint(1, 200))
            time.sleep(draw.choice((0, 0.005, 0.02, 0.09)))
            if n == 70:
                tm.stop()
                tm.start()
            elif n == 100:
                tm.kill()
                tm.start()
        tm.equal("t", "u")
        tm.stop()


def lose_power(events, at, disk, known, told, draw, looks, store):
    """One loss behind event number `at`. known: digests of all commits that were begun, told: the highest LSN acknowledged."""
    put(os.path.join(store, "data.mdb"), disk.after_loss(draw))
    def where():
        return f"power lost behind event {at} of {len(events)}"
    for look in looks:
        seen = look.at(store)
        check(not seen["error"], lambda: f"{where()}: the store cannot be opened: {seen['error']}")
        check(not seen["problem"], lambda: f"{where()}: it contradicts itself: {seen['problem']}")
        check(seen["digest"] in known[-2:], lambda: f"{where()}: it shows "
              + ("an older commit" if seen["digest"] in known else "a state that there never was"))
        check(seen["checkpoint"] >= told, lambda: f"{where()}: acknowledged up to {lsn_text(told)}, and it is at "
              f"{lsn_text(seen['checkpoint'])}")


@timeout(180)
def test_power_losses():
    draw = rng("power loss")
    path, store = place("record"), place("lost")
    with Server() as server:
        record_a_life(server, path)
    events = read_record(path)
    begin = next(i for i, e in enumerate(events) if e[0] == "r")
    base = next(e[1] for e in events if e[0] == "a")
    commits = sum(map(is_commit, events[begin:]))
    syncs = sum(e[0] == "s" for e in events[begin:])
    check(commits > 50 and syncs > commits, f"{commits} commits and {syncs} syncs: nothing was tested")
    check(len({e[1] for e in events if e[0] == "a"}) > 20, "hardly anything was acknowledged: nothing was tested")

    chosen = set(draw.sample(range(begin, len(events)), min(LOSSES, len(events) - begin)))
    os.mkdir(store)
    disk, known, told, losses = Disk(), [], 0, 0
    with Look() as look, Look("write") as writer:
        for i, event in enumerate(events):
            disk.take(event)
            if event[0] == "a" and event[1] > base:
                told = max(told, event[1])
            if i == begin or (i > begin and is_commit(event)):
                put(os.path.join(store, "data.mdb"), disk.seen)
                known.append(look.good(store)["digest"])
            if i in chosen:
                losses += 1
                lose_power(events, i, disk, known, told, draw, (look, writer) if losses % 3 == 0 else (look,), store)
    check(len(set(known)) > 40, "the commits do not differ: nothing was tested")
    print(f"       {losses} losses among {len(events) - begin} events and {commits} commits")
