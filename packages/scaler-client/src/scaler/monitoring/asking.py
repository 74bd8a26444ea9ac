"""A question to a scheduler from outside: its answer, or the reason why there is none."""

from __future__ import annotations

import time
from typing import TypeVar

from scaler.monitoring.addresses import MonitorError
from scaler.monitoring.subscription import Subscription
from scaler.top.formats import plain
from scaler_protocol.errors import ScalerError
from scaler_protocol.messages import (
    Control,
    ControlReply,
    DumpPart,
    DumpRequest,
    Error,
    Explain,
    Explanation,
    StackReply,
    StackRequest,
)

_TURN_SECONDS = 0.25
Answer = TypeVar("Answer", DumpPart, Explanation, StackReply, ControlReply)


class NoAnswer(ScalerError):
    """The scheduler is there, and does not say."""


def answer(
    subscription: Subscription,
    question: DumpRequest | Explain | StackRequest | Control,
    kind: type[Answer],
    timeout_seconds: float,
) -> Answer:
    """The first of this kind with the question's id. Raises MonitorError when there is no scheduler, and NoAnswer when
    it refuses or is silent for so long."""
    subscription.ask(question)
    end_at = time.monotonic() + timeout_seconds
    while (left := end_at - time.monotonic()) > 0 and not subscription.is_refused:
        for heard in subscription.poll(min(left, _TURN_SECONDS)):
            message = heard.message
            if isinstance(message, kind) and message.request_id == question.request_id:
                return message
            if isinstance(message, Error):
                text = plain(message.text)
                raise NoAnswer(f"the scheduler does not answer this, perhaps because it is older than we are: {text}")
    if subscription.state.status is None:
        raise MonitorError(subscription.refusal or subscription.nothing_answers(timeout_seconds))
    raise NoAnswer(
        f"the scheduler of {subscription.state.address} has not answered within {timeout_seconds:g} s: it may be busy "
        "with what others ask; try again, or give it longer with --timeout"
    )
