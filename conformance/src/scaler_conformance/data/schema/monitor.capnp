@0xc2b5aef2d0a64b91;
# What the cluster does, for those who watch. Spec chapter 14 (MON).
#
# On the PUB socket a message is frame 0: topic ("status"), frame 1: envelope with seq 0. The sequence number is in
# ClusterStatus. A watcher that starts, or sees a gap, may ask the scheduler's ROUTER for a snapshot, as role monitor.

using Session = import "session.capnp";
using Workers = import "workers.capnp";

struct SnapshotRequest @0xb72c2d2be6e0eb4f {
  requestId @0 :UInt64;
}

struct ClusterStatus @0xe1c3f5d34fb0d8f4 {
  requestId @0 :UInt64;       # of the SnapshotRequest, zero on PUB
  sequence @1 :UInt64;        # rises by one with each publication; a gap means some were lost (MON-2)
  serverId @2 :Data;
  uptimeSeconds @3 :Float64;
  cpu @4 :Float32;            # share of one core since the last publication
  rssBytes @5 :UInt64;
  hostFreeBytes @6 :UInt64;
  objectCount @7 :UInt64;
  taskCounts @8 :List(Count);
  # By state. Unfinished: waiting, queued, dispatched, canceling. Ended since the start: success, failed, canceled,
  # worker_lost, refused. Names that a watcher does not know are to be ignored. (MON-5, MON-6)
  sentCounts @9 :List(Count);       # messages by kind
  receivedCounts @10 :List(Count);
  functionCounts @11 :List(Count);  # unfinished tasks by function id (hex)
  clients @12 :List(ClientEntry);
  workers @13 :List(WorkerEntry);
  rejectedCount @14 :UInt64;        # messages refused: bad framing, bad batches, no session, wrong role
}

struct Count @0x9a7e1d3c5b2f4e60 {
  name @0 :Text;
  value @1 :UInt64;
}

struct ClientEntry @0xf08e7a6b5c4d3e21 {
  peerId @0 :Data;
  software @1 :Session.Software;
  taskCount @2 :UInt64;  # unfinished
}

struct WorkerEntry @0xa3c5e7f9b1d2c4e6 {
  peerId @0 :Data;
  name @1 :Text;
  software @2 :Session.Software;
  capabilities @3 :List(Session.Capability);
  creditLimit @4 :UInt32;
  heldCount @5 :UInt32;      # tasks given and not yet ended
  completedCount @6 :UInt64;
  lagSeconds @7 :Float32;    # last round trip of a Ping
  silentSeconds @8 :Float32; # since it was last heard
  status @9 :Workers.WorkerStatus;
}
