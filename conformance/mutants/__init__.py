"""Our own roles with one wrong line each: what the suite must notice. See `registry.py`; run: `python -m conformance.mutants`."""
