"""Settings: read from four places, checked as a whole, frozen.

Defaults < `--config FILE` < environment < flags. Each place is read into the same shape (section,
name, raw value, where it came from), the highest one wins name by name, and only then is anything
validated, each value by itself, so that a person sees every fault at once, under the name the
environment gives it.

Why not pydantic-settings: it drops names it does not know, stops at the first value that is no
JSON, knows no `…_FILE`, and cannot say where a value came from. With all four replaced, what was
left of it cost 16 MB of memory and a third of a second in every command. The sections are msgspec
Structs, which the HTTP side needs anyway.

A secret's value is never in an error, in `show`, or in a `repr`.
"""

from sidecar.settings.described import Described, reference, schema
from sidecar.settings.kinds import MASK, LogFormat, Mode, Secret
from sidecar.settings.known import PREFIX
from sidecar.settings.reserved import RESERVED
from sidecar.settings.sections import (
    AdminSettings,
    ApiSettings,
    DeliverySettings,
    KafkaSettings,
    LogSettings,
    RecoverySettings,
    RedisSettings,
    ShutdownSettings,
)
from sidecar.settings.whole import Listeners, Settings, Shown, load, load_listeners

__all__ = [
    "MASK",
    "PREFIX",
    "RESERVED",
    "AdminSettings",
    "ApiSettings",
    "DeliverySettings",
    "Described",
    "KafkaSettings",
    "Listeners",
    "LogFormat",
    "LogSettings",
    "Mode",
    "RecoverySettings",
    "RedisSettings",
    "Secret",
    "Settings",
    "Shown",
    "ShutdownSettings",
    "load",
    "load_listeners",
    "reference",
    "schema",
]
