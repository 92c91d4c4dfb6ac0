#!/usr/bin/python3
"""Inputs for the fuzz targets to begin with.

    seeds.py DIR                        writes DIR/TARGET/... from the golden messages and tests/fuzz/corpus
    seeds.py --keep TARGET FILE...      adds inputs to tests/fuzz/corpus/TARGET.hex (TIDEMARK_FUZZ_WHY: a comment)

tests/fuzz/corpus/TARGET.hex has one input a line, in hex. Those behind a
comment once broke what the comment says.
"""
import hashlib
import os
import struct
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
GOLDEN = os.path.join(HERE, "..", "golden", "pgoutput.txt")
CORPUS = os.path.join(HERE, "corpus")


def golden():
    """Each message of the recording, and its name."""
    with open(GOLDEN) as f:
        for line in f:
            if not line.startswith("#"):
                name, text = line.split()
                yield name, bytes.fromhex(text)


def feed_slice(b):
    return (bytes([len(b)]) if len(b) < 0x80 else struct.pack(">H", 0x8000 | len(b))) + b


def pgoutput():
    for _, m in golden():
        yield m
        yield b"w" + struct.pack(">QQQ", 0x1000, 0x2000, 0) + m
    yield b"k" + struct.pack(">QQB", 0x1000, 0, 1)


# ---- changes: the steps of fuzz_changes.c ----

RAW, BEGIN, COMMIT, RELATION, INSERT, UPDATE, DELETE = 0, 1, 2, 3, 4, 6, 8
TRUNCATE, POSITION, OPENING, REPLY, SETTLE, STORE, RUN, RESTART, KILL = 9, 10, 11, 12, 15, 16, 17, 18, 19
SESSION = bytes([0, 0, 1])
GATED = bytes([8, 0, 1, 0, 0])
UNCHANGED = 0o11111


def insert(table, key, values=0o2345):
    return struct.pack(">BBBH", INSERT, table, key, values)


def update(table, how, key, values=UNCHANGED, old=None):
    b = struct.pack(">BBBBH", UPDATE, table, how, key, values)
    return b + struct.pack(">BH", old, 0) if how & 4 else b


def delete(table, key):
    return struct.pack(">BBBBH", DELETE, table, 0, key, 0)


def transaction(*steps):
    return bytes([OPENING, 16, 1]) + b"".join(steps) + bytes([COMMIT, 8, SETTLE])


def chunk(*keys):
    """The whole answer to whatever is asked next: a snapshot that sees everything, and these rows."""
    rows = b"".join(struct.pack(">BH", k, 0o2345) for k in keys)
    return bytes([REPLY, 5, len(keys), 0, 0, 0, 4]) + rows + bytes([3])


def forward(n=40):
    return bytes([POSITION, n, SETTLE])


def changes():
    begin = struct.pack(">BQQI", ord("B"), 0x1000100, 0, 701)
    raw = [bytes([RAW]) + feed_slice(m) for name, m in golden() if name[-1] not in "BC" and len(m) < 300]
    yield SESSION + bytes([RAW]) + feed_slice(begin) + b"".join(raw)
    for i in range(0, len(raw), 4):
        yield SESSION + transaction(*raw[i:i + 4])
    yield SESSION + transaction(*(insert(t, k) for t in range(5) for k in (1, 9, 10, 11)))
    yield SESSION + transaction(*(insert(t, 2) + update(t, 0, 2) + update(t, 5, 10, old=2) for t in range(5)))
    yield SESSION + transaction(insert(0, 1), update(0, 0, 3), update(4, 2, 11)) + (chunk(1, 3) + forward()) * 6
    yield SESSION + transaction(insert(0, 1), bytes([TRUNCATE, 31]), insert(0, 2)) + bytes([KILL, 1, 64]) + SESSION
    yield SESSION + (chunk(1, 2, 3) + forward()) * 12 + bytes([RUN, 0x41]) + (chunk(2) + forward()) * 8
    yield SESSION + chunk(1, 2) + transaction(update(0, 0, 1), delete(0, 2)) + forward() + chunk(3)
    yield GATED + (chunk(1) + forward()) * 6 + bytes([STORE, RESTART, 0]) + bytes([0, 31, 9]) + chunk(2) + forward()
    yield SESSION + bytes([BEGIN, 0, 0, RELATION, 0, RELATION, 4]) + insert(0, 1) + bytes([KILL, 0]) + SESSION


def copier():
    """The steps of fuzz_copier.c."""
    whole = bytes([12, 2, 0, 0, 0, 0]) + bytes([1, 2, 0, 0, 9])
    yield bytes([9, 9, 0]) + bytes([1, 0, 1, 1, 1, 2]) + (whole + bytes([3, 1, 9])) * 5
    yield bytes([9, 9, 2]) + bytes([1, 0xC0]) + whole + bytes([3, 1, 9, 3, 0, 1, 5, 0x10, 5, 0x28, 4, 9, 9, 0x85])


# ---- texts ----

def lines(*texts):
    return [t.encode() for t in texts]


def snapshots():
    for a, b in ((":1:", "10:20:12,15"), ("700:700:", "700:702:701"), ("10:20:10,11,12", "9:21:9,20")):
        yield bytes([2]) + struct.pack(">I", 12) + a.encode() + b"\0" + b.encode()


def keys():
    for kind in range(11):
        yield bytes([0, kind]) + bytes(range(1, 60))
        yield bytes([1, kind, 9]) + bytes(range(200, 255)) + bytes(40)
    for text in ("2024-02-29", "0044-03-15 BC", "infinity"):
        yield bytes([0, 5, 1]) + feed_slice(text.encode()) + b"\1" + feed_slice(b"-infinity")
    for text in ("2024-02-29 23:59:59.5", "0044-03-15 00:00:00 BC"):
        yield bytes([0, 6, 1]) + feed_slice(text.encode()) + b"\1" + feed_slice(text.encode())
        yield bytes([0, 7, 1]) + feed_slice(text.replace(" BC", "+00 BC").encode()) + b"\0" + bytes(8)


def lineages():
    same = bytes([0xF, 7, 1]) + bytes(4) + b"\x50" + bytes([2]) + bytes(3) + b"\x10\0" + bytes(3) + b"\0\x40"
    yield same + b"1\t0/1000\tno recovery target specified\n\n2\t0/2000\twhy\n"


def options():
    ini = b"[tidemark]\nrows = 12 ; comment\nlog-format = json\nverify = x\njson = yes\n"
    for where in range(3):
        yield bytes([where | 4 | 0x60]) + b"host=h password=\0 port=1\0--rows=7\0--no-sync\0arg\0" + ini


def conninfos():
    for how in range(6):
        yield bytes([how]) + b"a\0b\0host=h,i port=1,2 dbname=d service=s\0"
        yield bytes([how]) + b"a\0b\0[::1]:5432/sales?connect_timeout=3&hostaddr=1.2.3.4\0"
        yield bytes([how]) + b"p/\0:#\0"


def outputs():
    yield bytes([0, 5, 0, 0, 0, 3]) + b'1.5' + bytes([5, 1]) + b"j\0" + feed_slice(b'{"a": [1, "\\u00e9"]}') + bytes(20)
    yield bytes([1]) + bytes(8) + b"msg\0value with = and \"\\\n\0" + "tëxt\0".encode() + bytes(24)


GENERATED = {
    "pgoutput": pgoutput,
    "changes": changes,
    "copier": copier,
    "lsn": lambda: lines("0/0", "16/B374D848", "FFFFFFFF/FFFFFFFF", "0/", "123456789/0", "x/1"),
    "snapshot": snapshots,
    "key": keys,
    "lineage": lineages,
    "names": lambda: lines('\0Orders\0public\0orders', '\0shop."Order.s"\0shop\0Order.s', '\0a*.b?, "x""y"\0ab\0bc',
                           '\1"a,b",3\0', '\0*.*\0x\0y'),
    "options": options,
    "conninfo": conninfos,
    "output": outputs,
    "sql": lambda: lines('\3plain\0it\'s "quoted"\0back\\slash\0'),
    "shape": lambda: lines("16390/16384/1:728,2:728/d163881/public.t\00016390/16399/1:730,2:728/d163881/public.t"),
    "stored": lambda: [bytes([0, 0, n, 4, 20, 1, 1, 0xFF]) for n in range(0, 120, 5)],
}


def kept(target):
    path = os.path.join(CORPUS, target + ".hex")
    if os.path.exists(path):
        with open(path) as f:
            for line in f:
                if line.strip() and not line.startswith("#"):
                    yield bytes.fromhex(line)


def write(directory):
    kinds = set(GENERATED) | {os.path.splitext(n)[0] for n in os.listdir(CORPUS)}
    for target in sorted(kinds):
        to = os.path.join(directory, target)
        os.makedirs(to, exist_ok=True)
        for i, b in enumerate(GENERATED[target]() if target in GENERATED else ()):
            put(to, "made-%03d" % i, b)
        for i, b in enumerate(kept(target)):
            put(to, "kept-%03d" % i, b)


def put(directory, name, b):
    with open(os.path.join(directory, name), "wb") as f:
        f.write(b)


def keep(target, files):
    have = {hashlib.sha1(b).digest() for b in kept(target)}
    why = os.environ.get("TIDEMARK_FUZZ_WHY")
    with open(os.path.join(CORPUS, target + ".hex"), "a") as out:
        if why:
            out.write("# %s\n" % why)
        for name in files:
            with open(name, "rb") as f:
                b = f.read()
            if hashlib.sha1(b).digest() not in have:
                out.write(b.hex() + "\n")


if __name__ == "__main__":
    if len(sys.argv) == 2 and sys.argv[1] != "--keep":
        write(sys.argv[1])
    elif len(sys.argv) > 3 and sys.argv[1] == "--keep":
        keep(sys.argv[2], sys.argv[3:])
    else:
        sys.exit(__doc__)
