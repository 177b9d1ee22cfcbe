"""The Lua scripts, and the codes they answer with.

A script is one transition, and each opens with its contract: keys, arguments, answers. Its number
of keys is part of its file's name, as a test checks, and its codes are those of `Code`.

Scripts are called by digest. A server that does not know the digest (restarted, failed over, told
to flush) says `NOSCRIPT` before anything ran, and is then given the source: never wrong to repeat.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from enum import IntEnum
from importlib.resources import files


class Code(IntEnum):
    """The first word of a script's answer. The scripts' headers say what follows it."""

    INSTALLED = 1
    INSTALLED_BEFORE = 2
    LOST = 3
    FORMAT_NEWER = 4
    CORRUPT = 5
    DENIED = 6
    MISPLACED = 7
    DISORDERED = 8
    CHANGED = 9
    STANDS = 10
    FULL = 11


@dataclass(frozen=True, slots=True)
class Script:
    name: str
    keys: int
    source: bytes
    digest: bytes


def _load(name: str, keys: int) -> Script:
    source = (files("sidecar.store") / "scripts" / f"{name}-{keys}.lua").read_bytes()
    digest = hashlib.sha1(source, usedforsecurity=False).hexdigest().encode()
    return Script(name, keys, source, digest)


INSTALL = _load("install", 7)
READ = _load("read", 2)
MEMORY = _load("memory", 3)
UPDATE_GAP = _load("update-gap", 2)
CREATE_REGISTRY = _load("create-registry", 1)
REGISTER = _load("register", 1)
FORGET_PARTITION = _load("forget-partition", 7)
FORGET_TOPICS = _load("forget-topics", 3)
LEAVE_REQUEST = _load("leave-request", 3)
ANSWER_REQUEST = _load("answer-request", 3)
REBIND_TOPICS = _load("rebind-topics", 2)

ALL = (
    *(INSTALL, READ, MEMORY, UPDATE_GAP, CREATE_REGISTRY, REGISTER),
    *(FORGET_PARTITION, FORGET_TOPICS, LEAVE_REQUEST, ANSWER_REQUEST, REBIND_TOPICS),
)
