"""A monitor: a session in role monitor, with a Watch."""

from __future__ import annotations

from scaler_conformance.verdicts import Breach
from scaler_conformance.wire import Message

from .dialer import Dialer

#: What is published for which topic. Further topics are free (MON-6).
KINDS = {
    "status": "clusterStatus",
    "tasks": "taskSamples",
    "graphs": "graphShapes",
    "logs": "taskLog",
    "stacks": "stackSamples",
}


class MonitorPeer(Dialer):
    """Keeps what is published apart from answers, and acknowledges it at once, as MON-21 asks."""

    def watch(self, *topics: str, wants_history: bool = False) -> None:
        self.published: list[Message] = []
        self.topics = topics
        self.send("watch", topics=list(topics), wantsHistory=wants_history)

    def handle(self, message: Message) -> None:
        super().handle(message)
        is_answer = message.kind == "clusterStatus" and message["requestId"]
        if message.kind not in KINDS.values() or is_answer:
            return
        self.inbox.remove(message)
        if message.kind not in [KINDS.get(topic) for topic in self.topics]:
            said = self.transcript.describe(message)
            raise Breach(f"{said} was published to {self.name}, which watches {', '.join(self.topics)}", "MON-18")
        self.published.append(message)
        if self.acknowledges and self.is_open:
            self.acknowledge()

    def of(self, topic: str) -> list[Message]:
        return [message for message in self.published if message.kind == KINDS[topic]]
