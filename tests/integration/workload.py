"""Seeded concurrent writers: what an application does to its tables, and worse.

Five tables: `big` (integer key), `pairs` (key (text, int), its columns in another
order), `words` (text key), `docs` (10 kB texts that TOAST keeps out of line) and `tiny`, which
is truncated now and then. Each writer draws its transactions from its own generator. Conflicts
with other writers and a server that goes away are part of the plan: the transaction counts as
not done.
"""

import threading
import time

import psycopg2

from harness import incompressible, rng

TABLES = ("big", "pairs", "words", "docs", "tiny")

SCHEMA = """
CREATE TABLE big (id bigint PRIMARY KEY, n int, note text, at timestamptz DEFAULT now(), amount numeric);
CREATE TABLE pairs (v text, a int, b text, n int, PRIMARY KEY (b, a));
CREATE TABLE words (n int, k text PRIMARY KEY, d date);
CREATE TABLE docs (id int PRIMARY KEY, n int, body text, tail text);
CREATE TABLE tiny (id int PRIMARY KEY, v text);
ALTER TABLE docs ALTER body SET STORAGE EXTERNAL;
"""

FILL = """
INSERT INTO big SELECT g, g %% 1000, repeat(md5(g::text), 2), timestamptz '2026-01-01' + g * interval '1 s', g * 1.25
    FROM generate_series(1, %(big)s) g;
INSERT INTO pairs SELECT md5(g::text), g %% 100, 'group ' || g / 100, g FROM generate_series(1, %(small)s) g;
INSERT INTO words SELECT g, md5(g::text) || CASE WHEN g %% 7 = 0 THEN ' é\\' ELSE '' END, date '2026-01-01' + g
    FROM generate_series(1, %(small)s) g;
INSERT INTO docs SELECT g, g, (SELECT string_agg(md5(g::text || i::text), '') FROM generate_series(1, 313) i), 'tail'
    FROM generate_series(1, %(docs)s) g;
INSERT INTO tiny SELECT g, 'first' FROM generate_series(1, 50) g;
"""


class Writer(threading.Thread):
    def __init__(self, workload, number):
        super().__init__(daemon=True)
        self.workload, self.number = workload, number
        self.rng = rng("writer", number)
        self.done = 0
        self.given_up = 0
        self.con = None

    def run(self):
        while not self.workload.stopping.is_set():
            began = time.monotonic()
            try:
                self.transaction()
                self.done += 1
            except (psycopg2.OperationalError, psycopg2.InterfaceError):
                self.lose_connection()
            except psycopg2.Error:
                self.given_up += 1
                self.roll_back()
            pause = self.workload.interval - (time.monotonic() - began)
            if pause > 0:
                self.workload.stopping.wait(pause)
        if self.con:
            self.con.close()

    def roll_back(self):
        try:
            self.con.rollback()
        except psycopg2.Error:
            self.lose_connection()

    def lose_connection(self):
        """A deadlock is an OperationalError too: only reconnect when the connection is gone."""
        self.given_up += 1
        if self.con and not self.con.closed:
            try:
                self.con.rollback()
                return
            except psycopg2.Error:
                pass
        self.con = None
        self.workload.stopping.wait(0.05)

    def transaction(self):
        if self.con is None:
            self.con = self.workload.server.connect(self.workload.db, autocommit=False)
            with self.con.cursor() as cur:
                cur.execute("SET search_path = public; SET deadlock_timeout = '50ms'; SET lock_timeout = '2s'")
            self.con.commit()
        draw = self.rng.random()
        for limit, kind in KINDS:
            if draw < limit:
                break
        with self.con.cursor() as cur:
            kind(self, cur)
        if self.rng.random() < 0.05:
            self.con.rollback()
        else:
            self.con.commit()

    # Where a key may be: mostly among the loaded ones, all over the table.
    def big_id(self):
        return self.rng.randint(1, self.workload.sizes["big"] + 2000)

    def small_id(self):
        return self.rng.randint(1, self.workload.sizes["small"])

    def doc_id(self):
        return self.rng.randint(1, self.workload.sizes["docs"] + 50)


def change_rows(w, cur):
    """A few single-row changes of the big table."""
    for _ in range(w.rng.randint(1, 5)):
        key = w.big_id()
        draw = w.rng.random()
        if draw < 0.5:
            cur.execute("UPDATE big SET n = n + 1, at = now() WHERE id = %s", (key,))
        elif draw < 0.7:
            cur.execute("DELETE FROM big WHERE id = %s", (key,))
        elif draw < 0.8:
            cur.execute("DELETE FROM big WHERE id = %s", (key,))
            cur.execute("INSERT INTO big VALUES (%s, %s, 'again', DEFAULT, 'NaN') ON CONFLICT (id) DO NOTHING",
                        (key, w.number))
        else:
            cur.execute("INSERT INTO big VALUES (%s, %s, %s, DEFAULT, %s) ON CONFLICT (id)"
                        " DO UPDATE SET note = excluded.note, amount = NULL",
                        (key, w.number, "\t\n\\ tab, é, %d" % w.rng.randint(0, 10**9), w.rng.randint(0, 99)))


def change_keys(w, cur):
    """Keys move forward, backward, and two swap through a third."""
    a, b = w.big_id(), w.big_id()
    draw = w.rng.random()
    if draw < 0.4 and a != b:
        if w.rng.random() < 0.7:
            cur.execute("DELETE FROM big WHERE id = %s", (a,))
        cur.execute("UPDATE big SET id = %s, n = n + 1 WHERE id = %s", (a, b))
    elif draw < 0.6 and a != b:
        cur.execute("UPDATE big SET id = -%s WHERE id = %s", (a, a))
        cur.execute("UPDATE big SET id = %s WHERE id = %s", (a, b))
        cur.execute("UPDATE big SET id = %s WHERE id = -%s", (b, a))
    elif draw < 0.8:
        cur.execute("UPDATE words SET k = %s WHERE k = md5(%s::text)", (w.rng.choice("az") + str(a), w.small_id()))
    else:
        g = w.small_id()
        cur.execute("UPDATE pairs SET a = a + %s, b = %s WHERE (b, a) = (%s, %s)",
                    (w.rng.randint(-500, 500), "group %d" % w.rng.randint(-9, 99), "group %d" % (g // 100), g % 100))


def change_documents(w, cur):
    """The text stays, goes, changes, or moves with its key."""
    key, draw = w.doc_id(), w.rng.random()
    if draw < 0.5:
        cur.execute("UPDATE docs SET n = n + 1 WHERE id = %s", (key,))
    elif draw < 0.6:
        cur.execute("UPDATE docs SET body = %s WHERE id = %s", (incompressible(w.rng, 10000), key))
    elif draw < 0.7:
        to = w.doc_id()
        cur.execute("DELETE FROM docs WHERE id = %s AND id <> %s", (to, key))
        cur.execute("UPDATE docs SET id = %s WHERE id = %s", (to, key))
    elif draw < 0.8:
        cur.execute("DELETE FROM docs WHERE id = %s", (key,))
    else:
        cur.execute("INSERT INTO docs VALUES (%s, 0, %s, 'new') ON CONFLICT (id) DO UPDATE SET tail = 'met'",
                    (key, incompressible(w.rng, 10000)))
        cur.execute("UPDATE docs SET n = -n WHERE id = %s", (key,))


def change_several_tables(w, cur):
    key = w.big_id()
    cur.execute("UPDATE big SET amount = amount + 1 WHERE id = %s", (key,))
    cur.execute("INSERT INTO words VALUES (%s, %s, NULL) ON CONFLICT (k) DO UPDATE SET n = words.n + 1",
                (w.number, "word %d" % w.rng.randint(0, 300)))
    cur.execute("INSERT INTO pairs VALUES (%s, %s, %s, 0) ON CONFLICT (b, a) DO UPDATE SET v = NULL",
                ("v", w.rng.randint(0, 50), "writer %d" % w.number))
    cur.execute("INSERT INTO tiny VALUES (%s, %s) ON CONFLICT (id) DO UPDATE SET v = excluded.v",
                (w.rng.randint(1, 80), "by %d" % w.number))


def change_with_savepoints(w, cur):
    """What a rolled back subtransaction did must not arrive."""
    for i in range(w.rng.randint(1, 4)):
        cur.execute("SAVEPOINT s")
        cur.execute("UPDATE big SET n = -1, note = 'sub' WHERE id = %s", (w.big_id(),))
        cur.execute("INSERT INTO tiny VALUES (%s, 'sub') ON CONFLICT (id) DO UPDATE SET v = 'sub again'",
                    (w.rng.randint(1, 80),))
        if w.rng.random() < 0.5:
            cur.execute("ROLLBACK TO s")


def change_many(w, cur):
    first = w.big_id()
    cur.execute("UPDATE big SET n = n + 1 WHERE id BETWEEN %s AND %s", (first, first + w.rng.randint(10, 300)))


def change_slowly(w, cur):
    """Open while others commit, and while chunks are read."""
    cur.execute("UPDATE big SET note = 'slow ' || n WHERE id = %s", (w.big_id(),))
    w.workload.stopping.wait(w.rng.uniform(0.2, 1.5))
    cur.execute("UPDATE big SET n = 0 WHERE id = %s", (w.big_id(),))


def truncate(w, cur):
    cur.execute("TRUNCATE tiny")
    cur.execute("INSERT INTO tiny SELECT g, 'after' FROM generate_series(1, %s) g", (w.rng.randint(0, 20),))


def _cumulative(weights):
    total, out = 0.0, []
    for weight, kind in weights:
        total += weight
        out.append((total, kind))
    return out


KINDS = _cumulative([
    (0.46, change_rows), (0.14, change_keys), (0.12, change_documents), (0.15, change_several_tables),
    (0.07, change_with_savepoints), (0.03, change_many), (0.01, change_slowly), (0.02, truncate)])


class Workload:
    """rate: transactions per second of all writers together."""

    def __init__(self, server, *, db="postgres", rows=200000, small=5000, docs=400, writers=8, rate=400):
        self.server, self.db = server, db
        self.sizes = {"big": rows, "small": small, "docs": docs}
        self.interval = writers / rate
        self.count = writers
        self.stopping = threading.Event()
        self.writers = []

    def create(self):
        self.server.sql(SCHEMA, db=self.db)
        con = self.server.connect(self.db)
        with con.cursor() as cur:
            cur.execute("SET search_path = public")
            cur.execute(FILL, self.sizes)
            cur.execute("ANALYZE")
        con.close()

    def start(self):
        self.stopping.clear()
        self.writers = [Writer(self, i) for i in range(self.count)]
        for w in self.writers:
            w.start()

    def stop(self):
        """Returns how many transactions were committed or rolled back on purpose."""
        self.stopping.set()
        for w in self.writers:
            w.join(60)
        return sum(w.done for w in self.writers)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *exc):
        self.stop()
