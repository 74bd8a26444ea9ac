@0x8ac3cfec1683d03f;
# Object storage: values by id. Spec chapters 12 (STO) and 13 (OWN: who frees what).
#
# Every request carries a `requestId` chosen by the requester; every reply echoes it. Requests are idempotent, so a
# requester that lost its session asks again. A value travels in chunks, each one frame of at most 8 MiB, asked for or
# confirmed one by one, with at most 8 outstanding, Gets that wait not counted: memory stays bounded and heartbeats get
# through. (STO-6)

struct Put @0xefe96fc6c869a255 {
  # One chunk, in the one payload frame. The object exists once all its bytes are there, from any number of owners.
  requestId @0 :UInt64;
  objectId @1 :Data;     # 16 bytes
  owner @2 :Data;        # 16 bytes: the client that keeps it alive, until Release or ReleaseOwner (OWN-1)
  totalBytes @3 :UInt64;
  offset @4 :UInt64;     # where this chunk begins. Chunks of one writer come in order, at most a minute apart (STO-18).
  # Putting an object that exists is answered OK when it comes from an owner (STO-4). Another owner is added when all
  # bytes have come and are the same, and otherwise told EXISTS (STO-30). OK to a chunk that does not complete the object
  # may mean either, so a writer sends its chunks to the end.

  grant @5 :Data;
  # Proves that the sender may name this owner: Welcome.ownerGrant of a client, TaskHeader.ownerGrant for a worker. Not
  # looked at by a storage without keys; one with keys answers NOT_ALLOWED where it is not the owner's, is for another
  # user, or has ended. (STO-32, STO-47, STO-49)
}

struct Get @0xace6c0e939a95918 {
  requestId @0 :UInt64;
  objectId @1 :Data;
  offset @2 :UInt64;

  chunkBytes @3 :UInt32;
  # At most so much in the reply, and at least one byte unless `offset` is the end: a storage answers with what it has
  # in one piece, and the reader asks again for the rest. Zero: the storage's choice, at most 8 MiB. (STO-13)

  waitSeconds @4 :Float64 = 0;  # wait this long for the object to come into being; then NO_SUCH_OBJECT (STO-7)

  acceptsShared @5 :Bool = false;
  # SharedValue would do instead of the first Value. Only where the feature `memfd` is in force. (STO-22)

  owner @6 :Data;  # for whom it is read: 16 bytes, or empty where there are no keys (STO-33)
  grant @7 :Data;  # of this owner, as in Put
}

struct Value @0xa4d3554ce3081e75 {
  requestId @0 :UInt64;
  totalBytes @1 :UInt64;
  offset @2 :UInt64;      # the bytes are the one payload frame
}

struct Release @0xede3f34d673de22c {
  # This owner needs these objects no longer. What has no owner left is deleted. Unknown ids are no error. (OWN-3)
  requestId @0 :UInt64;  # zero: no reply wanted
  owner @1 :Data;
  ids @2 :Data;          # 16·n; an id that stands there twice counts once
  grant @3 :Data;        # of this owner, as in Put
}

struct ReleaseOwner @0xa7ed63227cebe03e {
  # The owner is gone: release all it owns, and refuse later Puts in its name with OWNER_GONE. From any role but
  # scheduler it is answered with Error NOT_ALLOWED. (OWN-4, STO-15)
  requestId @0 :UInt64;  # zero: no reply wanted
  owner @1 :Data;

  grant @2 :Data;
  # What the client that has left had in its Welcome; empty where there are no keys. An owner of another family is another
  # client that had the same name, and nothing of it is released. (OWN-22)
}

struct LiveOwners @0xbe3186810c6b5fb6 {
  # A part of a *naming*: all owners of which the scheduler knows that they live. The parts of a naming come in order and
  # in one session; a naming that is not whole means nothing, so a part that is lost releases nothing. Each part is
  # answered. (OWN-17) The storage releases an owner that two namings in a row have left out. (OWN-18)
  requestId @0 :UInt64;

  ids @1 :Data;
  # 16·n: as many owners as fit the envelope, and at least one unless `totalCount` is zero.

  offset @2 :UInt32;
  # How many ids the earlier parts of this naming have. Zero begins a naming, and ends one that is not whole.

  totalCount @3 :UInt32;
  # How many ids all parts have together: the same in each part. The naming is whole when so many have come.
}

struct Duplicate @0x8b0a90f48bd66f62 {
  # Make `target` another name of `source`'s value. Waits for the source as Get does. No bytes move. (STO-9) A target
  # that exists, as another object of other owners, is answered EXISTS. (STO-31)
  requestId @0 :UInt64;
  source @1 :Data;
  target @2 :Data;
  owner @3 :Data;
  waitSeconds @4 :Float64 = 0;
  grant @5 :Data;        # of this owner, as in Put
  sourceOwner @6 :Data;  # for whom the source is read, where that is another than `owner`: the name of a client's
                         # session before this one. Empty: `owner` (STO-33)
  sourceGrant @7 :Data;  # of this owner
}

struct ObjectReply @0xb411aee48cf0cf70 {
  requestId @0 :UInt64;
  code @1 :UInt16;  # zero: done. NO_SUCH_OBJECT, OWNER_GONE, STORAGE_FULL, BAD_CHUNK, EXISTS, …
  text @2 :Text;
}

struct StorageStatusRequest @0x85b7cf3cba63fa11 {
  requestId @0 :UInt64;
  owners @1 :Data;  # 16·n, n at most 1,000: from a scheduler, owners of which it wants to be told what they own (MON-26)
  largestCount @2 :UInt16;  # from a scheduler: of so many of the largest objects it wants to be told (MON-53)
}

struct StorageStatus @0xd9f1c2fe7e5e5c3b {
  requestId @0 :UInt64;
  objectCount @1 :UInt64;
  ownerCount @2 :UInt64;
  memoryBytes @3 :UInt64;    # bytes of values held in memory
  waiterCount @4 :UInt64;    # Gets and Duplicates that wait for an object
  ownerObjects @5 :Data;     # u64·n: how many objects each of the owners has that the request names (MON-26)
  ownerBytes @6 :Data;       # u64·n: of the values of these objects. What has several owners counts for each of them
  diskBytes @7 :UInt64;      # bytes of files outside of memory in which values lie (STO-37)
  movingBytes @8 :UInt64;    # bytes of values on their way there; they count as memory until they have arrived
  memoryLimitBytes @9 :UInt64;  # zero: none
  diskLimitBytes @10 :UInt64;   # zero: none, or all values stay in memory
  diskRoomBytes @11 :UInt64;    # bytes that may still be moved there, below its limit and that of the file system (MON-28)
  diskTrouble @12 :Text;        # why values could not be moved when it was last tried; empty: they could (MON-28)
  largest @13 :List(ObjectEntry);  # some of the largest objects, the largest first (MON-53)
  traffic @14 :List(HostTraffic);  # what peers of each host have sent and been sent since the start (MON-53)
  userLimitBytes @15 :UInt64;      # bytes of values that each user may have (LIM-36); zero: any number (MON-69)
  ownerUserBytes @16 :Data;
  # u64·n, or empty: how many of these bytes the user has to whom each of the owners belongs that the request names (MON-69)
}

struct ObjectEntry @0x9f27c6e05d13ab84 {
  # A large object, for people. (MON-53)
  objectId @0 :Data;       # to a scheduler. To a monitor: a display id (MON-54)
  owner @1 :Data;          # one of its owners: its peerId, and to a monitor its display id
  ownerCount @2 :UInt32;   # owners in all: it exists until the last of them releases it
  totalBytes @3 :UInt64;
  ageSeconds @4 :Float64;  # since it was stored, or since the start of a storage that has kept it
  isOnDisk @5 :Bool;       # its value is not in memory
  name @6 :Text;           # to a monitor: of the function that it is, or that has made it; foreign text (MON-7)
  kind @7 :UInt16 = 0;
  # To a monitor. 1 FUNCTION; 2 RESULT: a task of the function `name` has stored it; 3 CODE_SET; 0 OTHER: mostly a value that
  # its client has stored, such as an argument. (MON-59)
}

struct HostTraffic @0xe4831bd9c7f6502a {
  # Bytes of values that travelled between the storage and the peers of one host since the storage's start. What a reader
  # maps (MemoryFile) does not travel. (MON-53)
  host @0 :Text;       # as its peers say in their Hello; foreign text (MON-7). Empty: all hosts that are not listed
  putBytes @1 :UInt64;
  gotBytes @2 :UInt64;
}

# Between processes of one host the bytes of a large value need not travel: they lie in a *memory file*, which each of
# them may map. All of this belongs to the feature `memfd`, which is in force only when the storage has opened the
# memory file in the Hello of its dialer. (HSK-25)

struct MemoryFile @0xbd24eb1c9530ba89 {
  # An open file of the sender: made by memfd_create, and on Linux to be opened as /proc/<processId>/fd/<descriptor> by
  # processes of the same user. It has no place in any directory, so nothing stays behind whichever dies. Never believed:
  # the process that opens it checks name, size and seals before the first byte is read. (STO-19, STO-20)

  processId @0 :UInt32;   # as the sender itself sees it; in another pid namespace it is another process, or none
  descriptor @1 :UInt32;  # as long as the sender holds it open; afterwards the number may mean another file
  name @2 :Data;          # 16 bytes; the file is called `scaler-` and these in lower-case hex
}

struct PutShared @0xb06a6a14bac69272 {
  # As a Put of the whole object, whose bytes are those of the file. The writer holds it open until it has the reply;
  # the storage then has it open itself. UNREADABLE_FILE: put it in chunks. (STO-21)
  requestId @0 :UInt64;
  objectId @1 :Data;
  owner @2 :Data;
  totalBytes @3 :UInt64;  # the size of the file
  file @4 :MemoryFile;
  grant @5 :Data;         # of this owner, as in Put
}

struct SharedValue @0x9595989dba3427a7 {
  # The answer to a Get with `acceptsShared`: all bytes of the object are in this file, which the storage holds open as
  # long as the object exists. Who cannot open it any more, or not at all, asks again without `acceptsShared`. (STO-22)
  requestId @0 :UInt64;
  totalBytes @1 :UInt64;
  file @2 :MemoryFile;
}
