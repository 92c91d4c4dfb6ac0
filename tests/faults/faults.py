"""What the tests of faults share: the preloaded library, the reader that looks closer, small disks, bad networks."""

import ctypes
import json
import os
import shutil
import socket
import subprocess
import threading
import time

import harness
from harness import check

HELPERS = os.environ.get("FAULTS", os.path.join(harness.ROOT, "build", "faults"))
PRELOAD = os.path.join(HELPERS, "preload.so")
LOOK = os.path.join(HELPERS, "look")


def faulty(**plan):
    """Environment of a daemon with faults: kill="3:before", sync_ms=50, record=PATH, clock=10 (preload.c)."""
    return {"LD_PRELOAD": PRELOAD, **{f"FAULT_{k.upper()}": str(v) for k, v in plan.items()}}


class Look:
    """look.c in the background; asked for one store after the other."""

    def __init__(self, how="check"):
        self.process = harness.spawn([LOOK, how], "KILL", stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()

    def at(self, store):
        """What the store says; "error" when it cannot be read, "problem" when it contradicts itself."""
        self.process.stdin.write(store + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        check(line, lambda: f"look died with {self.process.wait()} at {store}")
        return json.loads(line)

    def good(self, store):
        seen = self.at(store)
        check(not seen["error"], lambda: f"the store cannot be read: {seen['error']}")
        check(not seen["problem"], lambda: f"the store contradicts itself: {seen['problem']}")
        return seen


# ---- a network that can be bad ----

class Link:
    """One connection through a Proxy: two threads that carry bytes."""

    def __init__(self, proxy, client):
        self.proxy, self.client = proxy, client
        self.kind = None         # "stream" or "sql", by its first packet
        self.silent = False      # forever
        self.server = None
        threading.Thread(target=self.begin, daemon=True).start()

    def begin(self):
        try:
            first = self.client.recv(65536)
            self.kind = "stream" if b"replication\0" in first else "sql"
            if self.proxy.black_hole:
                self.silent = True
                return
            self.server = self.proxy.connect()
            self.server.sendall(first)
        except OSError:
            self.close()
            return
        threading.Thread(target=self.carry, args=(self.client, self.server), daemon=True).start()
        self.carry(self.server, self.client)

    def carry(self, source, sink):
        try:
            while data := source.recv(4096 if self.proxy.rate else 262144):
                if self.proxy.rate:
                    time.sleep(len(data) / self.proxy.rate)
                if not self.silent:
                    sink.sendall(data)
        except OSError:
            pass
        if not self.silent:
            self.close()

    def close(self):
        for s in (self.client, self.server):
            if s is not None:
                try:
                    s.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass
                s.close()


class Proxy:
    """Between tidemark and the server, on a local port.

    hush() makes connections silent in both directions without closing them: neither side learns that the other
    has gone, and bytes are swallowed. With black_hole new ones are accepted and never answered. rate: bytes per
    second of each direction of each connection.
    """

    def __init__(self, server):
        self.to = server
        self.links = []
        self.black_hole, self.rate = False, None
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.listener.close()
        self.cut()

    def accept(self):
        try:
            while True:
                self.links.append(Link(self, self.listener.accept()[0]))
        except OSError:
            pass

    def connect(self):
        s = socket.socket(socket.AF_UNIX)
        s.connect(os.path.join(self.to.dir, f".s.PGSQL.{self.to.port}"))
        return s

    def source(self, db="postgres"):
        return harness.words(host="127.0.0.1", port=self.port, user="postgres", dbname=db, sslmode="disable")

    def hush(self, *kinds):
        """Returns how many connections it was."""
        chosen = [k for k in self.links if not k.silent and k.server is not None and (not kinds or k.kind in kinds)]
        for link in chosen:
            link.silent = True
        return len(chosen)

    def cut(self):
        """Closes everything, also what is silent."""
        for link in self.links:
            link.close()
        self.links = []


# ---- a disk that can be full ----

def own_mounts():
    """A mount namespace for this process and its children: what is mounted goes with it. False: not permitted."""
    libc = ctypes.CDLL(None, use_errno=True)
    clone_newns = 0x20000
    if libc.unshare(clone_newns) != 0:
        return False
    return subprocess.run(["mount", "--make-rprivate", "/"], capture_output=True).returncode == 0


class Disk:
    """A file system of its own, `size` MiB of "tmpfs" or "ext4"; None from make() when this machine does not allow it."""

    def __init__(self, kind, path):
        self.kind, self.path = kind, path
        self.filler = os.path.join(path, "filler")

    @classmethod
    def make(cls, kind, size, options=""):
        path = harness.place("disk")
        os.mkdir(path)
        argv = ["mount", "-t", "tmpfs", "-o", f"size={size}m,mode=755", "none", path]
        if kind == "ext4":
            image = harness.place("image")
            with open(image, "wb") as f:
                f.truncate(size << 20)
            if shutil.which("mkfs.ext4") is None:
                return cls.skip("there is no mkfs.ext4")
            subprocess.run(["mkfs.ext4", "-q", "-m", "0", "-O", "^has_journal", image], check=True, capture_output=True)
            argv = ["mount", "-o", "loop" + options, image, path]
        if not own_mounts():
            return cls.skip("a mount namespace is not permitted")
        r = subprocess.run(argv, capture_output=True, text=True)
        return cls(kind, path) if r.returncode == 0 else cls.skip(f"mount: {r.stderr.strip()}")

    @staticmethod
    def skip(why):
        print(f"       skipped: {why}", flush=True)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        subprocess.run(["umount", "-l", self.path], capture_output=True)

    def free(self):
        s = os.statvfs(self.path)
        return s.f_bavail * s.f_frsize

    def fill(self, but=0):
        """Writes a file until only `but` bytes are left."""
        with open(self.filler, "ab") as f:
            while self.free() > but:
                try:
                    os.write(f.fileno(), bytes(min(65536, max(4096, self.free() - but))))
                except OSError:
                    break

    def empty(self):
        if os.path.exists(self.filler):
            os.unlink(self.filler)
