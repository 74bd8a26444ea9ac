@0x96c88ae0ba988e0d;
# The envelope: frame 0 of every message. See spec/01-framing.md (FRM) and spec/03-session.md (SES).
#
# A message is this envelope, in Cap'n Proto's standard (unpacked) encoding, followed by exactly `payloadFrames`
# opaque frames. Bytes that belong to users (arguments, results, object values) only ever travel in those frames:
# the envelope says how to cut them. Members of the union are never re-used; a retired one stays as `obsolete…`.

using Session = import "session.capnp";
using Tasks = import "tasks.capnp";
using Workers = import "workers.capnp";
using Objects = import "objects.capnp";
using Monitor = import "monitor.capnp";
using Managers = import "managers.capnp";

struct Envelope @0xc5d3d303d1e25cc7 {
  seq @0 :UInt64;
  # Position of this message in the session, counted by its sender from 1, rising by one. Zero marks a message outside
  # the sequence: Hello, Welcome, Reject, Acknowledge, and a fatal Error. An Error that is not fatal has its place like any
  # message, because its receiver waits for it. (SES-1, ERR-9)

  ack @1 :UInt64;
  # The highest `seq` the sender has received without a gap in this session. The receiver may forget what it kept for
  # re-sending up to here. Zero: nothing yet. (SES-3)

  payloadFrames @2 :UInt16;
  # How many frames follow this one. Any other number is BAD_FRAMING. (FRM-2)

  message :union {
    # A receiver that does not know a member answers Error UNKNOWN_MESSAGE with this `seq`, and goes on. (ERR-2)

    hello @3 :Session.Hello;                 # dialer -> server
    welcome @4 :Session.Welcome;             # server -> dialer
    reject @5 :Session.Reject;               # server -> dialer
    bye @6 :Session.Bye;                     # either
    ping @7 :Session.Ping;                   # either
    pong @8 :Session.Pong;                   # either
    acknowledge @9 :Void;                    # either: only carries `ack`
    error @10 :Session.Error;                # either

    submit @11 :Tasks.TaskBatch;             # client -> scheduler
    dispatch @12 :Tasks.TaskBatch;           # scheduler -> worker
    results @13 :Tasks.ResultBatch;          # worker -> scheduler -> client
    cancel @14 :Tasks.Cancel;                # client -> scheduler -> worker
    cancelReply @15 :Tasks.CancelReply;      # worker -> scheduler -> client
    taskLog @16 :Tasks.TaskLog;              # worker -> scheduler -> client
    shutdown @17 :Tasks.Shutdown;            # client -> scheduler -> worker
    shutdownReply @18 :Tasks.ShutdownReply;  # scheduler -> client

    credit @19 :Workers.Credit;              # worker -> scheduler
    recall @20 :Workers.Recall;              # scheduler -> worker
    returned @21 :Workers.Returned;          # worker -> scheduler
    workerStatus @22 :Workers.WorkerStatus;  # worker -> scheduler

    put @23 :Objects.Put;                    # any -> storage, 1 payload frame
    get @24 :Objects.Get;                    # any -> storage
    value @25 :Objects.Value;                # storage -> any, 1 payload frame
    release @26 :Objects.Release;            # any -> storage
    releaseOwner @27 :Objects.ReleaseOwner;  # scheduler -> storage
    duplicate @28 :Objects.Duplicate;        # any -> storage
    objectReply @29 :Objects.ObjectReply;    # storage -> any
    storageStatusRequest @30 :Objects.StorageStatusRequest;  # any -> storage
    storageStatus @31 :Objects.StorageStatus;                # storage -> any

    snapshotRequest @32 :Monitor.SnapshotRequest;  # monitor -> scheduler
    clusterStatus @33 :Monitor.ClusterStatus;      # scheduler -> monitor

    managerStatus @34 :Managers.ManagerStatus;     # manager -> scheduler
    managerTarget @35 :Managers.ManagerTarget;     # scheduler -> manager

    putShared @36 :Objects.PutShared;              # any -> storage, feature memfd
    sharedValue @37 :Objects.SharedValue;          # storage -> any, feature memfd

    explain @38 :Tasks.Explain;                    # client -> scheduler
    explanation @39 :Tasks.Explanation;            # scheduler -> client

    nameFunctions @40 :Monitor.NameFunctions;      # client -> scheduler
    sampleTasks @41 :Workers.SampleTasks;          # scheduler -> worker, feature samples
    taskSamples @42 :Monitor.TaskSamples;          # scheduler -> monitor
    graphShapes @43 :Monitor.GraphShapes;          # scheduler -> monitor

    dumpRequest @44 :Monitor.DumpRequest;          # monitor -> scheduler
    dumpPart @45 :Monitor.DumpPart;                # scheduler -> monitor
    watch @46 :Monitor.Watch;                      # monitor -> scheduler
    keptResults @47 :Tasks.KeptResults;            # scheduler -> client -> scheduler, feature kept-results
    liveOwners @48 :Objects.LiveOwners;            # scheduler -> storage, feature live-owners
    holding @49 :Workers.Holding;                  # worker -> scheduler, feature present-held
    delivered @50 :Workers.Delivered;              # scheduler -> worker, feature present-held
    stackRequest @51 :Tasks.StackRequest;          # client -> scheduler -> worker, feature stacks
    stackReply @52 :Tasks.StackReply;              # worker -> scheduler -> client, feature stacks
    sampleStacks @53 :Workers.SampleStacks;        # scheduler -> worker, feature stack-samples
    stackSamples @54 :Monitor.StackSamples;        # scheduler -> monitor
    control @55 :Monitor.Control;                  # monitor -> scheduler
    controlReply @56 :Monitor.ControlReply;        # scheduler -> monitor
    graphRequest @57 :Monitor.GraphRequest;        # monitor -> scheduler
    graphPart @58 :Monitor.GraphPart;              # scheduler -> monitor
  }
}
