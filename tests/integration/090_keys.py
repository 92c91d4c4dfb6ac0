"""Keys of every type that can be one: paged two rows at a time, streamed, scanned in order, loaded back."""

import io
import ipaddress
import struct

from harness import Server, Tidemark, check, rng, since, twin

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
    ("time", "k time", "k", ["'00:00'", "'24:00:00'", "'12:34:56.789'", "'12:34:56.78'"], True),
    ("timetz", "k timetz", "k", ["'12:00+02'", "'10:00+00'", "'11:00+01'", "'24:00:00-15:59:59'", "'00:00+15:59'",
                                 "'10:00:00.5+00'"], True),
    ("interval", "k interval", "k", ["'1 mon'", "'31 days'", "'-1 day 2 hours'", "'0'"], False),
    ("bytea", "k bytea", "k", [r"'\x'", r"'\x00'", r"'\x0000'", r"'\x0001'", r"'\x00ff'", r"'\xff'",
                               r"'\x5c27'"], True),
    ("bool", "k bool", "k", ["true", "false"], True),
    ("enum", "k mood", "k", ["'sad'", "'ok'", "'happy'", "'it''s'"], False),
    ("num", "k numeric", "k", ["1.0", "0", "-0.5", "'NaN'", "'Infinity'", "'-Infinity'", "1e30", "99999.99999",
                               "10", "9", "-9.99", "-10", "1e-20", "100"], True),
    ("num2", "k numeric(12,2)", "k", ["1", "10", "9", "-1.05", "-1", "1.5", "0"], True),
    ("float8", "k float8", "k", ["0.1", "'NaN'", "'Infinity'", "1e300", "-1.5", "5e-324", "0", "1e15", "123456",
                                 "-0.00001"], True),
    ("float4", "k float4", "k", ["'0.1'", "'NaN'", "'-Infinity'", "1e6", "999999", "-1.5", "'-0'", "16777216"], True),
    ("inet", "k inet", "k", ["'10.0.0.1'", "'10.0.0.0/8'", "'::1'", "'fe80::/10'", "'10.0.0.0/16'", "'9.255.0.0/16'",
                             "'10.0.0.1/8'", "'::ffff:1.2.3.4'"], True),
    ("cidr", "k cidr", "k", ["'10.0.0.0/8'", "'10.0.0.0/16'", "'0.0.0.0/0'", "'2001:db8::/32'", "'9.0.0.0/8'"], True),
    ("mac", "k macaddr", "k", ["'08:00:2b:01:02:03'", "'ff:ff:ff:ff:ff:ff'", "'00:00:00:00:00:00'"], True),
    ("mac8", "k macaddr8", "k", ["'08:00:2b:01:02:03:04:05'", "'ff:00:00:00:00:00:00:00'", "'00:00:00:00:00:00:00:01'"], True),
    ("domain", "k positive", "k", ["1", "22", "333"], True),
    ("domain_char", "k padded", "k", ["'a'", "'B'", "'b c'", "''", "'abcde'"], False),
    ("domain_bit", "k flags", "k", ["'10101'", "'00001'", "'11111'", "'00000'"], False),
    ("domain_text", "k c_text COLLATE ci", "k", ["'a'", "'B'", "'c'", "'D'", "'e'", "'_'"], False),
    ("nondeterministic", "k text COLLATE ci", "k", ["'a'", "'B'", "'c'", "'D'", "'e'", "'F'", "'_'"], False),
    ("qchar", 'k "char"', "k", ["'a'", "'B'", "''", r"'\303'", "'~'"], False),
    ("name", "k name", "k", ["'a'", "'B'", "'é'", "' '", "'\"'"], True),
    ("bit", "k bit(5)", "k", ["B'10101'", "B'00001'", "B'11111'"], True),
    ("varbit", "k varbit", "k", ["B''", "B'1'", "B'10'", "B'01'", "B'0011'"], True),
    ("money", "k money", "k", ["'1234.56'", "'-0.01'", "'0'", "'99999'"], False),
    ("regclass", "k regclass", "k", ["'pg_class'::regclass", "'pg_type'::regclass", "'-'::regclass", "'pg_proc'::regclass"], False),
    ("lsn", "k pg_lsn", "k", ["'0/1'", "'16/B374D848'", "'A/0'"], False),
    ("xid8", "k xid8", "k", ["'1'", "'18446744073709551615'", "'10'"], False),
    ("tid", "k tid", "k", ["'(1,2)'", "'(0,1)'", "'(10,1)'"], False),
    ("jsonb", "k jsonb", "k", ["'{\"a\": 1}'", "'null'", "'[]'", "'\"x\"'", "'1.0'"], False),
    ("tsvector", "k tsvector", "k", ["'a fat:2,4'", "''", "'b'"], False),
    ("citext", "k citext", "k", ["'a'", "'B'", "'c'", "'D'", "'e'", "'F'", "'_'"], False),
    ("ltree", "k ltree", "k", ["'a.b'", "'a'", "'B.c'", "'z'", "'a.b.c'"], False),
    ("hstore", "k hstore", "k", ["''", "'a=>1'", "'b=>NULL'", "'a=>2'", "'\"x y\"=>\"q\\\"\"'"], False),
    ("cube", "k cube", "k", ["'(1,2)'", "'(0)'", "'(1,2),(3,4)'", "'(5)'"], False),
    ("seg", "k seg", "k", ["'1'", "'2..3'", "'1.0'", "'0.5'"], False),
    ("isbn", "k isbn", "k", ["'0-306-40615-2'", "'1-56619-909-3'"], False),
    ("composite", "k pair", "k", ["ROW(1, 'a,b\"c')::pair", "ROW(NULL, '')::pair", "ROW(2, NULL)::pair",
                                  "ROW(1, 'B')::pair"], False),
    ("composites", "k pair[]", "k", ["array[ROW(1, 'x')::pair, NULL]", "'{}'", "array[ROW(2, 'b')::pair]"], False),
    ("multirange", "k int4multirange", "k", ["'{[1,3),[5,7)}'", "'{}'", "'{(,)}'", "'{[1,2)}'"], False),
    ("odd_range", 'k "Odd.Sch""ema"."Ran ge"', "k", ["'[1.5,2.5]'", "'empty'", "'(,)'", "'[0,1)'"], False),
    ("odd_enum", 'k "Odd.Sch""ema"."Mood x"', "k", ["'sad'", "'ok'", "'a b'", "'q\"'"], False),
    ("chars", "k char(5)[]", "k", ["'{abc,de}'", "'{a}'", "'{}'", "'{abcde,f}'", "'{NULL}'"], False),
    ("texts", "k text[]", "k", [r"""'{"a,b",NULL,"NULL",a\\b}'""", "'{}'", "'{a}'", "'{NULL}'", "'{\"NULL\"}'"], False),
    ("own_mixed", "a citext, b int, c text COLLATE ci", "a, b, c", [
        "'a', 1, 'x'", "'B', 1, 'x'", "'B', 2, 'x'", "'c', 1, 'Y'", "'c', 1, 'z'", "'c', 0, 'A'"], False),
    ("mixed_own", "b int, a ltree", "b, a", ["1, 'a'", "1, 'B'", "1, 'c'", "2, 'x'", "2, 'A'", "0, 'b'"], False),
    ("num_text", 'a numeric, b text COLLATE "C"', "a, b", [
        "1.00, 'a'", "1, 'b'", "1.0, ''", "1.000, 'c'", "-1, 'z'", "-1.0, 'a'", "1.5, ''"], True),
    ("float_int", "a float8, b int", "a, b", ["0, 1", "'-0', 2", "0, 3", "'-0', -1", "1, 0", "-1, 0"], True),
    ("inet_num", "a inet, b numeric", "a, b", ["'10.0.0.0/8', 1.0", "'10.0.0.0/8', 1.5", "'10.0.0.1', 0"], True),
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
               "CREATE DOMAIN positive AS int CHECK (VALUE > 0); CREATE DOMAIN padded AS char(5);"
               'CREATE DOMAIN flags AS bit(5); CREATE DOMAIN c_text AS text COLLATE "C"; CREATE TYPE pair AS (a int, b text);'
               "CREATE COLLATION ci (provider = icu, locale = 'und-u-ks-level2', deterministic = false);"
               'CREATE SCHEMA "Odd.Sch""ema"; CREATE TYPE "Odd.Sch""ema"."Ran ge" AS RANGE (subtype = numeric);'
               'CREATE TYPE "Odd.Sch""ema"."Mood x" AS ENUM (\'sad\', \'ok\', \'a b\', \'q"\')')
    for extension in ("citext", "ltree", "hstore", "cube", "seg", "isn"):
        server.sql(f"CREATE EXTENSION {extension}")
    for name, columns, key, _, _ in KEYS:
        server.sql(f"CREATE TABLE k_{name} (v int DEFAULT 0, {columns}, note text DEFAULT 'n', "
                   f"PRIMARY KEY ({key}) INCLUDE (v))")


def insert(server, name, columns, rows):
    names = ", ".join(c.split()[0] for c in columns.replace('DEFAULT 5, ', ', ').split(", ") if c.split()) \
        if name != "other_order" else "a, b"
    server.sql("".join(f"INSERT INTO k_{name} ({names}) VALUES ({row});" for row in rows))


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
    con = server.connect(pinned=True)
    for name, columns, key, _, ordered in KEYS:
        if not ordered:
            continue
        store = [line for line in tm.scan(f"k_{name}").split(b"\n") if line]
        with con.cursor() as cur:
            out = io.BytesIO()
            cur.copy_expert(f"COPY (SELECT * FROM public.k_{name} ORDER BY {key}) TO STDOUT", out)
        check(store == out.getvalue().split(b"\n")[:-1], f"k_{name}: scan is not in key order")
    con.close()


def test_key_types():
    with Server() as server, Tidemark(server, "public.k_*", args=["--chunk-rows", 2]) as tm:
        make_tables(server)
        other = twin(server)
        server.sql("ALTER DATABASE postgres SET array_nulls = off")
        names = [f"k_{k[0]}" for k in KEYS]
        for name, columns, _, rows, _ in KEYS:
            rows = rows_of(name, rows)
            insert(server, name, columns, rows[::2])
        tm.start()
        tm.wait_live(*names)
        tm.equal(*names)
        for name, columns, _, rows, _ in KEYS:
            insert(server, name, columns, rows_of(name, rows)[1::2])
        tm.wait()
        in_order(tm, server)
        change_everything(server)
        tm.equal(*names, twin=other)
        in_order(tm, server)


def bounds_of(server, name, key):
    """Two keys of the table, as the commands take them, and the rows from one to the other in the source's order."""
    con = server.connect(pinned=True)
    with con.cursor() as cur:
        texts = ", ".join(f"format('%s', {c})" for c in key.split(", "))
        cur.execute(f"SELECT {texts} FROM public.k_{name} ORDER BY {key}")
        keys = cur.fetchall()
        first, last = sorted((min(2, len(keys) - 1), max(len(keys) - 3, 0)))
        low, high = ("(" + ", ".join(cur.mogrify("%s", (v,)).decode() for v in k) + ")" for k in (keys[first], keys[last]))
        out = io.BytesIO()
        cur.copy_expert(f"COPY (SELECT * FROM public.k_{name} WHERE ({key}) >= {low} AND ({key}) <= {high} ORDER BY {key})"
                        " TO STDOUT", out)
    con.close()
    return keys[first], keys[last], out.getvalue()


def test_ranges():
    """--from and --to mean what BETWEEN means at the source, where the store has the source's order."""
    def word(values):
        return values[0] if len(values) == 1 else ",".join('"' + v.replace('"', '""') + '"' for v in values)
    ordered = [k for k in KEYS if k[4]]
    with Server() as server, Tidemark(server, "public.k_*") as tm:
        make_tables(server)
        for name, columns, _, rows, _ in ordered:
            insert(server, name, columns, rows_of(name, rows))
        tm.start()
        tm.wait_live(*(f"k_{k[0]}" for k in ordered))
        for name, _, key, _, _ in ordered:
            low, high, rows = bounds_of(server, name, key)
            got = tm.scan(f"k_{name}", f"--from={word(low)}", f"--to={word(high)}")
            check(got == rows, lambda: f"k_{name} from {low} to {high}: {got!r}, not {rows!r}")


def random_float(r, code, bits):
    """Any float, near ones and far ones; and what people write."""
    if r.random() < 0.3:
        return str(r.choice((1, -1)) * r.getrandbits(r.randrange(1, 60)) / 10 ** r.randrange(20))
    if r.random() < 0.1:
        return repr(2.0 ** r.randrange(-140, 120))
    return repr(struct.unpack(f"<{code}", r.getrandbits(bits).to_bytes(bits // 8, "little"))[0])


def random_numeric(r):
    digits = str(r.getrandbits(r.randrange(1, 120)))
    point = r.randrange(len(digits) + 1)
    return f"{r.choice(('', '-'))}{digits[:point] or '0'}.{digits[point:]}e{r.choice((0, 0, r.randrange(-60, 60)))}"


def random_address(r):
    bits = r.choice((32, 128))
    address = ipaddress.ip_address(r.getrandbits(bits) & r.choice((r.getrandbits(bits), 2 ** (bits // 2) - 1)))
    if bits == 128:
        address = ipaddress.IPv6Address(int(address) | 1 << r.randrange(128))
    return f"{address}/{r.choice((bits, r.randrange(bits + 1)))}"


def random_time(r):
    return (f"{r.randrange(24):02}:{r.randrange(60):02}:{r.randrange(60):02}.{r.choice((0, r.randrange(10 ** 6)))}"
            f"{r.choice('+-')}{r.randrange(16):02}{r.choice(('', ':30', ':59:' + str(r.randrange(10, 60))))}")


RANDOM = {
    "float8": lambda r: random_float(r, "d", 64), "float4": lambda r: random_float(r, "f", 32), "numeric": random_numeric,
    "inet": random_address, "timetz": random_time,
}


def test_random_keys():
    """The store's order is the server's, and no text that the server prints is refused."""
    with Server() as server, Tidemark(server, "public.r_*") as tm:
        for kind, make_one in RANDOM.items():
            r = rng("keys", kind)
            values = "".join(f"({'NULL' if v in ('inf', '-inf') else repr(v)})," for v in (make_one(r) for _ in range(3000)))
            server.sql(f"CREATE TABLE r_{kind} (k {kind} PRIMARY KEY);"
                       f"INSERT INTO r_{kind} SELECT k::{kind} FROM (VALUES {values}(NULL)) AS v(k) WHERE k IS NOT NULL"
                       " ON CONFLICT DO NOTHING")
        server.sql("CREATE TABLE r_cidr (k cidr PRIMARY KEY); "
                   "INSERT INTO r_cidr SELECT network(k) FROM r_inet ON CONFLICT DO NOTHING")
        names = [*RANDOM, "cidr"]
        tm.start()
        tm.wait_live(*(f"r_{n}" for n in names))
        con = server.connect(pinned=True)
        with con.cursor() as cur:
            for name in names:
                out = io.BytesIO()
                cur.copy_expert(f"COPY (SELECT k FROM public.r_{name} ORDER BY k) TO STDOUT", out)
                check(out.getvalue().count(b"\n") > 2000, "too few values")
                check(tm.scan(f"r_{name}") == out.getvalue(), f"r_{name}: scan is not in key order")
        con.close()


@since(15)
def test_doubt_by_every_way_to_ask():
    """A row that enters a publication's filter comes without its unchanged large value: asked for by its key, whole."""
    kinds = {"citext": "chr(97 + g % 26) || g", "numeric": "g / 10.0", "ltree": "('a.b' || g)::ltree", "text": "'x' || g"}
    with Server() as server, Tidemark(server, "public.d_*") as tm:
        server.sql("CREATE EXTENSION citext; CREATE EXTENSION ltree")
        tables = [f"d_{kind}" for kind in kinds]
        for kind, key in kinds.items():
            server.sql(f"CREATE TABLE d_{kind} (v text, k {kind}, n int DEFAULT 0, PRIMARY KEY (k, n));"
                       f"ALTER TABLE d_{kind} ALTER v SET STORAGE EXTERNAL;"
                       f"INSERT INTO d_{kind} SELECT repeat(md5(g::text), 200), {key} FROM generate_series(1, 60) g")
        server.sql("CREATE PUBLICATION tidemark FOR TABLE " + ", ".join(f"{t} WHERE (n > 0)" for t in tables))
        tm.start()
        tm.wait_live(*tables)
        server.sql("".join(f"UPDATE {t} SET n = n + 1;" for t in tables))
        tm.wait()
        tm.wait_live(*tables)
        tm.equal(*tables)


def test_equal_numbers_are_in_every_range():
    with Server() as server, Tidemark(server, "public.*") as tm:
        server.sql("CREATE TABLE n (k numeric PRIMARY KEY); INSERT INTO n VALUES (0.9), (1.00), (1.1), (2.000), (3);"
                   "CREATE TABLE p (a numeric, b int, PRIMARY KEY (a, b)); INSERT INTO p VALUES (1.0, 5), (1, 6), (1.00, 4)")
        tm.start()
        tm.wait_live("n", "p")
        check(tm.scan("n", "--from", "1", "--to", "2") == b"1.00\n1.1\n2.000\n", tm.scan("n", "--from", "1", "--to", "2"))
        check(tm.scan("n", "--from", "1.000", "--to", "1.000") == b"1.00\n", "1.00 is 1.000")
        check(tm.scan("p", "--from", "1,5", "--to", "1.000,6") == b"1.0\t5\n1\t6\n", tm.scan("p", "--from", "1,5"))
        check(tm.scan("p", "--from", "1", "--to", "1") == b"1.00\t4\n1.0\t5\n1\t6\n", tm.scan("p"))
        check(tm.get("n", "1.00") == {"k": 1} and tm.get("n", "1") is None, "get takes the text")


def test_identity_indexes():
    """Another unique index than the primary key, columns in another order, with INCLUDE, and under FULL."""
    with Server() as server, Tidemark(server, "public.*", args=["--chunk-rows", 2]) as tm:
        server.sql("CREATE EXTENSION citext;"
                   "CREATE TABLE a (id int PRIMARY KEY, x numeric NOT NULL, v text, y citext NOT NULL);"
                   "CREATE UNIQUE INDEX a_yx ON a (y DESC, x) INCLUDE (v, id); ALTER TABLE a REPLICA IDENTITY USING INDEX a_yx;"
                   "CREATE TABLE b (v text, k float8 NOT NULL, t text NOT NULL); "
                   "CREATE UNIQUE INDEX b_tk ON b (t text_pattern_ops, k) INCLUDE (v); ALTER TABLE b REPLICA IDENTITY FULL;"
                   "CREATE TABLE c (k time NOT NULL, v int, UNIQUE (k) INCLUDE (v)); ALTER TABLE c REPLICA IDENTITY USING INDEX c_k_v_key")
        other = twin(server)
        def write(first):
            server.sql(f"INSERT INTO a SELECT g, g / 2.0, 'v', chr(97 + g % 7) || g FROM generate_series({first}, {first} + 20) g;"
                       f"INSERT INTO b SELECT 'v', g / 4.0, chr(65 + g % 40) FROM generate_series({first}, {first} + 20) g;"
                       f"INSERT INTO c SELECT '00:00'::time + g * interval '7 min', g FROM generate_series({first}, {first} + 20) g")
        write(0)
        tm.start()
        tm.wait_live("a", "b", "c")
        write(100)
        server.sql("UPDATE a SET y = upper(y), x = x + 1 WHERE id % 3 = 0; UPDATE b SET k = -k WHERE k > 2; DELETE FROM c WHERE v % 4 = 1;"
                   "UPDATE c SET k = k + interval '1 us'; UPDATE b SET v = NULL; DELETE FROM a WHERE id % 5 = 0")
        tm.equal("a", "b", "c", twin=other)


def test_sweep_by_every_key():
    """Rows that went while a table was not published are asked for by their keys, and not found."""
    with Server() as server, Tidemark(server, "public.k_*", args=["--chunk-rows", 2]) as tm:
        make_tables(server)
        names = [f"k_{k[0]}" for k in KEYS]
        for name, columns, _, rows, _ in KEYS:
            insert(server, name, columns, rows_of(name, rows))
        tm.start()
        tm.wait_live(*names)
        tm.stop()
        said = len(tm.log())
        server.sql(f"ALTER PUBLICATION tidemark DROP TABLE {', '.join(names)}")
        server.sql("".join(f"DELETE FROM {n} WHERE ctid IN (SELECT ctid FROM {n} ORDER BY ctid OFFSET 1);" for n in names))
        tm.start()
        tm.wait_log("all tables are live", start=said)
        tm.equal(*names)
        check("level=warn" not in tm.log()[said:] and "level=error" not in tm.log()[said:], tm.log()[said:])


def test_equal_keys_are_swept():
    """1.0 that became 1.00 behind our back: one row at the source, and the other has to go."""
    with Server() as server, Tidemark(server, "public.*", args=["--chunk-rows", 2]) as tm:
        server.sql("CREATE EXTENSION citext; CREATE COLLATION ci (provider = icu, locale = 'und-u-ks-level2', deterministic = false);"
                   "CREATE TABLE n (k numeric PRIMARY KEY, v text); CREATE TABLE c (k citext PRIMARY KEY, v text);"
                   "CREATE TABLE d (a int, k text COLLATE ci, v text, PRIMARY KEY (a, k)); CREATE TABLE f (k float8 PRIMARY KEY, v text);"
                   "INSERT INTO n SELECT g::numeric(10,1), 'v' FROM generate_series(1, 9) g;"
                   "INSERT INTO c SELECT chr(96 + g), 'v' FROM generate_series(1, 9) g;"
                   "INSERT INTO d SELECT g % 2, chr(96 + g), 'v' FROM generate_series(1, 9) g; INSERT INTO f VALUES (0, 'v'), (1, 'v')")
        tm.start()
        tm.wait_live("n", "c", "d", "f")
        tm.equal("n", "c", "d", "f")
        tm.stop()
        server.sql("ALTER PUBLICATION tidemark DROP TABLE n, c, d, f")
        server.sql("UPDATE n SET k = k::numeric(10,3) WHERE k::int % 2 = 0; DELETE FROM n WHERE k = 3; INSERT INTO n VALUES (77, 'x');"
                   "UPDATE c SET k = upper(k::text) WHERE ascii(k::text) % 2 = 0; DELETE FROM c WHERE k = 'C';"
                   "UPDATE d SET k = upper(k) WHERE ascii(k) % 2 = 0; DELETE FROM d WHERE k = 'C'; UPDATE f SET k = '-0' WHERE k = 0")
        said = len(tm.log())
        tm.start()
        tm.wait_log("all tables are live", start=said)
        tm.equal("n", "c", "d", "f")
        check(not [l for l in tm.log().splitlines() if "level=error" in l or "level=warn" in l], tm.log())


def test_indexes_that_tell_more_apart():
    """Rows that are equal for the order of pages would be passed over: such an index is no key, and others are."""
    with Server() as server, Tidemark(server, "public.*", args=["--chunk-rows", 1]) as tm:
        server.sql("CREATE EXTENSION citext; CREATE TYPE pair AS (a numeric, b int); CREATE DOMAIN own AS citext;"
                   "CREATE COLLATION ci (provider = icu, locale = 'und-u-ks-level2', deterministic = false);"
                   "CREATE TABLE a (k citext NOT NULL, v int); CREATE UNIQUE INDEX ON a (k text_ops);"
                   "CREATE TABLE b (k text COLLATE ci NOT NULL, v int); CREATE UNIQUE INDEX ON b (v, k COLLATE \"C\");"
                   "ALTER TABLE b ALTER v SET NOT NULL; CREATE TABLE c (k pair NOT NULL); CREATE UNIQUE INDEX ON c (k record_image_ops);"
                   "CREATE TABLE d (k own NOT NULL); CREATE UNIQUE INDEX ON d (k text_ops);"
                   "CREATE TABLE e (k citext NOT NULL); CREATE UNIQUE INDEX ON e (k text_ops); CREATE UNIQUE INDEX ON e (k);"
                   "CREATE TABLE f (k text COLLATE \"C\" NOT NULL, v varchar NOT NULL, c char(3) NOT NULL, n cidr NOT NULL);"
                   "CREATE UNIQUE INDEX ON f (k COLLATE \"und-x-icu\" text_pattern_ops, v varchar_ops, c bpchar_pattern_ops, n cidr_ops);"
                   "CREATE TABLE g (k citext NOT NULL); CREATE UNIQUE INDEX ON g (k citext_pattern_ops)")
        server.sql("".join(f"ALTER TABLE {t} REPLICA IDENTITY FULL;" for t in "abcdefg"))
        server.sql("INSERT INTO e VALUES ('a'), ('B'), ('c'); INSERT INTO g SELECT k FROM e;"
                   "INSERT INTO f SELECT k, k, k, '10.0.0.0/8' FROM unnest('{a,A,b}'::text[]) k")
        r = tm.run()
        check(r.code == 2, r)
        for table in "abcd":
            check(f"public.{table} has no usable key" in r.err, f"{table} is not refused: {r.err}")
        check(not any(f"public.{table} has" in r.err for table in "efg"), r.err)
        tm.start("--skip-unsupported")
        tm.wait_live("e", "f", "g")
        tm.equal("e", "f", "g")


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


def test_long_keys():
    """Beyond LMDB's 511 bytes, with the first 600 in common; changed, deleted, got."""
    with Server() as server, Tidemark(server, "public.t,public.c,public.l*", args=["--chunk-rows", 2]) as tm:
        prefix = "p" * 600
        server.sql("CREATE TABLE t (k text PRIMARY KEY, v text); "
                   "CREATE TABLE c (a text, b int, v text, PRIMARY KEY (b, a))")
        others = {"numeric": "(repeat('1', 1200) || {0})::numeric", "bytea": "decode(repeat('00', 800), 'hex') || '{0}'::bytea",
                  "text[]": "array_fill('a,b'::text, array[300]) || '{0}'::text", "citext": "repeat('Ab', 400) || '{0}'"}
        server.sql("CREATE EXTENSION citext")
        for n, kind in enumerate(others):
            server.sql(f"CREATE TABLE l{n} (k {kind} PRIMARY KEY, v int)")
        other = twin(server)
        def insert_others(numbers):
            for n, sql in enumerate(others.values()):
                server.sql(f"INSERT INTO l{n} VALUES " + ", ".join(f"({sql.format(i)}, {i})" for i in numbers))
        insert_others(range(1, 8))
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
        tm.wait_live("t", "c", "l0", "l1", "l2", "l3")
        tm.equal("t", "c")
        insert_keys(keys[1::2])
        insert_others(range(11, 15))
        server.sql("".join(f"UPDATE l{n} SET v = -v WHERE v % 2 = 0; DELETE FROM l{n} WHERE v % 5 = 0;" for n in range(4)))
        tm.equal("l0", "l1", "l2", "l3", twin=other)
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
