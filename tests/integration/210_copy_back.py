"""What the three formats print: loaded into a second database it equals the source, and other programs read it."""

import csv
import decimal
import io
import json

from harness import Server, Tidemark, check, columns_of, compare, source_copy, table_name, twin

TEXTS = ["", " ", "\\N", "\\.", "NULL", "null", '"', '""', "'", ",", ";", "\t", "\n", "\r", "\r\n", "a\nb", "\\", "\\\\n", "x,y",
         '"q",', "\x01\x1f\x7f", "é日本😀", "\u2028", "\ufeff", "=1+1", "-1", "@x", "true", "1.0", "{}", "</script>", "\\u0000",
         "lead ", " trail", "long " * 2000]
JSONS = ['"x"', "1.50", "[1,  2]", '{"a" : "\\u00e9\\n\\"", "a": 1e400}', "[[[[]]]]", '"é"', "-0", "true", '[null, {"n": null}]']

TABLES = """
CREATE TABLE texts (id int PRIMARY KEY, v text, w varchar, c char(3), "Odd ""name"", x" text);
CREATE TABLE numbers (id int8 PRIMARY KEY, i2 int2, i8 int8, n numeric, f4 float4, f8 float8, b bool, o oid, d positive);
CREATE TABLE jsons (id int PRIMARY KEY, j json, b jsonb);
CREATE TABLE others (id uuid PRIMARY KEY, a int[], t text[], y bytea, r int4range, p pair, m mood, at timestamptz, i interval);
CREATE TABLE keys (k numeric, t text, v text, PRIMARY KEY (t, k));
"""


def write(server, base):
    for n, text in enumerate(TEXTS):
        server.sql("INSERT INTO texts VALUES (%s, %s, %s, %s, %s)", base + n, text, text, text[:3].replace("\x00", ""), text)
        server.sql("INSERT INTO keys VALUES (%s, %s, %s)", base + n, text, text)
    server.sql("INSERT INTO texts VALUES (%s)", base + 500)
    for n, value in enumerate(JSONS):
        server.sql("INSERT INTO jsons VALUES (%s, %s, %s)", base + n, value, value)
    server.sql("INSERT INTO jsons VALUES (%s)", base + 500)
    server.sql(f"""
        INSERT INTO numbers VALUES
          ({base}, -32768, -9223372036854775808, 'NaN', 'NaN', 'NaN', true, 4294967295, 1),
          ({base} + 1, 32767, 9223372036854775807, 'Infinity', '-Infinity', 'Infinity', false, 0, 2),
          ({base} + 2, 0, 0, 1.500, '-0', '-0', NULL, NULL, NULL),
          ({base} + 3, 1, 1, 1e-200, 1e-45, 5e-324, NULL, NULL, NULL),
          ({base} + 4, 1, 1, 123456789012345678901234567890.123456789, 3.4028235e38, 0.30000000000000004, NULL, NULL, NULL),
          ({base} + 5, NULL, NULL, -0.05, 16777216, 1e15, NULL, NULL, NULL);
        INSERT INTO others VALUES
          (md5('a{base}')::uuid, '{{1,NULL,3}}', '{{"a,b",NULL,"NULL","","q\\"\\\\"}}', '\\x00ff', '(1,5]', ROW(1, 'a,"b'), 'it''s', 'infinity', '-1 day'),
          (md5('b{base}')::uuid, '{{}}', '{{{{a}},{{b}}}}', '', 'empty', ROW(NULL, ''), 'sad', '0044-03-15 12:00 BC', '1 mon -04:05'),
          (md5('c{base}')::uuid, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)""")


def make(server):
    server.sql("CREATE TYPE mood AS ENUM ('sad', 'it''s'); CREATE DOMAIN positive AS int CHECK (VALUE > 0); "
               "CREATE TYPE pair AS (a int, b text);" + TABLES)
    return twin(server)


NAMES = ("texts", "numbers", "jsons", "others", "keys")


def load(server, db, name, how, rows):
    con = server.connect(db)
    con.set_client_encoding("UTF8")
    with con.cursor() as cur:
        cur.execute(f"TRUNCATE {name}")
        cur.copy_expert(f"COPY {name} ({', '.join(columns_of(server, db, name))}) FROM STDIN {how}", io.BytesIO(rows))
    con.close()


def scan(tm, name, *args):
    r = tm.cmd("scan", *args, table_name(name))
    check(r.code == 0, r)
    return r.out


def test_copy_and_csv_load_back():
    """COPY takes the text form, and the CSV with NULL as nothing and the empty string as ""."""
    with Server() as server, Tidemark(server, "public.*") as tm:
        other = make(server)
        write(server, 0)
        tm.start()
        tm.wait_live(*NAMES)
        write(server, 1000)
        tm.equal(*NAMES, twin=other)
        for name in NAMES:
            load(server, other, name, "(FORMAT csv, HEADER)", scan(tm, name, "--format", "csv"))
            compare(server, "postgres", name, source_copy(server, other, name))


def test_csv_is_rfc_4180():
    """As a spreadsheet's reader sees it: a header, rows of one width, CRLF, and every text as it is."""
    with Server() as server, Tidemark(server, "public.*") as tm:
        make(server)
        write(server, 0)
        tm.start()
        tm.wait_live(*NAMES)
        for name in NAMES:
            text = scan(tm, name, "--format", "csv").decode()
            header, *rows = csv.reader(io.StringIO(text, newline=""), strict=True)
            source = server.sql(f"SELECT {', '.join(f'{c}::text' for c in columns_of(server, 'postgres', name))} FROM {name}")
            check(header == [r[0] for r in server.sql("SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass"
                                                      " AND attnum > 0 ORDER BY attnum", name)], header)
            check(len(rows) == len(source) and {len(r) for r in rows} == {len(header)}, f"{name}: {len(rows)} rows")
            check(text.endswith("\r\n"), "no CRLF")
        rows = list(csv.DictReader(io.StringIO(scan(tm, "texts", "--format", "csv").decode(), newline="")))
        check([r["v"] for r in rows] == [*TEXTS, ""], "texts differ")


def from_json(server, db, name, lines):
    """Each line as a row again, by PostgreSQL's own reader of JSON."""
    server.sql(f"TRUNCATE {name}", db=db)
    for line in lines:
        server.sql(f"INSERT INTO {name} SELECT * FROM json_populate_record(NULL::{name}, %s)", line.decode(), db=db)


def test_json_is_lossless():
    """Every line is JSON, a row of it is the source's row again, and numbers are numbers to the last digit.

    White space around a json and the JSON null are the exceptions: null is what SQL NULL is, too.
    """
    with Server() as server, Tidemark(server, "public.*") as tm:
        other = make(server)
        write(server, 0)
        tm.start()
        tm.wait_live(*NAMES)
        write(server, 1000)
        tm.wait()
        server.sql("SET extra_float_digits = 3; SET bytea_output = 'hex'", db=other)
        for name in NAMES:
            lines = scan(tm, name).splitlines()
            from_json(server, other, name, lines)
            compare(server, "postgres", name, source_copy(server, other, name))
        row = json.loads(tm.cmd("get", "public.numbers", 4).out, parse_float=decimal.Decimal, parse_int=decimal.Decimal)
        check(row["n"] == decimal.Decimal("123456789012345678901234567890.123456789"), row)
        check(tm.get("numbers", 0)["n"] == "NaN" and tm.get("numbers", 1)["f4"] == "-Infinity", tm.get("numbers", 1))
        check(tm.get("numbers", 0)["b"] is True and tm.get("numbers", 2)["b"] is None, tm.get("numbers", 0))
        check(tm.get("numbers", 1)["d"] == 2, "a domain is what it is made of")
        server.sql("INSERT INTO jsons VALUES (900, E'{\n\"a\":\t[1,\r\n2] }\n', 'null')")
        tm.wait()
        check(tm.get("jsons", 900) == {"id": 900, "j": {"a": [1, 2]}, "b": None}, tm.get("jsons", 900))
        check(len(scan(tm, "jsons", "--from", "900", "--to", "900").splitlines()) == 1, "a line break in the JSON")
        check(tm.get("jsons", 2) == {"id": 2, "j": [1, 2], "b": [1, 2]}, tm.get("jsons", 2))
