"""Child processes, free ports, and waiting for conditions."""

import atexit
import os
import random
import signal
import socket
import subprocess
import threading
import time

_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_children = []
_given_ports = set()


class Child:
    """A process whose output goes to a log file, in a process group of its own."""

    def __init__(self, name, argv, log, env=None, cwd=None):
        self.name = name
        self.log = log
        os.makedirs(os.path.dirname(log), exist_ok=True)
        self._out = open(log, "ab")
        self._from = self._out.tell()
        self._process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=self._out,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(env or {})},
            cwd=cwd,
            start_new_session=True,
        )
        _children.append(self)

    def alive(self):
        return self._process.poll() is None

    def output(self):
        """What the process has printed since it started."""
        with open(self.log, "rb") as f:
            f.seek(self._from)
            return f.read().decode("utf-8", "replace")

    def wait_for(self, word, seconds):
        """Waits until the output has a line with this word."""

        def seen():
            if word in self.output():
                return True
            if not self.alive():
                raise RuntimeError(f"{self.name} ended with {self._process.returncode}: {self.tail()}")
            return False

        wait_until(seen, seconds, f"'{word}' from {self.name}")

    def tail(self):
        return self.output().strip()[-400:] or "no output"

    def stop(self, seconds=30):
        """Ends it politely; says so if it had to be killed."""
        self._signal(signal.SIGTERM)
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise RuntimeError(f"{self.name} did not stop within {seconds} s of SIGTERM")
        finally:
            self._forget()

    def kill(self):
        self._signal(signal.SIGKILL)
        self._process.wait()
        self._forget()

    def wait(self, seconds):
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            return None

    def send_kill(self):
        """Without waiting or looking: fit for a signal handler."""
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except OSError:
            pass

    def _signal(self, number):
        if self.alive():
            os.killpg(self._process.pid, number)

    def _forget(self):
        self._out.close()
        if self in _children:
            _children.remove(self)


def _kill_all():
    for child in list(_children):
        child.send_kill()


def _on_signal(number, _frame):
    for again in _SIGNALS:
        signal.signal(again, signal.SIG_IGN)
    for child in list(_children):
        child.send_kill()
    os._exit(128 + number)


def clean_up_at_exit():
    atexit.register(_kill_all)
    for number in _SIGNALS:
        signal.signal(number, _on_signal)


def wait_until(condition, seconds, what):
    """Polls until the condition holds; its answer is returned."""
    deadline = time.monotonic() + seconds
    while True:
        answer = condition()
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {seconds} s for {what}")
        time.sleep(0.05)


# Below the range that systems take the ports of outgoing connections from: a server's port
# must not be lost to a connection while the server is down.
_PORTS = (12000, 32000)
_port_lock = threading.Lock()


def free_port(below=0, above=0):
    """A free port whose neighbours (`below` it and `above` it) are free too.

    A broker also listens on the port two below (older clients' "VIP channel")
    and the one above its own (replication).
    """
    with _port_lock:
        for _ in range(1000):
            port = random.randrange(*_PORTS)
            block = range(port - below, port + above + 1)
            if not _given_ports.intersection(block) and all(_is_free(p) for p in block):
                _given_ports.update(block)
                return port
    raise RuntimeError("no free ports")


def _is_free(port):
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
            return True
        except OSError:
            return False
