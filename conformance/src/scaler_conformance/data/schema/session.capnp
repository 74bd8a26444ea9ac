@0x944e4e8881f4aee8;
# Sessions: how two peers meet, agree, stay in touch and part. Spec chapters 02 (HSK), 03 (SES) and 04 (LIV).
#
# Hello, Welcome and Reject keep their layout for ever: fields are only added, so that peers of any two versions
# understand each other well enough to say why they cannot talk. (HSK-2)

struct Hello @0xcc662270b82345b9 {
  # The dialer's first message on a new socket. Everything else before Welcome is answered NO_SESSION. (HSK-9)

  versionMin @0 :UInt16;
  versionMax @1 :UInt16;
  # The range of protocol versions the dialer speaks. The server takes the highest common one. (HSK-3)

  role @2 :UInt16;
  # Who dials: 1 client, 2 worker, 3 scheduler (to storage), 4 monitor, 5 worker manager. Zero and unknown roles are
  # rejected with BAD_ROLE (HSK-5). A role decides which messages the peer may send. (HSK-13)

  peerId @3 :Data;
  # Who I am, for my whole life, however often my sockets change: exactly 16 random bytes, chosen by the dialer. (HSK-4)

  incarnation @4 :UInt64;
  # Rises each time a peer starts anew under the same peerId and knows nothing of before. Equal: the same life. (HSK-7)

  features @5 :List(Text);
  # Optional behaviour I can do. What both sides name is on; what the server does not echo is off. (HSK-6)

  limits @6 :Limits;
  timers @7 :Timers;
  software @8 :Software;

  resume @9 :Resume;
  # Set when the dialer had a session with this server and wants it continued. (SES-6)

  worker @10 :WorkerOffer;
  # Set when role is worker.

  parentTask @11 :Data;
  # A client that runs inside a task names that task here (16 bytes), empty otherwise. (CLI-9)

  manager @12 :ManagerOffer;
  # Set when role is worker manager. (MGR-1)

  memoryFile @13 :import "objects.capnp".MemoryFile;
  # Set when `features` names `memfd`: an empty memory file, held open until the session ends. A storage that can open
  # it is on the same host and may read what the dialer shares with it. (HSK-25)

  resultWindowBytes @14 :UInt64 = 0;
  # A client with the feature `result-window` chooses how many bytes of Results may be on their way to it without an
  # acknowledgement; further ones wait at the scheduler. For as long as the session lasts. Zero, the default: 64 MiB.
  # (SCH-45)

  credential @15 :Data;
  # The dialer's ticket, at most 1 KiB: its user and its roles, signed with the cluster's key. In every Hello of a
  # dialer that has a key, and empty in those of one that has none. (HSK-29)

  generation @16 :UInt64 = 0;
  # The highest generation that a scheduler has ever told this dialer; zero: none has. A scheduler with keys believes
  # operators' peers alone, and each by a bounded step. (HSK-36, HSK-44)

  lastServerId @17 :Data;
  # The serverId of the scheduler with which this dialer, in its present process, had its last session, under whatever
  # peerId; empty: it had none. Another one than that of the scheduler it dials means that it comes from a predecessor.
  # (HSK-36)

  formerName @18 :Data;
  # Client only, where there are keys: the peerId of that session, followed by the ownerGrant of its Welcome; empty: none.
  # It proves that this client continues that one, so that it stays in the family of that one, if both are of one user
  # and not a worker that was given its tasks. (CLI-22, HSK-38)

  servingGeneration @19 :UInt64 = 0;
  # Scheduler only, to another scheduler: the generation with which it serves, and `lastServerId` is then its own serverId;
  # zero: it is a standby. Of two that serve, the one with the lower generation ends. (SCH-82)

  shareWeight @20 :UInt8 = 100;
  # Client only, 1 to 100: the share of its program, in hundredths of that of another program of its user. Any other
  # value: 100.
  # (SCH-92)
}

struct Resume @0xa56e5a4cd1d692c1 {
  sessionId @0 :UInt64;    # as given in Welcome; zero means "none: begin a new one"
  receivedSeq @1 :UInt64;  # the highest seq received without a gap: re-send what follows
}

struct WorkerOffer @0xd137bc56ab6a721f {
  name @0 :Text;                      # for people; need not be unique
  capabilities @1 :List(Capability);  # what tasks may ask for
  credit @2 :UInt32 = 0;              # the first Credit (CRD-1): how many tasks may be held at once; zero until told
  nestedReserve @3 :UInt32 = 0;       # further places that only tasks with depth > 0 may take (CRD-4)
  managerId @4 :Data;                 # the worker manager that started this worker, or empty (MGR-8)
  unitId @5 :Text;                    # the unit of that manager to which it belongs, or empty (MGR-8)

  codeTags @6 :List(Text);
  # Which code its processors can read, as header.codeTag names it. Empty, the default, tells nothing: such a worker is
  # given any task and refuses what it cannot read (WRK-4). One that reads no such code offers the name of what it does
  # read, such as "raw", and is spared the rest. (SCH-39)
}

struct ManagerOffer @0xa94f0d6c21e7b385 {
  # Part of the Hello of a manager. For as long as the session lasts.
  managerId @0 :Data;
  # 16 bytes that stay the same when the manager is started again, so that its workers are still known for its own.
  # No two managers of a scheduler have the same. (MGR-1, MGR-2)
  name @1 :Text;                      # for people
  capabilities @2 :List(Capability);  # of each worker it starts
  workersPerUnit @3 :UInt32 = 1;      # how many workers come and go together; never zero
}

struct Capability @0xeec17be8d60c0c83 {
  name @0 :Text;
  amount @1 :Int64 = -1;
  # -1: present, uncounted. Otherwise how many units a task takes, or a worker has. (SCH-12)
}

struct Limits @0xdf2ae4722d79ac4a {
  # The sender accepts no more than this; Welcome carries the smaller of both sides' values. Zero: the default.
  inlineBytes @0 :UInt32 = 65536;         # one argument or result above this travels as an object (PAY-1)
  payloadFrameBytes @1 :UInt64 = 67108864; # one payload frame (FRM-5)
  batchTasks @2 :UInt32 = 65536;          # tasks in one batch (BAT-4)
  envelopeBytes @3 :UInt32 = 4194304;     # one envelope (FRM-4)
}

struct Timers @0xf3e1898d267e68b3 {
  # The dialer proposes, the server decides in Welcome. Peers work from 50 ms up. (LIV-1)
  heartbeatSeconds @0 :Float64 = 2;  # silence after which the dialer sends a Ping
  leaseSeconds @1 :Float64 = 60;     # silence after which a peer is lost
}

struct Software @0xacfddf9333970fc1 {
  # Only for people and logs: behaviour must never depend on it. (HSK-8)
  name @0 :Text;      # "scaler-client"
  version @1 :Text;   # "0.1.0"
  language @2 :Text;  # "Python 3.11.7": what a worker can read of it is said by WorkerOffer.codeTags
  host @3 :Text;
  processId @4 :UInt64;
}

struct Welcome @0xb49f331d91d049ac {
  version @0 :UInt16;          # the version of this session
  serverId @1 :Data;           # 16 bytes, random for each life of the server
  incarnation @2 :UInt64;      # of the server: another value than before means it remembers nothing
  sessionId @3 :UInt64;        # names this session for a later Resume; never zero
  resumed @4 :Bool;            # true: seq goes on and both sides re-send from receivedSeq; false: all starts anew
  receivedSeq @5 :UInt64;      # what the server has of the dialer, when resumed
  features @6 :List(Text);     # the features both sides named
  limits @7 :Limits;           # the smaller of both sides' values
  timers @8 :Timers;           # in force for both sides
  software @9 :Software;

  storageAddress @10 :Text;
  # Scheduler only: where objects live, as seen by this dialer. Empty: on the host that was dialed, at the scheduler's
  # port plus one, or the scheduler does not know yet; the dialer tries there in both cases. (HSK-18)

  monitorAddress @11 :Text;    # scheduler only
  isProtected @12 :Bool;       # scheduler only: a client's Shutdown will be refused

  objectRetentionSeconds @13 :Float64;
  # Scheduler only, for workers: how long to keep functions and serializers that no task uses. Zero, the default, leaves
  # it to the worker, which may always keep them for less. (WRK-22)

  directory @14 :import "objects.capnp".MemoryFile;
  # Storage only, where the feature `memfd` is in force: in which memory files its objects lie, so that who reads one
  # need not ask. Empty name: it has none. (STO-25)

  ownerGrant @15 :Data;
  # Scheduler only, for clients, where there are keys: proves to the storage that the dialer may name its own peerId as
  # owner. 16 or 32 bytes, or 49 for a client inside a task of another user; opaque to clients, which put it into what
  # they send to the storage. Empty: the cluster has no keys, or its storage asks for none. (OWN-16, OWN-25, HSK-38)

  generation @16 :UInt64 = 0;
  # Scheduler only: higher than every generation that a dialer has told it, as far as it believes dialers. It says which
  # of two schedulers is the later one. (HSK-35, HSK-44)

  isStandby @17 :Bool;
  # Scheduler only: another scheduler of this cluster serves at present, and this one waits to follow on it. (SCH-80)
}

struct Reject @0x888fcc8c4c4e1536 {
  code @0 :UInt16;        # VERSION_MISMATCH, BAD_ROLE, BAD_IDENTITY, UNAUTHORIZED, SESSION_REPLACED, SHUTTING_DOWN
  versionMin @1 :UInt16;  # the server's range, so that the dialer can say both
  versionMax @2 :UInt16;
  text @3 :Text;          # one sentence for people that names both sides and what to do

  isStandby @4 :Bool;
  # Scheduler only: another scheduler of this cluster serves at present, and this one waits to follow on it. `code` is
  # then OVERLOADED: a dialer that has only this address dials again later. (HSK-40)

  retrySeconds @5 :Float64 = 0;
  # With isStandby: the longest pause between two dials that this server can stand. It grows with the number of those
  # that dial. Zero: the dialer's own pauses. (HSK-41)
}

struct Bye @0xa1b0669f177a460f {
  # An ordered end. The sender has nothing more to say; the session is over when this is received. (LIV-8)
  code @0 :UInt16;  # zero: all is well
  text @1 :Text;
}

struct Ping @0xb41e3c44f4a311b4 {
  nonce @0 :UInt64;  # echoed in the Pong
}

struct Pong @0x932954ef578c2bb4 {
  # Comes after every message to this peer that its earlier messages caused: a fence. (LIV-4)
  nonce @0 :UInt64;
}

struct Error @0xab4fe34049342764 {
  # A message is refused, or all further ones are. One that is not fatal is sequenced and kept for a resume; one that is
  # has seq 0, and so has every Error to a socket without a session. Never answered with another Error. (ERR-9, ERR-4)

  code @0 :UInt16;    # spec chapter 11; unknown codes are treated by `fatal` alone
  refSeq @1 :UInt64;  # the message complained of; zero when it had none, or none that could be read

  fatal @2 :Bool;
  # True: nothing more is accepted from this socket (ERR-6). After NO_SESSION and SEQUENCE_GAP the dialer redials with
  # resume and the session goes on; after LEASE_EXPIRED it redials with resume and is given a new session; after all
  # other codes the session is over.

  text @3 :Text;      # one sentence that says what to do
  clause @4 :Text;    # the clause that was broken, such as "BAT-2"
}
