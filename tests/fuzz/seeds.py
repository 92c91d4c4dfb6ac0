#!/usr/bin/python3
"""Inputs for the fuzz targets to begin with.

    seeds.py DIR                        writes DIR/TARGET/... from what tests/golden has of real servers, and tests/fuzz/corpus
    seeds.py --keep TARGET FILE...      adds inputs to tests/fuzz/corpus/TARGET.hex (TIDEMARK_FUZZ_WHY: a comment)

tests/fuzz/corpus/TARGET.hex has one input a line, in hex. Those behind a
comment once broke what the comment says.
"""
import hashlib
import json
import os
import re
import struct
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
GOLDEN = os.path.join(HERE, "..", "golden", "pgoutput.txt")
ANSWERS = os.path.join(HERE, "..", "golden", "answers.txt")
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
UNCHANGED = 0o11111


def step(*numbers):
    return bytes(numbers) + b"\xfe"


def word(n):
    return n >> 8, n & 0xFF


SESSION = step(0, 0, 1)
GATED = step(8, 0, 1, 0, 0)


def raw(m):
    return bytes([RAW]) + m.replace(b"\xfe", b"\xff") + b"\xfe"


def insert(table, key, values=0o2325):
    return step(INSERT, table, key, *word(values))


def update(table, how, key, values=UNCHANGED, old=None):
    """how: 0 without the old row, 1 its key, 2 the whole; 4 more: of another key."""
    return step(UPDATE, table, how, key, *word(values), *((old, 0, 0) if how & 4 else ()))


def delete(table, key):
    return step(DELETE, table, 0, key, 0, 0)


def transaction(*steps):
    return step(OPENING, 16, 1) + b"".join(steps) + step(COMMIT, 8) + step(SETTLE)


def chunk(*keys):
    """The whole answer to what is asked next: a snapshot that sees everything, these rows, and H passed."""
    rows = [n for k in keys for n in (k, *word(0o2325))]
    return step(REPLY, 5, len(keys), 0, 8, 0, 4, *rows, 3) + step(POSITION, 40) + step(SETTLE)


def changes():
    messages = [raw(m) for name, m in golden() if name[-1] not in "BC" and len(m) < 300]
    for i in range(0, len(messages), 6):
        yield SESSION + transaction(*messages[i:i + 6])
    yield SESSION + transaction(*(insert(t, k) for t in range(5) for k in (1, 9, 10, 11)))
    yield SESSION + transaction(*(insert(t, 2) + update(t, 0, 2) + update(t, 5, 10, old=2) for t in range(5)))
    yield SESSION + transaction(insert(0, 1), update(0, 0, 3), update(4, 2, 11)) + chunk() * 6 + chunk(3) * 4
    yield SESSION + chunk() * 5 + transaction(update(0, 0, 1), update(4, 0, 10)) + chunk() * 2 + chunk(1) + chunk(10) * 2
    yield SESSION + transaction(insert(0, 1), step(TRUNCATE, 31), insert(0, 2)) + step(KILL, 1, 64) + SESSION
    yield SESSION + chunk(1, 2, 3) * 6 + step(RUN, 0x41) + transaction(insert(0, 9)) + chunk(2) * 3 + chunk() * 2 + chunk(2) * 3
    yield SESSION + chunk(1, 2) + transaction(update(0, 0, 1), delete(0, 2)) + chunk(3)
    yield GATED + chunk(1) * 6 + step(STORE) + step(RESTART, 0) + step(0, 31, 9) + chunk(2) * 6
    yield SESSION + step(BEGIN, 0, 0) + step(RELATION, 0) + insert(0, 1) + step(KILL, 0) + SESSION


def copier():
    """The steps of fuzz_copier.c."""
    def whole(*keys):
        return step(12, len(keys), 0, 8, 0, 0, *keys, 0, 0, 9)

    on = step(3, 1, 200)
    yield step(9, 9, 0) + step(1, 0) + step(1, 1) + step(1, 2) + (whole(1, 2) + on) * 5
    yield step(9, 9, 2) + step(1, 0xC0) + whole() + on + (step(10, 0x80) + step(7, 0x30, 1, 49, 0, 107) + whole() + on) * 3
    yield step(9, 9, 0) + step(6, 0, 2) + (step(10, 0x80) + step(7, 0x30, 1, 49, 0, 107) + whole(1) + on) * 3


# ---- attach: the answers of real servers, as fuzz_attach.c takes them ----

def answers():
    """Each recording: its situation, the server's version, and the answers."""
    with open(ANSWERS) as f:
        for line in f:
            name, text = line.split(" ", 1)
            situation, major = name.split(".")
            yield situation, int(major), json.loads(text)


def answer(columns, rows):
    if columns == 0 and rows:  # libpq makes no such rows for others
        columns, rows = 1, [["t"] for _ in rows]
    values = [v for r in rows for v in r]
    taken = (b"\x80" if v is None else struct.pack("BB", 0xFF, len(v.encode())) + v.encode() for v in values)
    return bytes([columns, len(rows)]) + b"".join(taken) + b"\xfe"


def of_our_store(columns, rows):
    """The store of fuzz_attach.c is of system 1, with its checkpoint at 0/1000."""
    def put(v):
        if columns == 8 and re.fullmatch("[0-9A-F]+/[0-9A-F]+", v or ""):
            return "0/1000"
        return "1" if re.fullmatch("[0-9]{19}", v or "") else v
    return columns, [[put(v) for v in r] for r in rows]


def attachments():
    for situation, major, found in answers():
        goes_on = situation in ("again", "altered")
        how = (1 if major >= 18 else 2 if major >= 16 else 0) | (8 | 16 if goes_on else 4)
        steps = [(columns, rows) for columns, *rows in found]
        yield bytes([how]) + b"".join(answer(*(of_our_store(*a) if goes_on else a)) for a in steps)


# ---- query: what arrives, in the letters of fuzz_query.c ----

def queries():
    ok, snapshot, rows = [2, 0], [4, 3, 1, 2, 1, 4, 0], [4, 3, 2, 6, 9, 9, 7, 9, 9, 0]
    chunk_answers = [3, *ok, *ok, *snapshot, *ok, *rows, *ok, 1]
    page = [3, *ok, *ok, *snapshot, *rows, *ok, 1]
    yield step(*chunk_answers) + step(2, 20) + step(*page) + step(2, 20) + step(1, 4, 1, 1, 6, 0, 1) + step(0, *ok, 1)
    for state in range(8):
        yield step(3, *ok, 3, state, 0, 0xFC, 0, 0xFC, 0, 0xFC, 0, 0xFC, 0, 1) + step(2, 1, *ok, 1, *ok, 1) + step(*chunk_answers)


# ---- file: how much is cut off, then edits: page, offset, length, bytes ----

def files():
    edit = lambda page, offset, b: struct.pack(">HHB", page, offset, len(b)) + b
    for cut in (0, 1, 40, 0x8001):
        yield struct.pack(">HB", cut, 0)
    zero, ones = bytes(8), b"\xff" * 8
    for offset in (0, 10, 12, 16, 24, 40, 64, 72, 88, 112, 120, 136, 144):  # fields of a page's head and of a meta page
        for b in (zero, ones):
            yield struct.pack(">HB", 0, 2) + edit(0, offset, b) + edit(1, offset, b)
    for page in range(2, 40, 3):
        yield struct.pack(">HB", 0, 1) + edit(page, 10, b"\2\0\x10\0\x20")


# ---- texts ----

def lines(*texts):
    return [t.encode() for t in texts]


def snapshots():
    real = {v for _, _, found in answers() for _, *rows in found for r in rows for v in r if re.fullmatch("[0-9]+:[0-9]+:[0-9,]*", v or "")}
    for a, b in zip(sorted(real), sorted(real)[1:]):
        yield bytes([2]) + struct.pack(">I", 12) + a.encode() + b"\0" + b.encode()
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


def requests():
    start = '{"command": "start", "tables": ["public.a"%s], %s}'
    yield from lines(*(start % ("", more) for more in (
        '"id": "fix-1", "where": "n = 1", "sweep": "count"', '"from": ["a", -5], "to": ["b", ""]',
        '"keys": [[1], ["2"], [true]], "requester": "me"', '"chunk_time_ms": 50, "max_rows_per_second": 1000',
        '"sweep": "off", "id": "7"', '"from": [1.5]', '"were": "x"')))
    yield from lines(start % (', "b.\\u0043"', '"where": "\\"x\\" > 1"'), "[]", "{} {}")
    for verb in ("pause", "resume", "stop"):
        yield from lines('{"command": "%s", "targets": ["fix-1", "7", "public.a"]}' % verb, '{"command": "%s", "all": true}' % verb)


def signals():
    """Messages, and rows of the columns id, type and data."""
    for r in requests():
        yield b"\0" + r
    of_rows = (("ad-hoc-1", "execute-snapshot", '{"data-collections": ["public.A", "shop.b.c", "lone"], "type": "INCREMENTAL", '
                '"additional-conditions": [{"data-collection": "public.A", "filter": "color=1"}]}'),
               ("17", "execute-snapshot", '{"data-collections": ["public.\\"a.b\\""], "type": "blocking", "additional-condition": "x > 1"}'),
               ("1", "stop-snapshot", ""), ("1", "pause-snapshot", '{"data-collections": ["public.a"]}'),
               ("x", "resume-snapshot", "{}"), ("y", "log", '{"message": "hello {}"}'))
    for i, t, d in of_rows:
        yield b"\1" + b"\0".join(x.encode() for x in (i, t, d)) + b"\0"
        yield b"\3" + b"\0".join(x.encode() for x in ("", t, d)) + b"\0"
        yield b"\0" + ('{"id": "%s", "type": "%s", "data": %s}' % (i, t, d or "{}")).encode()


def conninfos():
    for how in range(6):
        yield bytes([how]) + b"a\0b\0host=h,i port=1,2 dbname=d service=s\0"
        yield bytes([how]) + b"a\0b\0[::1]:5432/sales?connect_timeout=3&hostaddr=1.2.3.4\0"
        yield bytes([how]) + b"p/\0:#\0"


def outputs():
    yield bytes([0, 5, 0, 0, 0, 3]) + b'1.5' + bytes([5, 1]) + b"j\0" + feed_slice(b'{"a": [1, "\\u00e9"]}') + bytes(20)
    yield bytes([1]) + bytes(8) + b"msg\0value with = and \"\\\n\0" + "tëxt\0".encode() + bytes(24)


def shapes():
    real = [r[3] for _, _, found in answers() for _, *rows in found for r in rows if len(r) == 4 and r[3] and r[3].count("/") > 2]
    for a, b in zip(real, real[1:]):
        yield a.encode() + b"\0" + b.encode()


GENERATED = {
    "pgoutput": pgoutput,
    "changes": changes,
    "copier": copier,
    "attach": attachments,
    "query": queries,
    "file": files,
    "lsn": lambda: lines("0/0", "16/B374D848", "FFFFFFFF/FFFFFFFF", "0/", "123456789/0", "x/1"),
    "snapshot": snapshots,
    "key": keys,
    "lineage": lineages,
    "names": lambda: lines('\0Orders\0public\0orders', '\0shop."Order.s"\0shop\0Order.s', '\0a*.b?, "x""y"\0ab\0bc',
                           '\1"a,b",3\0', '\0*.*\0x\0y'),
    "options": options,
    "conninfo": conninfos,
    "request": requests,
    "signal": signals,
    "output": outputs,
    "sql": lambda: lines('\3plain\0it\'s "quoted"\0back\\slash\0'),
    "shape": shapes,
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
