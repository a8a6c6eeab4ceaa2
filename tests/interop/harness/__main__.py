"""The command line: what to run, in which order, and the closing count."""

import argparse
import os
import shutil
import sys
import tempfile
import threading
import time
from pathlib import Path

from . import across, apache_broker, cli, drivers, migration, mqadmin, process, processes, toolchain
from .cluster import ApacheCluster, MetaqCluster
from .report import Report

RESULTS = toolchain.HERE / "results-apache.txt"
# Groups of checks that are no client's driver; all but `cli` need Java.
GROUPS = ["across", "cli", "mqadmin", "apache-broker", "processes", "migration"]


def main():
    options = parse()
    process.clean_up_at_exit()
    report = Report(options.require)
    drivers.Rust.server = options.metaq.resolve()
    directory = Path(tempfile.mkdtemp(prefix="metaq-interop-"))
    began = time.monotonic()
    # Apache's cluster comes first: what it prints is what metaq has to print.
    targets = ["apache", "metaq"] if options.full else [options.target]
    for target in targets:
        Target(target, options, report, directory / target).run()
    if "apache" in targets and not options.only:
        RESULTS.write_text("".join(line + "\n" for line in report.results("apache")))
    code = report.close()
    print(f"took {time.monotonic() - began:.0f} s", file=sys.stderr)
    if code == 0 and not options.keep:
        shutil.rmtree(directory, ignore_errors=True)
    else:
        print(f"logs are in {directory}", file=sys.stderr)
    return code


def parse():
    names = [d.name for d in drivers.ALL] + GROUPS
    parser = argparse.ArgumentParser(
        prog="tests/interop/run", description="Foreign clients against metaq, and against Apache's cluster."
    )
    parser.add_argument("--require", action="store_true", help="a skip is a failure")
    parser.add_argument("--full", action="store_true", help="run against Apache's cluster and then against metaq")
    parser.add_argument("--target", choices=["metaq", "apache"], default="metaq", help="the cluster to test")
    parser.add_argument("--only", action="append", metavar="NAME", help="one of: " + ", ".join(names) + " (repeatable)")
    parser.add_argument("--metaq", type=Path, default=toolchain.REPOSITORY / "target/release/metaq", metavar="PATH")
    parser.add_argument("--keep", action="store_true", help="keep logs and data of a run that passed")
    options = parser.parse_args()
    unknown = set(options.only or []) - set(names)
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    return options


class Target:
    """All that was asked for, against one make of cluster."""

    def __init__(self, name, options, report, directory):
        self.name = name
        self.options = options
        self.report = report
        self.directory = directory
        self.classpath = None  # of Apache's servers and tools, where Java is there
        self.java = next(d for d in drivers.ALL if d.name == "java-5.3.2")

    def run(self):
        if self.name == "metaq" and not os.access(self.options.metaq, os.X_OK):
            self.report.fail("metaq", "cluster", "starts", f"no binary at {self.options.metaq}: cargo build --release")
            return
        chosen = [d for d in drivers.ALL if self.wanted(d.name) and d.prepare(self.report, self.name)]
        groups = [g for g in GROUPS if self.wanted(g)]
        if set(groups) - {"cli"} or self.name == "apache":
            absent = toolchain.missing("java", "mvn")
            if absent:
                for name in groups or ["cluster"]:
                    self.report.skip(self.name, name, "all", absent)
                return
            self.classpath = toolchain.apache()
            self.java.argv = self.java.make()

        lanes = [lambda: self.guard("cluster", lambda: self.run_drivers(chosen)), lambda: self.run_groups(groups)]
        if self.name == "apache":
            for lane in lanes:  # its Java processes would be too many at once
                lane()
            return
        threads = [threading.Thread(target=lane) for lane in lanes]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def wanted(self, name):
        return not self.options.only or name in self.options.only

    def guard(self, name, action):
        """What goes wrong around the checks fails too."""
        try:
            action()
        except Exception as problem:
            self.report.fail(self.name, name, "runs", f"{type(problem).__name__}: {problem}")

    def cluster(self, directory):
        if self.name == "apache":
            return ApacheCluster(self.classpath, directory)
        return MetaqCluster(self.options.metaq.resolve(), directory)

    def run_drivers(self, chosen):
        if not chosen:
            return
        cluster = self.cluster(self.directory)
        cluster.start()
        drivers.run_all(chosen, self.report, cluster, f"r{os.getpid()}", self.directory)
        self.report.run(self.name, "cluster", "stops", cluster.stop)

    def run_groups(self, groups):
        actions = {
            "across": self.run_across,
            "cli": self.run_cli,
            "mqadmin": self.run_mqadmin,
            "apache-broker": self.run_apache_broker,
            "processes": self.run_processes,
            "migration": self.run_migration,
        }
        for group in groups:
            self.guard(group, actions[group])

    def run_across(self):
        directory = self.directory / "across"
        cluster = self.cluster(directory / "cluster")
        cluster.start()
        across.run(self.report, cluster, f"r{os.getpid()}", directory)
        cluster.stop()

    def run_cli(self):
        cluster = self.cluster(self.directory / "cli")
        cluster.start()
        cli.run(self.report, cluster, self.options.metaq.resolve())
        cluster.stop()

    def run_mqadmin(self):
        cluster = self.cluster(self.directory / "mqadmin")
        cluster.start()
        mqadmin.run(self.report, cluster, self.classpath, self.directory / "mqadmin", self.name == "apache")
        cluster.stop()

    def run_apache_broker(self):
        if self.name == "metaq":
            directory = self.directory / "apache-broker"
            apache_broker.run(self.report, self.options.metaq.resolve(), self.classpath, self.java, directory)

    def run_migration(self):
        if self.name == "metaq":
            directory = self.directory / "migration"
            migration.run(self.report, self.options.metaq.resolve(), self.classpath, self.java, directory)

    def run_processes(self):
        directory = self.directory / "processes"
        if self.name == "apache":
            nodes = processes.apache(self.classpath, directory)
        else:
            nodes = processes.metaq(self.options.metaq.resolve(), directory)
        processes.run(self.report, self.name, nodes, self.java, directory)


if __name__ == "__main__":
    sys.exit(main())
