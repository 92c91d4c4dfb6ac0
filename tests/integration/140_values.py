"""Tables of odd shapes: one column, 1,600 columns, values of megabytes. (Values of every type: 200_every_type.)"""

from harness import Server, Tidemark, check, incompressible, rng, twin


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
        other = twin(server)
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
        tm.equal(*everything, twin=other)


def test_50_megabytes_in_a_value():
    """Copied; streamed by INSERT; kept by an UPDATE that does not touch it; replaced."""
    def megabytes(seed):
        return f"repeat(md5('{seed}'), 1600000)"  # stored as it is: EXTERNAL
    with Server() as server, Tidemark(server, "public.t") as tm:
        server.sql("CREATE TABLE t (id int PRIMARY KEY, v text, n int); ALTER TABLE t ALTER v SET STORAGE EXTERNAL")
        server.sql(f"INSERT INTO t VALUES (1, {megabytes('a')}, 1)")
        tm.start()
        tm.wait_live("t")
        server.sql(f"INSERT INTO t VALUES (2, {megabytes('b')}, 1)")
        server.sql("UPDATE t SET n = 2")
        tm.equal("t")
        server.sql(f"UPDATE t SET v = 'small' WHERE id = 1; UPDATE t SET v = {megabytes('c')} WHERE id = 2")
        tm.equal("t")
        check(tm.get("t", 1) == {"id": 1, "v": "small", "n": 2}, "the value that was replaced")
