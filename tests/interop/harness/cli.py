"""Our command line against a cluster of either make: each command does its work and says so."""

import json
import os
import subprocess
import time

TOPIC = "CliTopic"
GROUP = "CliGroup"
COMMAND_SECONDS = 60
WAIT_SECONDS = 30


def run(report, cluster, binary):
    """Runs all checks on one cluster, in this order: the later ones need what the earlier ones made."""
    cli = Cli(binary, cluster.nameserver)
    checks = [looking, topics, sending, groups, finding, retrying, deleting, benching, apaches_names]
    report.run_in_turn(cluster.target, "cli", [(check.__name__, lambda check=check: check(cli)) for check in checks])


class Cli:
    def __init__(self, binary, nameserver):
        self.binary = str(binary)
        self.env = {**os.environ, "NAMESRV_ADDR": nameserver, "NO_COLOR": "1"}

    def run(self, *args, stdin="", code=0):
        """What a command that has to end so prints."""
        done = subprocess.run(
            [self.binary, *args], input=stdin, capture_output=True, text=True, env=self.env, timeout=COMMAND_SECONDS
        )
        if done.returncode != code:
            raise AssertionError(f"metaq {' '.join(args)} ended with {done.returncode}: {done.stderr or done.stdout}")
        return done.stdout

    def json(self, *args):
        return json.loads(self.run(*args, "--json"))

    def lines(self, *args):
        return [json.loads(line) for line in self.run(*args, "--json").splitlines()]

    def until(self, holds, *args):
        """Runs a command until its answer is as it should be: brokers do some things in their own time."""
        end = time.monotonic() + WAIT_SECONDS
        while True:
            answer = self.json(*args)
            if holds(answer):
                return answer
            if time.monotonic() > end:
                raise AssertionError(f"metaq {' '.join(args)} still says {answer}")
            time.sleep(0.1)


def expect_equal(expected, got):
    if expected != got:
        raise AssertionError(f"expected {expected}, got {got}")


def looking(cli):
    broker = cli.json("cluster", "list")[0]
    expect_equal(("broker-a", 0, "master"), (broker["broker"], broker["id"], broker["role"]))
    cli.run("cluster", "health", "--watch", "--exit-when-healthy", "--timeout", "30")
    expect_equal("broker-a", cli.json("cluster", "stats")[0]["broker"])
    settings = {row["key"]: row["value"] for row in cli.json("cluster", "config", "broker-a", "-k", "flushDisk")}
    expect_equal("ASYNC_FLUSH", settings["flushDiskType"])


def topics(cli):
    cli.run("topic", "create", TOPIC, "--queues", "2")
    cli.run("topic", "create", TOPIC, code=1)
    cli.run("topic", "update", TOPIC, "--queues", "4")
    shown = cli.until(lambda shown: len(shown["queues"]) == 4, "topic", "show", TOPIC)
    expect_equal((4, "rw"), (shown["brokers"][0]["write"], shown["brokers"][0]["perm"]))
    row = next(row for row in cli.json("topic", "list") if row["topic"] == TOPIC)
    expect_equal((1, 4), (row["brokers"], row["queues"]))
    cli.run("topic", "stats", TOPIC)


def sending(cli):
    cli.run("send", TOPIC, "a book", "-k", "order-1", "-t", "paid", "-p", "region=eu")
    cli.run("send", TOPIC, "a pen", "-k", "order-2", "--ordered")
    cli.run("send", TOPIC, "-q", stdin="".join(f"{n}\n" for n in range(20)))
    story = "a long story, " * 500
    for how in ["zlib", "lz4", "zstd", "none"]:
        cli.run("send", TOPIC, story, "--compress", how, "-t", "long")
    expect_equal([story] * 4, [m["body"] for m in cli.lines("tail", TOPIC, "--from", "begin", "--tag", "long")])
    expect_equal(26, len(cli.lines("tail", TOPIC, "--from", "begin")))
    paid = cli.lines("tail", TOPIC, "--from", "begin", "--tag", "paid")
    expect_equal([("a book", "order-1", "eu")], [(m["body"], m["key"], m["properties"]["region"]) for m in paid])
    expect_equal(["a book"], [m["body"] for m in cli.lines("tail", TOPIC, "--from", "begin", "--sql", "region = 'eu'")])
    expect_equal(1, len(cli.lines("tail", TOPIC, "-l", "1")))
    # Brokers of the tests have a first level of one second.
    cli.run("send", TOPIC, "later", "--delay", "1", "-t", "later")
    end = time.monotonic() + WAIT_SECONDS
    while not cli.run("tail", TOPIC, "--from", "begin", "--tag", "later"):
        if time.monotonic() > end:
            raise AssertionError("the delayed message does not come")


def groups(cli):
    consumed = cli.lines("tail", TOPIC, "-g", GROUP, "--from", "begin", "--max", "10")
    expect_equal(10, len(consumed))
    waits = sum(row["lag"] for row in cli.until(lambda rows: len(rows) == 4, "group", "lag", GROUP))
    expect_equal(17, waits)
    cli.run("group", "update", GROUP, "--retries", "5")
    shown = cli.until(lambda shown: shown["retriesMax"] == 5, "group", "show", GROUP)
    expect_equal((True, []), (shown["consumeEnabled"], shown["members"]))
    cli.run("group", "create", GROUP + "Made", "--retries", "3", "--consume", "false")
    expect_equal({GROUP, GROUP + "Made"}, {row["group"] for row in cli.json("group", "list")} & {GROUP, GROUP + "Made"})
    cli.run("group", "producers", "metaq-send", TOPIC)
    cli.run("group", "clone", GROUP, GROUP + "Copy", "--yes")
    for to, lag in [("begin", 27), ("end", 0)]:
        cli.run("group", "reset", GROUP, TOPIC, "--to", to, "--yes")
        cli.until(lambda rows: sum(row["lag"] for row in rows) == lag, "group", "lag", GROUP)
    rows = cli.json("offset", "search", TOPIC, "--time", "1h")
    expect_equal((4, 27), (len(rows), sum(row["since"] for row in rows)))
    cli.run("group", "delete", GROUP + "Made", "--yes")


def finding(cli):
    found = cli.until(lambda found: len(found) == 1, "message", "find", TOPIC, "-k", "order-1")[0]
    expect_equal("a book", cli.json("message", "show", found["offsetId"])["body"])
    expect_equal("a book", cli.json("message", "show", found["id"], "--topic", TOPIC)["body"])
    cli.run("message", "resend", found["offsetId"], "--yes")
    cli.until(lambda found: len(found) == 2, "message", "find", TOPIC, "-k", "order-1")


def retrying(cli):
    cli.run("dlq", "list")
    cli.run("dlq", "show", GROUP, code=1)
    cli.run("txn", "list")


def deleting(cli):
    cli.run("group", "delete", GROUP, "--yes")
    cli.run("group", "show", GROUP, code=1)
    cli.run("topic", "delete", TOPIC, "--yes")
    cli.run("topic", "show", TOPIC, code=1)


def benching(cli):
    for work in ["produce", "consume", "roundtrip", "transactions"]:
        measured = cli.json("bench", work, "--seconds", "0.3", "--topic", "CliBench")
        if not all(result["messages"] > 0 for result in measured.values()):
            raise AssertionError(f"bench {work} measured nothing: {measured}")


def apaches_names(cli):
    mqadmin = lambda *args: cli.run("mqadmin", *args)
    mqadmin("updateTopic", "-c", "DefaultCluster", "-t", TOPIC, "-r", "2", "-w", "2")
    mqadmin("updateSubGroup", "-c", "DefaultCluster", "-g", GROUP, "-r", "3")
    for words in ["topicList", "clusterList", f"topicRoute -t {TOPIC}", "getBrokerConfig -b broker-a", "consumerProgress"]:
        if not mqadmin(*words.split()):
            raise AssertionError(f"mqadmin {words} prints nothing")
    mqadmin("deleteSubGroup", "-g", GROUP, "-c", "DefaultCluster")
    mqadmin("deleteTopic", "-t", TOPIC, "-c", "DefaultCluster")
