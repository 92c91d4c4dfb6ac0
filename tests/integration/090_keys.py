"""Keys of many types, names of every legal kind, odd values: paged two rows at a time, and streamed."""

import io

from harness import Server, Tidemark, check

# name, column definitions, primary key, rows (each a list of key texts as SQL), order preserved by the store
KEYS = [
    ("int2", "k int2", "k", ["-32768", "-1", "0", "1", "32767", "7"], True),
    ("int4", "k int4", "k", ["-2147483648", "-1", "0", "1", "2147483647", "256"], True),
    ("int8", "k int8", "k", ["-9223372036854775808", "-1", "0", "1", "9223372036854775807", "4294967296"],
     True),
    ("text_c", 'k text COLLATE "C"', "k", ["'a'", "'B'", "'é'", "'Z'", "'-a'", "''", "'aa'", "'a b'", "'日本'",
                                           "'😀'"], True),
    ("text_icu", 'k text COLLATE "und-x-icu"', "k", ["'a'", "'B'", "'é'", "'Z'", "'-a'", "'A'", "'e'", "'E'",
                                                     "'_'", "'ß'"], False),
    ("text_en", 'k text COLLATE "en-US-x-icu"', "k", ["'a'", "'B'", "'é'", "'Z'", "'-a'", "'A'", "'a a'",
                                                      "'aa'"], False),
    ("varchar", "k varchar(20)", "k", ["'a'", "'B'", "'b  '", "' a'"], True),
    ("char", "k char(5)", "k", ["'a'", "'B'", "'b c'", "''"], False),
    ("uuid", "k uuid", "k", ["'00000000-0000-0000-0000-000000000000'", "'ffffffff-ffff-ffff-ffff-ffffffffffff'",
                             "'7fffffff-0000-4000-8000-000000000001'",
                             "'80000000-0000-4000-8000-000000000001'"], True),
    ("ts", "k timestamp", "k", ["'2026-01-01 00:00:00.000001'", "'1999-12-31 23:59:59.999999'", "'infinity'",
                                "'-infinity'",
                                "'0044-03-15 12:00 BC'", "'294276-12-31 23:59:59'", "'4713-01-01 00:00 BC'"],
     True),
    ("tstz", "k timestamptz", "k", ["'2026-06-01 00:00:00+14'", "'2026-06-01 00:00:00-12'", "'infinity'",
                                    "'-infinity'",
                                    "'0044-03-15 12:00+00 BC'", "'1883-11-18 12:03:58-04:56:02'"], True),
    ("date", "k date", "k", ["'2026-01-01'", "'infinity'", "'-infinity'", "'0044-03-15 BC'", "'9999-12-31'",
                             "'10000-01-01'"], True),
    ("time", "k time", "k", ["'00:00'", "'24:00:00'", "'12:34:56.789'"], False),
    ("interval", "k interval", "k", ["'1 mon'", "'31 days'", "'-1 day 2 hours'", "'0'"], False),
    ("bytea", "k bytea", "k", [r"'\x'", r"'\x00'", r"'\x0000'", r"'\x0001'", r"'\x00ff'", r"'\xff'",
                               r"'\x5c27'"], True),
    ("bool", "k bool", "k", ["true", "false"], True),
    ("enum", "k mood", "k", ["'sad'", "'ok'", "'happy'", "'it''s'"], False),
    ("num", "k numeric", "k", ["1.0", "0", "-0.5", "'NaN'", "'Infinity'", "'-Infinity'", "1e30", "99999.99999",
                               "10", "9"], False),
    ("float8", "k float8", "k", ["0.1", "'NaN'", "'Infinity'", "1e300", "-1.5", "5e-324"], False),
    ("inet", "k inet", "k", ["'10.0.0.1'", "'10.0.0.0/8'", "'::1'", "'fe80::/10'"], False),
    ("domain", "k positive", "k", ["1", "22", "333"], False),
    ("oid", "k oid", "k", ["0", "1", "4294967295"], True),
    ("array", "k int[]", "k", ["'{}'", "'{1,2}'", "'{NULL}'", "'{{1,2},{3,4}}'"], False),
    ("range", "k int4range", "k", ["'empty'", "'[1,5)'", "'(,)'", "'[3,)'"], False),
    ("int_text", 'a int, b text COLLATE "C"', "a, b", ["1, '9'", "2, '1'", "1, '10'", "2, ''", "-1, 'x'",
                                                       "1, 'é'"], True),
    ("int_int", "a int, b int", "a, b", ["1, 9", "2, 1", "1, 10", "2, -1", "3, 0", "1, 1"], True),
    ("uuid_tstz", "a uuid, b timestamptz", "a, b", [
        "'00000000-0000-0000-0000-000000000001', '2026-01-01'", "'00000000-0000-0000-0000-000000000001', "
                                                                "'-infinity'",
        "'00000000-0000-0000-0000-000000000000', 'infinity'"], True),
    ("text_bytea_int", 'a text COLLATE "C", b bytea, c int', "a, b, c", [
        r"'a', '\x00', 1", r"'a', '\x', 2", r"'', '\x00ff', 1", r"'ab', '\x', -1", r"'a', '\x0001', 1"], True),
    ("other_order", 'x int DEFAULT 5, b int, y text DEFAULT \'y\', a text COLLATE "C"', "a, b", None, True),
]


def quoted(name):
    return '"' + name.replace('"', '""') + '"'


def make_tables(server):
    server.sql("CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy', 'it''s', 'again');"
               "CREATE DOMAIN positive AS int CHECK (VALUE > 0)")
    for name, columns, key, _, _ in KEYS:
        server.sql(f"CREATE TABLE k_{name} (v int DEFAULT 0, {columns}, note text DEFAULT 'n', "
                   f"PRIMARY KEY ({key}))")


def insert(server, name, columns, rows):
    names = ", ".join(c.split()[0] for c in columns.replace('DEFAULT 5, ', ', ').split(", ") if c.split()) \
        if name != "other_order" else "a, b"
    for row in rows:
        server.sql(f"INSERT INTO k_{name} ({names}) VALUES ({row})")


def rows_of(name, rows):
    return rows or ["'b', 1", "'a', 2", "'a', 10", "'b', -1", "'', 0"]


def change_everything(server):
    """Every row updated, some deleted and inserted again, some moved to a key of a deleted one."""
    for name, columns, key, rows, _ in KEYS:
        rows = rows_of(name, rows)
        server.sql(f"UPDATE k_{name} SET v = v + 1")
        target = f"({key}) = ({rows[0]})" if "," in key else f"{key} = {rows[0]}"
        server.sql(f"DELETE FROM k_{name} WHERE {target}")
        other = f"({key}) = ({rows[1]})" if "," in key else f"{key} = {rows[1]}"
        into = f"({key}) = ROW({rows[0]})" if "," in key else f"{key} = {rows[0]}"
        server.sql(f"UPDATE k_{name} SET {into}, note = 'moved' WHERE {other}")
        insert(server, name, columns, [rows[1]])


def in_order(tm, server):
    """Where the encoding preserves order, the store's own order is the source's."""
    for name, columns, key, _, ordered in KEYS:
        if not ordered:
            continue
        store = [line for line in tm.scan(f"k_{name}").split(b"\n") if line]
        con = server.connect(pinned=True)
        with con.cursor() as cur:
            out = io.BytesIO()
            cur.copy_expert(f"COPY (SELECT * FROM public.k_{name} ORDER BY {key}) TO STDOUT", out)
        con.close()
        check(store == out.getvalue().split(b"\n")[:-1], f"k_{name}: scan is not in key order")


def test_key_types():
    with Server() as server, Tidemark(server, "public.k_*", args=["--chunk-rows", 2]) as tm:
        make_tables(server)
        names = [f"k_{k[0]}" for k in KEYS]
        for name, columns, _, rows, _ in KEYS:
            rows = rows_of(name, rows)
            insert(server, name, columns, rows[::2])
        tm.start()
        tm.wait_live(*names)
        tm.equal(*names)
        for name, columns, _, rows, _ in KEYS:
            insert(server, name, columns, rows_of(name, rows)[1::2])
        tm.equal(*names)
        in_order(tm, server)
        change_everything(server)
        tm.equal(*names)
        in_order(tm, server)


def test_same_number_written_differently():
    """numeric 1.0 becomes 1.00, float 0 becomes -0: one row at the source, one row in the store."""
    with Server() as server, Tidemark(server, "public.n,public.f") as tm:
        server.sql("CREATE TABLE n (k numeric PRIMARY KEY, v int); INSERT INTO n VALUES (1.0, 1), (2, 1);"
                   "CREATE TABLE f (k float8 PRIMARY KEY, v int); INSERT INTO f VALUES (0, 1), (1, 1)")
        tm.start()
        tm.wait_live("n", "f")
        for statement in ("UPDATE n SET k = 1.00 WHERE k = 1", "UPDATE n SET v = 2", "UPDATE n SET k = 1.000, "
                                                                                     "v = 3 WHERE k = 1",
                          "DELETE FROM n WHERE k = 1; INSERT INTO n VALUES (1.0, 4)",
                          "UPDATE f SET k = '-0' WHERE k = 0", "UPDATE f SET v = 2",
                          "DELETE FROM f WHERE k = 0"):
            server.sql(statement)
            tm.equal("n", "f")


def test_a_column_twice_in_the_index():
    """PostgreSQL takes a unique index over (k, k), and it as replica identity."""
    with Server() as server, Tidemark(server, "public.twice,public.pair") as tm:
        server.sql("CREATE TABLE twice (v int, k int NOT NULL); CREATE UNIQUE INDEX twice_k ON twice (k, k);"
                   "ALTER TABLE twice REPLICA IDENTITY USING INDEX twice_k;"
                   "CREATE TABLE pair (a int NOT NULL, b text NOT NULL); CREATE UNIQUE INDEX pair_k ON pair (b, a, b);"
                   "ALTER TABLE pair REPLICA IDENTITY FULL;"
                   "INSERT INTO twice SELECT 0, g FROM generate_series(1, 9) g;"
                   "INSERT INTO pair SELECT g, 'x' || g % 3 FROM generate_series(1, 9) g")
        tm.start("--chunk-rows", "2")
        tm.wait_live("twice", "pair")
        tm.equal("twice", "pair")
        server.sql("UPDATE twice SET k = k + 10 WHERE k < 4; DELETE FROM twice WHERE k = 5; UPDATE pair SET b = 'y' WHERE a = 2")
        tm.equal("twice", "pair")


NAMES = [
    ("Capital", "Table", "Key Column", "Value"),
    ("with space", " lead and trail ", " k", "v "),
    ("dots.in.it", "a.b.c", "k.k", "v.v"),
    ('quote"s', "it's \"quoted\"", 'k"', "v'"),
    ("odd#/,;", "#/\\,;()*?[]%$", "select", "from"),
    ("größe_日本", "表_😀", "ключ", "valeur_é"),
    ("s" * 63, "t" * 63, "k" * 63, "é" * 31 + "x"),
    ("public", "order", "group", "user"),
    ("public", "Order", "Group", "User"),
]


def test_names():
    """In the publication, the chunks, the stream, the commands, JSON and logs."""
    tables = [n[:2] for n in NAMES]
    with Server() as server, Tidemark(server, tables, args=["--chunk-rows", 2]) as tm:
        for schema, table, key, value in NAMES:
            s, t, k, v = map(quoted, (schema, table, key, value))
            server.sql(f"CREATE SCHEMA IF NOT EXISTS {s}; CREATE TABLE {s}.{t} ({v} text, {k} int PRIMARY KEY);"
                       f"INSERT INTO {s}.{t} SELECT 'v' || g, g FROM generate_series(1, 5) g")
        tm.start()
        tm.wait_live(*tables)
        tm.equal(*tables)
        for schema, table, key, value in NAMES:
            s, t, k, v = map(quoted, (schema, table, key, value))
            server.sql(f"UPDATE {s}.{t} SET {v} = 'changed' WHERE {k} = 2; DELETE FROM {s}.{t} WHERE {k} = 3;"
                       f"INSERT INTO {s}.{t} VALUES (NULL, 9)")
        tm.equal(*tables)
        for schema, table, key, value in NAMES:
            row = tm.get((schema, table), 2)
            check(row == {value: "changed", key: 2}, f"{schema}.{table}: get printed {row}")
        check(set(tm.tables()) == set(tables), lambda: f"tables lists {set(tm.tables())}")


def test_long_keys():
    """Beyond LMDB's 511 bytes, with the first 600 in common; changed, deleted, got."""
    with Server() as server, Tidemark(server, "public.t,public.c", args=["--chunk-rows", 2]) as tm:
        prefix = "p" * 600
        server.sql("CREATE TABLE t (k text PRIMARY KEY, v text); "
                   "CREATE TABLE c (a text, b int, v text, PRIMARY KEY (b, a))")
        keys = [prefix + tail for tail in ("", "a", "b", "ab", "é", "\n", "x" * 1500)] + ["p", "p" * 479,
                                                                                          "p" * 480,
                                                                                          "p" * 510, "p" * 511,
                                                                                          "p" * 512]
        def insert_keys(some):
            for k in some:
                server.sql("INSERT INTO t VALUES (%s, 'v')", k)
                server.sql("INSERT INTO c VALUES (%s, 1, 'v'), (%s, 2, 'v')", k, k)
        insert_keys(keys[::2])
        tm.start()
        tm.wait_live("t", "c")
        tm.equal("t", "c")
        insert_keys(keys[1::2])
        tm.equal("t", "c")
        server.sql("UPDATE t SET v = md5(k)")
        server.sql("UPDATE c SET v = md5(a) WHERE b = 2")
        tm.equal("t", "c")
        check(tm.get("t", prefix + "ab")["k"] == prefix + "ab", "get of a long key")
        check(tm.get("t", prefix + "nothing") is None, "get of a long key that is not there")
        server.sql("DELETE FROM t WHERE k = %s", prefix + "a")
        server.sql("UPDATE t SET k = %s WHERE k = %s", prefix + "zz", prefix + "ab")
        server.sql("UPDATE c SET a = a || 'z' WHERE b = 1")
        tm.equal("t", "c")


def test_odd_values_as_keys():
    values = ["'", "''", '"', "\\", "\\\\", "\\N", "\t", "\n", "\r\n", "$1", "%s", "NULL", "{}", "a'b\"c\\d",
              "\x01", " ", "é\u0301",
              "'; DROP TABLE t; --"]
    with Server() as server, Tidemark(server, "public.t,public.p", args=["--chunk-rows", 2]) as tm:
        server.sql("CREATE TABLE t (k text PRIMARY KEY, v text); "
                   "CREATE TABLE p (a text, b text, n int, PRIMARY KEY (a, b))")
        def insert(some):
            for v in some:
                server.sql("INSERT INTO t VALUES (%s, %s)", v, v)
                server.sql("INSERT INTO p VALUES (%s, %s, 1), (%s, '', 2)", v, v + "x", v)
        insert(values[::2])
        tm.start()
        tm.wait_live("t", "p")
        tm.equal("t", "p")
        insert(values[1::2])
        tm.equal("t", "p")
        server.sql("UPDATE p SET n = n + 1, b = b || a WHERE n = 1")
        server.sql("UPDATE t SET v = NULL WHERE length(k) = 1")
        tm.equal("t", "p")
        for v in values:
            row = tm.get("t", v)
            check(row and row["k"] == v, f"get {v!r} printed {row}")
