"""Snapshots asked for from the source: by logical messages, and by rows of a signal table."""

import json
import time

from harness import EXIT_USAGE, Server, Tidemark, check, rng, timeout, until


def make(server):
    server.sql("CREATE TABLE t (id int PRIMARY KEY, n int, v text); CREATE TABLE \"Big\" (id int PRIMARY KEY, n int)")
    server.sql("INSERT INTO t SELECT g, g % 10, 'v' FROM generate_series(1, 200) g;"
               "INSERT INTO \"Big\" SELECT g, g % 10 FROM generate_series(1, 100) g")
    server.sql("CREATE TABLE sig (id varchar(42) PRIMARY KEY, type varchar(32) NOT NULL, data varchar(2048))")


def emit(server, content, transactional=True):
    content = content if isinstance(content, str) else json.dumps(content)
    server.sql("SELECT pg_logical_emit_message(%s, 'tidemark', %s)", transactional, content)


def insert(server, name, type, data=None):
    server.sql("INSERT INTO sig VALUES (%s, %s, %s)", name, type, json.dumps(data) if isinstance(data, dict) else data)


def runs(tm):
    return {r["name"]: r for r in tm.json("snapshot", "list") if r["name"]}


def wait_run(tm, name, state="done"):
    return until(f"run {name} is {state}", lambda: runs(tm).get(name, {}).get("state") == state and runs(tm)[name])


def test_messages():
    with Server() as server, Tidemark(server, "public.*") as tm:
        make(server)
        tm.start()
        tm.wait_live("t")
        emit(server, {"command": "start", "tables": ["public.t"], "where": "n = 3", "id": "one"})
        run = wait_run(tm, "one")
        check((run["rows_read"], run["requester"], run["sweep"]) == (20, "signal", "on"), run)
        # Part of a transaction that changes rows; nothing happens if it is rolled back.
        server.sql("BEGIN; UPDATE t SET v = 'w' WHERE id < 50; SELECT pg_logical_emit_message(true, 'tidemark', '"
                   '{"command": "start", "tables": ["t"], "id": "rolled back"}' "'); ROLLBACK")
        server.sql("BEGIN; UPDATE t SET v = 'w' WHERE id < 50; SELECT pg_logical_emit_message(true, 'tidemark', '"
                   '{"command": "start", "tables": ["t"]}' "'); COMMIT")
        made = until("a run with a name of its own", lambda: [n for n in runs(tm) if n.startswith("signal-")])[0]
        wait_run(tm, made)
        check("rolled back" not in runs(tm), "a signal that was rolled back")
        # Debezium's form.
        emit(server, {"id": "two", "type": "execute-snapshot", "data": {
            "data-collections": ["public.Big"], "type": "INCREMENTAL",
            "additional-conditions": [{"data-collection": "public.Big", "filter": "n = 4"}]}})
        check(wait_run(tm, "two")["rows_read"] == 10, runs(tm))
        emit(server, {"type": "log", "data": {"message": "hello from the source"}})
        tm.wait_log("hello from the source")
        # A bad condition fails its run, with the server's message; the stream goes on.
        emit(server, {"command": "start", "tables": ["t"], "where": "n = 1; DROP TABLE t", "id": "bad"})
        check("syntax error" in wait_run(tm, "bad", "failed")["error"], runs(tm)["bad"])
        emit(server, {"command": "start", "tables": ["t"], "where": "1/(n - n) = 1", "id": "zero"})
        check("division by zero" in wait_run(tm, "zero", "failed")["error"], runs(tm)["zero"])
        tm.equal("t", "Big")


def test_malformed():
    """One log line each, and nothing else."""
    with Server() as server, Tidemark(server, "public.*", args=["--signal-table", "sig"]) as tm:
        make(server)
        tm.start()
        tm.wait_live("t")
        bad = [lambda: emit(server, ""), lambda: emit(server, "{"), lambda: emit(server, "[]"), lambda: emit(server, {"command": "x"}),
               lambda: emit(server, {"command": "start", "tables": ["nope"]}),
               lambda: emit(server, {"command": "start", "tables": ["t"], "from": ["x"]}),
               lambda: emit(server, {"command": "start", "tables": ["t"], "id": "n" * 500}),
               lambda: emit(server, {"command": "stop", "targets": ["nobody"]}),
               lambda: emit(server, {"command": "start", "tables": ["t"]}, transactional=False),
               lambda: insert(server, "1", "explode"), lambda: insert(server, "2", "execute-snapshot", "{"),
               lambda: insert(server, "3", "execute-snapshot"), lambda: insert(server, "4", ""),
               lambda: insert(server, "5", "execute-snapshot", {"data-collections": ["public.nope"]}),
               lambda: insert(server, "6", "execute-snapshot", {"data-collections": ["public.t"], "type": "sideways"}),
               lambda: insert(server, "7", "pause-snapshot", {"data-collections": ["public.t"]})]
        for n, signal in enumerate(bad):
            start = len(tm.log())
            signal()
            tm.wait_log("refused", start=start)
            server.sql("UPDATE t SET v = %s", f"v{n}")
            tm.wait()
            lines = [line for line in tm.log()[start:].splitlines() if "level=warn" in line or "level=error" in line]
            check(len(lines) == 1, lambda: f"signal {n}: {lines}")
        check(not runs(tm), runs(tm))
        # Other prefixes and our own are nobody's signals.
        start = len(tm.log())
        server.sql("SELECT pg_logical_emit_message(true, 'other', 'x'), pg_logical_emit_message(true, 'tidemark', 'watermark')")
        tm.wait()
        check("refused" not in tm.log()[start:], tm.log()[start:])
        tm.equal("t", "sig")


def test_signal_table():
    with Server() as server, Tidemark(server, "public.t,public.Big", args=["--signal-table", "public.sig"]) as tm:
        tm.tables_option = 'public.t,public."Big"'
        make(server)
        insert(server, "old", "execute-snapshot", {"data-collections": ["public.t"]})
        tm.start()
        tm.wait_live("t", "Big", "sig")
        insert(server, "a", "execute-snapshot", {"data-collections": ["public.t", "public.Big"], "type": "blocking",
                                                  "additional-condition": "n < 2"})
        until("two runs", lambda: len([r for r in tm.json("snapshot", "list") if r["name"] == "a" and r["state"] == "done"]) == 2)
        check({r["rows_read"] for r in tm.json("snapshot", "list") if r["name"] == "a"} == {40, 20}, runs(tm))
        tm.wait_log("blocking")
        check("old" not in runs(tm), "a row that was there before is no signal")
        # Slow ones, paused, resumed and stopped.
        emit(server, {"command": "start", "tables": ["t"], "id": "slow", "max_rows_per_second": 1})
        wait_run(tm, "slow", "copying")
        insert(server, "p", "pause-snapshot")
        wait_run(tm, "slow", "paused")
        tm.stop()
        tm.start()
        tm.wait_live("t")
        insert(server, "r", "resume-snapshot", {"data-collections": ["public.t"]})
        wait_run(tm, "slow", "copying")
        insert(server, "s", "stop-snapshot", {"data-collections": ["public.t"], "type": "incremental"})
        stopped = wait_run(tm, "slow", "stopped")
        check("on request of signal table" in stopped["error"], stopped)
        # An UPDATE is no signal.
        server.sql("UPDATE sig SET type = 'execute-snapshot', data = '{\"data-collections\": [\"public.t\"]}' WHERE id = 's'")
        # Started and paused in one transaction.
        server.sql("BEGIN; INSERT INTO sig VALUES ('b', 'execute-snapshot', '{\"data-collections\": [\"public.t\"]}');"
                   "INSERT INTO sig VALUES ('c', 'pause-snapshot', NULL); COMMIT")
        wait_run(tm, "b", "paused")
        check("s" not in runs(tm), "an update was taken for a signal")
        tm.equal("t", "Big", "sig")


def test_who_may_signal():
    with Server() as server, Tidemark(server, "public.*", args=["--signals", "off"]) as tm:
        make(server)
        tm.start()
        tm.wait_live("t")
        emit(server, {"command": "start", "tables": ["t"], "id": "message"})
        insert(server, "row", "execute-snapshot", {"data-collections": ["public.t"]})
        tm.equal("t", "sig")
        check(not runs(tm) and "refused" not in tm.log(), "a signal was taken")
        r = tm.run("--signal-table", "a.b.c")
        check(r.code == EXIT_USAGE and "--signal-table" in r.err, r)
        tm.stop()
        r = tm.run("--signal-table", "nowhere")
        check(r.code == EXIT_USAGE and "nowhere" in r.err, r)


@timeout(180)
def test_killed_around_signals():
    """A signal is a run, once, whatever is killed when: it is durable with its transaction, or comes again."""
    moments = rng("signals", "kill")
    with Server(fsync=True) as server, Tidemark(server, "public.*", args=["--signal-table", "sig", "--chunk-rows", 50]) as tm:
        make(server)
        tm.start()
        tm.wait_live("t")
        names = []
        for n in range(30):
            until_kill = time.monotonic() + moments.uniform(0.0, 0.25)
            while time.monotonic() < until_kill:
                name = f"k{len(names)}"
                if moments.random() < 0.5:
                    emit(server, {"command": "start", "tables": ["t"], "id": name, "where": f"n = {len(names) % 10}"})
                else:
                    insert(server, name, "execute-snapshot", {"data-collections": ["public.t"]})
                server.sql("UPDATE t SET v = %s WHERE id = %s", name, len(names) % 200)
                names.append(name)
            tm.kill()
            tm.start()
        server.sql("SELECT pg_logical_emit_message(true, 'tidemark', '{\"command\": \"start\", \"tables\": [\"t\"]}')")
        tm.equal("t", "sig")
        found = [r["name"] for r in tm.json("snapshot", "list") if (r["name"] or "").startswith("k")]
        check(sorted(found) == sorted(names), lambda: f"lost {set(names) - set(found)}, twice {len(found) - len(set(found))}")
        until("all runs are done", lambda: all(r["state"] == "done" for r in tm.json("snapshot", "list")), timeout=60)
        tm.equal("t", "sig")
