"""The foreign client drivers: how each is built, run, and how its lines are counted."""

import threading

from . import toolchain
from .process import Child

PHASE_SECONDS = 240

# What Apache's broker can't do, and metaq has to. These are not run against Apache.
NOT_ON_APACHE = {
    # The send-back has no originTopic: a NullPointerException where the message should go to the DLQ.
    "python-cpp": ["retry-dlq"],
}


class Driver:
    """One client. `make` builds it and returns how to run it."""

    def __init__(self, name, needs, make, after=("resume-broker-after",)):
        self.name = name
        self.needs = needs
        self.make = make
        self.after = after
        self.argv = None

    def prepare(self, report, target):
        """Builds the driver, or reports why it can't take part. Says whether it can."""
        absent = toolchain.missing(*self.needs)
        if absent:
            report.skip(target, self.name, "all", absent)
            return False
        try:
            self.argv = self.make()
            return True
        except (RuntimeError, OSError) as problem:
            report.fail(target, self.name, "build", problem)
            return False

    def start(self, nameserver, broker, run, directory, checks, **env):
        """Starts the driver on some checks."""
        home = directory / self.name
        home.mkdir(parents=True, exist_ok=True)
        env = {
            "NAMESRV_ADDR": nameserver,
            "BROKER_ADDR": broker,
            "INTEROP_RUN": run,
            "INTEROP_DRIVER": self.name,
            "HOME": str(home),
            "PYTHONPATH": str(toolchain.HERE),  # the Python driver uses the harness too
            **env,
        }
        argv = [a.replace("{home}", str(home)) for a in self.argv]
        return Child(self.name, argv + list(checks), str(home / f"{run}-{checks[0]}.log"), env=env, cwd=home)

    def run(self, report, cluster, run, directory, checks):
        """Runs some checks and reports every check the driver planned, even if it died."""
        if cluster.target == "apache":
            checks = [*checks, *(f"-{check}" for check in NOT_ON_APACHE.get(self.name, []))]
        child = self.start(cluster.nameserver, cluster.broker, run, directory, checks)
        for check, reason in self.finish(child, checks).items():
            if reason is None:
                report.ok(cluster.target, self.name, check)
            else:
                report.fail(cluster.target, self.name, check, reason)

    def finish(self, child, checks):
        """Waits for the end. Gives each check None, or the reason why it failed."""
        code = child.wait(PHASE_SECONDS)
        planned, said = read_output(child.output(), self.name)
        how = f"the driver ran longer than {PHASE_SECONDS} s" if code is None else f"the driver ended with {code}"
        silent = [check for check in planned or checks if check not in said]
        return {**said, **{check: f"{how}; see {child.log}: {child.tail()[-200:]}" for check in silent}}

    def insist(self, nameserver, broker, run, directory, checks, **env):
        """Runs some checks for a check of the harness, which fails if one of them does."""
        child = self.start(nameserver, broker, run, directory, checks, **env)
        failed = [f"{check}: {reason}" for check, reason in self.finish(child, checks).items() if reason]
        if failed:
            raise AssertionError("; ".join(failed))


def read_output(text, name):
    """The planned checks, and for each that was reported None or why it failed."""
    planned, said = [], {}
    for line in text.splitlines():
        words = line.split(" ", 2)
        if words[0] == "plan":
            planned = line.split()[1:]
        elif words[0] in ("ok", "FAIL") and len(words) == 3 and words[1] == name:
            check, _, reason = words[2].partition(": ")
            said[check] = None if words[0] == "ok" else reason or "no reason given"
    return planned, said


def java_argv(version, *properties):
    def make():
        classpath = toolchain.java(toolchain.HERE / "java", version)
        options = ["-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Duser.home={home}"]
        options += [f"-D{p}" for p in properties]
        return ["java", *options, "-cp", classpath, "interop.Driver"]

    return make


def go_argv():
    return [str(toolchain.go())]


def rust_argv():
    return [str(toolchain.rust(Rust.server))]


class Rust:
    """Our own client is built like the server under test, so that Cargo has most of it already."""

    server = toolchain.REPOSITORY / "target/release/metaq"


def python_argv():
    return [str(toolchain.python()), str(toolchain.HERE / "python" / "driver.py")]


JAVA_AFTER = ("resume-broker-after", "query-restart-after")


def java_driver(name, version, *properties):
    return Driver(name, ["java", "mvn"], java_argv(version, *properties), JAVA_AFTER)


ALL = [
    java_driver("java-5.3.2", "5.3.2"),
    java_driver("java-4.9.8", "4.9.8"),
    java_driver("java-5.3.2-binary", "5.3.2", "rocketmq.serialize.type=ROCKETMQ"),
    Driver("go", ["go"], go_argv),
    Driver("rust", ["cargo"], rust_argv, JAVA_AFTER),
    Driver("python-cpp", [], python_argv),
]


def run_all(drivers, report, cluster, run, directory):
    """All drivers side by side, a broker restart, then what has to come after it."""
    run_phase(drivers, report, cluster, run, directory, lambda driver: ["all"])
    cluster.restart_broker()
    run_phase(drivers, report, cluster, run, directory, lambda driver: driver.after)


def run_phase(drivers, report, cluster, run, directory, checks):
    threads = [
        threading.Thread(target=driver.run, args=(report, cluster, run, directory, checks(driver)))
        for driver in drivers
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
