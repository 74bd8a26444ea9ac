"""Which functions the calls of a processor share, and which each call reads anew. (decision 0025)"""

from __future__ import annotations

import functools
import json
import logging
import math
import operator
import re
from typing import Any

import pytest

from scaler_protocol import values
from scaler_protocol.running.state import can_be_shared

SHARED = {
    "plain": "def f(x): return x + 1",
    "a lambda": "f = lambda x: x",
    "constants": "A, B, C = 1, ('a', (2.5, None)), frozenset((1,))\ndef f(x): return A, B, C",
    "modules": "import math, os.path\ndef f(x): return math.sin(x), os.path.sep",
    "imported": "from math import sin\nfrom json import dumps, JSONEncoder\ndef f(x): return sin, dumps, JSONEncoder",
    "a helper": "def g(x): return x\ndef f(x): return g(x)",
    "recursion": "def f(x): return f(x - 1) if x else 0",
    "defaults": "def f(x, y=1, *, z='a'): return x",
    "a closure": "def made(n):\n def f(x): return x + n\n return f\nf = made(1)",
    "a decorator": "import functools as t\ndef d(g):\n @t.wraps(g)\n def h(*a): g(*a)\n return h\n@d\ndef f(x): pass",
    "its own objects": "def f(x):\n class A: pass\n a = A()\n a.x = [x]\n a.x[0] += 1\n return a.x",
    "its own cells": "def f(x):\n def g():\n  nonlocal x\n  x += 1\n g()\n return x",
    "a generator": "def f(x): yield x",
    "a coroutine": "async def f(x): return x",
    "a logger": "import logging\nlog = logging.getLogger('a')\ndef f(x): log.info(x)",
    "a pattern": "import re\np = re.compile('a')\ndef f(x): return p.match(x)",
    "annotations": "def f(x: int, y: list[int]) -> 'str': return x",
    "a partial": "import functools\ndef g(x, y): return x\nf = functools.partial(g, 1, y=(2,))",
    "a method of a class": "import datetime\nf = datetime.datetime.fromtimestamp",
    "an unbound method": "f = str.upper",
}
ANEW = {
    "a global": "n = 1\ndef f(x):\n global n\n n += 1",
    "a global in a class body": "def f(x):\n class A:\n  global n\n  n = 1",
    "a global that goes": "n = 1\ndef f(x):\n global n\n del n",
    "globals()": "def f(x): globals()['n'] = 1",
    "exec": "def f(x): exec('n = 1', globals())",
    "its namespace by text": "def f(x): getattr(f, '__globals__')['n'] = 1",
    "a list": "a = []\ndef f(x): a.append(x)",
    "a list in a tuple": "a = (1, [])\ndef f(x): a[1].append(x)",
    "a dict": "a = {}\ndef f(x): a[x] = x",
    "an array": "a = bytearray(1)\ndef f(x): a[0] += 1",
    "a default": "def f(x, seen=[]): seen.append(x)",
    "a keyword default": "def f(x, *, seen={}): seen[x] = 1",
    "a list in a closure": "def made(n):\n def f(x): n.append(x)\n return f\nf = made([])",
    "a counter in a closure": "def made(n):\n def f(x):\n  nonlocal n\n  n += 1\n return f\nf = made(1)",
    "a counter inside": "def h(n):\n def f():\n  def g():\n   nonlocal n\n   n += 1\n  g()\n return f\nf = h(1)",
    "a helper with state": "def g(x, seen=[]): seen.append(x)\ndef f(x): return g(x)",
    "a helper that is a default": "def g(x, seen=[]): seen.append(x)\ndef f(x, h=g): return h(x)",
    "an attribute of itself": "def f(x): f.n = getattr(f, 'n', 0) + 1",
    "an attribute of a helper": "def g(): pass\ndef f(x): g.n = x",
    "an attribute by setattr": "def g(): pass\ndef f(x): setattr(g, 'n', x)",
    "an attribute that is a list": "def g(): return g.seen\ng.seen = []\ndef f(x): return g",
    "an object": "class A: pass\na = A()\ndef f(x): a.n = x",
    "a class": "class A: n = 1\ndef f(x): A.n = x",
    "a method": "class A:\n def g(self, x): self.n = x\nf = A().g",
    "a callable object": "class A:\n def __call__(self, x): self.n = x\nf = A()",
    "a partial of a list": "import functools\nf = functools.partial(list.append, [])",
    "a partial with attributes": "import functools\nf = functools.partial(print)\nf.seen = []",
    "a cache": "import functools\n@functools.lru_cache\ndef f(x): return [x]",
    "a helper with a cache": "import functools\n@functools.lru_cache\ndef g(x): return [x]\ndef f(x): return g(x)",
    "a module that travels": "import types\nm = types.ModuleType('m')\ndef f(x): m.n = x",
    "a method of a list": "f = [].append",
    "a random generator": "import random\nf = random.Random(1).random",
    "a generator object's source": "a = iter(range(3))\ndef f(x): return next(a)",
}  # fmt: skip


def read_in_a_processor(text: str) -> Any:
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec(text, namespace)
    return values.loads(b"".join(values.dumps(namespace["f"])))


@pytest.mark.parametrize("text", SHARED.values(), ids=SHARED)
def test_what_cannot_have_state_is_shared(text: str) -> None:
    assert can_be_shared(read_in_a_processor(text))


@pytest.mark.parametrize("text", ANEW.values(), ids=ANEW)
def test_what_may_have_state_is_read_for_each_call(text: str) -> None:
    assert not can_be_shared(read_in_a_processor(text))


@pytest.mark.parametrize(
    "function", (json.dumps, math.sin, len, int, dict.fromkeys, operator.add, re.match, logging.info)
)
def test_what_is_imported_is_shared(function: Any) -> None:
    assert can_be_shared(function)


@functools.lru_cache
def cached() -> int:
    return 1


def test_an_imported_function_with_a_cache_is_that_of_its_module() -> None:
    assert can_be_shared(cached) and can_be_shared(functools.partial(cached))
