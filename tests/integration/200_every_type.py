"""Every type of the server, its arrays, domains and composites, with extreme values: copied, inserted and updated.

The list of types is the server's: one that has no values here fails the test.
"""

import itertools

from harness import Server, Tidemark, check, compare, server_major, twin

# Values as SQL, by the name that format_type() gives the type.
VALUES = {
    "smallint": ["-32768", "32767", "0"], "integer": ["-2147483648", "2147483647"],
    "bigint": ["-9223372036854775808", "9223372036854775807"], "boolean": ["true", "false"],
    "numeric": ["'NaN'", "'-Infinity'", "'Infinity'", "1.000", "-0.0", "1e-16383", "repeat('9', 1000)::numeric",
                "123456789012345678901234567890.123456789"],
    "real": ["0.1", "'NaN'", "'-Infinity'", "'-0'", "1.17549435e-38", "1e-45", "3.4028235e38", "16777216", "1e6"],
    "double precision": ["0.1::float8 + 0.2", "'NaN'", "'Infinity'", "5e-324", "1.7976931348623157e308", "'-0'",
                         "1e15", "123456789012345", "1e23", "0.00001"],
    "money": ["'-92233720368547758.08'", "'92233720368547758.07'", "'-0.01'"],
    "text": ["''", "' '", r"E'tab\tnewline\nreturn\rbackslash\\feed\fback\bvt\v'", r"'\N'", r"'\.'", "'NULL'",
             "'é日本😀\u0301\u202e\ufeff'", r"E'\x01\x1f\x7f'", "repeat('long ', 3000)", "'\"quoted\", ''too'''"],
    "character varying": ["''", "'abc  '"], "bpchar": ["''", "'ab   '", "'ab'"], "name": ["'n'", "repeat('x', 63)", "''"],
    '"char"': ["'x'", "''", r"'\303'", r"'\'"], "citext": ["'Ab'", "''", "'É'"],
    "bytea": ["''", r"'\x00'", r"'\xdeadbeef00ff'", "decode(repeat('00ff', 5000), 'hex')"],
    "date": ["'infinity'", "'-infinity'", "'4714-11-24 BC'", "'0044-03-15 BC'", "'5874897-12-31'", "'2000-02-29'"],
    "time without time zone": ["'24:00:00'", "'00:00:00'", "'00:00:00.000001'", "'23:59:59.999999'"],
    "time with time zone": ["'24:00:00+00'", "'12:34:56.5-15:59:59'", "'00:00+15:59'", "'12:00+05:30'"],
    "timestamp without time zone": ["'infinity'", "'-infinity'", "'294276-12-31 23:59:59.999999'",
                                    "'4714-11-24 00:00 BC'", "'2026-01-01 00:00:00.1'"],
    "timestamp with time zone": ["'infinity'", "'-infinity'", "'1883-11-18 12:03:58-04:56:02'",
                                 "'2026-07-01 12:00+05:45'", "'0001-01-01 00:00+00 BC'", "'2026-03-29 02:30+00'"],
    "interval": ["'1 year -2 mons 3 days -04:05:06.7'", "'-1 day +02:00'", "'0'", "'178000000 years'",
                 "'-178000000 years -1 mon -1 day -23:59:59.999999'", "'-1'", "'-1 day -1'"],
    '"bit"': ["B'1'", "B'0'", "B'10101'::\"bit\""], "bit varying": ["B''", "B'1'", "B'0101010101010101010'"],
    "inet": ["'10.0.0.1/8'", "'::ffff:1.2.3.4'", "'0.0.0.0/0'", "'fe80::1/64'", "'255.255.255.255'"],
    "cidr": ["'10.0.0.0/8'", "'::/0'", "'2001:db8::/32'"], "macaddr": ["'08:00:2b:01:02:03'", "'ff:ff:ff:ff:ff:ff'"],
    "macaddr8": ["'08:00:2b:01:02:03:04:05'"], "uuid": ["'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'",
                                                        "'00000000-0000-0000-0000-000000000000'"],
    "json": [r"""'{"a" : [1,  2, null], "a": "\u00e9"}'""", "'  1 '", "'null'", "'\"text\"'", "E'{\\n\"k\":\\t1e400 }'"],
    "jsonb": ["""'{"b": 1.10, "a": [true, null], "é": "\\"\\\\"}'""", "'null'", "'\"x\"'", "'1e400'", "'[]'"],
    "jsonpath": ["'$.a[*] ? (@ > 1)'", "'strict $.\"é\"'"], "xml": ["'<a b=\"c\">&lt;é</a>'", "''", "'text'"],
    "point": ["'(1.5,-0)'", "'(NaN,Infinity)'"], "line": ["'{1,2,3}'"], "lseg": ["'[(0,0),(1,1.1)]'"],
    "box": ["'(1,1),(0,0)'", "'(0.1,1e300),(-1,-1)'"], "path": ["'[(0,0),(1,1)]'", "'((0,0),(1,1))'"],
    "polygon": ["'((0,0),(1,1),(1,0))'"], "circle": ["'<(0,0),2>'", "'<(0.1,1e-300),Infinity>'"],
    "tsvector": ["'a fat:2,4 cat''s:3A'", "''", "'é \"q\" ''b c'':1B,2'"], "tsquery": ["'fat & (rat | !cat:*)'", "''"],
    "int4range": ["'empty'", "'(1,5]'", "'(,)'", "'[-2147483648,2147483647)'"], "int8range": ["'[1,2]'", "'(,5)'"],
    "numrange": ["'[1.0,2.00)'", "'(-Infinity,NaN]'", "'empty'"], "daterange": ["'[2026-01-01,infinity]'", "'(,)'"],
    "tsrange": ["'[2026-01-01 00:00,infinity)'", "'(,\"0044-03-15 12:00:00 BC\"]'"],
    "tstzrange": ["'[2026-01-01 00:00+02,)'", "'empty'"],
    "int4multirange": ["'{[1,3),[5,7)}'", "'{}'"], "int8multirange": ["'{(,1),[5,)}'"],
    "nummultirange": ["'{[1.0,1.50],(2,3)}'"], "datemultirange": ["'{[2026-01-01,2026-02-01),[2027-01-01,)}'"],
    "tsmultirange": ["'{[2026-01-01 00:00,2026-01-02 00:00)}'"], "tstzmultirange": ["'{[2026-01-01 00:00+02,)}'", "'{}'"],
    "oid": ["4294967295", "0"], "xid": ["'4294967295'", "'0'"], "cid": ["'7'"], "xid8": ["'18446744073709551615'"],
    "tid": ["'(4294967295,65535)'", "'(0,0)'"], "pg_lsn": ["'FFFFFFFF/FFFFFFFF'", "'0/0'"],
    "pg_snapshot": ["'10:20:10,14,15'"], "txid_snapshot": ["'10:20:10,14,15'"], "refcursor": ["'c \"x\"'"],
    "regclass": ["'pg_class'", "'\"Odd Schema\".\"odd.table\"'", "'-'", "'4294967295'"],
    "regtype": ["'int4'", "'\"Odd Schema\".\"Mood x\"'", "'time with time zone'", "'int4[]'"],
    "regproc": ["'now'", "'-'"], "regprocedure": ["'abs(numeric)'", "'0'"], "regoper": ["'||/'", "'0'"],
    "regoperator": ["'+(integer,integer)'", "'-(NONE,bigint)'"], "regrole": ["'postgres'", "'\"odd role\"'"],
    "regnamespace": ["'pg_catalog'", "'\"Odd Schema\"'"], "regconfig": ["'simple'"], "regdictionary": ["'simple'"],
    "regcollation": ["'\"POSIX\"'", "'\"C\"'"], "regdatabase": ["'postgres'"],
    "aclitem": ["'postgres=arwdDxt/postgres'", "'=r*/\"odd role\"'"], "pg_node_tree": [], "pg_ndistinct": [],
    "pg_dependencies": [], "pg_mcv_list": [], "pg_brin_bloom_summary": [], "pg_brin_minmax_multi_summary": [],
    "gtsvector": [], "ghstore": [], "intbig_gkey": [], "ltree_gist": [],
    "hstore": ["''", "'a=>1, b=>NULL, \"x y\"=>\"q\\\"\\\\\", é=>\"\"'"], "ltree": ["'a.B_1.c'", "''"],
    "lquery": ["'*.a{1,2}.b|c*@'"], "ltxtquery": ["'a & (b* | !c)'"], "cube": ["'(1,2),(3,4.5)'", "'(0)'", "'(1e-300)'"],
    "seg": ["'1.50..2'", "'<3'", "'5(+-)0.1'", "'~ 6'"], "query_int": ["'1&(2|!3)'"], "lo": ["77"],
    "ean13": ["'978-0-306-40615-7'"], "isbn13": ["'978-0-306-40615-7'"], "isbn": ["'0-306-40615-2'"],
    "ismn13": ["'979-0-060-11561-5'"], "ismn": ["'M-060-11561-5'"], "issn13": ["'977-1436-452-00-8'"],
    "issn": ["'1436-4522'"], "upc": ["'220356483481'"], "\"Odd Schema\".\"Mood x\"": ["'sad'", "'it''s \"odd\", {so}'"],
    "texts": ["'[a,\"b \\\"c\\\"\")'", "'empty'", "'(,)'"], "textses": ["'{[a,b),[c,)}'", "'{}'"],
}

EXTENSIONS = ("citext", "hstore", "ltree", "cube", "seg", "isn", "intarray", "lo")

OWN = """
CREATE SCHEMA "Odd Schema"; CREATE TABLE "Odd Schema"."odd.table" (id int PRIMARY KEY); CREATE ROLE "odd role";
CREATE TYPE "Odd Schema"."Mood x" AS ENUM ('sad', 'ok', 'it''s "odd", {so}');
CREATE TYPE texts AS RANGE (subtype = text, collation = "C", multirange_type_name = textses);
"""

# A type of the catalog's that a column cannot have is none of ours; arrays come with their elements.
TYPES = """
SELECT format_type(t.oid, -1), coalesce(format_type(nullif(t.typarray, 0), -1), '')
  FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace
 WHERE t.typtype IN ('b', 'r', 'm', 'e', 'd') AND t.typrelid = 0 AND t.typcategory <> 'A'
   AND n.nspname NOT IN ('information_schema', 'pg_toast') ORDER BY 1
"""

# Not ours: role and database set what a session starts with; tidemark has to say otherwise on each connection.
CONTRARY = """
ALTER ROLE postgres SET datestyle = 'German'; ALTER DATABASE postgres SET intervalstyle = 'iso_8601';
ALTER ROLE postgres SET bytea_output = 'escape'; ALTER ROLE postgres SET extra_float_digits = 0;
ALTER ROLE postgres SET timezone = 'Asia/Kathmandu'; ALTER DATABASE postgres SET xmloption = 'document';
ALTER DATABASE postgres SET search_path = 'Odd Schema', public; ALTER ROLE postgres SET lc_monetary = 'C';
ALTER ROLE postgres SET quote_all_identifiers = on
"""

TYPES_A_TABLE = 6  # four columns each: a row has to fit a page


def values_of(type_name):
    check(type_name in VALUES, f"the server has a type {type_name}, and this test has no values of it")
    return [f"({v})::{type_name}" for v in VALUES[type_name]]


def columns_for(server, n, type_name, array):
    """Columns of the type and of what can be made of it, each with its values."""
    values = values_of(type_name)
    columns = [(f"c{n}", type_name, values)]
    if array:
        elements = ", ".join(values + ["NULL"])
        columns.append((f"a{n}", array, [f"ARRAY[{elements}]::{array}", f"'{{}}'::{array}", f"ARRAY[ARRAY[{values[0]}]]::{array}"
                                         if values else "NULL"]))
    server.sql(f"CREATE TYPE pair{n} AS (first {type_name}, second text)")
    columns.append((f"p{n}", f"pair{n}", [f"ROW({v}, 'x,\"y\"')::pair{n}" for v in values] + [f"ROW(NULL, '')::pair{n}"]))
    server.sql(f"CREATE DOMAIN domain{n} AS {type_name}")
    columns.append((f"d{n}", f"domain{n}", [f"{v}::domain{n}" for v in values]))
    return columns


def make_tables(server):
    """{table: [(column, type, values)]}"""
    for extension in EXTENSIONS:
        server.sql(f'CREATE EXTENSION "{extension}"')
    server.sql(OWN)
    types = server.sql(TYPES)
    tables = {}
    for first in range(0, len(types), TYPES_A_TABLE):
        columns = [c for n, t in enumerate(types[first:first + TYPES_A_TABLE], first) for c in columns_for(server, n, *t)]
        tables[f"t{first}"] = columns
        server.sql(f"CREATE TABLE t{first} (id int PRIMARY KEY, way text, "
                   + ", ".join(f"{name} {kind}" for name, kind, _ in columns) + ")")
    return tables


def rows_for(columns):
    """As many rows as the longest list has values; shorter ones begin again. The first is all NULL."""
    n = max(len(values) for _, _, values in columns)
    cycles = [itertools.islice(itertools.cycle(values or ["NULL"]), n) for _, _, values in columns]
    return [["NULL"] * len(columns), *map(list, zip(*cycles))]


def insert(server, tables, way, first):
    for table, columns in tables.items():
        rows = [", ".join([str(first + n), f"'{way}'", *row]) for n, row in enumerate(rows_for(columns))]
        server.sql(f"INSERT INTO {table} VALUES " + ", ".join(f"({row})" for row in rows))


def update(server, tables, first):
    """Every value comes once more, over a row of NULLs."""
    for table, columns in tables.items():
        names = ", ".join(name for name, _, _ in columns)
        rows = rows_for(columns)
        server.sql(f"INSERT INTO {table} (id) SELECT {first} + g FROM generate_series(0, {len(rows) - 1}) g")
        for n, row in enumerate(rows):
            server.sql(f"UPDATE {table} SET (way, {names}) = ROW('updated', {', '.join(row)}) WHERE id = {first + n}")


def test_every_type():
    with Server() as server, Tidemark(server, "public.t*", args=["--chunk-rows", 2]) as tm:
        tables = make_tables(server)
        other = twin(server)
        server.sql(CONTRARY)
        insert(server, tables, "copied", 0)
        tm.start()
        tm.wait_live(*tables)
        insert(server, tables, "inserted", 100)
        update(server, tables, 200)
        tm.equal(*tables, twin=other)
        server.sql("".join(f"UPDATE {t} SET way = way || '!' WHERE id % 2 = 0; " for t in tables))
        tm.equal(*tables)
        check(len(tables) * TYPES_A_TABLE > 90, "too few types")


def test_latin1():
    """Names, keys and values of a database that is not UTF-8 are UTF-8 in the store."""
    with Server() as server:
        server.sql("CREATE DATABASE western ENCODING 'LATIN1' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'")
        with Tidemark(server, "größe.*", db="western", args=["--chunk-rows", 2]) as tm:
            con = server.connect("western")
            con.set_client_encoding("UTF8")
            def sql(text):
                with con.cursor() as cur:
                    cur.execute(text)
            name = ("größe", "tür")
            sql('CREATE SCHEMA "größe"; CREATE TYPE "größe"."é" AS ENUM (\'ä\', \'ß\');'
                'CREATE TABLE "größe"."tür" ("schlüssel" text PRIMARY KEY, v text, e "größe"."é", "char" "char")')
            insert_some = "INSERT INTO \"größe\".\"tür\" SELECT k || '%s', k || '£', 'ß', '' FROM unnest('{é,a,z,Ü,ÿ}'::text[]) k"
            sql(insert_some % 1)
            tm.start()
            tm.wait_live(name)
            sql(insert_some % 2)
            sql('UPDATE "größe"."tür" SET v = \'geändert\', e = \'ä\' WHERE "schlüssel" LIKE \'Ü%\'')
            sql('DELETE FROM "größe"."tür" WHERE "schlüssel" = \'é1\'')
            tm.wait()
            compare(server, "western", name, tm.scan(name))
            check(tm.get(name, "Ü1") == {"schlüssel": "Ü1", "v": "geändert", "e": "ä", "char": ""}, tm.get(name, "Ü1"))
            con.close()


def test_sql_ascii():
    """Its bytes mean nothing in particular."""
    with Server() as server:
        server.sql("CREATE DATABASE plain ENCODING 'SQL_ASCII' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'")
        server.sql("CREATE TABLE t (id int PRIMARY KEY)", db="plain")
        with Tidemark(server, "public.t", db="plain") as tm:
            r = tm.run()
            check(r.code == 2 and "SQL_ASCII" in r.err and "encoding" in r.err, r)
            check(not server.slots() and not server.publications("plain"), "something was made on the source")
