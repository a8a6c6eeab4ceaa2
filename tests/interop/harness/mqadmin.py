"""Apache's mqadmin against a cluster of its own: what it prints has to be what it prints against Apache.

The expected output of each command, with addresses, times and ids replaced by names, is committed in
mqadmin/ and written anew by a --full run.
"""

import difflib
import re
import subprocess
import threading

from . import remoting, toolchain
from .cluster import java_argv
from .process import wait_until

EXPECTED = toolchain.HERE / "mqadmin"
TOPIC = "AdminTopic"
GROUP = "AdminGroup"
COMMAND_SECONDS = 60

# Tried in this order on all output.
_VOLATILE = [
    (r"\b\d+\.\d+\.\d+\.\d+:\d+", "<address>"),
    (r"\b[0-9A-F]{32}(?:[0-9A-F]{24})?\b", "<id>"),
    (r"\bV\d+_\d+_\d+(_SNAPSHOT)?\b", "<version>"),
    (r"\d{4}-\d\d-\d\d[ #]\d\d:\d\d:\d\d[,:.]\d{3}", "<time>"),
    (r"\b1[789]\d{11}\b", "<millis>"),
    (r"/tmp/rocketmq/msgbodys/\S+", "<body file>"),
    (r"CommitLog Offset:\s+\d+", "CommitLog Offset: <number>"),
]
_UNORDERED = ["topicList", "resetOffsetByTime"]
# The client library's own logging, and where in the tools an exception went through.
_NOISE = re.compile(r"^\d\d:\d\d:\d\d,\d{3} \|-|^at |^\.\.\. \d+ more")


def run(report, cluster, classpath, directory, keep_expected):
    """Runs all commands against one cluster. With keep_expected, its output becomes the expected one."""
    with MqAdmin(classpath, directory) as admin:
        for name, action in commands(admin, cluster):
            report.run(cluster.target, "mqadmin", name, lambda: check(name, action(), keep_expected))


def check(name, printed, keep_expected):
    got = normalise(name, printed)
    file = EXPECTED / f"{name}.txt"
    if keep_expected:
        EXPECTED.mkdir(exist_ok=True)
        file.write_text(got)
        return
    want = file.read_text() if file.exists() else ""
    if want != got:
        lines = difflib.unified_diff(want.splitlines(), got.splitlines(), "expected", "printed", lineterm="", n=0)
        raise AssertionError("prints something else: " + " | ".join(lines))


def commands(admin, cluster):
    """The checks in order; the later ones need what the earlier ones made."""
    found = {}

    def on(*words):
        return lambda: admin.run(words[0], "-n", cluster.nameserver, *words[1:])

    def update_topic():
        printed = on("updateTopic", "-c", "DefaultCluster", "-t", TOPIC, "-r", "4", "-w", "4")()
        wait_until(lambda: remoting.route(cluster.nameserver, TOPIC), 30, f"a route of {TOPIC}")
        return printed

    def send():
        words = ["sendMessage", "-t", TOPIC, "-k", "AdminKey", "-c", "AdminTag", "-b", "broker-a", "-i", "2"]
        printed = on(*words, "-p", "what mqadmin sends")()
        found["unique key"] = re.search(r"\b[0-9A-F]{32}(?:[0-9A-F]{24})?\b", printed).group()
        return printed

    def until_found(*words):
        """Asks again until the broker has indexed the message."""

        def printed():
            text = on(*words)()
            return text if found["unique key"] in text and "Exception" not in text else None

        return wait_until(printed, 30, f"{words[0]} to find the message")

    def by_unique_key():
        printed = until_found("queryMsgByUniqueKey", "-t", TOPIC, "-i", found["unique key"])
        host, port = re.search(r"Store Host: +([0-9.]+):(\d+)", printed).groups()
        offset = re.search(r"CommitLog Offset: +(\d+)", printed).group(1)
        address = "".join(f"{int(part):02X}" for part in host.split("."))
        found["offset id"] = f"{address}{int(port):08X}{int(offset):016X}"
        return printed

    def delete_topic():
        printed = on("deleteTopic", "-c", "DefaultCluster", "-t", TOPIC)()
        wait_until(lambda: not remoting.route(cluster.nameserver, TOPIC), 30, "the route to be gone")
        return printed

    return [
        ("clusterList", on("clusterList")),
        ("updateTopic", update_topic),
        ("topicList", on("topicList")),
        ("topicRoute", on("topicRoute", "-t", TOPIC)),
        ("updateSubGroup", on("updateSubGroup", "-c", "DefaultCluster", "-g", GROUP)),
        ("sendMessage", send),
        ("topicStatus", on("topicStatus", "-t", TOPIC)),
        ("queryMsgByUniqueKey", by_unique_key),
        ("queryMsgByKey", lambda: until_found("queryMsgByKey", "-t", TOPIC, "-k", "AdminKey")),
        ("queryMsgById", lambda: on("queryMsgById", "-t", TOPIC, "-i", found["offset id"])()),
        ("resetOffsetByTime", on("resetOffsetByTime", "-g", GROUP, "-t", TOPIC, "-s", "now")),
        ("deleteTopic", delete_topic),
        ("topicRoute-deleted", on("topicRoute", "-t", TOPIC)),
    ]


def normalise(name, printed):
    for pattern, word in _VOLATILE:
        printed = re.sub(pattern, word, printed)
    lines = [re.sub(r"\s+", " ", line).strip() for line in printed.splitlines()]
    lines = [line for line in lines if line and not _NOISE.match(line)]
    if name == "clusterList":  # load, waits, hours and space
        lines = [re.sub(r"(?<![#\w])\d+(\.\d+)?", "<n>", line) for line in lines]
    if name in _UNORDERED:
        lines.sort()
    return "".join(line + "\n" for line in lines)


class MqAdmin:
    """One process that runs one command after another."""

    def __init__(self, classpath, directory):
        directory.mkdir(parents=True, exist_ok=True)
        self._argv = java_argv(classpath, directory, "interop.MqAdmin")
        self._directory = directory

    def __enter__(self):
        self._log = open(self._directory / "mqadmin.log", "w")
        # It ends when its standard input does, even if the harness is killed.
        self._process = subprocess.Popen(
            self._argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, text=True, cwd=self._directory
        )
        return self

    def __exit__(self, *_):
        self._process.kill()
        self._process.wait()
        self._log.close()

    def run(self, *words):
        watchdog = threading.Timer(COMMAND_SECONDS, self._process.kill)
        watchdog.start()
        try:
            self._process.stdin.write("\t".join(words) + "\n")
            self._process.stdin.flush()
            printed = []
            for line in self._process.stdout:
                if line == "END\n":
                    text = "".join(printed)
                    self._log.write(f"$ {' '.join(words)}\n{text}\n")
                    return text
                printed.append(line)
        finally:
            watchdog.cancel()
        raise RuntimeError(f"mqadmin {words[0]} ended or took more than {COMMAND_SECONDS} s: {''.join(printed)[-300:]}")
