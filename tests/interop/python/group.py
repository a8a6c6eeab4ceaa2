"""The ways to consume, alone and in groups."""

from harness import remoting
from scene import (
    BROKER,
    QUEUES,
    Inbox,
    Scene,
    await_route,
    expect,
    expect_equal,
    message,
    send_many,
    send_to_queue,
    sent,
    wait_until,
)

RETRIES = 2


def retry(name):
    """A refused message comes again and again; its neighbour is done."""
    scene, inbox, refused = refuse_bad(name)
    wait_until(lambda: len(refused.all()) == 1 + RETRIES, lambda: "the retries")
    inbox.await_exactly(["good"])
    expect_equal(list(range(1 + RETRIES)), [got.times for got in refused.all()], "reconsume times")
    expect_equal({"t"}, {got.tags for got in refused.all()}, "tags")
    expect_equal({scene.topic_name}, {got.topic for got in refused.all()}, "topics")


def retry_dlq(name):
    """A message that is refused too often lies in the dead-letter topic.

    Apache's broker can't do it for this client, whose send-back carries no originTopic.
    """
    scene, _, refused = refuse_bad(name)
    dead, grave = "%DLQ%" + scene.group, Inbox()
    await_route(dead)
    scene.consume(dead, grave, group=scene.group + "_dead")
    grave.await_exactly(["bad"])
    expect_equal(1 + RETRIES, len(refused.all()), "deliveries")
    got = grave.all()[0]
    expect_equal((scene.topic_name, "k"), (got.retry_topic, got.keys), "RETRY_TOPIC and keys of the dead message")


def refuse_bad(name):
    """Sends one message that is always refused and one that is not."""
    scene = Scene(name)
    topic, inbox, refused = scene.topic(), Inbox(), Inbox()
    # This client can't set the limit itself, and looks for the retry topic's route only every 30 s.
    remoting.create_group(BROKER, scene.group, RETRIES)
    remoting.create_topic(BROKER, "%RETRY%" + scene.group, 1)
    await_route("%RETRY%" + scene.group)

    def refuse(got):
        if got.body == "bad":
            refused.add(got)
        return got.body == "bad"

    scene.consume(topic, inbox, refuse=refuse)
    producer = scene.producer()
    sent(producer, message(topic, "bad", tags="t", keys="k"))
    sent(producer, message(topic, "good"))
    return scene, inbox, refused


def join_and_leave(name, orderly):
    """A second consumer takes over half of the queues and gives them back when it leaves.

    Messages flow all the time and none is lost; a queue that changes hands may repeat some.
    """
    scene = Scene(name)
    topic, one, two, everything = scene.topic(), Inbox(), Inbox(), []
    producer = scene.producer()

    def queues(inbox, round):
        return len({got.queue for got in inbox.all() if got.body.startswith(round)})

    def send_until(phase, settled):
        """Sends rounds of a message per queue until one round arrived where it should."""
        rounds = []

        def one_round():
            round = f"{phase}{len(rounds)}-"
            rounds.append(round)
            for queue in range(QUEUES):
                everything.append(f"{round}{queue}")
                send_to_queue(producer, message(topic, everything[-1]), queue)
            try:
                wait_until(lambda: settled(round), lambda: "", seconds=0.5)
            except TimeoutError:
                return False
            return True

        wait_until(one_round, lambda: f"the queues to be shared: {phase}")

    scene.consume(topic, one, orderly=orderly)
    send_until("alone", lambda round: queues(one, round) == QUEUES)
    second = scene.consume(topic, two, orderly=orderly)
    send_until("both", lambda round: queues(one, round) == 2 and queues(two, round) == 2)
    second.shutdown()
    send_until("again", lambda round: queues(one, round) == QUEUES)
    wait_until(lambda: not (one.missing(everything) & two.missing(everything)), lambda: "all that was sent")


def broadcast(name):
    """Every broadcast consumer gets everything."""
    scene = Scene(name)
    topic, inboxes = scene.topic(), [Inbox(), Inbox()]
    for inbox in inboxes:
        scene.consume(topic, inbox, broadcast=True)
    bodies = send_many(scene.producer(), topic, "m", 40)
    for inbox in inboxes:
        inbox.await_exactly(bodies)


def push(name):
    """A consumer that waits gets each of many messages once."""
    scene = Scene(name)
    topic, inbox = scene.topic(), Inbox()
    scene.consume(topic, inbox)
    inbox.await_exactly(send_many(scene.producer(), topic, "m", 200))


def orderly(name):
    """Each key's messages come in the order sent, although one is first refused."""
    scene = Scene(name)
    topic, inbox, refused = scene.topic(), Inbox(), []

    def refuse(got):
        if got.body == "key1-7" and not refused:
            refused.append(got)
            return True
        return False

    scene.consume(topic, inbox, orderly=True, refuse=refuse)
    producer, bodies = scene.producer(), []
    for i in range(20):
        for key in range(6):
            bodies.append(f"key{key}-{i}")
            send_to_queue(producer, message(topic, bodies[-1]), key)
    inbox.await_exactly(bodies)
    expect(refused, "nothing was refused")
    for key in range(6):
        want = [f"key{key}-{i}" for i in range(20)]
        expect_equal(want, [b for b in inbox.bodies() if b.startswith(f"key{key}-")], "order")


def tags(name):
    scene = Scene(name)
    topic, inbox, producer = scene.topic(), Inbox(), scene.producer()
    for i in range(30):
        send_to_queue(producer, message(topic, f"m{i}", tags="ABC"[i % 3]), i // 3)
    # When the last of each queue arrives, all before it have arrived.
    for queue in range(QUEUES):
        send_to_queue(producer, message(topic, "end", tags="C"), queue)
    scene.consume(topic, inbox, tags="A || C")
    wait_until(lambda: inbox.bodies().count("end") == QUEUES, lambda: "the last of each queue")
    expect_equal(20 + QUEUES, len(inbox.all()), "messages")
    expect("B" not in {got.tags for got in inbox.all()}, "got a B")


def pull(name):
    """All queues are read from their first offset; a second look finds only what is new."""
    scene = Scene(name)
    topic, producer = scene.topic(), scene.producer()
    bodies = send_many(producer, topic, "m", 50)
    consumer = scene.pull_consumer()
    expect_equal(sorted(bodies), sorted(m.body.decode() for m in consumer.pull(topic)), "bodies")
    more = send_many(producer, topic, "more", 10)
    expect_equal(sorted(more), sorted(m.body.decode() for m in consumer.pull(topic)), "new bodies")


def resume_client(name):
    """A group goes on where it stopped."""
    consume_first_half(name)
    consume_second_half(name)


def consume_first_half(name):
    """Consumes what is there, stops the consumer, and leaves more for the next one."""
    scene = Scene(name)
    topic, inbox, producer = scene.topic(), Inbox(), scene.producer()
    first = send_many(producer, topic, "first", 40)
    consumer = scene.consume(topic, inbox)
    inbox.await_exactly(first)
    wait_until(lambda: remoting.consumed(BROKER, scene.group, topic, QUEUES) == len(first), lambda: "the offsets")
    consumer.shutdown()
    send_many(producer, topic, "second", 40)
    for queue in range(QUEUES):
        send_to_queue(producer, message(topic, "end"), queue)


def consume_second_half(name):
    """A new consumer of the group gets the rest, and none of what was consumed."""
    scene = Scene(name)
    inbox = Inbox()
    scene.consume(scene.topic_name, inbox)
    wait_until(lambda: inbox.bodies().count("end") == QUEUES, lambda: "the last of each queue")
    inbox.await_exactly([f"second{i}" for i in range(40)] + ["end"] * QUEUES)


CHECKS = {
    "retry-dlq": retry_dlq,
    "retry": retry,
    "join-leave": lambda name: join_and_leave(name, orderly=False),
    "join-leave-orderly": lambda name: join_and_leave(name, orderly=True),
    "resume-client": resume_client,
    "resume-broker-before": consume_first_half,
    "resume-broker-after": consume_second_half,
    "broadcast": broadcast,
    "push": push,
    "orderly": orderly,
    "tags": tags,
    "pull": pull,
}
