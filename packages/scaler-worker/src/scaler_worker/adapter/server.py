"""The webhook of the Worker Adapter standard (openapi.json beside this file), on aiohttp."""

from __future__ import annotations

import hmac
import json
import logging
from collections.abc import Awaitable, Callable
from importlib import resources
from typing import Any

from aiohttp import web

from scaler_protocol.messages import Capability
from scaler_worker.adapter.groups import AtCapacity, CannotStart, Groups, NoSuchGroup

logger = logging.getLogger("scaler.adapter")

BODY_BYTES = 64 * 1024
TEXT_CHARACTERS = 256
"""No id or token is longer."""

Fields = dict[str, Any]


class Refusal(Exception):
    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class AdapterServer:
    def __init__(self, groups: Groups, capabilities: tuple[Capability, ...], token: str) -> None:
        self._groups = groups
        self._capabilities = {capability.name: capability.amount for capability in capabilities}
        self._token = token
        self._actions: dict[str, Callable[[Fields], Awaitable[Fields]]] = {
            "start_worker_group": self._start,
            "shutdown_worker_group": self._shut_down,
            "get_worker_adapter_info": self._info,
        }

    def application(self) -> web.Application:
        application = web.Application(client_max_size=BODY_BYTES, middlewares=[_answer_in_json])
        application.router.add_post("/", self._on_post)
        application.router.add_get("/openapi.json", _on_description)
        return application

    async def _on_post(self, request: web.Request) -> web.Response:
        fields = await _fields(request)
        self._check_token(fields, request)
        action = self._actions.get(_text(fields, "action"))
        if action is None:
            raise Refusal(400, f"there is no such action; one of: {', '.join(self._actions)}")
        answer = await action(fields)
        if "metadata" in fields:
            answer["metadata"] = fields["metadata"]
        return web.json_response(answer)

    def _check_token(self, fields: Fields, request: web.Request) -> None:
        if not self._token:
            return
        given = fields.get("auth_token") or request.headers.get("Authorization", "").removeprefix("Bearer ")
        if not hmac.compare_digest(given.encode(errors="replace"), self._token.encode()):
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
    try:
        fields = json.loads(await request.read())
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


def _text(fields: Fields, name: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str) or not 0 < len(value) <= TEXT_CHARACTERS:
        raise Refusal(400, f"{name} must be a text of 1 to {TEXT_CHARACTERS} characters")
    return value


# ---------------------------------------------------------------- what goes out


@web.middleware
async def _answer_in_json(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
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
    except Exception:
        logger.exception("a request failed")
        status, text = 500, "internal error; the log of the adapter says more"
    return web.json_response({"error": text}, status=status)


def _allow(error: web.HTTPException) -> dict[str, str]:
    return {"Allow": error.headers["Allow"]} if "Allow" in error.headers else {}
