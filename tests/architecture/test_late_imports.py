"""What a server imports, it imports before it has peers: they can take all its descriptors, and then no file opens."""

from __future__ import annotations

import ast

from tests.architecture.sources import PARTS, modules, relative, syntax

SERVERS = {
    "protocol": ("codec", "keys", "objects", "session", "transport"),
    "scheduler": (".",),
    "storage": (".",),
}
"""By part: the packages whose code runs while peers are there."""

NO_HARM = {
    ("codec/schema.py", "capnp"): "the driver loads the schema when it starts",
    ("transport/driver.py", "asyncio"): "every server has it from its start",
    ("transport/descriptors.py", "resource"): "a listening socket has asked it for its limit",
    ("transport/entry.py", "scaler_protocol.transport.cuts"): "the first dial of one with several addresses",
    ("keys/account.py", "getpass"): "Windows, where no server runs",
    ("keys/files.py", "scaler_protocol.keys"): "Windows, where no server runs",
    ("keys/acl.py", "msvcrt"): "Windows, where no server runs",
    ("scaler_scheduler/dumps.py", "tempfile"): "it needs a file itself, and goes on without one",
    ("scaler_storage/service.py", "scaler_storage.spill_files"): "before the storage listens",
    ("scaler_storage/service.py", "scaler_storage.data_directory"): "before the storage listens",
    ("core/disk.py", "scaler_storage.core.keeping"): "before the storage listens",
    ("session/__init__.py", "scaler_protocol.session.server"): "when a server's module is imported",
    ("objects/__init__.py", "scaler_protocol.objects"): "when a dialer's module is imported",
}


def late_imports() -> set[tuple[str, str]]:
    """Inside functions: the end of the path, and the module."""
    found = set()
    for name, folders in SERVERS.items():
        part = PARTS[name]
        for path in modules(part):
            if not any(path.is_relative_to(part.source / folder) for folder in folders):
                continue
            functions = [
                one for one in ast.walk(syntax(path)) if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)
            ]
            for one in (inner for function in functions for inner in ast.walk(function)):
                place = "/".join(relative(path).split("/")[-2:])
                if isinstance(one, ast.ImportFrom):
                    found.add((place, one.module or ""))
                elif isinstance(one, ast.Import):
                    found.update((place, alias.name) for alias in one.names)
    return found


def test_each_late_import_of_a_server_has_its_reason() -> None:
    found = late_imports()
    assert found, "the test looks at nothing"
    assert {one for one in found if one not in NO_HARM} == set()
    assert {one for one in NO_HARM if one not in found} == set(), "reasons for what is not there any more"
