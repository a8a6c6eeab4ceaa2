"""Apache's broker against metaq's NameServer, and one store folder that both brokers open in turn."""

import json
import re
import subprocess

from . import remoting
from .cluster import DELAY_LEVELS, ApacheBroker, ApacheNameServer, MetaqBroker, MetaqNameServer
from .process import wait_until

NAME = "apache-broker"
SEGMENT = {"mappedFileSizeCommitLog": 64 << 20}
# Each leaves something in the folder before, and looks for it after.
BEFORE = ["resume-broker-before", "query-restart-before"]
AFTER = ["resume-broker-after", "query-restart-after"]
CONSUMED = 40  # how many messages resume-broker-before consumes


def run(report, binary, classpath, java, directory):
    """`java` is the client's driver."""
    scene = Scene(binary, classpath, java, directory)
    client = lambda run, *checks: lambda: scene.client(run, checks)
    report.run_in_turn(
        "metaq",
        NAME,
        [
            ("registers", scene.start),
            ("route", scene.compare_routes),
            ("client", client("one", "send", "push", "orderly", "join-leave", "retry-dlq", *BEFORE)),
            ("unregisters", scene.stop_apache),
            ("folder-of-apache-is-sound", scene.check_store),
            ("folder-apache-to-metaq", scene.start_metaq, client("one", *AFTER)),
            ("folder-extended-by-metaq", client("two", *BEFORE), scene.stop_metaq),
            ("folder-of-metaq-is-sound", scene.check_store),
            ("folder-metaq-to-apache", scene.start_apache, client("two", *AFTER)),
            ("folder-keeps-older", client("one", "query-restart-after")),
            ("expires-when-killed", client("three", *BEFORE), scene.kill_apache),
            ("folder-crashed-apache-to-metaq", scene.start_metaq, client("three", *AFTER)),
            ("folder-repaired-is-sound", scene.stop_metaq, scene.check_store),
        ],
    )
    scene.close()


class Scene:
    def __init__(self, binary, classpath, java, directory):
        self.binary = binary
        self.java = java
        self.directory = directory
        self.nameserver = MetaqNameServer(binary, directory / "metaq-namesrv")
        self.other_nameserver = ApacheNameServer(classpath, directory / "apache-namesrv")
        nameservers = [self.nameserver.address, self.other_nameserver.address]
        self.apache = ApacheBroker(classpath, directory / "apache", nameservers, **SEGMENT)
        # The same port, folder and name, so that routes and message ids stay true.
        self.metaq = MetaqBroker(binary, directory / "metaq", nameservers[:1], **SEGMENT)
        self.metaq.address = self.apache.address
        self.metaq.settings["listenPort"] = self.apache.settings["listenPort"]
        self.metaq.store = self.apache.store

    def start(self):
        self.nameserver.start()
        self.other_nameserver.start()
        self.apache.start()

    def compare_routes(self):
        """Both NameServers were told the same by one broker and have to answer the same."""
        remoting.create_topic(self.apache.address, "RouteTopic", 4)
        for topic in ["RouteTopic", "TBW102", "SELF_TEST_TOPIC"]:
            ours, theirs = (
                wait_until(lambda: remoting.route(n.address, topic), 30, f"a route of {topic} at {n.name}")
                for n in (self.nameserver, self.other_nameserver)
            )
            if parsed(ours) != parsed(theirs):
                raise AssertionError(f"{topic}: ours is {ours}, Apache's is {theirs}")

    def client(self, run, checks):
        self.java.insist(self.nameserver.address, self.apache.address, run, self.directory, checks)

    def stop_apache(self):
        self.apache.stop()
        self.await_gone()
        # Its clients connect to one NameServer from here on.
        self.other_nameserver.kill()
        self.apache.nameservers = [self.nameserver.address]
        self.apache.settings["namesrvAddr"] = self.nameserver.address

    def kill_apache(self):
        """Kills it once the client's offsets are on disk, which takes some seconds; later ones may be lost."""
        wait_until(lambda: self.consumed_on_disk("three") == CONSUMED, 30, "the consumer's offsets on disk")
        self.apache.kill()
        self.await_gone()

    def consumed_on_disk(self, run):
        """How many messages of a run's resume-broker check are consumed, says the broker's file."""
        file = self.apache.store / "config/consumerOffset.json"
        group = rf'"T_{run}_[^"]*resume-broker@[^"]*"\s*:\s*{{([^}}]*)}}'
        offsets = re.search(group, file.read_text()) if file.exists() else None
        return sum(int(n) for n in re.findall(r":\s*(\d+)", offsets.group(1))) if offsets else 0

    def await_gone(self):
        gone = lambda: self.apache.address not in remoting.broker_addresses(self.nameserver.address)
        wait_until(gone, 30, "the broker to leave the NameServer")

    def start_metaq(self):
        self.metaq.start()

    def stop_metaq(self):
        self.metaq.stop()

    def start_apache(self):
        self.apache.start()

    def check_store(self):
        argv = [str(self.binary), "store", "check", "--delay-levels", DELAY_LEVELS, str(self.apache.store)]
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
        if done.returncode != 0:
            raise AssertionError(f"store check ended with {done.returncode}: {done.stdout} {done.stderr}")

    def close(self):
        for node in (self.apache, self.metaq, self.nameserver, self.other_nameserver):
            node.kill()


def parsed(route):
    """A route as a value."""
    return json.loads(remoting.with_text_keys(route))
