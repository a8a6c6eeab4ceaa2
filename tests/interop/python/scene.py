"""Names, clients and waits that the checks share."""

import os
import re
import threading
import time
from collections import Counter

from harness import remoting
from rocketmq.client import Message, Producer, PullConsumer, PushConsumer, RecvMessage, _to_bytes
from rocketmq.ffi import MessageModel, _CConsumeStatus, dll

QUEUES = 4
DEADLINE = 100
NAMESRV = os.environ.get("NAMESRV_ADDR")
BROKER = os.environ.get("BROKER_ADDR")

_alive = []  # a client that the garbage collector takes is shut down in the middle of things


class Scene:
    """The names and clients of one check."""

    def __init__(self, check):
        # The two halves of a check that spans a restart share their names.
        shared = re.sub("-(before|after)$", "", check)
        prefix = f"{os.environ['INTEROP_RUN']}_{os.environ['INTEROP_DRIVER']}_{shared}"
        self.prefix = re.sub("[^A-Za-z0-9_-]", "-", prefix)
        self.topic_name = "T_" + self.prefix
        self.group = "G_" + self.prefix
        self._instances = 0

    def topic(self):
        """A topic of four queues that the NameServer already knows; this client can't make one."""
        remoting.create_topic(BROKER, self.topic_name, QUEUES)
        await_route(self.topic_name)
        return self.topic_name

    def producer(self):
        producer = Producer("P_" + self.prefix)
        producer.set_namesrv_addr(NAMESRV)
        producer.set_timeout(20000)
        producer.set_max_message_size(4 << 20)
        dll.SetProducerInstanceName(producer._handle, _to_bytes(self._instance()))
        producer.start()
        _alive.append(producer)
        return producer

    def consume(self, topic, inbox, tags="*", orderly=False, broadcast=False, group=None, refuse=lambda message: False):
        """Starts a push consumer that puts into the inbox what it accepts, after asking `refuse`."""

        def on_message(_consumer, handle):
            message = Received(RecvMessage(handle))
            if refuse(message):
                return _CConsumeStatus.RECONSUME_LATER.value
            inbox.add(message)
            return _CConsumeStatus.CONSUME_SUCCESS.value

        model = MessageModel.BROADCASTING if broadcast else MessageModel.CLUSTERING
        consumer = PushConsumer(group or self.group, orderly=orderly, message_model=model)
        consumer.set_namesrv_addr(NAMESRV)
        consumer.set_instance_name(self._instance())
        consumer.set_thread_count(4)
        dll.Subscribe(consumer._handle, _to_bytes(topic), _to_bytes(tags))
        consumer._register_callback(on_message)
        consumer.start()
        _alive.append(consumer)
        return consumer

    def pull_consumer(self):
        consumer = PullConsumer(self.group)
        consumer.set_namesrv_addr(NAMESRV)
        consumer.start()
        _alive.append(consumer)
        return consumer

    def _instance(self):
        self._instances += 1
        return f"{self.prefix}_{self._instances}"


class Received:
    """A copy of what a consumer got: the native message lives only as long as the callback."""

    def __init__(self, message):
        self.topic = message.topic
        self.tags = (message.tags or b"").decode()
        self.keys = (message.keys or b"").decode()
        self.body = message.body.decode()
        self.id = message.id
        self.queue = message.queue_id
        self.queue_offset = message.queue_offset
        self.times = message.reconsume_times
        self.store_size = message.store_size
        self.waited = message.store_timestamp - message.born_timestamp
        self.colour = (message.get_property("colour") or b"").decode()
        self.retry_topic = (message.get_property("RETRY_TOPIC") or b"").decode()


class Inbox:
    """What consumers got, in the order they got it."""

    def __init__(self):
        self._messages = []
        self._lock = threading.Lock()

    def add(self, message):
        with self._lock:
            self._messages.append(message)

    def all(self):
        with self._lock:
            return list(self._messages)

    def bodies(self):
        return [message.body for message in self.all()]

    def missing(self, bodies):
        return set(bodies) - set(self.bodies())

    def await_exactly(self, bodies):
        """Waits for these bodies, then insists that each came once and nothing else came."""
        wait_until(lambda: not self.missing(bodies), lambda: f"{sorted(self.missing(bodies))[:10]}")
        expect_equal(Counter(bodies), Counter(self.bodies()), "deliveries")


def message(topic, body, tags=None, keys=None):
    m = Message(topic)
    m.set_body(body)
    if tags:
        m.set_tags(tags)
    if keys:
        m.set_keys(keys)
    return m


def sent(producer, m):
    result = with_route(lambda: producer.send_sync(m))
    expect_equal(0, int(result.status), "status")
    return result


def send_many(producer, topic, name, count):
    """Sends name0, name1, ... and returns these bodies."""
    bodies = [f"{name}{i}" for i in range(count)]
    for body in bodies:
        sent(producer, message(topic, body))
    return bodies


def with_route(send):
    """Sends again if the client found no route: it gives a busy NameServer little time."""
    end = time.monotonic() + DEADLINE
    while True:
        try:
            return send()
        except Exception as problem:
            if "No route info" not in str(problem) or time.monotonic() > end:
                raise


def send_to_queue(producer, m, queue):
    result = with_route(lambda: producer.send_orderly(m, queue))
    expect_equal(0, int(result.status), "status")
    return result


def await_route(topic):
    wait_until(lambda: remoting.route(NAMESRV, topic), lambda: f"a route of {topic}")


def wait_until(condition, what, seconds=DEADLINE):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"waited {seconds} s for {what()}")
        time.sleep(0.02)


def expect(holds, what):
    if not holds:
        raise AssertionError(what)


def expect_equal(want, got, what):
    expect(want == got, f"{what}: expected {want}, got {got}")
