"""The command line: what to run, in which order, and the closing count."""

import argparse
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

from . import drivers, process, toolchain
from .cluster import ApacheCluster, MetaqCluster
from .report import Report

RESULTS = toolchain.HERE / "results-apache.txt"
GROUPS = []


def main():
    options = parse()
    process.clean_up_at_exit()
    report = Report(options.require)
    directory = Path(tempfile.mkdtemp(prefix="metaq-interop-"))
    targets = ["metaq", "apache"] if options.full else [options.target]
    began = time.monotonic()
    for target in targets:
        run_target(target, options, report, directory / target)
    if options.full and not options.only:
        RESULTS.write_text("".join(line + "\n" for line in report.results("apache")))
    code = report.close()
    print(f"took {time.monotonic() - began:.0f} s", file=sys.stderr)
    if code == 0 and not options.keep:
        shutil.rmtree(directory, ignore_errors=True)
    else:
        print(f"logs are in {directory}", file=sys.stderr)
    return code


def parse():
    names = [d.name for d in drivers.ALL] + [name for name, _ in GROUPS]
    parser = argparse.ArgumentParser(
        prog="tests/interop/run", description="Foreign clients against metaq, and against Apache's cluster."
    )
    parser.add_argument("--require", action="store_true", help="a skip is a failure")
    parser.add_argument("--full", action="store_true", help="run against metaq and then against Apache's cluster too")
    parser.add_argument("--target", choices=["metaq", "apache"], default="metaq", help="the cluster to test")
    parser.add_argument("--only", action="append", metavar="NAME", help="one of: " + ", ".join(names) + " (repeatable)")
    parser.add_argument("--metaq", type=Path, default=toolchain.REPOSITORY / "target/release/metaq", metavar="PATH")
    parser.add_argument("--keep", action="store_true", help="keep logs and data of a run that passed")
    options = parser.parse_args()
    unknown = set(options.only or []) - set(names)
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    return options


def wanted(options, name):
    return not options.only or name in options.only


def run_target(target, options, report, directory):
    chosen = [d for d in drivers.ALL if wanted(options, d.name)]
    chosen = [d for d in chosen if d.prepare(report, target)]
    if chosen:
        cluster = make_cluster(target, options, report, directory)
        if cluster:
            try:
                cluster.start()
                drivers.run_all(chosen, report, cluster, f"r{os.getpid()}", directory)
                report.run(target, "cluster", "stops", cluster.stop)
            except (RuntimeError, TimeoutError, OSError) as problem:
                report.fail(target, "cluster", "runs", problem)


def make_cluster(target, options, report, directory):
    if target == "metaq":
        if not os.access(options.metaq, os.X_OK):
            report.fail(target, "cluster", "starts", f"no binary at {options.metaq}: cargo build --release")
            return None
        return MetaqCluster(options.metaq.resolve(), directory)
    absent = toolchain.missing("java", "mvn")
    if absent:
        report.skip(target, "cluster", "starts", absent)
        return None
    return ApacheCluster(toolchain.apache(), directory)


if __name__ == "__main__":
    sys.exit(main())
