"""Names of every kind that PostgreSQL takes, in every place where a name is used."""

import csv
import io
import json

from harness import Server, Tidemark, check, table_name, twin

# schema, table, key column, another column
NAMES = [
    ("Capital", "Table", "Key Column", "Value"),
    ("with space", " lead and trail ", " k", "v "),
    ("dots.in.it", "a.b.c", "k.k", "v.v"),
    ('quote"s', "it's \"quoted\"", 'k"', "v'"),
    ("odd#/,;", "#/\\,;()[]%$", "select", "from"),
    ("größe_日本", "表_😀", "ключ", "valeur_é"),
    ("s" * 63, "t" * 63, "k" * 63, "é" * 31 + "x"),
    ("new\nline", "tab\there", "k\\b\x01", "v\r\n"),
    ("%s%n", "{}", "$1", "?"),
    ("-dash", "--", "-", ","),
    ("star*", "*", "*", "_lsn"),
    ("public", "order", "group", "user"),
    ("public", "Order", "Group", "User"),
]
TABLES = [n[:2] for n in NAMES]
DECOYS = [("star*", "other"), ("public", "ORDER"), ("capital", "table"), ("dots", "in.it.a.b.c")]


def quoted(name):
    return '"' + name.replace('"', '""') + '"'


def parts():
    return [tuple(map(quoted, n)) for n in NAMES]


def make(server, db="postgres"):
    """Half of the key is of a type with an odd name."""
    for s, t, k, v in parts():
        server.sql(f"CREATE SCHEMA IF NOT EXISTS {s}; CREATE TYPE {s}.{v} AS ENUM ('z', 'y', 'x', 'w', 'v');"
                   f"CREATE TABLE {s}.{t} ({v} text, {k} int, e {s}.{v}, PRIMARY KEY ({k}, e))", db=db)
    for schema, table in DECOYS:
        server.sql(f"CREATE SCHEMA IF NOT EXISTS {quoted(schema)}; CREATE TABLE {quoted(schema)}.{quoted(table)} (id int PRIMARY KEY)",
                   db=db)


def insert(server, first, db="postgres"):
    for s, t, _, v in parts():
        server.sql(f"INSERT INTO {s}.{t} SELECT 'v' || g, g, (enum_range(NULL::{s}.{v}))[1 + g % 5]"
                   f" FROM generate_series({first}, {first + 4}) g", db=db)


def change(server, db="postgres"):
    for s, t, k, v in parts():
        server.sql(f"UPDATE {s}.{t} SET {v} = 'changed' WHERE {k} = 2; DELETE FROM {s}.{t} WHERE {k} = 3;"
                   f"UPDATE {s}.{t} SET {k} = {k} + 100 WHERE {k} = 4; INSERT INTO {s}.{t} VALUES (NULL, 99, 'z')", db=db)


def check_commands(tm):
    for schema, table, key, value in NAMES:
        row = tm.get((schema, table), 2, "x")
        check(row == {value: "changed", key: 2, "e": "x"}, f"{schema}.{table}: get printed {row}")
        r = tm.cmd("scan", "--format", "csv", "--", table_name((schema, table)))
        check(r.code == 0, r)
        lines = list(csv.reader(io.StringIO(r.out.decode(), newline="")))
        check(lines[0] == [value, key, "e"] and ["changed", "2", "x"] in lines, f"{schema}.{table}: csv printed {lines}")
        r = tm.cmd("scan", "--limit", "1", "--with-meta", "--", table_name((schema, table)))
        check(set(json.loads(r.out)) == {"_tidemark", value, key, "e"}, r)
    check(set(tm.tables()) == set(TABLES), lambda: f"tables lists {set(tm.tables())}")
    runs = {(r["schema"], r["table"]) for r in tm.status()["runs"]}
    check(runs and runs <= set(TABLES), lambda: f"status lists {runs}")
    # status shows the runs that ended last, whichever they were
    plain = ('"Capital"."Table"', '"with space"." lead and trail "', '"dots.in.it"."a.b.c"', "größe_日本.表_😀", '"%s%n"."{}"',
             '"-dash"."--"', '"star*"."*"', 'public."order"', 'public."Order"')
    for name, wanted in (("tables", ("größe_日本.表_😀",)), ("status", plain)):
        text = tm.cmd(name).out.decode()
        check(any(w in text for w in wanted) and not any(c < " " and c != "\n" for c in text) and "new\nline" not in text, text)


def check_text_log(tm):
    for line in tm.log().splitlines():
        check(line.startswith("ts="), f"a log line is broken: {line!r}")


def check_json_log(tm):
    lines = [json.loads(line) for line in tm.log().splitlines()]
    named = {line["table"] for line in lines if line["msg"] == "table is live"}
    check(len(named) == len(TABLES) and "größe_日本.表_😀" in named, named)


def test_names():
    with Server() as server, Tidemark(server, TABLES, args=["--chunk-rows", 2]) as tm:
        make(server)
        other = twin(server)
        insert(server, 1)
        tm.start()
        tm.wait_live(*TABLES)
        tm.equal(*TABLES)
        insert(server, 11)
        change(server)
        tm.equal(*TABLES, twin=other)
        check_commands(tm)
        check_text_log(tm)


def test_names_of_other_things():
    """Database, role, publication; and the log as JSON."""
    db, role, publication = 'Data "base" é\\\'s', 'Role, "odd" =x', "Publication \"for\" it's {all}"
    with Server() as server:
        server.sql(f"CREATE DATABASE {quoted(db)}; ")
        server.sql(f"CREATE ROLE {quoted(role)} SUPERUSER LOGIN REPLICATION")
        source = server.dsn(db, user=role)
        with Tidemark(server, TABLES, db=db, source=source, args=["--publication", publication, "--chunk-rows", 2,
                                                                  "--log-format", "json"]) as tm:
            make(server, db)
            insert(server, 1, db)
            tm.start()
            tm.wait_live(*TABLES)
            tm.stop()
            insert(server, 11, db)
            change(server, db)
            tm.start()
            tm.equal(*TABLES)
            check_json_log(tm)
            check(server.publications(db) == {publication}, server.publications(db))


def test_patterns():
    """Quoted, a name means itself; without quotes a star is any name."""
    with Server() as server, Tidemark(server, '"star*".*,"dots.in.it"."a.b.c",public.order') as tm:
        make(server)
        tm.start()
        wanted = {("star*", "*"), ("star*", "other"), ("dots.in.it", "a.b.c"), ("public", "order")}
        tm.wait_live(*wanted)
        check(set(tm.tables()) == wanted, lambda: f"replicated {set(tm.tables())}")
