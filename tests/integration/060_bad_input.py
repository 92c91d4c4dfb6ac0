"""Each mistake gets one sentence, the right exit code, and leaves store and server as they were."""

import os
import pwd
import re
import shutil
import time

import harness
from harness import (EXIT_OK, EXIT_RUNTIME, EXIT_STORE, EXIT_USAGE, Server, Tidemark, checksum, command,
                     check, free_port, lsn_text, lsn, place, words)


def refused(result, codes, *fragments):
    """One sentence on the last line of stderr that has every fragment, no trace of a crash, nothing on stdout."""
    codes = codes if isinstance(codes, tuple) else (codes,)
    check(result.code in codes, lambda: f"expected exit {codes}, got {result}")
    lines = result.err.strip().splitlines()
    check(lines, "nothing on stderr")
    sentence = lines[-1]
    for f in fragments:
        check(f.lower() in sentence.lower(), lambda: f"{f!r} is not in: {sentence}")
    for word in ("assert", "sanitizer", "segmentation", "(null)"):
        check(word not in result.err.lower(), lambda: f"{word!r} in: {result.err[-500:]}")
    check(result.out == b"", lambda: f"on stdout: {result.out[:200]}")


def untouched_server(server, db="postgres"):
    check(server.slots() == {}, lambda: f"a slot was created: {server.slots()}")
    check(server.publications(db) == set(), lambda: f"a publication was created: {server.publications(db)}")


def test_readme_tells_what_there_is():
    """Every command is in README, and every option that README names is one of theirs."""
    with open(os.path.join(harness.ROOT, "README.md")) as f:
        readme = f.read()
    overview = command("help").out.decode()
    commands = re.findall(r"^  (\w+) ", overview.split("Commands:")[1], re.M)
    check(len(commands) > 6, lambda: f"no commands in: {overview}")
    missing = [c for c in commands if not re.search(rf"tidemark {c}\b", readme)]
    check(not missing, lambda: f"README does not have {missing}")
    known = {o for c in commands for o in re.findall(r"^  (--[a-z-]+)", command("help", c).out.decode(), re.M)}
    named = set(re.findall(r"(?<!sim )(--[a-z][a-z-]+)", readme))
    check(named - known == set(), lambda: f"no command has {named - known}")


def with_table(server, db="postgres"):
    server.sql("CREATE TABLE t (id int PRIMARY KEY, v text); "
               "INSERT INTO t SELECT g, 'v' || g FROM generate_series(1, 100) g",
               db=db)


def finished_store(server):
    """A store with a live table, its daemon stopped."""
    with_table(server)
    tm = Tidemark(server, "public.t")
    r = tm.run("--until", "caught-up")
    check(r.code == EXIT_OK, lambda: f"could not prepare a store: {r}")
    return tm


# ---- the server ----

def test_server_unreachable():
    port = free_port()
    source = words(host="127.0.0.1", port=port, dbname="postgres", user="postgres")
    store = place("store")
    r = command("run", "--source", source, "--store", store, "--tables", "public.t",
                "--until", "caught-up", "--retry-for", 2)
    refused(r, EXIT_RUNTIME, str(port))
    with Tidemark(None, "public.t", source=source) as tm:
        tm.start()
        time.sleep(3)
        check(tm.is_running(), lambda: f"gave up without --retry-for: {tm.log()}")
        check(str(port) in tm.log(), "the log does not say which server it cannot reach")
        tm.stop()


def test_server_unreachable_keeps_the_store():
    with Server() as server:
        tm = finished_store(server)
        server.stop()
        before = tm.content()
        refused(tm.run("--until", "caught-up", "--retry-for", 1), EXIT_RUNTIME, server.dir)
        check(tm.content() == before, "the store changed")
        check(tm.get("t", 5) == {"id": 5, "v": "v5"}, "the store cannot be read while the server is down")


PASSWORD = "p@:/%#s3cret"


def scram_server():
    server = Server(tcp=True, hba=["host all guarded 127.0.0.1/32 scram-sha-256"],
                    settings={"password_encryption": "scram-sha-256"})
    server.sql(f"CREATE ROLE guarded LOGIN SUPERUSER REPLICATION PASSWORD '{PASSWORD}'")
    return server


def guarded(server, **more):
    return words(host="127.0.0.1", port=server.port, user="guarded", dbname="postgres", **more)


def test_wrong_password():
    with scram_server() as server:
        with_table(server)
        store = place("store")
        for extra in ({"password": "hunter2wrong"}, {}):
            r = command("run", "--source", guarded(server, **extra), "--store", store, "--tables", "public.t",
                        timeout=20)
            refused(r, EXIT_USAGE, "password")
            check("hunter2wrong" not in r.err, "the password is in the error")
        untouched_server(server)


def test_password_is_nowhere():
    """From the connection string, a URI, PGPASSWORD, a password file and a service file: works, and is not shown."""
    with scram_server() as server:
        with_table(server)
        passfile, services = place("pass"), place("services")
        with open(passfile, "w") as f:
            f.write(f"127.0.0.1:{server.port}:*:guarded:" + PASSWORD.replace(":", "\\:") + "\n")
        os.chmod(passfile, 0o600)
        with open(services, "w") as f:
            f.write(f"[mine]\nhost=127.0.0.1\nport={server.port}\nuser=guarded\ndbname=postgres\npassword={PASSWORD}\n")
        uri = f"postgresql://guarded:p%40%3A%2F%25%23s3cret@127.0.0.1:{server.port}/postgres"
        ways = [(guarded(server, password=PASSWORD), {}), (uri, {}), (guarded(server),
                                                                      {"PGPASSWORD": PASSWORD}),
                (guarded(server), {"PGPASSFILE": passfile}), ("service=mine", {"PGSERVICEFILE": services})]
        for n, (source, env) in enumerate(ways):
            with Tidemark(server, "public.t", source=source, env=env, args=["--slot", f"s{n}"]) as tm:
                tm.start()
                tm.wait_live("t")
                if n > 1:
                    with open(f"/proc/{tm.pid}/cmdline") as f:
                        check("s3cret" not in f.read(), "the password is in the process list")
                tm.stop()
                status = tm.cmd("status", "--json")
                check(b"s3cret" not in status.out, "the password is in the status")
                for base, _, files in os.walk(tm.store):
                    for name in files:
                        with open(os.path.join(base, name), "rb") as f:
                            check(b"s3cret" not in f.read(), f"the password is in {name}")
                check("s3cret" not in tm.log(), "the password is in the log")


def test_unknown_database():
    with Server() as server:
        store = place("store")
        refused(command("run", "--source", server.dsn("nodb"), "--store", store, "--tables", "public.t"),
                EXIT_USAGE, "nodb")


def test_malformed_source():
    refused(command("run", "--source", "host=x prot=5432", "--store", place("store"), "--tables", "t"),
            EXIT_USAGE, "connection string")


def test_wal_level():
    with Server(settings={"wal_level": "replica"}) as server:
        with_table(server)
        r = command("run", "--source", server.dsn(), "--store", place("store"), "--tables", "public.t")
        refused(r, EXIT_USAGE, "wal_level", "logical")
        untouched_server(server)


def test_role_without_replication():
    with Server() as server:
        with_table(server)
        server.sql("CREATE ROLE plain LOGIN; GRANT CREATE ON DATABASE postgres TO plain; "
                   "ALTER TABLE t OWNER TO plain")
        source = words(host=server.dir, port=server.port, user="plain", dbname="postgres")
        r = command("run", "--source", source, "--store", place("store"), "--tables", "public.t")
        refused(r, EXIT_USAGE, "plain", "replication")
        untouched_server(server)


def test_role_without_select():
    with Server() as server:
        with_table(server)
        server.sql("CREATE ROLE reader LOGIN REPLICATION; CREATE PUBLICATION tidemark FOR TABLE t")
        source = words(host=server.dir, port=server.port, user="reader", dbname="postgres")
        r = command("run", "--source", source, "--store", place("store"), "--tables", "public.t")
        refused(r, EXIT_USAGE, "permission", "t")


# ---- tables ----

def test_unknown_table():
    with Server() as server:
        with_table(server)
        for tables in ("public.nowhere", "public.t,public.nowhere", "nosuch.*"):
            r = command("run", "--source", server.dsn(), "--store", place("store"), "--tables", tables)
            refused(r, EXIT_USAGE, tables.split(",")[-1].split(".")[0])
        untouched_server(server)


def test_table_without_key():
    """Refused before it is published: publishing it would break the application's own UPDATEs."""
    with Server() as server:
        with_table(server)
        server.sql("CREATE TABLE nokey (a int, b text); INSERT INTO nokey VALUES (1, 'x');"
                   "CREATE TABLE silent (id int PRIMARY KEY); ALTER TABLE silent REPLICA IDENTITY NOTHING")
        for name in ("nokey", "silent"):
            r = command("run", "--source", server.dsn(), "--store", place("store"), "--tables",
                        f"public.t,public.{name}")
            refused(r, EXIT_USAGE, f"{name}", "ALTER TABLE")
        untouched_server(server)
        server.sql("UPDATE nokey SET b = 'y'; DELETE FROM nokey")


def test_view():
    with Server() as server:
        with_table(server)
        server.sql("CREATE VIEW v AS SELECT * FROM t")
        refused(command("run", "--source", server.dsn(), "--store", place("store"), "--tables", "public.v"),
                EXIT_USAGE, "v")
        untouched_server(server)


# ---- options ----

def test_options():
    store = place("store")
    with Server() as server:
        with_table(server)
        src = ["--source", server.dsn(), "--store", store]
        refused(command("run", *src, "--tabels", "public.t"), EXIT_USAGE, "tabels")
        refused(command("run", "--store", store, "--tables", "public.t"), EXIT_USAGE, "source")
        refused(command("run", "--source", server.dsn(), "--tables", "public.t"), EXIT_USAGE, "store")
        refused(command("run", *src, "--tables", "public.t", "--chunk-rows", "none"), EXIT_USAGE, "chunk-rows")
        refused(command("run", *src, "--tables", "public.t", "--chunk-rows", "-1"), EXIT_USAGE, "chunk-rows")
        refused(command("run", *src, "--tables", "public.t", "--snapshot", "maybe"), EXIT_USAGE, "snapshot",
                "initial")
        refused(command("run", *src, "--tables", "public.t", "--until", "soon"), EXIT_USAGE, "until")
        refused(command("run", *src, "--tables", "public.t", "--slot", "Not A Slot"), EXIT_USAGE, "slot")
        refused(command("run", *src, "--tables", 'public."t'), EXIT_USAGE, "quote")
        refused(command("run", *src, "--tables", "public.t", "extra"), EXIT_USAGE, "extra")
        refused(command("launch"), EXIT_USAGE, "launch")
        refused(command(), EXIT_USAGE)
        untouched_server(server)
        check(not os.path.exists(store), "a store was created")
        help_text = command("run", "--help")
        check(help_text.code == EXIT_OK and b"--source" in help_text.out, lambda: f"--help: {help_text}")


def test_configuration_file():
    path = place("conf")
    with Server() as server:
        with_table(server)
        def write(text):
            with open(path, "w") as f:
                f.write(text)
        write("[tidemark]\nsource = " + server.dsn() + "\ntabels = public.t\n")
        refused(command("run", "--config", path, "--store", place("store")), EXIT_USAGE, "tabels", path)
        refused(command("run", "--config", path + ".not", "--store", place("store")), EXIT_USAGE, path + ".not")
        untouched_server(server)
        write("[tidemark]\nsource = " + server.dsn() + "\ntables = public.t\nuntil = caught-up\n")
        store = place("store")
        r = command("run", "--config", path, env={"TIDEMARK_STORE": store})
        check(r.code == EXIT_OK, lambda: f"a configuration file and TIDEMARK_STORE: {r}")
        harness.compare(server, "postgres", "t", command("scan", "--store", store, "public.t", "--format",
                                                         "copy").out)


# ---- the store ----

def test_store_not_writable():
    with Server() as server:
        with_table(server)
        file = place("file")
        with open(file, "w") as f:
            f.write("not a directory\n")
        before = checksum(file)
        r = command("run", "--source", server.dsn(), "--store", file, "--tables", "public.t")
        refused(r, (EXIT_USAGE, EXIT_STORE), file)
        check(checksum(file) == before, "the file changed")
        untouched_server(server)


def test_store_without_permission():
    if os.getuid() != 0:
        user, program = None, harness.PROGRAM
    else:
        user, program = pwd.getpwnam("nobody"), place("tidemark")
        shutil.copy(harness.PROGRAM, program)
        os.chmod(program, 0o755)
    with Server() as server:
        with_table(server)
        home = place("home")
        os.mkdir(home)
        os.chmod(home, 0o555)
        store = os.path.join(home, "store")
        r = command("run", "--source", server.dsn(), "--store", store, "--tables", "public.t", user=user,
                    program=program)
        refused(r, (EXIT_USAGE, EXIT_STORE), store, "permi")
        check(os.listdir(home) == [], "something was created")
        untouched_server(server)


def damage(tm, how):
    """Every command that opens the store must refuse it, and leave it alone."""
    data = os.path.join(tm.store, "data.mdb")
    how(data)
    before = checksum(tm.store)
    for argv in (tm.argv("--until", "caught-up"), ["get", "--store", tm.store, "public.t", 1],
                 ["scan", "--store", tm.store, "public.t"], ["tables", "--store", tm.store],
                 ["status", "--store", tm.store], ["wait", "--store", tm.store, "0/1", "--timeout", 1]):
        r = command(*argv)
        refused(r, EXIT_STORE, tm.store)
        check(checksum(tm.store) == before, f"{argv[0]} changed the store")


def test_truncated_store():
    """Cut at every place that means something: nothing left, within the meta pages, within the data."""
    with Server() as server:
        tm = finished_store(server)
        kept = place("kept")
        shutil.copytree(tm.store, kept)
        slots = server.slots()
        size = os.path.getsize(os.path.join(kept, "data.mdb"))
        for cut in (1, 100, 4096, 8192, 3 * 4096, size // 2 // 4096 * 4096, size // 2 + 77):
            def truncate(path):
                shutil.copy(os.path.join(kept, "data.mdb"), path)
                os.truncate(path, cut)
            damage(tm, truncate)
        check({k: v[2] for k, v in server.slots().items()} == {k: v[2] for k, v in slots.items()},
              "the slot moved")


def test_foreign_store():
    with Server() as server:
        tm = finished_store(server)
        def text(path):
            with open(path, "wb") as f:
                f.write(b"The quick brown fox\n" * 5000)
        def zeros(path):
            with open(path, "wb") as f:
                f.write(bytes(20 * 4096))
        for how in (text, zeros):
            damage(tm, how)


def test_newer_format():
    """A format number above ours, as a later version would write it."""
    with Server() as server:
        tm = finished_store(server)
        def newer(path):
            with open(path, "rb") as f:
                data = f.read()
            changed, n = re.subn(rb"(format\x00\x00\x00)(.)", bump, data, flags=re.S)
            check(n > 0, "the format number is not where the test looks for it")
            with open(path, "wb") as f:
                f.write(changed)
        damage(tm, newer)


def bump(match):
    return match.group(1) + bytes([match.group(2)[0] + 1])


def test_no_store():
    store = place("store")
    for argv in (["get", "--store", store, "public.t", 1], ["scan", "--store", store, "public.t"],
                 ["tables", "--store", store], ["status", "--store", store]):
        refused(command(*argv), (EXIT_USAGE, EXIT_STORE), store)
        check(not os.path.exists(store), f"{argv[0]} created a store")
    os.mkdir(store)
    refused(command("tables", "--store", store), (EXIT_USAGE, EXIT_STORE), store)
    check(os.listdir(store) == [], "something was created in an empty directory")


def test_store_in_use():
    with Server() as server, Tidemark(server, "public.t") as tm:
        with_table(server)
        tm.start()
        tm.wait_live("t")
        refused(command(*tm.argv()), EXIT_STORE, tm.store, "use")
        refused(command(*tm.argv("--slot", "another")), EXIT_STORE, tm.store)
        check(set(server.slots()) and "another" not in server.slots(), "the second daemon created a slot")
        server.sql("UPDATE t SET v = 'still works'")
        tm.equal("t")


def test_unknown_key_and_table():
    with Server() as server:
        tm = finished_store(server)
        refused(tm.cmd("get", "public.t", 101), EXIT_RUNTIME, "101")
        refused(tm.cmd("get", "public.nowhere", 1), (EXIT_RUNTIME, EXIT_USAGE), "nowhere")
        refused(tm.cmd("get", "public.t", "abc"), EXIT_USAGE, "abc")
        refused(tm.cmd("get", "public.t", 1, 2), EXIT_USAGE, "key")
        refused(tm.cmd("get", "public.t"), EXIT_USAGE, "key")
        refused(tm.cmd("get"), EXIT_USAGE)
        refused(tm.cmd("scan", "public.nowhere"), (EXIT_RUNTIME, EXIT_USAGE), "nowhere")
        refused(tm.cmd("scan", "public.t", "--format", "xml"), EXIT_USAGE, "format")
        refused(tm.cmd("scan", "public.t", "--from", "abc"), EXIT_USAGE, "abc")
        refused(tm.cmd("wait", "16"), EXIT_USAGE, "16")


def test_wait_times_out():
    with Server() as server:
        tm = finished_store(server)
        ahead = lsn_text(lsn(harness.end_of_wal(server)) + (1 << 30))
        began = time.monotonic()
        refused(tm.cmd("wait", ahead, "--timeout", 1), EXIT_RUNTIME, ahead)
        check(0.9 < time.monotonic() - began < 5, "--timeout 1 took another time")
