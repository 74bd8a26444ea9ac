"""Hosts as namespaces of the kernel: a network, processes, a name, IPC and /dev/shm of their own, joined by a switch.

A host is a process that does nothing (its init), in namespaces of its own; other processes enter them. Nothing has a
name that could stay behind: all of it ends with the init, and the init ends with the tests. Linux only, as root, with
`ip` (iproute2) and `unshare` (util-linux).

Cuts are silent, as of a cable that is pulled: no packet is answered. In one direction a host is given a hardware
address for the other one that no host has.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import psutil

from tests.support.processes import WAIT, Command, Stage, until

#: Ends when its standard input does, and reaps what is left to it.
_INIT = "import signal, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN); print('up', flush=True); sys.stdin.read()"
_OWN = ["--net", "--mount", "--pid", "--uts", "--ipc"]
_SWITCH = "switch"
_LOST_ADDRESS = "02:00:00:00:ff:ff"


def why_not() -> str:
    """Why this machine can have no such hosts. Empty: it can."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return "network namespaces need Linux and root"
    missing = [name for name in ("ip", "unshare", "nsenter") if shutil.which(name) is None]
    if missing:
        return f"{', '.join(missing)} is missing: make tools installs iproute2"
    program = ["unshare", *_OWN, "--fork", "--mount-proc", "ip", "link", "add", "switch", "type", "bridge"]
    tried = subprocess.run(program, capture_output=True, text=True, check=False)
    return "" if tried.returncode == 0 else f"this system gives no network namespaces: {tried.stderr.strip()}"


class HostCommand(Command):
    """A command on a host. The process that the tests start only enters the namespaces; its child is the command."""

    def inner(self) -> psutil.Process | None:
        """The command itself. None: it has not begun, or has ended."""
        try:
            children: list[psutil.Process] = psutil.Process(self.pid).children()
        except psutil.NoSuchProcess:
            return None
        return children[0] if children else None

    def send(self, number: signal.Signals) -> None:
        process = self.inner()
        if process is not None:
            process.send_signal(number)

    def suspend(self) -> None:
        """The command and all that it has started, as SIGSTOP does."""
        for process in self._family():
            process.suspend()

    def resume(self) -> None:
        for process in self._family():
            process.resume()
        # The process that has entered the namespaces stops itself when its child is stopped.
        psutil.Process(self.pid).resume()

    def _family(self) -> list[psutil.Process]:
        process = self.inner()
        return [] if process is None else [process, *process.children(recursive=True)]


class Host:
    def __init__(self, stage: Stage, name: str, number: int) -> None:
        self.name = name
        self.ip = f"10.99.0.{number}"
        #: of a second service, so that the way to it alone can be cut
        self.second_ip = f"10.99.0.{100 + number}"
        self.hardware = f"02:00:00:00:00:{number:02x}"
        self.place = stage.directory / name
        for folder in ("config", "runtime", "temporary"):
            (self.place / folder).mkdir(mode=0o700, parents=True)
        self._stage = stage
        self._outer = subprocess.Popen(
            ["unshare", *_OWN, "--fork", "--kill-child", "--mount-proc", "sh", "-c",
             f'hostname {name} && mount -t tmpfs none /dev/shm && exec "$0" -S -c "$1"', sys.executable, _INIT],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip
        assert self._outer.stdout is not None
        assert self._outer.stdout.readline() == "up\n", f"the host {name} did not come up"
        self.init = psutil.Process(self._outer.pid).children()[0].pid

    @property
    def key(self) -> Path:
        return self.place / "config" / "scaler" / "cluster.key"

    def copy_key_from(self, other: Host) -> None:
        self.key.parent.mkdir(mode=0o700, exist_ok=True)
        shutil.copy(other.key, self.key)

    def start(self, module: str, *arguments: str) -> HostCommand:
        """A Python module as a command on this host."""
        inside = ["nsenter", f"--target={self.init}", *_OWN, f"--wd={self.place}"]
        environment = {
            **self._stage.environment(),
            "XDG_CONFIG_HOME": str(self.place / "config"),
            "XDG_RUNTIME_DIR": str(self.place / "runtime"),
            "TMPDIR": str(self.place / "temporary"),
        }
        command = HostCommand([*inside, sys.executable, "-m", module, *arguments], environment, self.place)
        self._stage.take_in(command)
        return command

    def run_ip(self, *arguments: str) -> None:
        inside = ["nsenter", f"--target={self.init}", "--net", "ip", *arguments]
        ended = subprocess.run(inside, capture_output=True, text=True, check=False)
        assert ended.returncode == 0, f"{' '.join(arguments)}: {ended.stderr}"

    def end(self) -> None:
        """All of its processes at once, as when the power fails."""
        self._outer.kill()
        self._outer.wait(WAIT)
        for stream in (self._outer.stdin, self._outer.stdout):
            if stream is not None:
                stream.close()
        until(lambda: _is_over(self.init), f"the host {self.name} is gone")


def _is_over(process_id: int) -> bool:
    """It may not be reaped yet."""
    try:
        return bool(psutil.Process(process_id).status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


class Network:
    """Hosts with these names, and a switch between them."""

    def __init__(self, stage: Stage, *names: str) -> None:
        self._switch = Host(stage, _SWITCH, 254)
        self._switch.run_ip("link", "add", _SWITCH, "type", "bridge")
        self._switch.run_ip("link", "set", _SWITCH, "up")
        self.hosts: dict[str, Host] = {}
        for name in names:
            self.add(stage, name)

    def __getitem__(self, name: str) -> Host:
        return self.hosts[name]

    def add(self, stage: Stage, name: str) -> Host:
        host = self.hosts[name] = Host(stage, name, len(self.hosts) + 1)
        wire = ["link", "add", "name", name, "type", "veth", "peer", "name", "wire", "address", host.hardware]
        self._switch.run_ip(*wire, "netns", str(host.init))
        self._switch.run_ip("link", "set", "dev", name, "master", _SWITCH, "up")
        for address in (host.ip, host.second_ip):
            host.run_ip("address", "add", f"{address}/24", "dev", "wire")
        host.run_ip("link", "set", "wire", "up")
        host.run_ip("link", "set", "lo", "up")
        return host

    # ------------------------------------------------------------ faults

    def cut(self, name: str) -> None:
        """Nothing leaves or reaches this host."""
        self._switch.run_ip("link", "set", "dev", name, "down")

    def heal(self, name: str) -> None:
        self._switch.run_ip("link", "set", "dev", name, "up")

    def block(self, sender: str, *addresses: str) -> None:
        """What this host sends to these addresses is lost; what they send arrives."""
        for address in addresses:
            self._set_neighbour(sender, address, _LOST_ADDRESS)

    def unblock(self, sender: str, *addresses: str) -> None:
        for address in addresses:
            owner = next(one for one in self.hosts.values() if address in (one.ip, one.second_ip))
            self._set_neighbour(sender, address, owner.hardware)

    def vanish(self, name: str) -> None:
        """A host without power: nothing tells the others."""
        self.cut(name)
        self.hosts[name].end()

    def close(self) -> None:
        for host in (*self.hosts.values(), self._switch):
            if host._outer.poll() is None:
                host.end()

    def _set_neighbour(self, sender: str, address: str, hardware: str) -> None:
        self[sender].run_ip("neigh", "replace", address, "lladdr", hardware, "nud", "permanent", "dev", "wire")
