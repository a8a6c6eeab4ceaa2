"""Two NameServers and two brokers; one of each is killed under load. Nothing acknowledged is lost."""

import re

from . import remoting
from .cluster import ApacheBroker, ApacheNameServer, MetaqBroker, MetaqNameServer
from .process import wait_until

NAME = "processes"
TOPIC = "LoadTopic"
MORE = 200  # sends that show that something still works


def metaq(binary, directory):
    nameservers = [MetaqNameServer(binary, directory / f"namesrv-{i}") for i in (1, 2)]
    addresses = [n.address for n in nameservers]
    return nameservers, [MetaqBroker(binary, directory / name, addresses, name) for name in ("broker-a", "broker-b")]


def apache(classpath, directory):
    nameservers = [ApacheNameServer(classpath, directory / f"namesrv-{i}") for i in (1, 2)]
    addresses = [n.address for n in nameservers]
    return nameservers, [ApacheBroker(classpath, directory / name, addresses, name) for name in ("broker-a", "broker-b")]


def run(report, target, nodes, java, directory):
    """`java` is the client's driver."""
    scene = Scene(*nodes, java, directory)
    more = lambda *brokers: lambda: scene.await_more(*brokers)
    report.run_in_turn(
        target,
        NAME,
        [
            ("start", scene.start),
            ("load-on-both-brokers", more("broker-a", "broker-b")),
            ("nameserver-killed", scene.nameservers[0].kill, more("broker-a", "broker-b")),
            ("broker-killed", scene.brokers[0].kill, more("broker-b")),
            ("dead-broker-leaves-the-route", scene.await_broker_gone),
            ("both-come-back", scene.restart),
            ("load-on-both-again", more("broker-a", "broker-b")),
            ("nothing-acknowledged-is-lost", scene.finish),
        ],
    )
    scene.close()


class Scene:
    def __init__(self, nameservers, brokers, java, directory):
        self.nameservers = nameservers
        self.brokers = brokers
        self.java = java
        self.directory = directory
        self.stop_file = directory / "stop"
        self.load = None

    def start(self):
        for node in [*self.nameservers, *self.brokers]:
            node.start()
        for broker in self.brokers:
            remoting.create_topic(broker.address, TOPIC, 4)
        for nameserver in self.nameservers:

            def both_in_route():
                route = remoting.route(nameserver.address, TOPIC) or ""
                return all(broker.address in route for broker in self.brokers)

            wait_until(both_in_route, 30, f"both brokers in the route at {nameserver.name}")
        addresses = ";".join(n.address for n in self.nameservers)
        self.load = self.java.start(
            addresses,
            self.brokers[0].address,
            "load",
            self.directory,
            ["load-after"],
            INTEROP_STOP=str(self.stop_file),
            INTEROP_TOPIC=TOPIC,
        )

    def await_more(self, *brokers):
        """Waits for more sends to and deliveries from these brokers."""
        before = self.progress()

        def more():
            now = self.progress()
            return all(now[k][b] - before[k][b] >= MORE for k in ("sends", "deliveries") for b in brokers)

        wait_until(more, 60, f"more sends to and deliveries from {' and '.join(brokers)}")

    def progress(self):
        if not self.load.alive():
            raise RuntimeError(f"the load ended: {self.load.tail()}")
        lines = re.findall(r"^progress sends \{(.*)\} deliveries \{(.*)\}$", self.load.output(), re.M)
        sends, deliveries = lines[-1] if lines else ("", "")
        return {"sends": counts(sends), "deliveries": counts(deliveries)}

    def await_broker_gone(self):
        alive, dead = self.nameservers[1].address, self.brokers[0].address
        wait_until(lambda: dead not in (remoting.route(alive, TOPIC) or dead), 30, "the route without the dead broker")

    def restart(self):
        self.nameservers[0].start()
        self.brokers[0].start()

    def finish(self):
        self.stop_file.touch()
        for check, reason in self.java.finish(self.load, ["load-after"]).items():
            if reason:
                raise AssertionError(f"{check}: {reason}")

    def close(self):
        if self.load and self.load.alive():
            self.load.kill()
        for node in [*self.brokers, *self.nameservers]:
            node.kill()


def counts(text):
    """Java's `a=1, b=2` as a table, 0 for what is not there."""
    found = {name: int(number) for name, number in re.findall(r"([\w-]+)=(\d+)", text)}
    return {"broker-a": 0, "broker-b": 0, **found}
