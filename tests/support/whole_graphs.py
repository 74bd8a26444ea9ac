"""A graph as a scheduler publishes it, in part, and tells of it when it is asked: for pages without a scheduler."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from scaler.ui.feed import Feed
from scaler_protocol.columns import join_u16, offsets, split_u16
from scaler_protocol.messages import GraphPart, GraphRequest, GraphShape, GraphShapes, Message
from tests.support.pages import heard

LISTED = 1_000
PART_TASKS, PART_STATES = 1_000, 8_192


class WholeGraph:
    """In the place of a page's watcher."""

    def __init__(self, feed: Feed, whole: GraphShapes) -> None:
        self.feed = feed
        self.whole = whole
        self.questions: list[GraphRequest] = []
        self.order = 1  #: zero: the graph is not known
        self.is_mute = False
        feed.watcher = self  # type: ignore[assignment]

    def become(self, whole: GraphShapes) -> None:
        """From now on this is what is answered, and told to all."""
        self.whole = whole
        (shape,) = whole.graphs
        self.tell(replace(whole, graphs=(_columns(shape, 0, LISTED, LISTED),)))

    def ask(self, question: Message) -> None:
        """Other questions stay unanswered."""
        if not isinstance(question, GraphRequest):
            return
        self.questions.append(question)
        (shape,) = self.whole.graphs
        first, count = question.first, shape.task_count
        if self.is_mute:
            return
        if not self.order or (question.graph_id, question.client_id) != (shape.graph_id, shape.client_id):
            self.tell(GraphPart(question.request_id, first))
            return
        part = _columns(shape, first, first + PART_TASKS, count) if question.wants_shape else _states(shape, first)
        self.tell(GraphPart(question.request_id, first, self.order, part, count))

    def tell(self, message: Message) -> None:
        self.feed.heard(*heard(message))


def _columns(shape: GraphShape, first: int, end: int, known: int) -> GraphShape:
    """`known`: dependencies from here on are left out."""
    starts, keys = offsets(split_u16(shape.dependency_counts)), offsets(shape.key_sizes)
    targets = split_u16(shape.dependencies)
    needs = [[one for one in targets[slice(*own)] if one < known] for own in pairwise(starts[first : end + 1])]
    return replace(
        shape,
        ids=shape.ids[16 * first : 16 * end],
        states=shape.states[first:end],
        functions=shape.functions[16 * first : 16 * end],
        dependency_counts=join_u16([len(own) for own in needs]),
        dependencies=join_u16([one for own in needs for one in own]),
        outcomes=shape.outcomes[first:end],
        key_sizes=shape.key_sizes[first:end],
        keys=shape.keys[keys[first] : keys[min(end, len(keys) - 1)]] if shape.keys else b"",
    )


def _states(shape: GraphShape, first: int) -> GraphShape:
    end = first + PART_STATES
    return replace(
        GraphShape(shape.graph_id, shape.client_id, shape.task_count, shape.unfinished_count),
        states=shape.states[first:end],
        outcomes=shape.outcomes[first:end],
        failed_count=shape.failed_count,
        canceled_count=shape.canceled_count,
    )
