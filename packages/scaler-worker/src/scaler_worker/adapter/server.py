"""The webhook of the Worker Adapter standard (openapi.json beside this file), on aiohttp."""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import math
import time
from collections.abc import Awaitable, Callable
from importlib import resources
from typing import Any

from aiohttp import web

from scaler_protocol.messages import Capability
from scaler_protocol.process.line_budget import LineBudget
from scaler_protocol.web import Bounds, comes_from_a_page, host_name
from scaler_protocol.web.bounds import REQUEST_SECONDS
from scaler_worker.adapter.groups import AtCapacity, CannotStart, Groups, NoSuchGroup

logger = logging.getLogger("scaler.adapter")

BODY_BYTES = 64 * 1024
TEXT_CHARACTERS = 256
"""No id or token is longer."""

TYPES = ("application/json", "application/octet-stream")
"""A browser lets a page send requests of other types, or of none, to any site without asking that site first."""

_failures = LineBudget("the adapter")

Fields = dict[str, Any]
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Refusal(Exception):
    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class AdapterServer:
    """`hosts`: the names under which it is reached; empty: any. With a token they need not be known."""

    def __init__(
        self, groups: Groups, capabilities: tuple[Capability, ...], token: str, hosts: frozenset[str] = frozenset()
    ) -> None:
        self.bounds = Bounds()
        self._hosts = hosts
        self._groups = groups
        self._capabilities = {capability.name: capability.amount for capability in capabilities}
        self._token = token
        self._actions: dict[str, Callable[[Fields], Awaitable[Fields]]] = {
            "start_worker_group": self._start,
            "shutdown_worker_group": self._shut_down,
            "get_worker_adapter_info": self._info,
        }

    def application(self) -> web.Application:
        application = web.Application(
            client_max_size=BODY_BYTES, middlewares=[self._bounded, _answer_in_json, self._guarded]
        )
        application.router.add_post("/", self._on_post)
        application.router.add_get("/openapi.json", _on_description)
        return application

    @web.middleware
    async def _bounded(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        self.bounds.begun(request.protocol)
        try:
            return await handler(request)
        finally:
            self.bounds.ended(request.protocol)

    @web.middleware
    async def _guarded(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Requests of web pages are refused: any page that is open in a browser of this machine can send some."""
        if comes_from_a_page(request.headers):
            raise Refusal(403, "requests of web pages are refused: only programs may start workers")
        if self._hosts and host_name(request.headers.get("Host", "")) not in self._hosts:
            raise Refusal(403, f"this adapter is not reached under that name; one of: {', '.join(sorted(self._hosts))}")
        return await handler(request)

    async def _on_post(self, request: web.Request) -> web.Response:
        bearer = request.headers.get("Authorization", "")
        if bearer.startswith("Bearer "):
            self._check_token(bearer.removeprefix("Bearer "))  # before the body, which a stranger may never send
        fields = await _fields(request)
        self._check_token(fields.get("auth_token") or bearer.removeprefix("Bearer "))
        action = self._actions.get(_text(fields, "action"))
        if action is None:
            raise Refusal(400, f"there is no such action; one of: {', '.join(self._actions)}")
        answer = await action(fields)
        if "metadata" in fields:
            answer["metadata"] = fields["metadata"]
        return web.json_response(answer)

    def _check_token(self, given: str) -> None:
        if self._token and not hmac.compare_digest(given.encode(errors="replace"), self._token.encode()):
            raise Refusal(401, "auth_token is missing or wrong")

    # ------------------------------------------------------------ actions

    async def _start(self, fields: Fields) -> Fields:
        group_id = await self._groups.start(fields.get("metadata", {}).get("request_id", ""))
        return {"status": "Worker group started", "worker_group_id": group_id, "worker_ids": [group_id]}

    async def _shut_down(self, fields: Fields) -> Fields:
        group_id = _text(fields, "worker_group_id")
        await self._groups.shut_down(group_id)
        return {"status": "Worker group shutdown", "worker_group_id": group_id}

    async def _info(self, fields: Fields) -> Fields:
        return {
            "status": "Worker adapter",
            "max_worker_groups": self._groups.max_groups,
            "workers_per_group": 1,
            "base_capabilities": self._capabilities,
        }


async def _on_description(request: web.Request) -> web.Response:
    text = resources.files("scaler_worker.adapter").joinpath("openapi.json").read_text(encoding="utf-8")
    return web.Response(text=text, content_type="application/json")


# ---------------------------------------------------------------- what comes in


async def _fields(request: web.Request) -> Fields:
    if request.headers.get("Content-Type", "").partition(";")[0].strip().lower() not in TYPES:
        raise Refusal(415, "the Content-Type of a request must be application/json")
    try:
        body = await asyncio.wait_for(request.read(), REQUEST_SECONDS)
        fields = json.loads(body, parse_constant=_no_number, parse_float=_number, object_pairs_hook=_object)
    except asyncio.TimeoutError:
        raise Refusal(408, f"the body did not come within {REQUEST_SECONDS:g} s") from None
    except (ValueError, RecursionError):
        raise Refusal(400, "the body is not JSON") from None
    if not isinstance(fields, dict):
        raise Refusal(400, "the body is not a JSON object")
    metadata = fields.get("metadata", {})
    if not isinstance(metadata, dict):
        raise Refusal(400, "metadata is not an object")
    if "request_id" in metadata:
        _text(metadata, "request_id")
    token = fields.get("auth_token", "")
    if not isinstance(token, str) or len(token) > TEXT_CHARACTERS:
        raise Refusal(400, f"auth_token must be a text of up to {TEXT_CHARACTERS} characters")
    return fields


def _number(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError("JSON has no infinite numbers")
    return value


def _no_number(text: str) -> float:
    raise ValueError(f"JSON has no {text}")


def _object(pairs: list[tuple[str, Any]]) -> Fields:
    """A key that comes twice means one thing to us, and another to a proxy that has let it pass."""
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise ValueError("a key comes twice")
    return fields


def _text(fields: Fields, name: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str) or not 0 < len(value) <= TEXT_CHARACTERS:
        raise Refusal(400, f"{name} must be a text of 1 to {TEXT_CHARACTERS} characters")
    return value


# ---------------------------------------------------------------- what goes out


@web.middleware
async def _answer_in_json(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Whatever is wrong is said in the same form, and nothing a caller does is a traceback in the log."""
    try:
        return await handler(request)
    except Refusal as refusal:
        status, text = refusal.status, str(refusal)
    except AtCapacity as error:
        status, text = 429, str(error)
    except NoSuchGroup as error:
        status, text = 404, str(error)
    except CannotStart as error:
        status, text = 500, str(error)
    except web.HTTPRequestEntityTooLarge:
        status, text = 400, f"the body has more than {BODY_BYTES} bytes"
    except web.HTTPException as error:
        return web.json_response({"error": error.reason}, status=error.status, headers=_allow(error))
    except ConnectionError:  # raised on, it would be a traceback in the log of aiohttp
        status, text = 400, "the request broke off"
    except Exception:
        if _failures.admits(time.monotonic()):
            logger.exception("a request failed")
        status, text = 500, "internal error; the log of the adapter says more"
    return web.json_response({"error": text}, status=status)


def _allow(error: web.HTTPException) -> dict[str, str]:
    return {"Allow": error.headers["Allow"]} if "Allow" in error.headers else {}
