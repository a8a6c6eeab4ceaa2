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

    def run(self, report, cluster, run, directory, checks):
        """Runs some checks and reports every check the driver planned, even if it died."""
        home = directory / self.name
        home.mkdir(parents=True, exist_ok=True)
        env = {
            "NAMESRV_ADDR": cluster.nameserver,
            "BROKER_ADDR": cluster.broker,
            "INTEROP_RUN": run,
            "INTEROP_DRIVER": self.name,
            "HOME": str(home),
            "PYTHONPATH": str(toolchain.HERE),  # the Python driver uses the harness too
        }
        argv = [a.replace("{home}", str(home)) for a in self.argv]
        if cluster.target == "apache":
            argv += [f"-{check}" for check in NOT_ON_APACHE.get(self.name, [])]
        log = home / f"{checks[0]}.log"
        child = Child(self.name, argv + list(checks), str(log), env=env, cwd=home)
        code = child.wait(PHASE_SECONDS)
        planned, said = read_output(child.output(), self.name)
        for check, (word, reason) in said.items():
            if word == "ok":
                report.ok(cluster.target, self.name, check)
            else:
                report.fail(cluster.target, self.name, check, reason)
        how = f"the driver ran longer than {PHASE_SECONDS} s" if code is None else f"the driver ended with {code}"
        for check in planned or checks:
            if check not in said:
                report.fail(cluster.target, self.name, check, f"{how}; see {log}: {child.tail()[-200:]}")


def read_output(text, name):
    """The planned checks and what was said about each."""
    planned, said = [], {}
    for line in text.splitlines():
        words = line.split(" ", 2)
        if words[0] == "plan":
            planned = line.split()[1:]
        elif words[0] in ("ok", "FAIL") and len(words) == 3 and words[1] == name:
            check, _, reason = words[2].partition(": ")
            said[check] = (words[0], reason)
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


def python_argv():
    return [str(toolchain.python()), str(toolchain.HERE / "python" / "driver.py")]


ALL = [
    Driver("java-5.3.2", ["java", "mvn"], java_argv("5.3.2")),
    Driver("java-4.9.8", ["java", "mvn"], java_argv("4.9.8")),
    Driver("java-5.3.2-binary", ["java", "mvn"], java_argv("5.3.2", "rocketmq.serialize.type=ROCKETMQ")),
    Driver("go", ["go"], go_argv),
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
