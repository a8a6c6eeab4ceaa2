"""NameServers and brokers of both makes, as processes."""

from . import remoting
from .process import Child, free_port, wait_until

# Delay levels short enough for a test: the first retry comes after level 3.
DELAY_LEVELS = "1s 2s 1s 1s 1s 2s 2s 2s 2s 2s 2s 2s 2s 2s 2s 2s 2s 2s"

# What both makes are told, so that a loaded machine does not look like a broker that refuses.
BROKER_SETTINGS = {
    "messageDelayLevel": DELAY_LEVELS,
    "enablePropertyFilter": "true",
    "transactionTimeOut": 1000,
    "transactionCheckInterval": 2000,
    "waitTimeMillsInSendQueue": 10000,
    "waitTimeMillsInPullQueue": 20000,
    "waitTimeMillsInHeartbeatQueue": 20000,
    "osPageCacheBusyTimeOutMills": 60000,
}

START_SECONDS = 90

_JAVA_17 = [
    "--add-exports=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
]


def java_argv(classpath, home, main, *arguments, heap="256m", properties=()):
    return (
        ["java", f"-Xmx{heap}", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", f"-Duser.home={home}"]
        + [f"-D{p}" for p in properties]
        + _JAVA_17
        + ["-cp", classpath, main, *map(str, arguments)]
    )


class Node:
    """One server process that can be stopped, killed and started again on the same port and data."""

    def __init__(self, name, directory):
        self.name = name
        self.directory = directory
        self.child = None

    def start(self):
        self.directory.mkdir(parents=True, exist_ok=True)
        env = {"ROCKETMQ_HOME": str(self.directory)}
        self.child = Child(self.name, self.argv(), str(self.directory / "output.log"), env=env)
        self.wait_ready()
        return self

    def stop(self):
        if self.child:
            self.child.stop()
            self.child = None

    def kill(self):
        if self.child:
            self.child.kill()
            self.child = None

    def wait(self, condition, what):
        def holds():
            if not self.child.alive():
                raise RuntimeError(f"{self.name} ended: {self.child.tail()}")
            return condition()

        wait_until(holds, START_SECONDS, what)


class ApacheNameServer(Node):
    def __init__(self, classpath, directory):
        super().__init__("apache-namesrv", directory)
        self.classpath = classpath
        self.address = f"127.0.0.1:{free_port()}"

    def argv(self):
        conf = self.directory / "namesrv.conf"
        conf.write_text(f"listenPort={self.address.split(':')[1]}\nbindAddress=127.0.0.1\n")
        return java_argv(
            self.classpath, self.directory, "org.apache.rocketmq.namesrv.NamesrvStartup", "-c", conf
        )

    def wait_ready(self):
        self.child.wait_for("boot success", START_SECONDS)


class ApacheBroker(Node):
    def __init__(self, classpath, directory, nameservers, name="broker-a", **settings):
        super().__init__(f"apache-{name}", directory)
        self.classpath = classpath
        self.nameservers = nameservers
        self.address = f"127.0.0.1:{free_port(below=2, above=1)}"
        self.store = directory / "store"
        self.settings = {
            "brokerClusterName": "DefaultCluster",
            "brokerName": name,
            "brokerId": 0,
            "brokerIP1": "127.0.0.1",
            "brokerIP2": "127.0.0.1",
            "bindAddress": "127.0.0.1",
            "listenPort": self.address.split(":")[1],
            "namesrvAddr": ";".join(nameservers),
            "storePathRootDir": self.store,
            "storePathCommitLog": self.store / "commitlog",
            "mappedFileSizeCommitLog": 64 << 20,
            "autoCreateTopicEnable": "true",
            "useEpollNativeSelector": "false",
            **BROKER_SETTINGS,
            **settings,
        }

    def argv(self):
        conf = self.directory / "broker.conf"
        conf.write_text("".join(f"{k}={v}\n" for k, v in self.settings.items()))
        return java_argv(
            self.classpath,
            self.directory,
            "org.apache.rocketmq.broker.BrokerStartup",
            "-c",
            conf,
            heap="768m",
            properties=["rocketmq.broker.diskSpaceWarningLevelRatio=0.99"],
        )

    def wait_ready(self):
        self.child.wait_for("boot success", START_SECONDS)
        for nameserver in self.nameservers:
            self.wait(
                lambda: self.address in remoting.broker_addresses(nameserver),
                f"{self.name} to register at {nameserver}",
            )


class MetaqNameServer(Node):
    def __init__(self, binary, directory):
        super().__init__("metaq-nameserver", directory)
        self.binary = binary
        self.address = f"127.0.0.1:{free_port()}"

    def argv(self):
        return [str(self.binary), "nameserver", "--listen", self.address, "--data", str(self.directory / "data")]

    def wait_ready(self):
        self.child.wait_for("ready", START_SECONDS)


class MetaqBroker(Node):
    def __init__(self, binary, directory, nameservers, name="broker-a", **settings):
        super().__init__(f"metaq-{name}", directory)
        self.binary = binary
        self.nameservers = nameservers
        self.address = f"127.0.0.1:{free_port(below=2, above=1)}"
        self.store = directory / "store"
        self.settings = {
            "brokerClusterName": "DefaultCluster",
            "brokerName": name,
            "brokerId": 0,
            "brokerIP1": "127.0.0.1",
            "listenPort": self.address.split(":")[1],
            **BROKER_SETTINGS,
            **settings,
        }

    def argv(self):
        conf = self.directory / "broker.conf"
        conf.write_text("".join(f"{k}={v}\n" for k, v in self.settings.items()))
        argv = [str(self.binary), "broker", "-c", str(conf), "-n", ";".join(self.nameservers)]
        return argv + ["--data", str(self.store)]

    def wait_ready(self):
        self.child.wait_for("ready", START_SECONDS)
        for nameserver in self.nameservers:
            self.wait(
                lambda: self.address in remoting.broker_addresses(nameserver),
                f"{self.name} to register at {nameserver}",
            )


class MetaqUp(Node):
    """`metaq up`: NameServer and broker in one process."""

    def __init__(self, binary, directory, nameserver, broker, settings):
        super().__init__("metaq-up", directory)
        self.binary = binary
        self.nameserver = nameserver
        self.broker = broker
        self.store = directory / "data"
        self.settings = settings

    def argv(self):
        argv = [str(self.binary), "up", "--data", str(self.store)]
        argv += ["--nameserver", self.nameserver, "--broker", self.broker]
        for key, value in self.settings.items():
            argv += ["--set", f"{key}={value}"]
        return argv

    def wait_ready(self):
        self.child.wait_for("ready", START_SECONDS)
        self.wait(lambda: self.broker in remoting.broker_addresses(self.nameserver), "the broker in the route")


class ApacheCluster:
    target = "apache"

    def __init__(self, classpath, directory):
        self._nameserver = ApacheNameServer(classpath, directory / "namesrv")
        self._broker = ApacheBroker(classpath, directory / "broker", [self._nameserver.address])
        self.nameserver = self._nameserver.address
        self.broker = self._broker.address

    def start(self):
        self._nameserver.start()
        self._broker.start()

    def restart_broker(self):
        self._broker.stop()
        self._broker.start()

    def stop(self):
        """Apache's broker takes 20 s to stop politely, and nobody waits for its data."""
        self._broker.kill()
        self._nameserver.kill()


class MetaqCluster:
    target = "metaq"

    def __init__(self, binary, directory):
        self.nameserver = f"127.0.0.1:{free_port()}"
        self.broker = f"127.0.0.1:{free_port(below=2, above=1)}"
        settings = {"brokerClusterName": "DefaultCluster", "brokerName": "broker-a", **BROKER_SETTINGS}
        self._up = MetaqUp(binary, directory / "up", self.nameserver, self.broker, settings)

    def start(self):
        self._up.start()

    def restart_broker(self):
        self._up.stop()
        self._up.start()

    def stop(self):
        self._up.stop()
