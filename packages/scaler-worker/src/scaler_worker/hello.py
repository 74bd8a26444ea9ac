"""The Hello of a worker: what the worker sends about itself when it joins."""

from __future__ import annotations

from scaler_protocol.code_tag import CODE_TAG
from scaler_protocol.codes import PROTOCOL_VERSION_MAX, PROTOCOL_VERSION_MIN, ROLE_WORKER
from scaler_protocol.holding.presenting import FEATURE
from scaler_protocol.ids import new_peer_id
from scaler_protocol.messages import Credit, Hello, Timers, WorkerOffer
from scaler_protocol.software import this_software
from scaler_worker import __version__
from scaler_worker.code_sets.options import NONE
from scaler_worker.config import ClusterConfig


def worker_hello(config: ClusterConfig, name: str, credit: Credit) -> Hello:
    """Returns the Hello of a new worker, under a peer id of its own."""
    return Hello(
        version_min=PROTOCOL_VERSION_MIN,
        version_max=PROTOCOL_VERSION_MAX,
        role=ROLE_WORKER,
        peer_id=new_peer_id(),
        features=_features(config),
        timers=Timers(heartbeat_seconds=config.heartbeat_seconds),
        software=this_software("scaler-worker", __version__),
        worker=WorkerOffer(
            name,
            config.capabilities,
            credit.limit,
            credit.nested_reserve,
            config.manager_id,
            config.unit_id,
            (CODE_TAG,),
        ),
    )


def _features(config: ClusterConfig) -> tuple[str, ...]:
    features = ("chains", "samples", "stacks", "stack-samples", FEATURE)
    return features if config.code.takes == NONE else (*features, "code-sets")
