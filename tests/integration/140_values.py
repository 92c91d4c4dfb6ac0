"""Values of many types: the text is the same whether copied or streamed, whatever the server's own settings."""

from harness import Server, Tidemark, check, incompressible, rng

# SQL of the type, and values as SQL
VALUES = [
    ("int2", ["-32768", "32767"]), ("int8", ["-9223372036854775808"]), ("bool", ["true", "false"]),
    ("numeric", ["'NaN'", "'Infinity'", "1.000", "123456789012345678901234567890.123456789", "1e-20", "-0.0"]),
    ("numeric(10,2)", ["1", "-99999999.99"]),
    ("float4", ["0.1", "'NaN'", "'-Infinity'", "'-0'", "1.17549435e-38", "16777216"]),
    ("float8", ["0.1::float8 + 0.2", "'NaN'", "'Infinity'", "5e-324", "1.7976931348623157e308", "'-0'"]),
    ("money", ["'1234.56'", "'-0.01'"]),
    ("text", ["''", "E'tab\\tnewline\\nreturn\\rbackslash\\\\'", "'\\N'", "'\\.'", "'é日本😀'", "E'\\x01\\x7f'",
              "'  '"]),
    ("varchar(10)", ["'abc  '"]), ("char(6)", ["'ab'"]), ('"char"', ["'x'", "''", "'\\303'"]), ("name",
                                                                                                ["'n'"]),
    ("bytea", ["''", "'\\x00'", "'\\xdeadbeef00'"]),
    ("date", ["'infinity'", "'-infinity'", "'0044-03-15 BC'", "'5874897-12-31'", "'2026-03-29'"]),
    ("time", ["'24:00:00'", "'00:00:00.000001'"]), ("timetz", ["'24:00:00+00'", "'12:34:56.5-15:59:59'"]),
    ("timestamp", ["'infinity'", "'294276-12-31 23:59:59.999999'", "'4714-11-24 00:00 BC'",
                   "'2026-01-01 00:00:00.1'"]),
    ("timestamptz", ["'-infinity'", "'1883-11-18 12:03:58-04:56:02'", "'2026-07-01 12:00+05:45'",
                     "'0001-01-01 00:00+00 BC'"]),
    ("interval", ["'1 year -2 mons 3 days -04:05:06.7'", "'-1 day +02:00'", "'0'", "'178000000 years'"]),
    ("bit(5)", ["B'10101'"]), ("varbit", ["B''", "B'1'"]),
    ("inet", ["'10.0.0.1/8'", "'::ffff:1.2.3.4'"]), ("cidr", ["'10.0.0.0/8'"]), ("macaddr",
                                                                                 ["'08:00:2b:01:02:03'"]),
    ("macaddr8", ["'08:00:2b:01:02:03:04:05'"]), ("uuid", ["'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'"]),
    ("json", ["'{\"a\" : [1,  2, null], \"a\": \"\\u00e9\"}'", "'  1 '", "'null'", "'\"text\"'"]),
    ("jsonb", ["'{\"b\": 1.10, \"a\": [true, null]}'", "'null'", "'\"x\"'", "'1e400'"]), ("jsonpath",
                                                                                          ["'$.a[*] ? (@ > 1)'"]),
    ("xml", ["'<a b=\"c\">&lt;é</a>'"]),
    ("point", ["'(1.5,-0)'"]), ("line", ["'{1,2,3}'"]), ("lseg", ["'[(0,0),(1,1.1)]'"]), ("box",
                                                                                          ["'(1,1),(0,0)'"]),
    ("path", ["'[(0,0),(1,1)]'", "'((0,0),(1,1))'"]), ("polygon", ["'((0,0),(1,1),(1,0))'"]), ("circle",
                                                                                               ["'<(0,0),2>'"]),
    ("tsvector", ["'a fat:2,4 cat''s:3A'"]), ("tsquery", ["'fat & (rat | !cat:*)'"]),
    ("int4range", ["'empty'", "'(1,5]'", "'(,)'"]), ("numrange", ["'[1.0,2.00)'"]), ("tstzrange",
                                                                                     ["'[2026-01-01 00:00+02,)'"]),
    ("daterange", ["'[2026-01-01,infinity]'"]), ("int4multirange", ["'{[1,3),[5,7)}'", "'{}'"]),
    ("int[]", ["'{}'", "'{1,NULL,3}'", "'{{1,2},{3,4}}'", "'[2:3]={1,2}'"]),
    ("text[]", ["'{\"a,b\",\"q\\\"\\\\\",NULL,\"NULL\",\"\",é}'"]), ("timestamptz[]",
                                                                     ["'{2026-01-01 00:00+02,infinity}'"]),
    ("bytea[]", ["array['\\x00'::bytea, '\\xff']"]), ("float8[]", ["'{0.1,NaN,-0}'"]), ("interval[]",
                                                                                        ["'{1 mon -1 day}'"]),
    ("oid", ["4294967295"]), ("xid8", ["'18446744073709551615'"]), ("pg_lsn", ["'16/B374D848'"]), ("tid",
                                                                                                   ["'(1,2)'"]),
    ("regclass", ["'pg_class'", "'public.\"Odd name\"'"]), ("regtype", ["'int4'"]), ("regproc", ["'now'"]),
    ("mood", ["'sad'", "'it''s'"]), ("positive", ["7"]), ("pair", ["ROW(1, 'a,b\"c')", "ROW(NULL, '')"]),
    ("pair[]", ["array[ROW(1, 'x')::pair, NULL]"]), ("pg_snapshot", ["'10:20:10,14,15'"]),
]

TYPES = """
CREATE TYPE mood AS ENUM ('sad', 'ok', 'it''s'); CREATE DOMAIN positive AS int CHECK (VALUE > 0);
CREATE TYPE pair AS (a int, b text); CREATE TABLE "Odd name" (id int PRIMARY KEY);
"""


def test_types():
    with Server() as server, Tidemark(server, "public.v_*") as tm:
        server.sql(TYPES)
        server.sql("ALTER ROLE postgres SET datestyle = 'German'; "
                   "ALTER DATABASE postgres SET intervalstyle = 'iso_8601';"
                   "ALTER ROLE postgres SET bytea_output = 'escape'; "
                   "ALTER ROLE postgres SET extra_float_digits = 0;"
                   "ALTER ROLE postgres SET timezone = 'Asia/Kathmandu'")
        names = []
        for i, (kind, values) in enumerate(VALUES):
            names.append(f"v_{i}")
            server.sql(f"CREATE TABLE v_{i} (id int PRIMARY KEY, v {kind}, way text)")
            server.sql(f"INSERT INTO v_{i} VALUES (0, NULL, 'copied')" +
                       "".join(f", ({n + 1}, {v}, 'copied')" for n, v in enumerate(values)))
        tm.start()
        tm.wait_live(*names)
        tm.equal(*names)
        for i, (kind, values) in enumerate(VALUES):
            server.sql(f"INSERT INTO v_{i} VALUES (100, NULL, 'streamed')" +
                       "".join(f", ({n + 101}, {v}, 'streamed')" for n, v in enumerate(values)))
            server.sql(f"UPDATE v_{i} SET way = 'updated' WHERE id = 1")
        tm.equal(*names)


def test_shapes():
    """Only a key; empty strings against NULL; 1,600 columns; generated, identity and dropped columns; megabytes."""
    with Server() as server, Tidemark(server, "public.*") as tm:
        wide = ", ".join(f"c{i} int" for i in range(1599))
        server.sql(f"CREATE TABLE only_key (id int PRIMARY KEY); "
                   f"CREATE TABLE wide (id int PRIMARY KEY, {wide});"
                   "CREATE TABLE blank (id int PRIMARY KEY, a text, b text);"
                   "CREATE TABLE made (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, a int, "
                   "b int GENERATED ALWAYS AS (a * 2) STORED, c text);"
                   "CREATE TABLE dropped (x int, id int PRIMARY KEY, y int, z text); "
                   "ALTER TABLE dropped DROP x, DROP y;"
                   "CREATE TABLE huge (id int PRIMARY KEY, v text, n int)")
        text = rng("huge")
        def write(first):
            server.sql("INSERT INTO only_key SELECT g FROM generate_series(%s, %s) g", first, first + 9)
            server.sql("INSERT INTO wide (id, c0, c800, c1598) VALUES (%s, 1, 2, 3)", first)
            server.sql("INSERT INTO blank VALUES (%s, '', NULL), (%s, NULL, ''), (%s, NULL, NULL)", first,
                       first + 1, first + 2)
            server.sql("INSERT INTO made (a, c) VALUES (%s, 'x'), (NULL, 'y')", first)
            server.sql("INSERT INTO dropped VALUES (%s, 'z')", first)
            server.sql("INSERT INTO huge VALUES (%s, %s, 1)", first, incompressible(text, 3000000))
        everything = ("only_key", "wide", "blank", "made", "dropped", "huge")
        write(0)
        tm.start()
        tm.wait_live(*everything)
        tm.equal(*everything)
        write(100)
        tm.equal(*everything)
        server.sql("UPDATE huge SET n = 2; UPDATE made SET a = 7, c = NULL; UPDATE wide SET c5 = 5; "
                   "DELETE FROM only_key WHERE id % 2 = 0;"
                   "UPDATE only_key SET id = -id; UPDATE blank SET a = b, b = a; UPDATE dropped SET z = NULL")
        tm.equal(*everything)
