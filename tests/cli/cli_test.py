#!/usr/bin/python3
"""The reading commands against stores that make_store writes: no PostgreSQL.

    tests/cli/cli_test.py BUILD [TEST...]      BUILD has tidemark and cli/make_store
"""

import csv
import fcntl
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.dont_write_bytecode = True
BUILD = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "build")
PROGRAM = os.path.join(BUILD, "tidemark")
MAKER = os.path.join(BUILD, "cli", "make_store")
EXIT_OK, EXIT_RUNTIME, EXIT_USAGE, EXIT_GAP, EXIT_DIFFERENCE, EXIT_STORE = range(6)
BOOL, INT8, INT2, INT4, TEXT, JSON, FLOAT8, NUMERIC, JSONB = 16, 20, 21, 23, 25, 114, 701, 1700, 3802
ABSENT = object()


def escape(value):
    """As COPY text writes it."""
    if value is None:
        return "\\N"
    if value is ABSENT:
        return "\\A"
    value = str(value)
    for c, e in (("\\", "\\\\"), ("\b", "\\b"), ("\f", "\\f"), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t"), ("\v", "\\v")):
        value = value.replace(c, e)
    return value


class Maker:
    """make_store, kept running: it holds the store's lock as a daemon does."""

    def __init__(self, directory):
        self.directory = directory
        self.process = subprocess.Popen([MAKER, directory], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.lsn = 0x1000000

    def send(self, *words):
        self.process.stdin.write("\t".join(escape(w) for w in words).encode() + b"\n")

    def _finish(self):
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        assert answer == b"ok\n", answer

    def table(self, number, name, columns, keys, *, schema="public", state=2, version=1):
        self.send("table", number, 16000 + number, schema, name, state)
        self.schema(number, columns, keys, version)

    def schema(self, number, columns, keys, version):
        names = [c[0] for c in columns]
        self.send("schema", number, version, len(keys), *(names.index(k) for k in keys),
                  *(word for c in columns for word in c))

    def begin(self):
        self.lsn += 0x100
        self.send("at", lsn_text(self.lsn))

    def commit(self):
        """Returns the commit's end LSN."""
        self.send("commit", lsn_text(self.lsn), lsn_text(self.lsn + 0x40), 700, 1700000000123456)
        self._finish()
        return lsn_text(self.lsn + 0x40)

    def rows(self, number, *rows):
        self.begin()
        for row in rows:
            self.send("upsert", number, *row)
        return self.commit()

    def step(self, word):
        self.send(word)
        self._finish()

    def position(self, lsn):
        self.send("position", lsn)
        self._finish()

    def close(self):
        self.process.stdin.close()
        self.process.stdout.close()
        assert self.process.wait() == 0


def lsn_text(v):
    return f"{v >> 32:X}/{v & 0xffffffff:X}"


class Result:
    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err


def tidemark(*args, **kw):
    r = subprocess.run([PROGRAM, *map(str, args)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                       stdin=subprocess.DEVNULL, timeout=60, **kw)
    return Result(r.returncode, r.stdout, r.stderr.decode())


COLUMNS = [("id", INT4, "integer"), ("name", TEXT, "text"), ("n", NUMERIC, "numeric"), ("f", FLOAT8, "double precision"),
           ("big", INT8, "bigint"), ("ok", BOOL, "boolean"), ("j", JSON, "json"), ("jb", JSONB, "jsonb")]
ALL_CONTROLS = "".join(map(chr, range(1, 32))) + "\x7f\\\"',"
ROWS = [
    (-5, "minus five", "-1.50", "1e+20", "-9223372036854775808", "f", "[1,\n 2]", '{"a": 1}'),
    (1, "", "0", "-0", "9223372036854775807", "t", "null", "null"),
    (2, None, None, None, None, None, None, None),
    (3, ALL_CONTROLS, "NaN", "NaN", "0", "t", '"\\n"', '"x"'),
    (4, "é€🐘\u2028\u0085", "123456789012345678901234567890.123456789", "-Infinity", "1", "f", "{}", "[]"),
    (5, "\\N", "Infinity", "0.1", "2", "t", ' {"k" : "v"} ', "1.00"),
    (6, "=1+1, \"quoted\"\r\nsecond line", "1e5", "1e-05", "3", "t", "true", "0"),
]
NAMES = [c[0] for c in COLUMNS]


def expected_object(row):
    """What Python's parser must find in the JSON of a row of ROWS; numbers as their text."""
    out = {}
    for (name, oid, _), v in zip(COLUMNS, row):
        if v is None:
            out[name] = None
        elif oid == BOOL:
            out[name] = v == "t"
        elif oid in (JSON, JSONB):
            out[name] = parse(v)
        elif oid == TEXT or v in ("NaN", "Infinity", "-Infinity"):
            out[name] = v
        else:
            out[name] = ("number", str(v))
    return out


def parse(text):
    def refuse(word):
        raise ValueError(f"{word} is not JSON")
    def number(digits):
        return ("number", digits)
    return json.loads(text, parse_float=number, parse_int=number, parse_constant=refuse)


class Store(unittest.TestCase):
    """One store for all tests that only read."""

    @classmethod
    def setUpClass(cls):
        cls.base = tempfile.mkdtemp()
        cls.store = os.path.join(cls.base, "store")
        m = Maker(cls.store)
        m.send("lineage", 7312345678901234567, 3, "tm_slot", "tm_pub", "db.example:5432/app", 150004)
        m.table(1, "t", COLUMNS, ["id"])
        m.table(2, "pair", [("v", TEXT, "text"), ("b", TEXT, "text"), ("a", INT4, "integer")], ["a", "b"])
        m.table(3, 'Odd "Name".x', [("k", TEXT, "text")], ["k"], schema="Shop é")
        m.table(4, "new", [("id", INT4, "integer"), ("v", TEXT, "text")], ["id"], state=1)
        m.table(5, "gone", [("id", INT4, "integer")], ["id"], state=3)
        m.table(6, "changed", [("id", INT4, "integer"), ("v", TEXT, "text")], ["id"])
        m.table(7, "meta", [("_tidemark", INT4, "integer"), ("_lsn", TEXT, "text")], ["_tidemark"])
        m.table(8, "t", [("id", INT4, "integer")], ["id"], schema="other")
        m.table(9, "empty", [("id", INT4, "integer")], ["id"])
        m.table(10, "doubtful", [("id", INT4, "integer"), ("v", TEXT, "text")], ["id"])
        m.rows(1, *ROWS, (7, "deleted", *[None] * 6))
        m.begin()
        m.send("delete", 1, 7)
        m.commit()
        m.rows(2, ("r1", "x", 1), ("r2", "a,b", 1), ("r3", "", 2), ("r4", "a,b", 2), ("r5", 'say "hi"', 2), ("r6", "z", 10))
        m.rows(3, ("one",), ("",), ("t\tab",), ("x" * 600 + "1",), ("x" * 600 + "2",))
        m.rows(6, (1, "hello"), (2, "[1]"), (3, None))
        m.schema(6, [("id", INT4, "integer"), ("v", JSON, "json"), ("added", INT4, "integer")], ["id"], 2)
        m.rows(7, (1, "x"))
        m.rows(10, (1, "whole"), (2, ABSENT))
        m.send("run", 1, 1, 1, "run", 1700000000000000)
        m.send("chunk", 1, 1, "700:702:700", "0/2000000", 1234)
        m.send("runstate", 1, 1, 3, 1700000005000000)
        for i in range(2, 10):
            m.send("run", i, 2, 2, "someone", 1700000000000000 + i)
            m.send("runstate", i, 2, 3 if i != 5 else 4, 1700000000000000 + 100 * i)
        m.send("run", 10, 4, 1, "run", int(time.time() * 1e6))
        cls.end = m.rows(8, (1,))
        m.close()

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.base)

    def run_ok(self, name, *args):
        r = tidemark(name, "--store", self.store, *args)
        self.assertEqual((r.code, r.err), (EXIT_OK, ""), args)
        return r.out

    def refuse(self, code, words, name, *args):
        r = tidemark(name, "--store", self.store, *args)
        self.assertEqual((r.code, r.out), (code, b""), (args, r.err))
        self.assertEqual(r.err.count("\n"), 1, r.err)
        for word in words:
            self.assertIn(word, r.err)

    def keys(self, *args):
        return [json.loads(line)["v"] for line in self.run_ok("scan", "pair", *args).splitlines()]

    # ---- get ----

    def test_get(self):
        for row in ROWS:
            out = self.run_ok("get", "t", row[0]).decode()
            self.assertTrue(out.endswith("\n") and out.count("\n") == 1)
            self.assertEqual(parse(out), expected_object(row))
            self.assertEqual(list(parse(out)), NAMES)

    def test_get_formats(self):
        self.assertEqual(self.run_ok("get", "pair", "2", "a,b", "--format", "csv"), b'v,b,a\r\nr4,"a,b",2\r\n')
        self.assertEqual(self.run_ok("get", "pair", "2", "", "--format", "copy"), b"r3\t\t2\n")
        meta = json.loads(self.run_ok("get", "pair", "2", "", "--with-meta"))["_tidemark"]
        self.assertEqual({**meta, "lsn": 0}, {"lsn": 0, "ordinal": 3, "epoch": 0, "version": 1, "doubt": False})
        self.assertRegex(meta["lsn"], r"^0/10[0-9A-F]+$")

    def test_get_absent(self):
        self.refuse(EXIT_RUNTIME, ["public.t has no row with key (42)"], "get", "t", 42)
        self.refuse(EXIT_RUNTIME, ["public.t has no row with key (7)"], "get", "t", 7)
        self.refuse(EXIT_RUNTIME, ["public.pair has no row with key (1, no)"], "get", "pair", 1, "no")
        self.refuse(EXIT_RUNTIME, ["(2)"], "get", "doubtful", 2)

    def test_get_usage(self):
        self.refuse(EXIT_USAGE, ["a integer, b text", "public.pair", "1 value"], "get", "pair", 1)
        self.refuse(EXIT_USAGE, ["id integer", "2 values"], "get", "t", 1, 2)
        self.refuse(EXIT_USAGE, ["TABLE"], "get", "t")
        self.refuse(EXIT_USAGE, [], "get", "t", "abc")
        self.refuse(EXIT_USAGE, [], "get", "t", "")
        self.refuse(EXIT_USAGE, ["format"], "get", "t", 1, "--format", "xml")
        self.refuse(EXIT_USAGE, ["copy"], "get", "t", 1, "--format", "copy", "--with-meta")

    def test_long_keys(self):
        for last in "12":
            key = "x" * 600 + last
            self.assertEqual(json.loads(self.run_ok("get", '"Shop é"."Odd ""Name"".x"', key)), {"k": key})
        self.refuse(EXIT_RUNTIME, ["no row"], "get", '"Shop é"."Odd ""Name"".x"', "x" * 600 + "3")

    def test_unknown_table(self):
        self.refuse(EXIT_USAGE, ["public.pairs", "did you mean public.pair?"], "scan", "pairs")
        self.refuse(EXIT_USAGE, ["other.t", "public.t"], "scan", "nowhere.t")
        self.refuse(EXIT_USAGE, ["public.xyzzyx", "tidemark tables"], "get", "xyzzyx", 1)
        self.refuse(EXIT_USAGE, ['"'], "scan", '"open')
        self.refuse(EXIT_USAGE, [], "scan", "a.b.c")

    # ---- scan ----

    def test_scan_json(self):
        lines = self.run_ok("scan", "t").decode().split("\n")
        self.assertEqual(lines.pop(), "")
        self.assertEqual([parse(line) for line in lines], [expected_object(row) for row in ROWS])
        self.assertNotIn("\r", "".join(lines))

    def test_scan_csv(self):
        out = self.run_ok("scan", "t", "--format", "csv")
        rows = list(csv.reader(io.StringIO(out.decode(), newline="")))
        self.assertEqual(rows[0], NAMES)
        self.assertEqual(rows[1:], [["" if v is None else str(v) for v in row] for row in ROWS])
        self.assertIn(b'\r\n1,"",0,', out)    # the empty string
        self.assertIn(b"\r\n2,,,,,,,\r\n", out)  # NULL

    def test_scan_copy(self):
        want = "".join("\t".join(escape(v) for v in row) + "\n" for row in ROWS)
        self.assertEqual(self.run_ok("scan", "t", "--format", "copy"), want.encode())

    def test_scan_meta(self):
        rows = [json.loads(line) for line in self.run_ok("scan", "t", "--with-meta").splitlines()]
        self.assertEqual([r["_tidemark"]["ordinal"] for r in rows], list(range(1, 8)))
        header, first = self.run_ok("scan", "t", "--with-meta", "--format", "csv").decode().split("\r\n")[:2]
        self.assertEqual(header, "_lsn,_ordinal,_epoch,_version,_doubt," + ",".join(NAMES))
        self.assertRegex(first, r"^0/10[0-9A-F]+,1,0,1,f,-5,minus five,")
        self.refuse(EXIT_USAGE, ["_tidemark"], "scan", "meta", "--with-meta")
        self.refuse(EXIT_USAGE, ["_lsn"], "scan", "meta", "--with-meta", "--format", "csv")
        self.refuse(EXIT_USAGE, ["copy"], "scan", "t", "--with-meta", "--format", "copy")

    def test_scan_bounds(self):
        def ids(*args):
            return [json.loads(line)["id"] for line in self.run_ok("scan", "t", *args).splitlines()]
        self.assertEqual(ids("--from", 3), [3, 4, 5, 6])
        self.assertEqual(ids("--to=-5"), [-5])
        self.assertEqual(ids("--from", -4, "--to", 2), [1, 2])
        self.assertEqual(ids("--from", 7, "--to", 7), [])
        self.assertEqual(ids("--from", 5, "--to", 4), [])
        self.assertEqual(ids("--limit", 2), [-5, 1])
        self.assertEqual(ids("--limit", 0), [])
        self.assertEqual(ids("--from", 4, "--limit", 100), [4, 5, 6])

    def test_scan_composite(self):
        self.assertEqual(self.keys(), ["r2", "r1", "r3", "r4", "r5", "r6"])
        self.assertEqual(self.keys("--from", "2", "--to", "2"), ["r3", "r4", "r5"])
        self.assertEqual(self.keys("--from", '2,"a,b"'), ["r4", "r5", "r6"])
        self.assertEqual(self.keys("--from", '2,"say ""hi"""'), ["r5", "r6"])
        self.assertEqual(self.keys("--to", "2,"), ["r2", "r1", "r3"])
        self.assertEqual(self.keys("--from", "1,b", "--to", '2,"a,b"'), ["r1", "r3", "r4"])
        self.refuse(EXIT_USAGE, ["--from", "a integer, b text"], "scan", "pair", "--from", "1,2,3")
        self.refuse(EXIT_USAGE, ["--to", "quotes"], "scan", "pair", "--to", '1,"x')
        self.refuse(EXIT_USAGE, [], "scan", "pair", "--from", "one")
        self.refuse(EXIT_USAGE, ["limit"], "scan", "pair", "--limit", "-1")
        self.refuse(EXIT_USAGE, ["TABLE"], "scan")
        self.refuse(EXIT_USAGE, ["TABLE"], "scan", "pair", "t")

    def test_scan_empty(self):
        self.assertEqual(self.run_ok("scan", "empty"), b"")
        self.assertEqual(self.run_ok("scan", "empty", "--format", "copy"), b"")
        self.assertEqual(self.run_ok("scan", "empty", "--format", "csv"), b"id\r\n")

    def test_scan_after_change_of_type(self):
        """A text from before must not break the JSON; a column from after has no value."""
        rows = [json.loads(line) for line in self.run_ok("scan", "changed").splitlines()]
        self.assertEqual([r["v"] for r in rows], ["hello", [1], None])
        self.assertEqual([r["added"] for r in rows], [None] * 3)

    def test_scan_hides_incomplete(self):
        self.assertEqual(self.run_ok("scan", "doubtful", "--format", "copy"), b"1\twhole\n")

    def test_scan_environment(self):
        r = tidemark("scan", "empty", "--format", "csv", env={**os.environ, "TIDEMARK_STORE": self.store})
        self.assertEqual((r.code, r.out), (EXIT_OK, b"id\r\n"))

    def test_output_fails(self):
        with open("/dev/full", "wb") as full:
            r = subprocess.run([PROGRAM, "scan", "--store", self.store, "t"], stdout=full, stderr=subprocess.PIPE)
        self.assertEqual(r.returncode, EXIT_RUNTIME)
        self.assertIn(b"No space left", r.stderr)

    # ---- tables and status ----

    def test_tables_json(self):
        tables = [json.loads(line) for line in self.run_ok("tables", "--json").splitlines()]
        names = [(t["schema"], t["table"]) for t in tables]
        self.assertEqual(names, sorted(names))
        by_name = dict(zip(names, tables))
        t = by_name["public", "t"]
        self.assertEqual((t["state"], t["rows"], t["markers"], t["in_doubt"], t["hidden"]), ("live", 7, 1, 0, 0))
        self.assertEqual((t["id"], t["oid"], t["schema_version"]), (1, 16001, 1))
        self.assertRegex(t["last_change_lsn"], r"^0/10[0-9A-F]+$")
        self.assertIsNone(by_name["public", "empty"]["last_change_lsn"])
        self.assertEqual(by_name["public", "new"]["state"], "copying")
        self.assertEqual(by_name["public", "gone"]["state"], "left")
        d = by_name["public", "doubtful"]
        self.assertEqual((d["state"], d["rows"], d["in_doubt"], d["hidden"]), ("in doubt", 1, 1, 1))
        self.assertIn(("Shop é", 'Odd "Name".x'), by_name)

    def test_tables_text(self):
        lines = self.run_ok("tables").decode().split("\n")
        self.assertEqual(lines.pop(), "")
        self.assertEqual(re.split(r"  +", lines[0]), ["TABLE", "STATE", "ROWS", "IN DOUBT", "MARKERS", "LAST CHANGE"])
        self.assertEqual(len(lines), 11)
        at = lines[0].index("LAST CHANGE")
        for line in lines[1:]:
            self.assertEqual(line[at - 2:at], "  ", line)
            self.assertNotEqual(line[at], " ", line)
        self.assertTrue(any(line.startswith('"Shop é"."Odd ""Name"".x"  live') for line in lines))
        for line in lines[1:]:  # a name as printed is a name as taken
            name = re.split(r"  +", line)[0]
            self.run_ok("scan", name)

    def status(self):
        lines = self.run_ok("status", "--json").splitlines()
        self.assertEqual(len(lines), 1)
        return json.loads(lines[0])

    def test_status_json(self):
        s = self.status()
        self.assertEqual(s["store"], self.store)
        self.assertRegex(s["store_id"], r"^[0-9a-f]{32}$")
        self.assertEqual(s["daemon"], {"state": "not running", "pid": None})
        self.assertEqual(s["source"], {"address": "db.example:5432/app", "version": 150004, "timeline": 3,
                                       "system_id": "7312345678901234567", "slot": "tm_slot", "publication": "tm_pub"})
        c = s["checkpoint"]
        self.assertEqual((c["lsn"], c["epoch"], c["commit_time"]), (self.end, 0, "2023-11-14T22:13:20.123456Z"))
        self.assertTrue(0 <= c["written_age_s"] < 300)
        self.assertEqual(s["tables"], {"count": 10, "live": 7, "copying": 1, "in_doubt": 1, "left": 1})
        self.assertEqual(s["unseen"], 8)
        self.assertTrue(0 < s["file"]["used_bytes"] <= s["file"]["bytes"])
        self.assertEqual(s["file"]["bytes"], os.path.getsize(os.path.join(self.store, "data.mdb")))
        self.assertIsNone(s["readers"]["oldest_pid"])
        self.assertGreater(s["readers"]["max"], 1)
        self.assertEqual(s["warnings"], [])

    def test_status_runs(self):
        """The open one and the last five that ended."""
        runs = {r["id"]: r for r in self.status()["runs"]}
        self.assertEqual(list(runs), [1, 6, 7, 8, 9, 10])
        self.assertEqual((runs[1]["state"], runs[1]["kind"], runs[1]["rows_read"], runs[1]["chunks"]), ("done", "initial", 1234, 1))
        self.assertEqual((runs[1]["table"], runs[1]["schema"], runs[1]["table_id"]), ("t", "public", 1))
        self.assertEqual((runs[1]["first_snapshot"], runs[1]["last_high_lsn"]), ("700:702:700", "0/2000000"))
        self.assertEqual((runs[1]["started"], runs[1]["ended"]), ("2023-11-14T22:13:20.000000Z", "2023-11-14T22:13:25.000000Z"))
        self.assertEqual((runs[10]["state"], runs[10]["ended"], runs[10]["requester"]), ("copying", None, "run"))

    def test_status_text(self):
        out = self.run_ok("status").decode()
        for words in (self.store, "not running", "db.example:5432/app, PostgreSQL 15.4", "system identifier 7312345678901234567",
                      "timeline 3", "tm_slot", "tm_pub", self.end, "2023-11-14T22:13:20.123456Z", "7 live, 1 copying, 1 in doubt, 1 left",
                      "public.t: initial, done: 1234 rows read in 1 chunk;", "took 5.0 s"):
            self.assertIn(words, out)
        self.assertRegex(out, r"written [0-9.]+ (s|min).* ago")
        self.assertNotIn("warning", out)

    def test_help(self):
        for name in ("get", "scan", "tables", "status", "wait"):
            r = tidemark(name, "--help")
            self.assertEqual((r.code, r.err), (EXIT_OK, ""))
            self.assertIn("--store", r.out.decode())
            self.assertTrue(max(map(len, r.out.decode().split("\n"))) <= 110)

    # ---- wait ----

    def test_wait(self):
        self.run_ok("wait", "0/1")
        self.run_ok("wait", "0/0")
        self.run_ok("wait", self.end)
        began = time.monotonic()
        self.refuse(EXIT_RUNTIME, ["0/FFFFFF00", self.end, "no daemon"], "wait", "0/FFFFFF00", "--timeout", 1)
        self.assertTrue(0.9 < time.monotonic() - began < 10)
        self.refuse(EXIT_RUNTIME, [], "wait", "1/0", "--timeout", 0)

    def test_wait_usage(self):
        for word in ("", "0", "0/", "/1", "0/1x", " 0/1", "0/1 ", "0/123456789", "caught-up", "g/1", "0x0/1"):
            self.refuse(EXIT_USAGE, ["LSN"], "wait", word)
        self.refuse(EXIT_USAGE, ["LSN"], "wait")
        self.refuse(EXIT_USAGE, ["LSN"], "wait", "0/1", "0/2")
        self.refuse(EXIT_USAGE, ["timeout"], "wait", "0/1", "--timeout", "soon")
        self.refuse(EXIT_USAGE, ["timeout"], "wait", "0/1", "--timeout", "-1")


class Live(unittest.TestCase):
    """A store of its own for each test, and something that writes to it."""

    def setUp(self):
        self.base = tempfile.mkdtemp()
        self.store = os.path.join(self.base, "store")
        self.maker = None

    def tearDown(self):
        if self.maker:
            self.maker.close()
        shutil.rmtree(self.base)

    def make(self):
        self.maker = Maker(self.store)
        self.maker.table(1, "t", [("id", INT4, "integer"), ("a", TEXT, "text"), ("b", INT8, "bigint")], ["id"])
        return self.maker

    def start(self, *args):
        return subprocess.Popen([PROGRAM, *map(str, args)], stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def finish(self, process, timeout=20):
        out, err = process.communicate(timeout=timeout)
        return Result(process.returncode, out, err.decode())

    def test_no_store(self):
        for how in ("absent", "empty"):
            for args in (("get", "t", 1), ("scan", "t"), ("tables",), ("status",), ("wait", "0/1"), ("wait", "0/1", "--timeout", 0),
                         ("snapshot", "start", "t"), ("snapshot", "list"), ("snapshot", "stop", "x")):
                r = tidemark(args[0], "--store", self.store, *args[1:])
                self.assertEqual((r.code, r.out), (EXIT_STORE, b""), (how, args, r.err))
                self.assertEqual(r.err, f"tidemark: {self.store} has no store: start `tidemark run` first\n")
            if how == "absent":
                self.assertFalse(os.path.exists(self.store))
                os.mkdir(self.store)
        self.assertEqual(os.listdir(self.store), [])

    def test_damaged_store(self):
        os.mkdir(self.store)
        with open(os.path.join(self.store, "data.mdb"), "wb") as f:
            f.write(b"The quick brown fox\n" * 1000)
        for args in (("get", "t", 1), ("scan", "t"), ("tables",), ("status",), ("wait", "0/1")):
            r = tidemark(args[0], "--store", self.store, *args[1:])
            self.assertEqual((r.code, r.out), (EXIT_STORE, b""), r.err)
            self.assertIn(self.store, r.err)

    def test_wait_for_a_commit(self):
        m = self.make()
        m.rows(1, (1, "x", 1))
        target = lsn_text(m.lsn + 0x100 + 0x40)
        waiting = self.start("wait", "--store", self.store, target, "--timeout", 30)
        time.sleep(0.3)
        self.assertIsNone(waiting.poll())
        self.assertEqual(m.rows(1, (2, "y", 2)), target)
        r = self.finish(waiting)
        self.assertEqual((r.code, r.out, r.err), (EXIT_OK, b"", ""))
        self.assertEqual(tidemark("get", "--store", self.store, "t", 2).code, EXIT_OK)

    def snapshot(self, *words):
        return tidemark("snapshot", words[0], "--store", self.store, *words[1:])

    def test_requests_without_a_daemon(self):
        m = self.make()
        m.rows(1, (1, "x", 1))
        m.close()
        self.maker = None
        r = self.snapshot("start", "t", "--from", "-5", "--to", 7, "--where", "a = 'x'", "--id", "fix")
        self.assertEqual((r.code, r.out, r.err), (EXIT_OK, b"run 1 of public.t: accepted\n", ""))
        self.assertEqual(self.snapshot("start", "t", "--id", "fix").out, b"run 1 of public.t: copying\n")
        self.assertEqual(self.snapshot("pause", "fix").out, b"run 1 of public.t: paused\n")
        answer = json.loads(self.snapshot("start", "public.t", "--json").out)
        self.assertTrue(answer["ok"] and answer["runs"] == [{"run": 2, "table": "public.t", "state": "copying", "new": True}])
        self.assertEqual(self.snapshot("stop", 2).code, EXIT_OK)
        runs = [json.loads(line) for line in self.snapshot("list", "--json").out.splitlines()]
        self.assertEqual([(x["name"], x["state"], x["from"], x["to"], x["where"], x["sweep"]) for x in runs],
                         [("fix", "paused", "-5", "7", "a = 'x'", "on"), (answer["id"], "stopped", None, None, None, "on")])
        text = self.snapshot("list").out.decode()
        self.assertIn("as fix, paused, keys from -5 to 7, where a = 'x': 0 rows read", text)
        self.assertIn("; stopped on request of user ", text)
        for words, because in ((("start", "nope"), "no table nope"), (("start", "t", "--from", "x"), "column id (integer)"),
                               (("start", "t", "--from", 2, "--to", 1), "behind"), (("stop", "nobody"), "no run nobody")):
            r = self.snapshot(*words)
            self.assertEqual((r.code, r.out, r.err.count("\n")), (EXIT_USAGE, b"", 1), r.err)
            self.assertIn(because, r.err)

    def test_request_of_a_daemon_that_does_not_listen(self):
        self.make().rows(1, (1, "x", 1))
        r = self.snapshot("start", "t")
        self.assertEqual((r.code, r.out), (EXIT_STORE, b""), r.err)

    def test_wait_behind_a_page_header(self):
        """The insert position skips the header of a page that the last record filled up to."""
        m = self.make()
        m.position("0/4000000")
        self.assertEqual(tidemark("wait", "--store", self.store, "0/4000018", "--timeout", 0).code, EXIT_OK)
        self.assertEqual(tidemark("wait", "--store", self.store, "0/4000019", "--timeout", 0).code, EXIT_RUNTIME)
        self.assertEqual(tidemark("wait", "--store", self.store, "0/4002018", "--timeout", 0).code, EXIT_RUNTIME)

    def read(self, name, *args):
        r = tidemark(name, "--store", self.store, *args)
        self.assertEqual((r.code, r.err), (EXIT_OK, ""))
        return r.out

    def check_rows(self, want):
        rows = [(str(k) + "\t" + a + "\t1\n").encode() for k, a in sorted(want.items())]
        self.assertEqual(self.read("scan", "t", "--format", "copy"), b"".join(rows))
        self.assertEqual(self.read("scan", "t", "--format", "copy", "--from", 2, "--to", 4),
                         b"".join(r for r in rows if b"2" <= r[:1] <= b"4"))
        for k in range(7):
            r = tidemark("get", "--store", self.store, "t", k, "--format", "copy")
            self.assertEqual(r.out, (str(k) + "\t" + want[k] + "\t1\n").encode() if k in want else b"")
        self.assertEqual(json.loads(self.read("tables", "--json"))["rows"], len(want))

    def large(self):
        return json.loads(self.read("status", "--json"))["large_transaction"]

    def test_large_transaction(self):
        m = self.make()
        m.rows(1, (1, "old", 1), (3, "old", 1), (5, "old", 1))
        before = {1: "old", 3: "old", 5: "old"}
        self.assertIsNone(self.large())
        m.send("stage")
        m.begin()
        m.send("upsert", 1, 2, "new", 1)
        m.send("upsert", 1, 3, "new", 1)
        m.step("part")
        m.send("delete", 1, 5)
        m.step("part")
        self.check_rows(before)
        self.assertEqual(self.large(), {"phase": "staged", "rows": 3})
        self.assertIn("a large one is being received, 3 rows of it so far", self.read("status").decode())
        end = m.commit()
        after = {1: "old", 2: "new", 3: "new"}
        self.assertEqual(self.large(), {"phase": "moving", "rows": 3})
        self.assertIn("3 rows of it are being moved", self.read("status").decode())
        self.read("wait", end)
        while self.large():
            self.check_rows(after)
            m.step("move")
        self.check_rows(after)

    def test_wait_for_a_store(self):
        waiting = self.start("wait", "--store", self.store, "0/1000000", "--timeout", 30)
        time.sleep(0.3)
        self.assertIsNone(waiting.poll())
        m = self.make()
        time.sleep(0.2)
        self.assertIsNone(waiting.poll())
        m.rows(1, (1, "x", 1))
        r = self.finish(waiting)
        self.assertEqual((r.code, r.err), (EXIT_OK, ""))

    def test_wait_is_polite(self):
        m = self.make()
        m.rows(1, (1, "x", 1))
        waiting = self.start("wait", "--store", self.store, "1/0")
        time.sleep(2)
        with open(f"/proc/{waiting.pid}/stat") as f:
            fields = f.read().rsplit(")", 1)[1].split()
        self.assertLess((int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"), 0.2)
        s = json.loads(tidemark("status", "--store", self.store, "--json").out)
        for i in range(20):
            m.rows(1, (i, "y", i))
        time.sleep(0.2)
        s = json.loads(tidemark("status", "--store", self.store, "--json").out)
        self.assertLess(s["readers"]["oldest_behind"] or 0, 20)
        waiting.kill()
        self.finish(waiting)

    def test_daemon_is_seen(self):
        m = self.make()
        m.rows(1, (1, "x", 1))
        s = json.loads(tidemark("status", "--store", self.store, "--json").out)
        self.assertEqual(s["daemon"], {"state": "running", "pid": m.process.pid})
        self.assertIn(f"running, pid {m.process.pid}", tidemark("status", "--store", self.store).out.decode())
        self.assertNotIn("no daemon", tidemark("wait", "--store", self.store, "1/0", "--timeout", 0).err)
        m.process.kill()
        m.process.wait()
        m.process.stdin.close()
        m.process.stdout.close()
        self.maker = None
        s = json.loads(tidemark("status", "--store", self.store, "--json").out)
        self.assertEqual(s["daemon"]["state"], "not running")

    def test_status_takes_no_lock(self):
        """A writer can still start right after, and status leaves the directory as it was."""
        m = self.make()
        m.rows(1, (1, "x", 1))
        m.close()
        self.maker = None
        before = {n: os.stat(os.path.join(self.store, n)).st_mtime_ns for n in ("data.mdb", "tidemark.lock")}
        self.assertEqual(tidemark("status", "--store", self.store).code, EXIT_OK)
        after = {n: os.stat(os.path.join(self.store, n)).st_mtime_ns for n in ("data.mdb", "tidemark.lock")}
        self.assertEqual(before, after)
        with open(os.path.join(self.store, "tidemark.lock")) as f:
            fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def test_before_the_first_checkpoint(self):
        self.make()
        self.maker.process.stdin.flush()
        time.sleep(0.2)
        s = json.loads(tidemark("status", "--store", self.store, "--json").out)
        self.assertEqual((s["checkpoint"], s["source"], s["runs"], s["tables"]["count"]), (None, None, [], 0))
        out = tidemark("status", "--store", self.store).out.decode()
        self.assertIn("checkpoint   none yet", out)
        self.assertEqual(tidemark("tables", "--store", self.store, "--json").out, b"")
        self.assertEqual(tidemark("wait", "--store", self.store, "0/1", "--timeout", 0).code, EXIT_RUNTIME)
        r = tidemark("scan", "--store", self.store, "t")
        self.assertEqual(r.code, EXIT_USAGE)

    def fill(self, rows):
        m = self.make()
        m.begin()
        m.send("fill", 1, 1, rows)
        m.commit()
        return m

    def test_reader_of_the_pipe_goes_away(self):
        self.fill(200000)
        scanning = self.start("scan", "--store", self.store, "t")
        self.assertEqual(scanning.stdout.readline(), b'{"id":1,"a":"1","b":1}\n')
        scanning.stdout.close()
        self.assertEqual(scanning.stderr.read(), b"")
        scanning.stderr.close()
        self.assertEqual(scanning.wait(20), EXIT_OK)

    def test_one_state_and_the_old_reader(self):
        """A scan under way does not see later commits; status names it when it holds the store back."""
        m = self.fill(100000)
        scanning = self.start("scan", "--store", self.store, "t", "--format", "copy")
        self.assertEqual(scanning.stdout.readline(), b"1\t1\t1\n")
        for i in range(1100):
            m.rows(1, (100000 - i, "changed", 0))
        s = json.loads(tidemark("status", "--store", self.store, "--json").out)
        self.assertEqual(s["readers"]["oldest_pid"], scanning.pid)
        self.assertGreaterEqual(s["readers"]["oldest_behind"], 1000)
        self.assertEqual(len(s["warnings"]), 1)
        self.assertIn(str(scanning.pid), s["warnings"][0])
        self.assertIn(f"warning      process {scanning.pid} ", tidemark("status", "--store", self.store).out.decode())
        rest = scanning.stdout.read()
        self.assertEqual(self.finish(scanning).code, EXIT_OK)
        self.assertEqual(rest.count(b"\n"), 99999)
        self.assertNotIn(b"changed", rest)
        self.assertEqual(tidemark("scan", "--store", self.store, "t", "--format", "copy").out.count(b"changed"), 1100)

    def test_all_rows_of_a_big_table(self):
        self.fill(300000)
        out = tidemark("scan", "--store", self.store, "t", "--format", "copy").out
        self.assertEqual(out, b"".join(b"%d\t%d\t%d\n" % (i, i, i) for i in range(1, 300001)))

    def test_huge_value(self):
        m = self.make()
        big = "é\n\"\\x" * 2000000
        m.rows(1, (1, big, 0))
        self.assertEqual(json.loads(tidemark("get", "--store", self.store, "t", 1).out)["a"], big)
        copied = tidemark("scan", "--store", self.store, "t", "--format", "copy").out
        self.assertEqual(copied.decode(), f"1\t{escape(big)}\t0\n")
        rows = csv.reader(io.StringIO(tidemark("get", "--store", self.store, "t", 1, "--format", "csv").out.decode(), newline=""))
        csv.field_size_limit(1 << 30)
        self.assertEqual(list(rows)[1], ["1", big, "0"])

    def test_many_at_once(self):
        """Commands that open and close while the store is written to."""
        m = self.fill(1000)
        stop = threading.Event()
        failures = []

        def read():
            while not stop.is_set():
                for args in (("get", "t", 5), ("status",), ("tables",), ("scan", "t", "--limit", 3)):
                    r = tidemark(args[0], "--store", self.store, *args[1:])
                    if r.code != 0:
                        failures.append((args, r.err))
        threads = [threading.Thread(target=read) for _ in range(3)]
        for t in threads:
            t.start()
        for i in range(200):
            m.rows(1, (i % 50 + 1, "v", i))
        stop.set()
        for t in threads:
            t.join()
        self.assertEqual(failures, [])


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
