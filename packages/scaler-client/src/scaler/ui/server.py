"""The page over HTTP: nothing but GET, except for where a replay is, and for control, if the operator wants it."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import os
import time
import zlib
from collections.abc import Awaitable, Callable
from itertools import islice
from urllib.parse import quote

from aiohttp import web

from scaler.monitoring.control import CANCEL_SECONDS, DRAIN_SECONDS, MOST_SECONDS, peers_named
from scaler.ui import metrics
from scaler.ui.feed import Feed
from scaler.ui.task_names import found_task
from scaler.ui.trace import trace_text
from scaler.ui.whole_graphs import GraphError
from scaler_protocol.codes import CONTROL_CANCEL_CLIENT, CONTROL_CANCEL_TASK, CONTROL_DRAIN_WORKER
from scaler_protocol.ids import TaskId, shown_parts
from scaler_protocol.messages import NO_TASK
from scaler_protocol.process import StartupError
from scaler_protocol.web import Bounds, listen
from scaler_protocol.web.guards import HEADERS, Guard, cookie_name

STATIC = os.path.join(os.path.dirname(__file__), "static")
TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
JSON_TYPE = "application/json; charset=utf-8"
KEEP_ALIVE_SECONDS = 10.0
CLOSE_SECONDS = 2.0
PIECE_BYTES = 64 * 1024
GZIP = (16 + 12, 5)
"""Of the stream of events: its window and its tables, so that a page takes some 32 KiB."""
MOST_SPEED = 10_000.0
TRACE_EVENTS = 200
"""Of a trace, that are made in one go."""
TRACES_LIMIT = 4
"""So many callers may read a trace at once."""
PROFILE_WINDOWS = ("30", "120", "600")
"""Of how many seconds a profile can be. The page offers the same."""

ORDERS = {
    "cancel-task": (CONTROL_CANCEL_TASK, CANCEL_SECONDS),
    "cancel-client": (CONTROL_CANCEL_CLIENT, CANCEL_SECONDS),
    "drain-worker": (CONTROL_DRAIN_WORKER, DRAIN_SECONDS),
}
"""What a page may have done, and how long it usually waits for what is running."""

FEED = web.AppKey("feed", Feed)
GUARD = web.AppKey("guard", Guard)
BOUNDS = web.AppKey("bounds", Bounds)
TRACES = web.AppKey("traces", asyncio.Semaphore)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


logger = logging.getLogger("scaler.ui")


def application(feed: Feed, guard: Guard) -> web.Application:
    app = web.Application(middlewares=[_bounded, _guarded], client_max_size=1024)
    app[FEED], app[GUARD], app[BOUNDS], app[TRACES] = feed, guard, Bounds(), asyncio.Semaphore(TRACES_LIMIT)
    app.router.add_get("/", _page)
    app.router.add_get("/static/{name}", _static)
    app.router.add_get("/events", _events, allow_head=False)  # it never ends
    app.router.add_get("/explain", _explain)
    app.router.add_get("/stack", _stack)
    app.router.add_get("/profile.json", _profile, allow_head=False)
    app.router.add_get("/profile.speedscope.json", _speedscope, allow_head=False)
    app.router.add_get("/graph", _graph)
    app.router.add_get("/state.json", _state)
    if feed.playback is not None:
        app.router.add_post("/replay", _replay)
    if feed.may_control:
        app.router.add_post("/control", _control)
    app.router.add_get("/trace.json", _trace)
    app.router.add_get("/metrics", _metrics)
    return app


@web.middleware
async def _bounded(request: web.Request, handler: Handler) -> web.StreamResponse:
    bounds = request.app[BOUNDS]
    bounds.begun(request.protocol)
    try:
        return await handler(request)
    except (web.HTTPException, ConnectionError):
        raise
    except Exception:
        logger.exception("a request failed")
        return web.Response(status=500, text="internal error; the log of scaler_ui says more\n", headers=HEADERS)
    finally:
        bounds.ended(request.protocol)


@web.middleware
async def _guarded(request: web.Request, handler: Handler) -> web.StreamResponse:
    refusal = request.app[GUARD].refusal(request.headers, request.cookies, time.monotonic())
    if refusal and not _brings_token(request):
        return web.Response(status=403, text=refusal + "\n", headers=HEADERS)
    try:
        response = await handler(request)
    except web.HTTPException as error:
        error.headers.update(HEADERS)
        raise
    if not response.prepared:
        response.headers.update(HEADERS)
    return response


def _brings_token(request: web.Request) -> bool:
    """The first visit, whose address has the token in it. All else about the request must be right."""
    guard = request.app[GUARD]
    if request.path != "/" or not guard.token or not guard.is_token(request.query.get("token", "")):
        return False
    return not Guard(guard.hosts).refusal(request.headers, request.cookies, 0.0)


async def _page(request: web.Request) -> web.StreamResponse:
    if "token" in request.query:
        # Out of the address, so that it is in no history and no picture of the screen.
        response = web.Response(status=303, headers={"Location": "./"})
        if not _brings_token(request):
            return response
        # Lax, not Strict: the link may have been followed from a page of elsewhere, and then it would not come back.
        response.set_cookie(
            cookie_name(request.host),
            request.app[GUARD].visits.begin(time.monotonic()),
            httponly=True,
            samesite="Lax",
            secure=_is_encrypted(request),
        )
        return response
    return _file("index.html")


def _is_encrypted(request: web.Request) -> bool:
    """As the browser sees it. A proxy says so in a header. A caller that lies there gets a cookie that its own browser
    does not send back."""
    return request.secure or request.headers.get("X-Forwarded-Proto", "").partition(",")[0].strip().lower() == "https"


async def _static(request: web.Request) -> web.StreamResponse:
    return _file(request.match_info["name"])


def _file(name: str) -> web.Response:
    """Only files that lie there under just this name: nothing of a path is ever joined."""
    content_type = TYPES.get(os.path.splitext(name)[1])
    if content_type is None or name not in os.listdir(STATIC):
        raise web.HTTPNotFound(text="there is no such file\n")
    with open(os.path.join(STATIC, name), "rb") as file:
        return web.Response(body=file.read(), content_type=content_type, charset="utf-8")


async def _events(request: web.Request) -> web.StreamResponse:
    feed = request.app[FEED]
    page = feed.open(request.remote or "", request.headers.get("Last-Event-ID", ""))
    if page is None:
        return web.Response(status=503, text="too many pages are open\n")
    packed = "gzip" in request.headers.get("Accept-Encoding", "").lower()
    headers = {**HEADERS, "Content-Type": "text/event-stream", "X-Accel-Buffering": "no", "Vary": "Accept-Encoding"}
    response = web.StreamResponse(headers={**headers, "Content-Encoding": "gzip"} if packed else headers)
    packer = zlib.compressobj(1, zlib.DEFLATED, *GZIP) if packed else None
    try:
        await response.prepare(request)
        while True:
            text = await page.next(KEEP_ALIVE_SECONDS) or b": still here\n\n"
            if packer is not None:  # each event whole: what waited for more would be late
                text = packer.compress(text) + packer.flush(zlib.Z_SYNC_FLUSH)
            await _write(request, response, text)
    except (ConnectionError, asyncio.CancelledError):
        return response  # it was closed
    finally:
        feed.close(page)


async def _write(request: web.Request, response: web.StreamResponse, text: bytes) -> None:
    """In pieces, so that a connection that is not read has one of them in its buffers. It holds the whole text."""
    bounds = request.app[BOUNDS]
    bounds.holds(request.protocol, len(text))
    for at in range(0, len(text), PIECE_BYTES):
        await response.write(text[at : at + PIECE_BYTES])
    bounds.holds(request.protocol, 0)


async def _explain(request: web.Request) -> web.StreamResponse:
    text, feed = request.query.get("task", "").strip(), request.app[FEED]
    short = shown_parts(text.lower())
    if short is not None and found_task(feed.model, text) is None:
        return web.json_response(await feed.explain(NO_TASK, short))
    return web.json_response(await feed.explain(_task_of(request, text) if text else NO_TASK))


async def _stack(request: web.Request) -> web.StreamResponse:
    task_id = _task_of(request, request.query.get("task", "").strip())
    return web.json_response(await request.app[FEED].stack(task_id))


async def _graph(request: web.Request) -> web.StreamResponse:
    """`id` and `client`: of a graph that is shown. `states`: what its tasks are is known already."""
    feed, wanted = request.app[FEED], {name: request.query.get(name, "") for name in ("id", "client")}
    if not any(wanted.items() <= graph.items() for graph in feed.model.graphs):
        raise web.HTTPNotFound(text="no such graph is shown\n")
    try:
        text = await feed.graph(wanted["id"], wants_nodes="states" not in request.query)
    except GraphError as error:
        return web.json_response({"text": str(error)})
    return _made(text, "graphs")


def _task_of(request: web.Request, text: str) -> TaskId:
    task_id = found_task(request.app[FEED].model, text)
    if task_id is None:
        raise web.HTTPBadRequest(
            text="no task of this name is shown here: give its 32 hexadecimal digits, or a short form like 6b3a1c0f:9\n"
        )
    return task_id


async def _profile(request: web.Request) -> web.StreamResponse:
    return _made(await request.app[FEED].profile(*_part_of_profile(request)))


async def _speedscope(request: web.Request) -> web.StreamResponse:
    response = _made(await request.app[FEED].speedscope(*_part_of_profile(request)))
    response.headers["Content-Disposition"] = 'attachment; filename="scaler.speedscope.json"'
    return response


def _made(text: bytes | None, what: str = "profiles") -> web.Response:
    if text is None:
        raise web.HTTPServiceUnavailable(text=f"too many {what} are being made: try again in a moment\n")
    return web.Response(body=text, headers={"Content-Type": JSON_TYPE})


def _part_of_profile(request: web.Request) -> tuple[float, str]:
    """Few windows and known functions, so that few different texts can be asked for."""
    seconds, function = request.query.get("seconds", ""), request.query.get("function", "")
    if seconds not in PROFILE_WINDOWS:
        raise web.HTTPBadRequest(text=f"seconds is one of: {', '.join(PROFILE_WINDOWS)}\n")
    if function and not request.app[FEED].model.profile.has(function):
        raise web.HTTPNotFound(text="no task of this function was sampled in the last ten minutes\n")
    return float(seconds), function


async def _replay(request: web.Request) -> web.StreamResponse:
    """`seconds`: where to go on. `speed`: play, so fast. Without it: pause."""
    seconds, speed = (_number_of(request, name, most) for name, most in (("seconds", 1e9), ("speed", MOST_SPEED)))
    request.app[FEED].go_on(seconds=seconds, speed=speed, is_paused=speed is None)
    return web.Response(status=204)


async def _control(request: web.Request) -> web.StreamResponse:
    """`do`: what; `id`: of which task, client or worker, as the page shows it; `seconds`: for what is running."""
    action, usual = ORDERS.get(request.query.get("do", ""), (0, 0.0))
    if not action:
        raise web.HTTPBadRequest(text=f"do is one of: {', '.join(ORDERS)}\n")
    seconds = _number_of(request, "seconds", MOST_SECONDS)
    subject = _subject_of(request, action, request.query.get("id", "").strip())
    return web.json_response(await request.app[FEED].control(action, subject, usual if seconds is None else seconds))


def _subject_of(request: web.Request, action: int, text: str) -> bytes:
    if action == CONTROL_CANCEL_TASK:
        return _task_of(request, text)
    found = peers_named(request.app[FEED].model.state.status, action, text)
    if len(found) != 1:
        raise web.HTTPBadRequest(text="no client or worker of this id is connected\n")
    return found[0]


def _number_of(request: web.Request, name: str, most: float) -> float | None:
    """None: it is not there."""
    text = request.query.get(name)
    if text is None:
        return None
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not (0.0 <= number <= most) or (name == "speed" and not number):
        raise web.HTTPBadRequest(text=f"{name} is a number above zero, at most {most:g}\n")
    return number


async def _state(request: web.Request) -> web.StreamResponse:
    feed = request.app[FEED]
    made = feed.text("state", lambda: json.dumps({**feed.model.condition(), "status": feed.model.status}).encode())
    return web.Response(body=made, headers={"Content-Type": JSON_TYPE})


async def _trace(request: web.Request) -> web.StreamResponse:
    """Made while it is read: as a whole it has some times the size of the runs that it shows."""
    model, traces = request.app[FEED].model, request.app[TRACES]
    if traces.locked():
        return web.Response(status=503, text="too many traces are being read: try again in a moment\n")
    headers = {"Content-Disposition": 'attachment; filename="scaler-trace.json"', "Content-Type": JSON_TYPE}
    response = web.StreamResponse(headers={**HEADERS, **headers})
    sampled = f"{model.sampled_count} of {model.ended_count} tasks that ended"
    async with traces:
        await response.prepare(request)
        pieces = trace_text(model.kept_runs(), lambda: sampled)
        while piece := "".join(islice(pieces, TRACE_EVENTS)):
            await response.write(piece.encode())
            await asyncio.sleep(0)  # a caller that reads fast leaves time for others all the same
        await response.write_eof()
    return response


async def _metrics(request: web.Request) -> web.StreamResponse:
    feed = request.app[FEED]
    is_open = metrics.is_open_metrics(request.headers.get("Accept", ""))
    model = feed.model
    name = "open metrics" if is_open else "metrics"
    body = feed.text(name, lambda: metrics.text_of(model.state, model.tally, open_metrics=is_open))
    content_type = metrics.OPEN_METRICS_TYPE if is_open else metrics.CONTENT_TYPE
    return web.Response(body=body, headers={"Content-Type": content_type})


async def serve(
    feed: Feed, guard: Guard, host: str, port: int, shown: str, stop: asyncio.Event, shows_link: bool = False
) -> None:
    """Until `stop`. Port 0 is one that the system chooses. `shows_link`: print the address with the token in it."""
    app = application(feed, guard)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=CLOSE_SECONDS)
    await runner.setup()
    listener: asyncio.Server | None = None
    try:
        try:
            assert runner.server is not None
            listener = await listen(runner.server, host, port, app[BOUNDS])
        except OSError as error:
            # What asyncio says of it repeats the address.
            number = error.errno or 0
            reason = os.strerror(number) if number > 0 else error.strerror or error
            raise StartupError(f"cannot listen on {host}, port {port}: {reason}: choose another") from None
        bound = listener.sockets[0].getsockname()[1]
        logging.info("scaler_ui: %s is shown at %s", shown, _address(host, bound))
        if shows_link:
            # Not into the log, which others may read.
            print(f"scaler_ui: open {_address(host, bound)}?token={quote(guard.token)}", flush=True)
        await stop.wait()
    finally:
        if listener is not None:
            listener.close()
        await runner.cleanup()


def _address(host: str, port: int) -> str:
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/"
