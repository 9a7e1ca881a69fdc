"""A cluster that speaks Kafka's protocol over TCP: the in-memory brokers that librdkafka carries, as a process.

    python kafka_broker.py TOPIC:PARTITIONS ...

prints host:port, and goes down and up again by those words on stdin. It is not Apache Kafka: it has no disk, and knows
no static members.
"""

from __future__ import annotations

import ctypes
import sys

from confluent_kafka import cimpl

LIBRARY = ctypes.CDLL(cimpl.__file__)
POINTER, TEXT, NUMBER = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int


def call(name: str, result: type, *arguments: tuple[type, object]) -> object:
    function = getattr(LIBRARY, name)
    function.restype, function.argtypes = result, [kind for kind, _ in arguments]
    return function(*(value for _, value in arguments))


def main() -> None:
    error = ctypes.create_string_buffer(512)
    settings = call("rd_kafka_conf_new", POINTER)
    call(
        "rd_kafka_conf_set", NUMBER, (POINTER, settings), (TEXT, b"log_level"), (TEXT, b"0"), (TEXT, None), (NUMBER, 0)
    )
    client = call("rd_kafka_new", POINTER, (NUMBER, 0), (POINTER, settings), (TEXT, error), (ctypes.c_size_t, 512))
    cluster = call("rd_kafka_mock_cluster_new", POINTER, (POINTER, client), (NUMBER, 1))
    call("rd_kafka_mock_group_initial_rebalance_delay_ms", NUMBER, (POINTER, cluster), (ctypes.c_int32, 0))
    for topic in sys.argv[1:]:
        name, _, partitions = topic.partition(":")
        shape = ((NUMBER, int(partitions)), (NUMBER, 1))
        assert call("rd_kafka_mock_topic_create", NUMBER, (POINTER, cluster), (TEXT, name.encode()), *shape) == 0
    print(call("rd_kafka_mock_cluster_bootstraps", TEXT, (POINTER, cluster)).decode(), flush=True)  # type: ignore
    for line in sys.stdin:
        call(f"rd_kafka_mock_broker_set_{line.strip()}", NUMBER, (POINTER, cluster), (ctypes.c_int32, 1))
        print(line.strip(), flush=True)


main()
