"""The composition root: settings in, a running sidecar out, and the order in which it ends.

Starts in the order in which things are needed to be understood from outside: the admin port
first, so that a pod that cannot reach its servers can say so; then the application's API; then
the store; and the group last. Startup waits for nobody. Ends the other way round: fetching
stops, what is in flight is taken, commits are flushed, the group is left, the ports close.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import faulthandler
import gc
import secrets
import signal
import time
from collections.abc import Coroutine
from typing import Any, Protocol

from sidecar.api.handlers import Limits
from sidecar.api.server import AdminServer, AppServer
from sidecar.core.policy import Policy
from sidecar.core.types import Instant, StoreId
from sidecar.engine import Engine
from sidecar.errors import Fenced, SidecarError
from sidecar.kafka.fetcher import KafkaFetcher
from sidecar.kafka.log import KafkaLog
from sidecar.runtime import Runtime
from sidecar.settings import Settings
from sidecar.standalone import check_client, client_settings, open_store
from sidecar.telemetry.log import Log
from sidecar.telemetry.metrics import Metrics
from sidecar.telemetry.recorder import TelemetryRecorder

EXIT_OK = 0
EXIT_FAILED = 1
EXIT_FENCED = 3

REVOKE_SECONDS = 4.0
"""A little more than the engine's own limit, so that the engine decides."""

TRIM_SECONDS = 20.0
"""How often cycles are looked for, and memory that was freed is given back to the system."""


class MakeEngine(Protocol):
    """`Engine`, or what stands around one to see every command on its way out."""

    def __call__(self, policy: Policy, *, name: str) -> Engine: ...


class SystemClock:
    def now(self) -> Instant:
        return Instant(time.monotonic(), time.time())


def run(settings: Settings, engine: MakeEngine = Engine) -> int:
    """Runs until a signal ends it. Returns the exit code: 0 done, 1 failed, 3 fenced.

    `SettingsError` when librdkafka refuses a property: only it knows them all.
    """
    # The client is native code: when that falls over, what every thread was doing is all there is.
    faulthandler.enable()
    check_client(settings)
    # Pages are many short-lived tuples and no cycles, so counting what was made says nothing about
    # garbage. What makes cycles (errors with their tracebacks, connections) comes with trouble, and
    # is looked for by time: see `_trim_now_and_then`.
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    _trim()  # what the imports left behind
    return _run(_serve(settings, engine))


def _trim() -> None:
    """The C library keeps what was freed for the next time, which for a sidecar that was busy once
    may be never; other systems' libraries have no such call, and do without."""
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)


async def _trim_now_and_then() -> None:
    loop = asyncio.get_running_loop()
    while True:
        await asyncio.sleep(TRIM_SECONDS)
        gc.collect()  # without what the imports left, which is frozen: 1 to 4 ms
        await loop.run_in_executor(None, _trim)  # some milliseconds, without the interpreter's lock


def _run(main: Coroutine[Any, Any, int]) -> int:
    try:
        import uvloop  # not everywhere, and nothing but speed depends on it
    except ImportError:
        return asyncio.run(main)
    return uvloop.run(main)


async def _serve(settings: Settings, engine: MakeEngine) -> int:
    group = settings.kafka.group_id
    log = Log(
        level=settings.log.level,
        format=settings.log.format,
        secrets=settings.secrets(),
        group=group,
    )
    try:
        return await _Sidecar(settings, log, engine).serve()
    finally:
        log.close()


class _Sidecar:
    def __init__(self, settings: Settings, log: Log, engine: MakeEngine) -> None:
        self._settings = settings
        self._log = log
        policy = settings.policy()
        metrics = Metrics(policy.group)
        client = client_settings(settings)
        kafka = KafkaLog(client, log_line=None, say=self._client_line)
        self.runtime = Runtime(
            policy,
            engine=engine(policy, name=secrets.token_hex(6)),
            store_name=StoreId(secrets.token_hex(8)),
            log=kafka,
            fetcher=KafkaFetcher(
                client, kafka, revoke_seconds=REVOKE_SECONDS, log_line=self._client_line
            ),
            store=open_store(settings),
            recorder=TelemetryRecorder(log, metrics),
            clock=SystemClock(),
            topics=[topic for topic in settings.kafka.topics if not topic.startswith("^")],
        )
        self._kafka = kafka
        metrics.watch(self.runtime, lambda: self.runtime.open_gaps)
        limits = Limits(
            page_records_max=settings.delivery.page_records_max,
            page_bytes_max=settings.delivery.page_bytes_max,
        )
        token = settings.admin.token
        self._admin = AdminServer(
            self.runtime,
            settings.admin.listen,
            limits,
            self.runtime.fail,
            token=None if token is None else token.get_secret_value(),
            exposition=metrics.exposition,
            alive=self.runtime.why_dead,
        )
        self._api = AppServer(self.runtime, settings.api.listen, limits, self.runtime.fail)

    def _client_line(self, level: int, text: str) -> None:
        if level >= self._log.level:
            self._log.events.log(level, "kafka_client_spoke", text=text)

    async def serve(self) -> int:
        events = self._log.events
        for server, setting in ((self._admin, "ADMIN__LISTEN"), (self._api, "API__LISTEN")):
            try:
                await server.start()
            except OSError as error:
                events.error("listen_failed", setting=setting, detail=error.strerror)
                await self._admin.stop()
                return EXIT_FAILED
        stopping = _signals()
        self.runtime.start()
        events.info("sidecar_started", api=str(self._api.address), admin=str(self._admin.address))
        trimming = asyncio.create_task(_trim_now_and_then())
        await asyncio.wait((stopping, self.runtime.fatal), return_when=asyncio.FIRST_COMPLETED)
        trimming.cancel()
        code = EXIT_OK
        if self.runtime.fatal.done():
            code = self._say_why(self.runtime.fatal.result())
        events.info("sidecar_stopping")
        await self.runtime.stop(self._settings.shutdown.deadline_seconds, flush=code == EXIT_OK)
        await self._api.stop()
        await self._admin.stop()
        await self._kafka.close()
        events.info("sidecar_stopped", exit=code)
        return code

    def _say_why(self, why: BaseException) -> int:
        if isinstance(why, Fenced):
            self._log.events.error("member_fenced", detail=why.detail)
            return EXIT_FENCED
        if isinstance(why, SidecarError):
            self._log.events.error("invariant_broken", detail=str(why))
        else:
            # Never the message: it may quote what was read. The place is enough to find a bug.
            self._log.events.error("sidecar_failed", error=type(why).__name__, place=_place(why))
        return EXIT_FAILED


def _place(error: BaseException) -> str:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return "unknown"
    code = trace.tb_frame.f_code
    return f"{code.co_qualname}:{trace.tb_lineno}"


def _signals() -> asyncio.Future[str]:
    """Done when the process is asked to end."""
    loop = asyncio.get_running_loop()
    asked: asyncio.Future[str] = loop.create_future()

    def ask(name: str) -> None:
        if not asked.done():
            asked.set_result(name)

    for one in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(one, ask, one.name)
    return asked
