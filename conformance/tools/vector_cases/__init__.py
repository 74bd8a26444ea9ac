"""What the golden vectors of protocol version 1 are made of. `make_vectors.py` writes them down."""

from conformance.tools.vector_cases.case import Case
from conformance.tools.vector_cases.layouts import layout_cases
from conformance.tools.vector_cases.refused import refused_cases
from conformance.tools.vector_cases.valid import valid_cases

__all__ = ["Case", "all_cases"]


def all_cases() -> list[Case]:
    return [*valid_cases(), *layout_cases(), *refused_cases()]
