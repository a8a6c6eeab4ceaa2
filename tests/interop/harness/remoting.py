"""As much of the remoting protocol as the harness needs to set the scene and wait for conditions."""

import json
import re
import socket
import struct

GET_CONSUMER_OFFSET = 14
UPDATE_TOPIC = 17
UPDATE_CONFIG = 25
GET_RUNTIME_INFO = 28
GET_ALL_OFFSETS = 43
GET_ROUTE = 105
GET_CLUSTER = 106
UPDATE_GROUP = 200
GET_ALL_GROUPS = 201
DELETE_EXPIRED_LOG = 329

_JSON = 0 << 24


class Refused(Exception):
    def __init__(self, code, remark):
        super().__init__(f"code {code}: {remark}")
        self.code = code


def call(address, code, fields=None, body=b"", seconds=5):
    """Sends one request and returns the answer's fields and body."""
    host, port = address.rsplit(":", 1)
    header = {"code": code, "language": "PYTHON", "version": 0, "opaque": 1, "flag": 0}
    header["serializeTypeCurrentRPC"] = "JSON"
    if fields:
        header["extFields"] = {k: str(v) for k, v in fields.items()}
    text = json.dumps(header).encode()
    with socket.create_connection((host, int(port)), timeout=seconds) as connection:
        connection.sendall(struct.pack(">II", 4 + len(text) + len(body), _JSON | len(text)) + text + body)
        (length,) = struct.unpack(">I", _read(connection, 4))
        frame = _read(connection, length)
    (size,) = struct.unpack(">I", frame[:4])
    size &= 0xFFFFFF
    answer = json.loads(frame[4 : 4 + size])
    if answer.get("code") != 0:
        raise Refused(answer.get("code"), answer.get("remark"))
    return answer.get("extFields") or {}, frame[4 + size :]


def with_text_keys(text):
    """JSON as others write it: Apache's has bare numbers as keys."""
    return re.sub(r"([{,])(\d+):", r'\1"\2":', text)


def broker_addresses(nameserver):
    """The addresses of all brokers a NameServer knows, or an empty set if it does not answer."""
    try:
        _, body = call(nameserver, GET_CLUSTER)
    except (OSError, Refused):
        return set()
    return set(re.findall(r'"([0-9.]+:[0-9]+)"', body.decode()))


def route(nameserver, topic):
    """The route of a topic as text, or None."""
    try:
        _, body = call(nameserver, GET_ROUTE, {"topic": topic})
    except (OSError, Refused):
        return None
    return body.decode()


def consumed(broker, group, topic, queues):
    """How many messages of a topic's queues a group has told the broker that it consumed."""
    total = 0
    for queue in range(queues):
        try:
            fields, _ = call(broker, GET_CONSUMER_OFFSET, {"consumerGroup": group, "topic": topic, "queueId": queue})
            total += int(fields["offset"])
        except Refused:  # nothing yet
            pass
    return total


def create_topic(broker, topic, queues):
    fields = {
        "topic": topic,
        "defaultTopic": "TBW102",
        "readQueueNums": queues,
        "writeQueueNums": queues,
        "perm": 6,
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": 0,
        "order": "false",
    }
    call(broker, UPDATE_TOPIC, fields)


def create_group(broker, group, retries):
    config = {
        "groupName": group,
        "consumeEnable": True,
        "consumeFromMinEnable": True,
        "consumeBroadcastEnable": True,
        "retryQueueNums": 1,
        "retryMaxTimes": retries,
        "brokerId": 0,
        "whichBrokerWhenConsumeSlowly": 1,
        "notifyConsumerIdsChangedEnable": True,
    }
    call(broker, UPDATE_GROUP, body=json.dumps(config).encode())


def _read(connection, count):
    data = b""
    while len(data) < count:
        piece = connection.recv(count - len(data))
        if not piece:
            raise ConnectionError("the peer closed the connection")
        data += piece
    return data
