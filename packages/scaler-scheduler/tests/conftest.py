"""A story with one client in it."""

from __future__ import annotations

import pytest
from tests.support.scheduler_story import Story


@pytest.fixture
def story() -> Story:
    story = Story()
    story.client("c")
    return story
