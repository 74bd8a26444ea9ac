"""One engine under measurement, in an interpreter of its own. It needs nothing but that engine.

It answers JSON lines: `{"do": "start"}`, `{"do": "run", "measure": …, "sizes": {…}}`, `{"do": "stop"}`, one line each.
"""
