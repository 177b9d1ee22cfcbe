"""Records that no well-behaved producer writes, through librdkafka's C interface."""

import ctypes
import glob
from pathlib import Path
from typing import Any

import confluent_kafka

_PRODUCER, _COPY = 0, 2
_END, _TOPIC, _PARTITION, _VALUE, _FLAGS, _HEADERS = 0, 1, 3, 4, 7, 10


def _library() -> Any:
    """The very library that the Python client brings along and has loaded."""
    beside = Path(confluent_kafka.__file__).parent.parent / "confluent_kafka.libs"
    (found,) = glob.glob(f"{beside}/librdkafka-*.so*")
    library = ctypes.CDLL(found)
    for maker in ("rd_kafka_conf_new", "rd_kafka_new", "rd_kafka_headers_new"):
        getattr(library, maker).restype = ctypes.c_void_p
    return library


def produce_with_header_name(bootstrap: str, topic: str, name: bytes, value: bytes) -> None:
    """One record in partition 0 whose header has this name, UTF-8 or not."""
    kafka = _library()
    trouble = ctypes.create_string_buffer(512)
    conf = ctypes.c_void_p(kafka.rd_kafka_conf_new())
    kafka.rd_kafka_conf_set(conf, b"bootstrap.servers", bootstrap.encode(), trouble, 512)
    producer = ctypes.c_void_p(kafka.rd_kafka_new(_PRODUCER, conf, trouble, 512))
    headers = ctypes.c_void_p(kafka.rd_kafka_headers_new(ctypes.c_size_t(1)))
    size = ctypes.c_ssize_t(len(name))
    assert kafka.rd_kafka_header_add(headers, name, size, b"v", ctypes.c_ssize_t(1)) == 0
    failed = kafka.rd_kafka_producev(
        producer,
        *(_TOPIC, ctypes.c_char_p(topic.encode())),
        *(_PARTITION, ctypes.c_int32(0)),
        *(_VALUE, ctypes.c_char_p(value), ctypes.c_size_t(len(value))),
        *(_FLAGS, ctypes.c_int(_COPY)),
        *(_HEADERS, headers),
        _END,
    )
    assert failed == 0
    assert kafka.rd_kafka_flush(producer, 10_000) == 0
    kafka.rd_kafka_destroy(producer)
