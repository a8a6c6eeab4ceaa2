"""Messages of each foreign client consumed by ours, and the reverse: compressed, batched, ordered and refused ones."""

import threading

from . import drivers

# Which compressions both sides of a pair have; Go's client knows zlib only.
PARTNERS = {
    "java-5.3.2": "lz4,zlib,zstd",
    "java-4.9.8": "lz4,zlib,zstd",
    "go": "zlib",
}
OURS = "rust"


def run(report, cluster, run, directory):
    """Runs all pairs side by side. A check is named after who sends and who consumes."""
    by_name = {driver.name: driver for driver in drivers.ALL}
    ready = {name: by_name[name].prepare(report, cluster.target) for name in [OURS, *PARTNERS]}
    threads = []
    for partner, compressions in PARTNERS.items():
        if not (ready[OURS] and ready[partner]):
            continue  # `prepare` has said so
        for sender, consumer in [(partner, OURS), (OURS, partner)]:
            pair = f"{sender}-to-{consumer}"
            env = {"INTEROP_ACROSS": f"{run}_{pair}".replace(".", "-"), "INTEROP_COMPRESS": compressions}
            action = _action(by_name[sender], by_name[consumer], cluster, run, directory / pair, env)
            threads.append(threading.Thread(target=report.run, args=(cluster.target, "across", pair, action)))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _action(sender, consumer, cluster, run, directory, env):
    def action():
        for driver, checks in [
            (sender, ["across-send-after", "across-refuse-after"]),
            (consumer, ["across-consume-after"]),
        ]:
            driver.insist(cluster.nameserver, cluster.broker, run, directory, checks, **env)

    return action
