"""Runs the checks named on the command line, or all, with the C++ client as PyPI's `rocketmq` wraps it.

Reads NAMESRV_ADDR, BROKER_ADDR, INTEROP_DRIVER (the name to report under) and INTEROP_RUN (what
makes this run's topics and groups unique). Checks whose name ends in "-after" need a broker restart
after "all" and have to be named; "-NAME" leaves a check out. Every check runs in a process of its own, several at a time: a
crash of the native library fails that check alone.
"""

import concurrent.futures
import os
import subprocess
import sys
import traceback

import group
import send

AT_A_TIME = 8
SECONDS = 180
CHECKS = {**group.CHECKS, **send.CHECKS}


def main(arguments):
    if arguments[:1] == ["--one"]:
        # The native library's threads outlive a proper exit, some of them badly.
        code = run_one(arguments[1])
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    names = [name for name in arguments if not name.startswith("-")]
    if not names or "all" in names:
        names = [name for name in CHECKS if not name.endswith("-after")]
    names = [name for name in names if "-" + name not in arguments]
    print("plan", *names, flush=True)
    with concurrent.futures.ThreadPoolExecutor(AT_A_TIME) as pool:
        for name in names:
            pool.submit(report, name)


def report(name):
    driver = os.environ["INTEROP_DRIVER"]
    try:
        done = subprocess.run(
            [sys.executable, __file__, "--one", name], capture_output=True, text=True, timeout=SECONDS
        )
        problem = None if done.returncode == 0 else f"ended with {done.returncode}: {done.stderr[-500:]}"
    except subprocess.TimeoutExpired:
        problem = f"ran longer than {SECONDS} s"
    if problem is None:
        print(f"ok {driver} {name}", flush=True)
    else:
        print(f"FAIL {driver} {name}: {' '.join(problem.split())}", flush=True)


def run_one(name):
    try:
        CHECKS[name](name)
        return 0
    except Exception:
        traceback.print_exc()
        return 1


if __name__ == "__main__":
    main(sys.argv[1:])
