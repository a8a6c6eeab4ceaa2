"""Brokers of one make follow those of the other, and take their place."""

import json
import subprocess
import threading

from . import remoting
from .cluster import DELAY_LEVELS, ApacheBroker, ApacheNameServer, MetaqBroker, MetaqNameServer
from .process import free_port, wait_until

NAME = "migration"
# So that the log has several files: an Apache master gives a fresh slave of its own make the last one only.
FILE_BYTES = 1 << 20
FILES_MIN = 4
# The last level outlasts a change of brokers.
LEVELS = DELAY_LEVELS.rsplit(" ", 1)[0] + " 60s"
SETTINGS = {"mappedFileSizeCommitLog": FILE_BYTES, "messageDelayLevel": LEVELS}
SLAVE = {"brokerId": 1, "brokerRole": "SLAVE", "slaveReadEnable": "true"}
# An Apache slave copies topics and groups for the first time a minute after its start.
APACHE_SYNC_SECONDS = 90
TOPIC, QUEUES = "WideTopic", 7
GROUP, RETRIES = "StubbornGroup", 5


def run(report, binary, classpath, java, directory):
    """Both directions side by side: one of them waits a minute for Apache's slave. `java` is the client's driver."""
    lanes = [lane(report, binary, classpath, java, directory) for lane in (from_apache, to_apache)]
    threads = [threading.Thread(target=lane) for lane in lanes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def from_apache(report, binary, classpath, java, directory):
    scene = FromApache(binary, classpath, java, directory / "from-apache")
    before = ["migrate-before", "resume-broker-before", "query-restart-before", "retry-dlq"]
    late = ["migrate-delayed-after", "migrate-timed-after"]
    after = ["migrate-after", "resume-broker-after", "query-restart-after", *late]
    checks = [
        ("apache-master-is-written", scene.start_master, scene.client("old", *before), scene.several_files),
        ("slave-copies-under-load", scene.start_load, scene.start_slave, scene.send_late),
        ("slave-catches-up", scene.stop_load, scene.caught_up, scene.same_log),
        ("late-slave-begins-at-the-oldest-file", scene.expire, scene.start_late, scene.late_caught_up),
        ("slave-is-promoted", scene.master.kill, scene.promote),
        ("all-is-served", scene.client("old", *after)),
        ("topics-and-groups-are-there", scene.same_tables),
        ("takes-messages", scene.client("new", "send", "push", "orderly", "delayed", "transactions")),
        ("late-slave-follows-the-new-master", scene.late_in_sync),
        ("stores-are-sound", scene.late.stop, scene.slave.stop, scene.check_stores),
    ]
    return lambda: scene.play(report, "from-apache", checks)


def to_apache(report, binary, classpath, java, directory):
    scene = ToApache(binary, classpath, java, directory / "to-apache")
    before = ["migrate-before", "resume-broker-before", "query-restart-before"]
    checks = [
        ("metaq-master-is-written", scene.start_master, scene.client("async", *before), scene.several_files),
        ("slave-copies", scene.start_slave, scene.caught_up, scene.same_log),
        ("sync-master-without-slave", scene.restart_as_sync, scene.refused_without_slave),
        ("sync-master-waits-for-slave", scene.in_sync, scene.client("sync", "migrate-before", "send")),
        ("slave-copies-tables", scene.tables_copied),
        ("slave-serves", scene.master.kill, *(scene.client(run, "migrate-after") for run in ("async", "sync"))),
        ("slave-takes-over", scene.take_over, scene.client("async", "resume-broker-after", "query-restart-after")),
        ("takes-messages", scene.client("new", "send", "push")),
    ]
    return lambda: scene.play(report, "to-apache", checks)


class Scene:
    """A master, a slave of the other make, and what both directions do with them."""

    def __init__(self, binary, java, directory, nameserver, master, slave):
        self.binary = binary
        self.java = java
        self.directory = directory
        self.nameserver = nameserver
        self.master = master
        self.slave = slave

    def play(self, report, direction, checks):
        report.run_in_turn("metaq", NAME, [(f"{direction}-{check}", *actions) for check, *actions in checks])
        for node in self.nodes():
            node.kill()

    def nodes(self):
        return [self.slave, self.master, self.nameserver]

    def start_master(self):
        self.nameserver.start()
        self.master.start()
        remoting.create_topic(self.master.address, TOPIC, QUEUES)
        remoting.create_group(self.master.address, GROUP, RETRIES)

    def start_slave(self):
        self.slave.start()

    def client(self, run, *checks):
        return lambda: self.java.insist(self.nameserver.address, self.master.address, run, self.directory, checks)

    def several_files(self):
        files = len(list((self.master.store / "commitlog").iterdir()))
        if files < FILES_MIN:
            raise AssertionError(f"the log has {files} files, too few to show anything")

    def caught_up(self, slave=None):
        """The slave's log ends where the master's does, and that does not move any more."""
        slave = slave or self.slave

        def equal():
            ends = [log_end(node.address) for node in (self.master, slave, self.master)]
            return ends[0] is not None and ends.count(ends[0]) == 3

        wait_until(equal, 60, "the slave to have the master's whole log")

    def same_log(self):
        """Each of the master's files is in the slave's log, byte for byte; nobody writes meanwhile."""
        end = log_end(self.slave.address)
        for file in sorted((self.master.store / "commitlog").iterdir()):
            length = min(FILE_BYTES, end - int(file.name))
            copy = self.slave.store / "commitlog" / file.name
            if length > 0 and file.read_bytes()[:length] != copy.read_bytes()[:length]:
                raise AssertionError(f"{copy} differs from {file}")

    def same_tables(self, seconds=30):
        """Topics with their queues and groups with their settings, as the slave has them."""
        wide = lambda: f'"writeQueueNums":{QUEUES}' in (remoting.route(self.nameserver.address, TOPIC) or "")
        wait_until(wide, seconds, f"a route of {TOPIC} with {QUEUES} queues")

        def stubborn():
            _, body = remoting.call(self.slave.address, remoting.GET_ALL_GROUPS)
            table = json.loads(body).get("subscriptionGroupTable", {})
            return table.get(GROUP, {}).get("retryMaxTimes") == RETRIES

        wait_until(stubborn, seconds, f"{GROUP} with its settings at the slave")

    def metaq(self, *args):
        argv = [str(self.binary), *args]
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
        if done.returncode != 0:
            raise AssertionError(f"metaq {' '.join(args)} ended with {done.returncode}: {done.stdout} {done.stderr}")
        return done.stdout


class FromApache(Scene):
    def __init__(self, binary, classpath, java, directory):
        nameserver = ApacheNameServer(classpath, directory / "namesrv")
        ha = {"haListenPort": free_port()}
        master = ApacheBroker(classpath, directory / "apache", [nameserver.address], **SETTINGS, **ha)
        slave = MetaqBroker(binary, directory / "metaq", [nameserver.address], **SETTINGS, **SLAVE)
        super().__init__(binary, java, directory, nameserver, master, slave)
        late = {**SETTINGS, **SLAVE, "brokerId": 2}
        self.late = MetaqBroker(binary, directory / "late", [nameserver.address], **late)
        self.stop_file = directory / "stop"
        self.load = None

    def nodes(self):
        return [self.late, *super().nodes()]

    def start_load(self):
        remoting.create_topic(self.master.address, "LoadTopic", 4)
        wait_until(lambda: remoting.route(self.nameserver.address, "LoadTopic"), 30, "a route of LoadTopic")
        self.load = self.java.start(
            self.nameserver.address,
            self.master.address,
            "load",
            self.directory,
            ["load-after"],
            INTEROP_STOP=str(self.stop_file),
            INTEROP_TOPIC="LoadTopic",
        )

    def stop_load(self):
        """All that it was acknowledged was consumed, and the slave knows how far its group and others are."""
        wait_until(lambda: log_end(self.slave.address), 30, "the slave to copy")
        self.stop_file.touch()
        for check, reason in self.java.finish(self.load, ["load-after"]).items():
            if reason:
                raise AssertionError(f"{check}: {reason}")
        wait_until(lambda: offsets(self.slave.address) == offsets(self.master.address), 30, "the offsets at the slave")

    def send_late(self):
        """What is delivered after the change of brokers only."""
        self.client("old", "migrate-delayed-before", "migrate-timed-before")()

    def promote(self):
        self.metaq("broker", "promote", "broker-a", "-n", self.nameserver.address, "--yes")
        route = lambda: remoting.route(self.nameserver.address, TOPIC) or ""
        master = lambda: f'"0":"{self.slave.address}"' in remoting.with_text_keys(route())
        wait_until(master, 30, "the slave in the master's place")

    def expire(self):
        """The master deletes all but its newest file, as it does after some days."""
        remoting.call(self.master.address, remoting.UPDATE_CONFIG, body=b"fileReservedTime=0\n")
        remoting.call(self.master.address, remoting.DELETE_EXPIRED_LOG)
        oldest = lambda: runtime(self.master.address)["commitLogMinOffset"]
        wait_until(lambda: int(oldest()) > 0, 60, "the master to delete its oldest files")

    def start_late(self):
        self.late.start()

    def late_caught_up(self):
        self.caught_up(self.late)
        if int(runtime(self.late.address)["commitLogMinOffset"]) == 0:
            raise AssertionError("there is a log of what the master does not have any more")

    def late_in_sync(self):
        in_sync = lambda: runtime(self.slave.address).get("haSlaveInSync_2") == "true"
        wait_until(in_sync, 60, "the other slave to follow the new master")
        wait_until(lambda: log_end(self.late.address) == log_end(self.slave.address), 60, "its log to be there")

    def check_stores(self):
        for node in (self.slave, self.late):
            self.metaq("store", "check", "--delay-levels", LEVELS, str(node.store))


class ToApache(Scene):
    def __init__(self, binary, classpath, java, directory):
        nameserver = MetaqNameServer(binary, directory / "namesrv")
        master = MetaqBroker(binary, directory / "metaq", [nameserver.address], **SETTINGS)
        ha = {"haListenPort": free_port()}
        slave = ApacheBroker(classpath, directory / "apache", [nameserver.address], **SETTINGS, **SLAVE, **ha)
        super().__init__(binary, java, directory, nameserver, master, slave)

    def restart_as_sync(self):
        """From now on two nodes have to have a message before it is answered with success."""
        self.master.stop()
        self.master.settings.update(brokerRole="SYNC_MASTER", inSyncReplicas=2)
        self.master.start()

    def refused_without_slave(self):
        """Apache's slave comes back after some seconds; until then nothing is acknowledged that only one node has."""
        sent = lambda: self.metaq("send", TOPIC, "alone", "-n", self.nameserver.address)
        wait_until(lambda: "no replica there" in sent(), 5, "a send that is answered with SLAVE_NOT_AVAILABLE")

    def in_sync(self):
        listed = lambda: json.loads(self.metaq("cluster", "list", "-n", self.nameserver.address, "--json"))
        in_sync = lambda: any(row["id"] == 0 and row["inSync"] == "1 of 1" for row in listed())
        wait_until(in_sync, 60, "the slave to be in sync")

    def tables_copied(self):
        copied = lambda: offsets(self.slave.address) == offsets(self.master.address)
        wait_until(copied, APACHE_SYNC_SECONDS, "the offsets at the slave")
        self.same_tables(APACHE_SYNC_SECONDS)

    def take_over(self):
        """What a person does: the slave is started again as the master."""
        self.slave.stop()
        self.slave.settings.update(brokerId=0, brokerRole="ASYNC_MASTER")
        self.slave.start()


def runtime(broker):
    """What a broker tells of itself."""
    _, body = remoting.call(broker, remoting.GET_RUNTIME_INFO)
    return json.loads(body)["table"]


def log_end(broker):
    """Where a broker's log ends, or None if it does not answer."""
    try:
        return int(runtime(broker)["commitLogMaxOffset"])
    except (OSError, remoting.Refused):
        return None


def offsets(broker):
    """How far groups are, in all queues in which they have consumed anything."""
    _, body = remoting.call(broker, remoting.GET_ALL_OFFSETS)
    table = json.loads(remoting.with_text_keys(body.decode()))["offsetTable"]
    moved = {key: {queue: at for queue, at in queues.items() if at} for key, queues in table.items()}
    return {key: queues for key, queues in moved.items() if queues}
