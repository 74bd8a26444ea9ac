"""A real Slurm of two nodes on this machine, from Debian's packages: munged, slurmctld and two slurmd of our own."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from pathlib import Path
from types import TracebackType

import psutil
import pytest

from scaler_protocol.process.ports import free_ports
from tests.support.processes import until

COMMANDS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scancel", "sinfo")
#: Also where its daemons are, which not every login looks through.
PATH = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin"))
START_SECONDS = 30.0
KILL_WAIT_SECONDS = 3
"""Between the SIGTERM and the SIGKILL of a scancel."""

CONFIGURATION = """
ClusterName=scaler-tests
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={directory}/munge/socket
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
GresTypes=fpga,gpu
ReturnToService=2
SlurmctldPidFile={directory}/slurmctld.pid
SlurmdPidFile={directory}/slurmd-%n.pid
SlurmdSpoolDir={directory}/spool/%n
SlurmctldLogFile={directory}/slurmctld.log
SlurmdLogFile={directory}/slurmd-%n.log
StateSaveLocation={directory}/state
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
SlurmdTimeout=10
KillWait={kill_wait}
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs=2 Gres=fpga:2,gpu:4 RealMemory=500 State=UNKNOWN
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[2]} CPUs=2 Gres=fpga:2,gpu:4 RealMemory=500 State=UNKNOWN
PartitionName=debug Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def require_slurm() -> None:
    """Skip, with the reason, where there is no Slurm to be had."""
    missing = [name for name in COMMANDS if shutil.which(name, path=PATH) is None]
    if missing:
        pytest.skip(f"Slurm is not installed: {', '.join(missing)} missing (make tools installs it)")
    if os.geteuid() != 0:
        pytest.skip("slurmd needs root")


class SlurmCluster:
    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self.environment = {**os.environ, "PATH": PATH, "SLURM_CONF": str(directory / "slurm.conf")}

    def __enter__(self) -> SlurmCluster:
        for name in ("munge", "spool/n1", "spool/n2", "state"):
            (self._directory / name).mkdir(parents=True)
        first = free_ports(3)
        ports = (first, first + 1, first + 2)
        text = CONFIGURATION.format(
            host=socket.gethostname(), ports=ports, directory=self._directory, kill_wait=KILL_WAIT_SECONDS
        )
        (self._directory / "slurm.conf").write_text(text)
        self._make_resources()
        self._start_munge()
        self._start("slurmctld", "-D", "-i")
        for node in ("n1", "n2"):
            self.start_node(node)
        until(lambda: self.states() == {"n1": "idle", "n2": "idle"}, "both nodes are idle", START_SECONDS)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in reversed(self._processes.values()):
            process.kill()
            process.wait()
        self._kill_jobs()

    def start_node(self, node: str) -> None:
        self._start("slurmd", "-D", "-N", node, name=node)

    def kill_node(self, node: str) -> None:
        """As if the machine had lost its power: slurmd, and all that it has started."""
        process = self._processes.pop(node)
        process.kill()
        process.wait()
        assert self._kill_jobs(node), f"no job ran on {node}"

    def run(self, *command: str) -> str:
        ended = subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=30, check=True)
        return ended.stdout

    def states(self) -> dict[str, str]:
        try:
            lines = self.run("sinfo", "-h", "-N", "-o", "%N %t").splitlines()
        except subprocess.CalledProcessError:
            return {}  # the controller is not up yet
        return dict(line.split() for line in lines)

    def jobs(self) -> dict[str, str]:
        """The node of each running job, empty for one that waits."""
        lines = self.run("squeue", "-h", "-o", "%i|%N").splitlines()
        return dict(line.split("|", 1) for line in lines)

    def restarts(self, job: str) -> int:
        return int(self.run("squeue", "-h", "-j", job, "-O", "RestartCnt"))

    # ------------------------------------------------------------ inside

    def _start(self, command: str, *arguments: str, name: str = "") -> None:
        with (self._directory / f"{name or command}.out").open("wb") as log:
            self._processes[name or command] = subprocess.Popen(
                [command, *arguments], env=self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def _make_resources(self) -> None:
        """The same on both nodes. Slurm gives the GPUs' jobs the numbers of their device files. Any device will do."""
        devices = [self._directory / f"gpu{number}" for number in range(4)]
        for device in devices:
            device.symlink_to("/dev/null")
        lines = ["Name=fpga Count=2", *(f"Name=gpu File={device}" for device in devices)]
        (self._directory / "gres.conf").write_text("".join(f"{line}\n" for line in lines))

    def _start_munge(self) -> None:
        """With a key of its own, as root: nothing of the machine's own munge is touched."""
        directory = self._directory / "munge"
        key = directory / "key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o600)
        directory.chmod(0o755)
        self._start(
            "munged", "--foreground", "--force", f"--key-file={key}", f"--socket={directory}/socket",
            f"--pid-file={directory}/pid", f"--log-file={directory}/log", f"--seed-file={directory}/seed",
        )  # fmt: skip
        until((directory / "socket").exists, "munged listens", START_SECONDS)

    def _kill_jobs(self, node: str = "") -> int:
        """Jobs outlive their slurmd: everything on that node, or on all, and the slurmstepd above it."""
        count = 0
        for process in psutil.process_iter():
            try:
                environment = process.environ()
                job_node = environment.get("SLURMD_NODENAME", "")
                if (
                    environment.get("SLURM_CONF") == self.environment["SLURM_CONF"]
                    and job_node
                    and node in ("", job_node)
                ):
                    steps = [one for one in process.parents() if one.name().startswith("slurmstepd")]
                    for one in (*steps, process):
                        one.kill()
                    count += 1
            except psutil.Error:
                continue  # it has ended meanwhile
        return count
