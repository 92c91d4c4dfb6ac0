"""Types whose values are printed otherwise from one moment to the next."""

from harness import Server, Tidemark, check, until

TABLES = ("plain", "nested", "keyed", "other")


def make(server):
    server.sql("CREATE TYPE mood AS ENUM ('sad', 'ok'); CREATE DOMAIN felt AS mood; CREATE TYPE pair AS (a int, m felt);"
               "CREATE TYPE moods AS RANGE (subtype = mood);"
               "CREATE TABLE plain (id int PRIMARY KEY, m mood); CREATE TABLE nested (id int PRIMARY KEY, p pair[], r moods);"
               "CREATE TABLE keyed (m mood, id int, v text, PRIMARY KEY (m, id)); CREATE TABLE other (id int PRIMARY KEY, v text);"
               "INSERT INTO plain SELECT g, 'sad' FROM generate_series(1, 9) g; INSERT INTO other SELECT g FROM generate_series(1, 9) g;"
               "INSERT INTO nested SELECT g, ARRAY[ROW(1, 'sad')::pair], '[sad,ok]' FROM generate_series(1, 9) g;"
               "INSERT INTO keyed SELECT 'sad', g, 'v' FROM generate_series(1, 9) g")


def settles(tm, *names):
    """Within a look at the catalog and a run."""
    def equal():
        try:
            tm.equal(*names)
            return True
        except AssertionError as e:
            if "differs" not in str(e):
                raise
    until("the store is the source's", equal, timeout=30, interval=0.3)
    tm.wait_live(*names)
    tm.equal(*names)


def test_renamed_labels():
    with Server() as server, Tidemark(server, "public.*", args=["--chunk-rows", 2]) as tm:
        make(server)
        tm.start()
        tm.wait_live(*TABLES)
        server.sql("ALTER TYPE mood RENAME VALUE 'sad' TO 'blue'")
        server.sql("UPDATE keyed SET v = 'changed' WHERE id = 3; DELETE FROM keyed WHERE id = 4; UPDATE plain SET m = 'ok' WHERE id = 2")
        settles(tm, *TABLES)
        server.sql("ALTER TYPE pair ADD ATTRIBUTE more text")
        settles(tm, *TABLES)
        tm.stop()
        server.sql("ALTER TYPE mood RENAME VALUE 'ok' TO 'fine'; ALTER TYPE mood RENAME VALUE 'blue' TO 'ok'")
        tm.start()
        settles(tm, *TABLES)


def test_added_labels():
    """Change no row: nothing is read again."""
    with Server() as server, Tidemark(server, "public.*") as tm:
        make(server)
        tm.start()
        tm.wait_live(*TABLES)
        runs = len(tm.status()["runs"])
        server.sql("ALTER TYPE mood ADD VALUE 'new' BEFORE 'ok'")
        server.sql("INSERT INTO plain VALUES (100, 'new'); INSERT INTO keyed VALUES ('new', 1)")
        tm.equal(*TABLES)
        tm.stop()
        tm.start()
        server.sql("INSERT INTO plain VALUES (101, 'new')")
        tm.equal(*TABLES)
        check(len(tm.status()["runs"]) == runs, "a run for nothing")
