"""A bound on everything that peers can make grow (LIM-4, STO-6, STO-12)."""

from __future__ import annotations

from scaler_protocol.records import dataclass

MEBIBYTE = 1024 * 1024

#: What a disk limit is that the operator has not named: more than any file system holds.
UNLIMITED = 1 << 62


@dataclass(frozen=True, slots=True)
class CoreLimits:
    #: Bytes of values and unfinished uploads together; None: what the machine has.
    memory_bytes: int | None = None
    #: Bytes of the values of each user, in memory and on the disk; None: any number. (LIM-36)
    user_bytes: int | None = None
    #: Bytes of files in the spill directory or the data directory; None: values stay in memory.
    disk_bytes: int | None = None
    #: These files are to outlive the process. (STO-41)
    keeps_objects: bool = False
    #: Files in it that are open at a time.
    spill_files: int = 65_536
    #: Smaller values share a file, of about so many bytes at most.
    small_bytes: int = MEBIBYTE
    extent_bytes: int = 8 * MEBIBYTE
    #: Another move is begun while fewer bytes are on their way: a disk that stands still has hold of little more.
    moving_bytes: int = 64 * MEBIBYTE
    #: Values on the disk that are copied back for readers on this host, instead of being sent in chunks: from this size
    #: on, and so many at a time, because each holds a descriptor.
    copied_bytes: int = 256 * 1024
    copies: int = 256
    #: What an object takes for each of its owners besides its value, about: else empty objects would weigh nothing.
    entry_bytes: int = 512
    #: Objects of one owner, owners, and objects of all owners together.
    owner_objects: int = 2_000_000
    owners: int = 100_000
    objects: int = 8_000_000
    #: One value. Only a guard against nonsense: a real bound is `memory_bytes`.
    object_bytes: int = 1 << 40
    #: One chunk, in a Put as in a Value.
    chunk_bytes: int = 8 * MEBIBYTE
    #: An upload that got no chunk for so long is forgotten: its writer gave up without losing its session. (STO-18)
    upload_idle_seconds: float = 60.0
    #: Unfinished uploads of one session.
    session_uploads: int = 4096
    #: Those of all sessions together; and how many each may have then. One takes about as much as `entry_bytes`.
    all_uploads: int = 65_536
    least_uploads: int = 64
    #: An upload that got no chunk for so long is forgotten if its room is wanted. (STO-18)
    upload_still_seconds: float = 10.0
    #: Gets and Duplicates of one session that wait.
    session_waiters: int = 65_536
    #: Those of all sessions together; and how many each may have then. One takes some 700 bytes.
    all_waiters: int = 65_536
    least_waiters: int = 256
    #: Gets and Duplicates of all sessions that wait for one object: all are answered at once when it comes.
    object_waiters: int = 4_096
    #: Bytes that were sent to a session and are not acknowledged: with so many its next Get waits. A little more than a
    #: reader may receive before it has to acknowledge (SES-4), and as much as a socket is given (SES-25).
    unread_bytes: int = 33 * MEBIBYTE
    #: The same of all sessions together; and what each may leave unread then.
    all_unread_bytes: int = 192 * MEBIBYTE
    least_unread_bytes: int = MEBIBYTE
    #: Of those what takes memory of its own: chunks that are copied for the socket, because they are small, or were
    #: read from the disk. A little more than one chunk, so that the next one is read meanwhile.
    small_chunk_bytes: int = 64 * 1024
    copied_unread_bytes: int = 9 * MEBIBYTE
    all_copied_unread_bytes: int = 18 * MEBIBYTE
    #: Answers without a chunk that a session has not read, in bytes: with more, its peer is held back. (SES-35)
    answers_bytes: int = 4 * MEBIBYTE
    all_answers_bytes: int = 8 * MEBIBYTE
    least_answers_bytes: int = MEBIBYTE // 2
    #: The longest wait that is granted. A peer that wants to wait longer asks again.
    wait_seconds: float = 86_400.0
    #: Owners remembered as gone. The oldest is forgotten first: late Puts come soon after the end, or never. (OWN-4)
    gone_owners: int = 100_000
    #: Owners that schedulers have named, and those that they have left out, of all sessions together. (OWN-17)
    named_owners: int = 500_000
    naming_schedulers: int = 16
    #: Objects released, or waits ended, in one turn: some milliseconds.
    turn_releases: int = 2_000
