"""JSON and MessagePack, chosen by `Content-Type` and `Accept`.

Bytes are base64 in JSON and bytes in MessagePack; msgspec does both from one Struct. A body's
media type must be named: a browser's form post, which needs no permission across origins, is then
never taken for a request.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec
from aiohttp import hdrs, web

from sidecar.api.problems import Misuse, Problem, malformed, without_values

T = TypeVar("T")


def _plain(value: Any) -> Any:
    """Evidence arrives as read-only mappings."""
    if isinstance(value, Mapping):
        return dict(value)
    raise NotImplementedError(type(value).__name__)


@dataclass(frozen=True, slots=True)
class Codec:
    media_type: str
    encode: Callable[[Any], bytes]
    _decoder: Callable[[Any], Any]
    _decoders: dict[Any, Any] = field(default_factory=dict)

    def decode(self, body: bytes, kind: type[T]) -> T:
        decoder = self._decoders.get(kind)
        if decoder is None:
            decoder = self._decoders[kind] = self._decoder(kind)
        try:
            return decoder.decode(body)  # type: ignore[no-any-return]  # the decoder was made for T
        except msgspec.ValidationError as error:
            raise malformed(without_values(str(error))) from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise malformed(f"The body is no complete {self.media_type} document.") from None


JSON = Codec("application/json", msgspec.json.Encoder(enc_hook=_plain).encode, msgspec.json.Decoder)
MSGPACK = Codec(
    "application/msgpack", msgspec.msgpack.Encoder(enc_hook=_plain).encode, msgspec.msgpack.Decoder
)
CODECS: Mapping[str, Codec] = {
    "application/json": JSON,
    "application/msgpack": MSGPACK,
    "application/x-msgpack": MSGPACK,
    "application/vnd.msgpack": MSGPACK,
}


def body_codec(request: web.BaseRequest) -> Codec:
    named = request.headers.get(hdrs.CONTENT_TYPE, "").partition(";")[0].strip().lower()
    codec = CODECS.get(named)
    if codec is None:
        raise Problem(
            Misuse.UNSUPPORTED_MEDIA_TYPE,
            "Send the body as application/json or application/msgpack, and say so in Content-Type.",
        )
    return codec


def answer_codec(request: web.BaseRequest) -> Codec:
    """The first acceptable one; where anything will do, the one that the body came in."""
    accept = request.headers.get(hdrs.ACCEPT)
    if accept is None or accept == "*/*":
        named = request.headers.get(hdrs.CONTENT_TYPE, "").partition(";")[0].strip().lower()
        return CODECS.get(named, JSON)
    if (exact := CODECS.get(accept)) is not None:
        return exact
    best: tuple[float, Codec] | None = None
    for item in accept.split(","):
        media_type, *parameters = (part.strip().lower() for part in item.split(";"))
        codec = JSON if media_type in ("*/*", "application/*") else CODECS.get(media_type)
        quality = _quality(parameters)
        if codec is not None and quality > 0 and (best is None or quality > best[0]):
            best = (quality, codec)
    if best is None:
        raise Problem(
            Misuse.NOT_ACCEPTABLE, "Accept application/json, application/msgpack or anything."
        )
    return best[1]


def _quality(parameters: list[str]) -> float:
    for parameter in parameters:
        if parameter.startswith("q="):
            try:
                return float(parameter[2:])
            except ValueError:
                return 0.0
    return 1.0
