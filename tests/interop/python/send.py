"""The ways to send."""

import threading

from scene import (
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
    with_route,
)


def send(name):
    """What was sent arrives with its keys, tag and properties."""
    scene = Scene(name)
    topic, inbox = scene.topic(), Inbox()
    m = message(topic, "grüße", tags="tag-é", keys="key1 key2")
    m.set_property("colour", 'blue = "#00f"')
    result = sent(scene.producer(), m)
    scene.consume(topic, inbox)
    inbox.await_exactly(["grüße"])
    got = inbox.all()[0]
    expect_equal(("tag-é", "key1 key2", 'blue = "#00f"'), (got.tags, got.keys, got.colour), "tag, keys, property")
    expect_equal(result.offset, got.queue_offset, "queue offset")


def auto_create(name):
    """The first send to an unknown topic makes it."""
    scene, inbox = Scene(name), Inbox()
    bodies = send_many(scene.producer(), scene.topic_name, "m", 10)
    await_route(scene.topic_name)
    scene.consume(scene.topic_name, inbox)
    inbox.await_exactly(bodies)


def send_async(name):
    scene = Scene(name)
    topic, inbox, producer = scene.topic(), Inbox(), scene.producer()
    bodies = [f"m{i}" for i in range(30)]
    answers, problems, lock = [], [], threading.Lock()

    def on(answer, into):
        with lock:
            into.append(answer)

    messages = [message(topic, body) for body in bodies]
    for m in messages:
        producer.send_async(m, lambda result: on(result, answers), lambda problem: on(problem, problems))
    wait_until(lambda: len(answers) + len(problems) == len(bodies), lambda: "the answers")
    expect(not problems, f"problems: {problems}")
    expect(all(int(a.status) == 0 for a in answers), "a status that is not OK")
    scene.consume(topic, inbox)
    inbox.await_exactly(bodies)


def oneway(name):
    """This client drops a one-way message, and says nothing, while its connection is not up: the first has an answer."""
    scene = Scene(name)
    topic, inbox, producer = scene.topic(), Inbox(), scene.producer()
    sent(producer, message(topic, "m0"))
    bodies = [f"m{i}" for i in range(30)]
    for body in bodies[1:]:
        with_route(lambda: producer.send_oneway(message(topic, body)))
    scene.consume(topic, inbox)
    inbox.await_exactly(bodies)


def batch(name):
    """This client sends a batch as if it were one message, and one message is what Apache's broker stores."""
    scene = Scene(name)
    topic, inbox, producer = scene.topic(), Inbox(), scene.producer()
    result = with_route(lambda: producer.send_batch([message(topic, "m" * 100) for _ in range(10)]))
    expect_equal(0, int(result.status), "status")
    scene.consume(topic, inbox)
    wait_until(inbox.all, lambda: "the batch")
    expect_equal(1, len(inbox.all()), "messages")
    expect(inbox.all()[0].store_size > 1000, "the size of the batch")


def ordered(name):
    """The producer's choice of queue is kept, and offsets in a queue follow each other."""
    scene = Scene(name)
    topic, inbox, producer = scene.topic(), Inbox(), scene.producer()
    for i in range(40):
        result = send_to_queue(producer, message(topic, f"m{i}"), i % QUEUES)
        expect_equal(i // QUEUES, result.offset, "queue offset")
    scene.consume(topic, inbox)
    inbox.await_exactly([f"m{i}" for i in range(40)])
    for got in inbox.all():
        expect_equal(int(got.body[1:]) % QUEUES, got.queue, "queue")


def delayed(name):
    """Nothing of a delay level arrives before its time: the levels are set to 1 s, 2 s, ..."""
    scene = Scene(name)
    topic, inbox, producer = scene.topic(), Inbox(), scene.producer()
    scene.consume(topic, inbox)
    for level in range(3):
        m = message(topic, f"level{level}")
        if level:
            m.set_delay_time_level(level)
        sent(producer, m)
    inbox.await_exactly(["level0", "level1", "level2"])
    for got in inbox.all():
        seconds = int(got.body[5:])
        expect(got.waited >= seconds * 1000 - 50, f"level {seconds} came after {got.waited} ms")
        expect_equal(topic, got.topic, "topic")


def big(name):
    """A big body travels and is stored compressed; the consumer gets it whole."""
    scene = Scene(name)
    topic, inbox, producer = scene.topic(), Inbox(), scene.producer()
    text = "abcdefghijklmnopqrstuvw" * 40_000
    sent(producer, message(topic, text))
    scene.consume(topic, inbox)
    inbox.await_exactly([text])
    expect(inbox.all()[0].store_size < 100_000, f"stored {inbox.all()[0].store_size} bytes")


CHECKS = {
    "delayed": delayed,
    "auto-create": auto_create,
    "send": send,
    "async": send_async,
    "oneway": oneway,
    "batch": batch,
    "ordered": ordered,
    "big": big,
}
