"""control.sock: who may ask, what is answered, and that the daemon goes on whatever is sent."""

import json
import os
import socket
import stat
import threading

from harness import EXIT_STORE, EXIT_USAGE, Server, Tidemark, check, command, place, timeout, until

START = {"command": "start", "tables": ["public.t"]}


def make(server, rows=100):
    server.sql("CREATE TABLE t (id int PRIMARY KEY, n int, v text);"
               "CREATE TABLE p (a int, b text, v text, PRIMARY KEY (a, b))")
    server.sql("INSERT INTO t SELECT g, g %% 10, 'v' FROM generate_series(1, %s) g", rows)
    server.sql("INSERT INTO p SELECT g, 'b' || g, 'v' FROM generate_series(1, 50) g")


class Client:
    """A connection to control.sock, through the directory where its path is too long."""

    def __init__(self, tm, wait=40):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(wait)
        fd = os.open(tm.store, os.O_PATH)
        self.socket.connect(f"/proc/self/fd/{fd}/control.sock")
        os.close(fd)
        self.got = b""

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.socket.close()

    def send(self, data):
        self.socket.sendall(data if isinstance(data, bytes) else json.dumps(data).encode() + b"\n")

    def answer(self):
        while b"\n" not in self.got:
            data = self.socket.recv(65536)
            if not data:
                return None
            self.got += data
        line, self.got = self.got.split(b"\n", 1)
        return json.loads(line)

    def ask(self, data):
        self.send(data)
        return self.answer()


def wait_done(tm, name):
    def done():
        runs = [r for r in tm.json("snapshot", "list") if r["name"] == name]
        return runs and all(r["ended"] for r in runs) and runs
    return until(f"run {name} has ended", done)


def test_protocol():
    with Server() as server, Tidemark(server, "public.*") as tm:
        make(server)
        tm.start()
        tm.wait_live("t", "p")
        mode = os.stat(os.path.join(tm.store, "control.sock")).st_mode
        check(stat.S_ISSOCK(mode) and stat.S_IMODE(mode) == 0o600, f"mode {mode:o}")
        with Client(tm) as c:
            a = c.ask({**START, "id": "a", "requester": "the test"})
            check(a["ok"] and a["id"] == "a" and a["runs"][0]["new"], a)
            again = c.ask({**START, "id": "a", "where": "n = 1"})
            check(again["ok"] and again["runs"][0]["run"] == a["runs"][0]["run"] and not again["runs"][0]["new"], again)
            check(c.ask(START)["id"], "a run without a name")
            # Two at once: answered in turn.
            c.send(json.dumps({**START, "id": "b"}).encode() + b"\n" + json.dumps({**START, "id": "c"}).encode() + b"\n")
            check([c.answer()["id"], c.answer()["id"]] == ["b", "c"], "not in turn")
        run = wait_done(tm, "a")[0]
        check((run["requester"], run["rows_read"], run["rows_same"]) == ("the test", 100, 100), run)
        tm.equal("t", "p")


BAD = [
    (b"\n", "not JSON"), (b"hello\n", "not JSON"), (b"{\n", "not JSON"), (b"\x00\xff\n", "not JSON"),
    (b"[]\n", "command"), (b'{"command": "explode"}\n', "unknown command"),
    ({"command": "start"}, "tables"), ({**START, "wheer": "true"}, "did you mean"),
    ({"command": "start", "tables": ["nope"]}, "no table nope"), ({"command": "start", "tables": ["a.b.c"]}, ""),
    ({**START, "where": "nope = 1"}, 'column "nope" does not exist'), ({**START, "where": "n"}, "boolean"),
    ({**START, "where": "n = 1) OR (true"}, "syntax error"), ({**START, "where": "(n = 1"}, "syntax error"),
    ({**START, "where": "n = 1; DROP TABLE t"}, "syntax error"), ({**START, "where": "n = $1"}, ""),
    ({**START, "where": "v = 'x"}, ""), ({**START, "where": "/* n = 1"}, ""), ({**START, "where": "n = 1 LIMIT 1"}, ""),
    ({**START, "where": "count(*) > 1"}, "aggregate"), ({**START, "where": ""  "1 = 1 UNION SELECT 1"}, ""),
    ({**START, "from": ["x"]}, "column id (integer)"), ({**START, "from": [1, 2]}, "1 column"),
    ({**START, "from": [9], "to": [8]}, "behind"), ({**START, "keys": [["1"], ["1e9"]]}, "key number 2"),
    ({"command": "start", "tables": ["p"], "from": [5, "z"], "to": [5, "a"]}, "behind"),
    ({"command": "pause", "targets": ["nobody"]}, "no run nobody"), ({"command": "stop", "targets": ["999"]}, "no run 999"),
]


def test_bad_requests():
    with Server() as server, Tidemark(server, "public.*") as tm:
        make(server)
        tm.start()
        tm.wait_live("t", "p")
        before = len(tm.json("snapshot", "list"))
        with Client(tm) as c:
            for bad, because in BAD:
                start = len(tm.log())
                a = c.ask(bad)
                check(not a["ok"] and a["kind"] == "request" and because in a["error"], f"{bad}: {a}")
                refusals = tm.log()[start:].count('msg="request refused"')
                check(refusals == 1, lambda: f"{bad}: {refusals} log lines")
            check(len(tm.json("snapshot", "list")) == before, "something that was refused was recorded")
            # What looks wild and is not.
            for wild in ("n = 1 -- all of it", "v = ');--' OR n = 2", "/* ( */ n = 3", "v = '''' OR \"n\" = 4"):
                a = c.ask({**START, "where": wild})
                check(a["ok"], f"{wild}: {a}")
                run = wait_done(tm, a["id"])[0]
                check((run["state"], run["rows_read"], run["where"]) == ("done", 10, wild), run)
        server.sql("UPDATE t SET n = n + 1")
        tm.equal("t", "p")


@timeout(150)
def test_rude_clients():
    with Server() as server, Tidemark(server, "public.t") as tm:
        make(server)
        tm.start()
        tm.wait_live("t")
        crowd = [Client(tm) for _ in range(16)]
        with Client(tm) as late:
            a = late.answer()
            check(not a["ok"] and "16 clients" in a["error"], a)
            check(late.answer() is None, "it was not dropped")
        for c in crowd[4:]:
            c.socket.close()
        # More than a line may have, from one that does not stop.
        until("a place is free", lambda: tm.cmd("snapshot", "start", "t").code == 0)
        with Client(tm) as c:
            try:
                for _ in range(10):
                    c.send(b"x" * 2**20)
            except (BrokenPipeError, ConnectionResetError):
                pass
            check("8 MiB" in c.answer()["error"], "not told")
        # Half a line, and nothing more.
        crowd[0].send(b'{"command": ')
        # An answer that is not taken does not hold anybody up: it fits the socket. Gone before its answer.
        crowd[1].send(START)
        crowd[1].socket.close()
        server.sql("UPDATE t SET n = n + 1")
        tm.equal("t")
        slow = crowd[0].answer()
        check(not slow["ok"] and "30 seconds" in slow["error"], slow)
        check(crowd[0].answer() is None, "it was not dropped")
        check(crowd[2].answer()["ok"] is False, "an idle client stays")
        with Client(tm) as c:
            check(c.ask(START)["ok"], "the daemon is not well")
        tm.equal("t")
        tm.stop()
        check(not os.path.exists(os.path.join(tm.store, "control.sock")), "the socket stays")


def test_long_path_and_stale_socket():
    store = place("long") + "/" + "d" * 120
    os.makedirs(store)
    with Server() as server, Tidemark(server, "public.t", store=store) as tm:
        make(server)
        tm.log_path = place("log") + ".log"
        tm.start()
        tm.wait_live("t")
        check(tm.cmd("snapshot", "start", "t", "--id", "one").code == 0, "not over a long path")
        wait_done(tm, "one")
        tm.kill()
        check(os.path.exists(os.path.join(store, "control.sock")), "the kill removed the socket: nothing is tested")
        # Nobody listens: written straight into the store.
        r = tm.cmd("snapshot", "start", "t", "--id", "two", "--json")
        check(r.code == 0 and json.loads(r.out)["runs"][0]["new"], r)
        tm.start()
        wait_done(tm, "two")
        check(tm.cmd("snapshot", "start", "t", "--id", "three").code == 0, "the stale socket was not replaced")
        wait_done(tm, "three")


def test_daemon_that_does_not_listen_yet():
    """It has the store a moment before it listens. A command that comes then waits for it, and has succeeded."""
    with Server() as server, Tidemark(server, "public.t") as tm:
        make(server)
        tm.start()
        tm.wait_live("t")
        path = os.path.join(tm.store, "control.sock")
        os.rename(path, path + ".later")
        listens = threading.Timer(0.5, os.rename, (path + ".later", path))
        listens.start()
        r = tm.cmd("snapshot", "start", "t", "--id", "early")
        check(os.path.exists(path), "the command did not wait")
        listens.join()
        check(r.code == 0 and b"accepted" in r.out and r.err == "", r)
        wait_done(tm, "early")


def test_source_away():
    """The socket lives as long as the daemon. What is asked meanwhile is done when the source is back."""
    with Server() as server, Tidemark(server, "public.t") as tm:
        make(server)
        tm.start()
        tm.wait_live("t")
        server.stop("immediate")
        tm.wait_log("will try again")
        with Client(tm) as c:
            check(c.ask({**START, "id": "away"})["ok"], "not taken while the source is away")
            check(c.ask({**START, "id": "bad", "where": "nope = 1"})["ok"], "not taken while the source is away")
            check(c.ask({**START, "id": "paused"})["ok"], "not taken while the source is away")
            check(c.ask({"command": "pause", "targets": ["paused"]})["ok"], "not paused while the source is away")
            check(not c.ask({**START, "from": [2], "to": [1]})["ok"], "a bad range was taken")
            check([r["name"] for r in tm.json("snapshot", "list")[1:]] == ["away", "bad", "paused"], "not recorded")
            server.start()
            check(wait_done(tm, "away")[0]["state"] == "done", "not done")
            bad = wait_done(tm, "bad")[0]
            check(bad["state"] == "failed" and 'column "nope" does not exist' in bad["error"], bad)
            until("the failure is logged", lambda: 'state=failed' in tm.log())
            check(tm.json("snapshot", "list")[-1]["state"] == "paused", "it did not stay paused")
            check(c.ask({"command": "resume", "targets": ["paused"]})["ok"], "not resumed")
            wait_done(tm, "paused")
        tm.equal("t")


@timeout(120)
def test_asked_while_sessions_come_and_go():
    """Every answer that says yes is a run, and an id is one run, whatever the connections do meanwhile."""
    with Server() as server, Tidemark(server, "public.t") as tm:
        make(server)
        tm.start()
        tm.wait_live("t")
        stop = threading.Event()

        def disturb():
            with server.connect() as con:
                cur = con.cursor()
                while not stop.wait(0.15):
                    cur.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                                " WHERE application_name LIKE 'tidemark%'")
        disturber = threading.Thread(target=disturb)
        disturber.start()
        accepted = []
        try:
            with Client(tm) as c:
                for n in range(60):
                    a = c.ask({**START, "id": f"n{n}", "where": f"n = {n % 10}"})
                    if a["ok"]:
                        accepted.append(f"n{n}")
                    else:
                        check(a["kind"] == "again", a)
        finally:
            stop.set()
            disturber.join()
        check(len(accepted) > 20, lambda: f"only {len(accepted)} were accepted")
        runs = [r["name"] for r in tm.json("snapshot", "list")[1:]]
        check(len(runs) == len(set(runs)), "an id is two runs")
        check(set(accepted) <= set(runs), "an accepted run is not recorded")
        for name in accepted[-3:]:
            wait_done(tm, name)
        tm.equal("t")


@timeout(120)
def test_accepted_is_recorded():
    """Whatever was answered with yes is there after a kill at that moment; paused and stopped ones too."""
    with Server() as server, Tidemark(server, "public.t") as tm:
        make(server)
        tm.start()
        tm.wait_live("t")
        for n in range(12):
            with Client(tm) as c:
                check(c.ask({**START, "id": f"k{n}", "max_rows_per_second": 1})["ok"], "not accepted")
                state = "copying"
                if n % 3 > 0:
                    state = ("paused", "stopped")[n % 3 - 1]
                    a = c.ask({"command": ("pause", "stop")[n % 3 - 1], "targets": [f"k{n}"]})
                    check(a["ok"] and a["runs"][0]["state"] == state, a)
                tm.kill()
            run = [r for r in tm.json("snapshot", "list") if r["name"] == f"k{n}"]
            check(len(run) == 1 and run[0]["state"] == state, f"{run} instead of {state}")
            tm.start()
            tm.wait_log("streaming", start=len(tm.log()))
            tm.wait()
        tm.equal("t")


def test_command_errors():
    with Server() as server, Tidemark(server, "public.*") as tm:
        make(server)
        tm.start()
        tm.wait_live("t", "p")
        for words, because in ((["begin"], "start, pause"), ([], "start, pause"), (["start"], "TABLE"), (["pause"], "ID or TABLE"),
                               (["pause", "x", "--where", "true"], "--where"), (["list", "x"], "no argument"),
                               (["start", "t", "p", "--from", "1"], "one table"), (["start", "p", "--from", "1,2,3"], "--from"),
                               (["start", "p", "--from", "1"], "2 columns"), (["start", "t", "--keys", "/nonexistent"], "--keys"),
                               (["start", "t", "--sweep", "maybe"], "--sweep"), (["start", "t", "--id", "7"], "number of a run"),
                               (["start", "t", "--chunk-time", "0"], "--chunk-time"), (["resume", "nobody"], "no run nobody")):
            r = tm.cmd("snapshot", *words)
            check(r.code == EXIT_USAGE and because in r.err and r.err.count("\n") == 1, lambda: f"{words}: {r}")
        r = command("snapshot", "start", "t", "--store", place("nothing"))
        check(r.code == EXIT_STORE, r)
