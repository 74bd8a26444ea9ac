"""Several commands, started warm: one process imports what all of them need, once, and forks each of them, as soon as
it has what that command needs besides.

    python -m scaler_protocol.process.warm '[["scaler_storage", ["--", "tcp://127.0.0.1:2346"], 4, false, 5, []], …]'

For each: its module, its arguments, the descriptor that becomes its standard error, whether that becomes its standard
output too, the descriptor of its link, which is a sequenced packet socket to the process that started us, and the
descriptors with its key. On its link a
command first says who it is: its process id as text, with a pidfd.
We then say how it ended: its exit code, or minus the signal. When a link ends before that, we have died; the command
goes on as if nothing had happened, and only its exit code will never be known.

This process has one thread, no socket but the links and no ZeroMQ context, so forking it is safe. It ends when all its
children have. They end with the process that PARENT_VARIABLE names, as any command does. Linux only.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import importlib
import io
import json
import os
import socket
import sys
import traceback
from typing import NoReturn

from scaler_protocol import messages
from scaler_protocol.addresses import Address
from scaler_protocol.codec.registry import registry
from scaler_protocol.keys import Identity, KeyFileError, KeyOptions, Keyring, Pass
from scaler_protocol.keys.account import account_name
from scaler_protocol.keys.derivation import KEY_BYTES
from scaler_protocol.keys.texts import key_text, parsed, ticket_text
from scaler_protocol.process.burying import Burying
from scaler_protocol.process.burying import __file__ as burying_file
from scaler_protocol.process.logs import LoggingOptions
from scaler_protocol.records import complete, dataclass
from scaler_protocol.session import Lost, Opened
from scaler_protocol.session.handshake import ServerTerms, WelcomeFields
from scaler_protocol.transport import self_test  # noqa: F401 each server begins with one

RECORDS = (
    messages.Hello, messages.Welcome, Opened, Lost, messages.Ping, messages.Pong, messages.Bye, messages.Submit,
    messages.Dispatch, messages.Results, messages.Credit, messages.ProcessorStatus, messages.Get, messages.Value,
    messages.Put, messages.ObjectReply, messages.SnapshotRequest, messages.ClusterStatus, messages.WorkerEntry,
    messages.Count, messages.Capability, messages.WorkerStatus, messages.StorageStatusRequest, messages.StorageStatus,
    messages.NameFunctions, messages.Delivered, messages.LiveOwners, messages.ReleaseOwner, Address, Identity,
    KeyOptions, LoggingOptions, Pass, ServerTerms, WelcomeFields,
)  # fmt: skip
"""What more than one process uses from the first tasks on: 3 MiB less in all than if each made its own."""


START_SECONDS = 0.25
"""Until the commands are busy no more with their start, which the change into another program would disturb."""


@dataclass(frozen=True, slots=True)
class Role:
    module: str
    arguments: list[str]
    errors: io.FileIO
    joins_streams: bool
    link: socket.socket
    keys: list[int]
    """Descriptors with its key: no other command may read them."""

    def tell(self, text: str, *descriptors: int) -> None:
        try:
            socket.send_fds(self.link, [text.encode()], descriptors)
        except OSError:
            pass  # the process that started us has ended

    def close(self) -> None:
        self.errors.close()
        self.link.close()
        self.drop_keys()

    def drop_keys(self) -> None:
        for descriptor in self.keys:
            os.close(descriptor)
        self.keys.clear()


def main() -> NoReturn:
    gc.disable()  # no collection now means no holes in the pages that are about to be shared
    roles = [
        Role(module, arguments, io.FileIO(errors, "w"), joins_streams, socket.socket(fileno=link), keys)
        for module, arguments, errors, joins_streams, link, keys in json.loads(sys.argv[1])
    ]
    warm_up()
    process_ids = []
    for role in roles:  # each begins on another core while what the next one needs is imported
        warm_up_for(role.module)
        gc.freeze()
        process_id = os.fork()
        if not process_id:
            _become(role, roles)
        role.errors.close()
        role.drop_keys()
        process_ids.append(process_id)
    burying = Burying()
    for process_id, role in zip(process_ids, roles, strict=True):
        burying.add(os.pidfd_open(process_id), process_id, role.link.detach())
    if not burying.run(START_SECONDS):
        _leave_memory(burying)
        burying.run()
    os._exit(0)  # there is nothing to tidy up, and the parent waits


def warm_up() -> None:
    """What each of them would compile and find out for itself."""
    registry().prepare(*RECORDS)
    rehearse()


def warm_up_for(module: str) -> None:
    """What this command would import and compile. It may name further records that it makes when it starts, as RECORDS
    of its `__main__`."""
    try:
        main_module = importlib.import_module(f"{module}.__main__")
    except Exception:  # noqa: BLE001 - whatever it is, the command will meet it again, and say so
        return
    complete(*getattr(main_module, "RECORDS", ()))


def rehearse() -> None:
    """Texts of keys are written and read once, with a key that nothing has: their patterns take the time."""
    key = bytes(KEY_BYTES)
    try:
        parsed(key_text([key]).encode(), "")
        parsed(ticket_text(Keyring([key]).derive(account_name(), frozenset(), secret_key=key)).encode(), "")
    except KeyFileError:
        pass  # this libzmq has no CURVE: servers say so, if they need it


def _become(role: Role, roles: list[Role]) -> NoReturn:
    """In the child: the command's `main`, as after a fresh start."""
    gc.enable()
    os.setsid()
    os.dup2(role.errors.fileno(), 2)
    if role.joins_streams:
        os.dup2(role.errors.fileno(), 1)
    own = os.pidfd_open(os.getpid())
    role.tell(str(os.getpid()), own)
    os.close(own)
    role.keys.clear()  # it reads and closes them itself
    for each in roles:
        each.close()
    _show_as([sys.executable, "-m", role.module, *role.arguments])
    main_module = importlib.import_module(f"{role.module}.__main__")
    sys.modules["__main__"] = main_module
    sys.argv = [main_module.__file__ or role.module, *role.arguments]
    code = 1
    try:
        code = main_module.main()
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 1
    except BaseException:  # noqa: BLE001 - what the interpreter would have said
        traceback.print_exc()
    # As the interpreter ends, but that it does not take itself apart first: that would copy every page it shares.
    try:
        atexit._run_exitfuncs()
        sys.stdout.flush()
    finally:
        os._exit(code)


def _leave_memory(burying: Burying) -> None:
    """Become the program that does the rest; return if that cannot be. Our children stay ours."""
    try:
        os.execv(sys.executable, [sys.executable, "-I", "-S", burying_file, *burying.arguments()])
    except OSError:
        pass  # such as: the interpreter was replaced meanwhile


def _show_as(command: list[str]) -> None:
    """What `ps` shows lies in our memory, where our own arguments were: they are longer, having these among them. A
    last byte that is not zero says that it is one text now."""
    try:
        with open("/proc/self/stat") as stat:
            begin, end = (int(field) for field in stat.read().rpartition(")")[2].split()[45:47])
    except (OSError, ValueError):
        return
    text = " ".join(command).encode()[: end - begin - 2]
    ctypes.memmove(begin, text.ljust(end - begin - 1, b"\0") + b".", end - begin)


if __name__ == "__main__":
    main()
