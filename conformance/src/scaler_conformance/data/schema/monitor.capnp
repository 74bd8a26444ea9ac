@0xc2b5aef2d0a64b91;
# What the cluster does, for monitors. Spec chapter 14 (MON).
#
# A session in role monitor says Watch, and the scheduler publishes to it: ClusterStatus for the topic "status",
# TaskSamples for "tasks", GraphShapes for "graphs", TaskLog for "logs", StackSamples for "stacks" (MON-18). Each costs something only while it is
# watched. Sequence numbers are in the messages. A watcher that starts, or sees a gap, may ask for a snapshot.
#
# Ids of clients, workers and managers in what monitors are sent are display ids, and not their peer ids (MON-23).

using Session = import "session.capnp";
using Workers = import "workers.capnp";
using Objects = import "objects.capnp";

struct Watch @0xd9c1f0a47be35268 {
  # Monitor -> scheduler: publish these topics to me from now on, and no others. It is in force until the next Watch of
  # this session, or its end. (MON-18)
  topics @0 :List(Text);
  # "status", "tasks", "graphs", "logs", "stacks"; others mean nothing (MON-6). None: publish nothing any more.

  wantsHistory @1 :Bool = false;
  # With "tasks": send me first what you have kept of tasks and events of before. (MON-34)
}

struct SnapshotRequest @0xb72c2d2be6e0eb4f {
  requestId @0 :UInt64;
}

struct ClusterStatus @0xe1c3f5d34fb0d8f4 {
  requestId @0 :UInt64;       # of the SnapshotRequest, zero in what is published
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
  functionCounts @11 :List(Count);
  # Unfinished tasks by function id (hex), the most frequent ones. An empty name: all other unfinished tasks. (MON-14)
  clients @12 :List(ClientEntry);
  workers @13 :List(WorkerEntry);
  rejectedCount @14 :UInt64;        # messages refused: bad framing, bad batches, no session, wrong role
  intervalSeconds @15 :Float32;     # until the next publication; longer where one costs much (MON-9). Zero: unknown
  software @16 :Session.Software;   # of the scheduler
  schedulerAddress @17 :Text;       # where the scheduler listens, as it is bound
  storageAddress @18 :Text;
  isStorageConnected @19 :Bool;
  storage @20 :Objects.StorageStatus;  # the storage's last answer; all zero before the first
  functionNames @21 :List(FunctionName);  # of functionCounts, where they are known
  waitingClasses @22 :List(WaitingClass);  # what queued tasks wait for, most urgent first
  managers @23 :List(ManagerEntry);
  recalledCount @24 :UInt64;        # tasks that workers were asked to give back, since the start (SCH-20)
  returnedCount @25 :UInt64;        # tasks that they gave back
  watcherCount @26 :UInt32;         # sessions that watch
  leftOutCount @27 :UInt64;         # publications that a watcher did not get since the start, because it was slow (MON-20)

  standbyOf @28 :Text;
  # The address of the scheduler that serves, if this one is a standby of it; empty: this one serves. (MON-30)
  standbys @29 :List(Text);
  # Schedulers that have a session with this one, to follow on it: software and host, for people. (MON-30)
  isRecovering @30 :Bool;
  # This scheduler follows on another one, and holds tasks back until workers have presented theirs. (SCH-65, MON-29)
  recoverySeconds @31 :Float32;     # until then at most, while it is recovering
  expectedCount @32 :UInt32;        # workers that the scheduler before had; zero: unknown
  presentedCount @33 :UInt32;       # workers that have presented what they hold from there

  events @34 :List(ClusterEvent);
  # The last of them, the oldest first: in a publication all since the one before, or the last 1,000 of these. (MON-36)
  eventCount @35 :UInt64;           # events since the start; more than are listed, soon

  functions @36 :List(FunctionEntry);
  # What has become of all tasks since the start, by function: those with unfinished tasks first. (MON-38, MON-40)

  repeatCounts @37 :List(Count);
  # How often a task has begun another attempt since the start, by why: worker_lost, worker_left, processor_died, failed;
  # others may be added (MON-6). (MON-58)

  queuedBuckets @38 :Data;
  # u8·n, rising: those buckets of WorkerStatus.functionBuckets in which there are any of the times from the submission of a
  # task until a worker was given it. (MON-60)
  queuedBucketCounts @39 :Data;   # u64·n: how many. A task that was given to two workers counts twice
  queuedSeconds @40 :Float64;     # all these times added up

  users @41 :List(UserEntry);
  # What users have of what each user may have; of many users those that are nearest to a limit. Empty without keys. (MON-68)
  userTaskLimit @42 :UInt64;       # unfinished tasks that each user may have; zero: not known (LIM-35)
  userTaskBytesLimit @43 :UInt64;  # bytes of their arguments; zero: not known
}

struct UserEntry @0xd38f6a17c2b94e05 {
  # What one user has of what each user may have. (MON-68, MON-70)
  user @0 :Text;         # as in ClientEntry
  taskCount @1 :UInt64;  # unfinished; these two as LIM-35 counts them
  taskBytes @2 :UInt64;  # of their arguments
  objectBytes @3 :UInt64;
  # Of values in the storage, as LIM-36 counts them; zero if the storage has no quota. The limit is `userLimitBytes` of `storage`
}

struct FunctionEntry @0xc7d1e5a3928b4f06 {
  # Counts of all tasks of one function since the scheduler's start. (MON-38, LIM-26)
  functionId @0 :Data;            # empty: all functions that are not listed, together
  name @1 :Text;                  # as its client calls it, or empty; foreign text (MON-7)
  user @2 :Text;                  # of the client that submitted it first; as in ClientEntry
  submittedCount @3 :UInt64;
  dispatchedCount @4 :UInt64;     # with workers now, whether a processor has begun them or not
  successCount @5 :UInt64;        # ended: these five are as in `taskCounts`
  failedCount @6 :UInt64;
  canceledCount @7 :UInt64;
  workerLostCount @8 :UInt64;
  refusedCount @9 :UInt64;
  queuedSeconds @10 :Float64;
  # For so long its tasks have been neither with a worker nor ended, all added up. (MON-41)
  dispatchedSeconds @11 :Float64;
  # For so long they have been with workers, all added up. (MON-41)
  runSeconds @12 :Float64;        # they ran for so long, as workers tell with their WorkerStatus (MON-39)
  cpuSeconds @13 :Float64;        # processor time of that, where it was measured
  buckets @14 :Data;
  # u8·m, rising: those buckets of WorkerStatus.functionBuckets in which there are any runs. (MON-39)
  bucketCounts @15 :Data;         # u64·m: how many. A task that ran twice counts twice
}

struct ClusterEvent @0xe6f4a1b07c39d258 {
  # What happened to the cluster as a whole, for people. (MON-36)
  number @0 :UInt64;         # rises by one with each event of this scheduler, from 1
  ageSeconds @1 :Float64;    # since it happened, when the message was made
  kind @2 :Text;
  # worker_joined, worker_left, worker_lost, worker_draining, worker_trouble (it takes no tasks, WRK-65), processor_died
  # (with a task, or several within some time), manager_joined, manager_left, manager_trouble, scheduler_started, scheduler_restarted (peers of the scheduler before have come, SCH-65),
  # scheduler_recovered (its workers are awaited no longer), scheduler_took_over (from a standby), storage_connected, storage_lost, storage_trouble,
  # storage_spilling (values are moved to the disk), client_lost, limit_reached,
  # control (a monitor's Control was done, MON-52); others may be added (MON-6)
  subject @3 :Text;          # the name of the worker or manager, or the display id of a client; foreign text (MON-7)
  text @4 :Text;             # one line: why, and what followed; foreign text (MON-7)
  taskCount @5 :UInt64;      # tasks that run again because of it
}

struct FunctionName @0xe80ed69ae613dc12 {
  functionId @0 :Data;
  name @1 :Text;  # as its client calls it; foreign text (MON-7)
}

struct NameFunctions @0xd2f1fa34358b5149 {
  # Client -> scheduler: what people call these functions. Only for monitors. (MON-13)
  ids @0 :Data;          # 16·n
  names @1 :List(Text);  # n
}

struct WaitingClass @0xe9a3a8024d0d7fdd {
  # Queued tasks that are equally urgent and may go to the same workers.
  capabilities @0 :List(Session.Capability);
  priority @1 :Int32;
  depth @2 :UInt16;
  taskCount @3 :UInt64;
  ableCount @4 :UInt32;  # connected workers that could ever take one; zero: they wait for a worker that is not there
}

struct ManagerEntry @0xda53d073f28b6f61 {
  managerId @0 :Data;
  name @1 :Text;
  capabilities @2 :List(Session.Capability);
  workersPerUnit @3 :UInt32;
  targetCount @4 :UInt32;  # workers the scheduler wants from it now
  maxWorkers @5 :UInt32;
  startingCount @6 :UInt32;  # units, by state
  runningCount @7 :UInt32;
  stoppingCount @8 :UInt32;
  trouble @9 :Text;  # as in ManagerStatus
  user @10 :Text;    # as in ClientEntry
}

struct TaskSamples @0xaf4d6bc822af2e1e {
  # Topic "tasks": a sample of the tasks that ended since the last one. (MON-10, MON-11)
  sequence @0 :UInt64;
  serverId @1 :Data;
  uptimeSeconds @2 :Float64;
  blocks @3 :List(SampleBlock);
  functionNames @4 :List(FunctionName);  # of the functions in `blocks` and `failures`, where they are known

  failures @5 :List(TaskFailure);  # tasks that ended since the last one, and not well (MON-32)
  failedCount @6 :UInt64;          # how many they were; more than `failures` has when they were very many
  isHistory @7 :Bool = false;      # what was kept of before, for this monitor alone (MON-34)
  events @8 :List(ClusterEvent);   # with isHistory: all that are kept, the oldest first
}

struct TaskFailure @0xb3c85e1f0d6a9274 {
  # In TaskSamples, a task that ended neither well nor because it was canceled, nor because another one failed. (MON-32,
  # MON-33) As `record` of an Explanation, also a task that has ended well, or has not ended. (MON-55)
  taskId @0 :Data;
  functionId @1 :Data;
  clientId @2 :Data;              # display id (MON-23)
  user @3 :Text;                  # as in ClientEntry
  worker @4 :Text;                # the name of the one that ran it last; empty: none did
  status @5 :UInt16;              # as in ResultBatch
  attempt @6 :UInt16;             # which run of it this was, from 1
  code @7 :UInt16;                # of its TaskError, as are the next three
  typeName @8 :Text;              # at most 200 characters
  firstLine @9 :Text;             # of the message: at most 300 characters, without line breaks
  text @10 :Text;                 # the traceback, where the scheduler's operator lets watchers see it and it is kept
  accounts @11 :List(Text);       # what became of earlier attempts: worker and reason
  ageSeconds @12 :Float64;        # since it ended, when the message was made
  durationSeconds @13 :Float64;   # it ran for so long; these three are zero where nothing was measured
  cpuSeconds @14 :Float64;
  memoryBytes @15 :UInt64;        # its peak above the start
  argumentBytes @16 :UInt64;      # of its inline arguments
  graphId @17 :Data;              # 16 bytes, or empty
  parentTask @18 :Data;           # 16 bytes, or empty
  key @19 :Text;                  # what its client's program calls it, or empty; foreign text (MON-7, MON-61)

  # How long ago, when the message was made; zero: it has not happened, or the scheduler does not know when. (MON-62)
  submittedSeconds @20 :Float64;  # since the scheduler accepted its Submit
  readySeconds @21 :Float64;      # since the last task that it waited for ended; zero: it waited for none
  dispatchedSeconds @22 :Float64; # since it was given to the worker that has it, or had it last

  # Of a task that has ended well. (MON-66)
  resultBytes @23 :UInt64;        # of its value, if that is not stored; zero: it is, or the scheduler does not know
  isResultStored @24 :Bool;       # its value is an object in the storage
}

struct SampleBlock @0xfd53ef3a6255b525 {
  # What one worker told in one WorkerStatus.
  peerId @0 :Data;
  name @1 :Text;
  ageSeconds @2 :Float32;   # since the WorkerStatus came
  endedCount @3 :UInt64;    # as in the WorkerStatus: tasks, of which `samples` describes some
  samples @4 :Data;         # as in the WorkerStatus
}

struct StackSamples @0xa9d2e7f4501c8b36 {
  # Topic "stacks": where the time of running tasks went since the last one. (MON-45, MON-46)
  sequence @0 :UInt64;
  serverId @1 :Data;
  uptimeSeconds @2 :Float64;
  blocks @3 :List(StackBlock);
  functionNames @4 :List(FunctionName);  # of the functions in `blocks`, where they are known
  isHidden @5 :Bool;      # the operator of the scheduler does not let monitors see texts: no worker is asked (MON-47)
  sampledCount @6 :UInt32;
  # Workers that are asked at present. When there are very many workers, some are asked at a time, in turn. (LIM-29)
  ableCount @7 :UInt32;   # workers that could be asked: their sessions have the feature `stack-samples`
  workerCount @8 :UInt32; # all workers
}

struct StackBlock @0xc0b5e83a1f6d2974 {
  # What one worker told in one WorkerStatus.
  peerId @0 :Data;
  name @1 :Text;
  ageSeconds @2 :Float32;    # since the WorkerStatus came
  stackSamples @3 :Data;     # as in the WorkerStatus; names in it are foreign text (MON-7)
}

struct GraphShapes @0x8e58b9a8093269e3 {
  # Topic "graphs": those that run. (MON-12)
  sequence @0 :UInt64;
  serverId @1 :Data;
  graphs @2 :List(GraphShape);
}

struct GraphShape @0xb1b0ee72f500e5f0 {
  graphId @0 :Data;
  clientId @1 :Data;
  taskCount @2 :UInt64;         # all tasks known of it; more than are listed when it is large
  unfinishedCount @3 :UInt64;
  ids @4 :Data;                 # 16·n: some of its tasks
  states @5 :Data;              # u8·n: 0 waiting, 1 queued, 2 dispatched, 3 canceling, 4 ended
  functions @6 :Data;           # 16·n
  dependencyCounts @7 :Data;    # u16·n; of tasks that are listed
  dependencies @8 :Data;        # u16·Σ: their indexes in `ids`
  functionNames @9 :List(FunctionName);

  outcomes @10 :Data;
  # u8·n: how each of the tasks that have ended did, by its status in ResultBatch; 0 for others. Empty: all 0. (MON-35)
  failedCount @11 :UInt64;    # of all tasks of the graph: ended, and neither well nor canceled
  canceledCount @12 :UInt64;

  keySizes @13 :Data;         # u8·n: bytes of each task's key in `keys`, 0 for a task without one; empty: all 0. (MON-61)
  keys @14 :Data;             # one after another, as their client has sent them; foreign text (MON-7)
}

struct GraphRequest @0xd4b8b06f2a9c6e13 {
  # Monitor -> scheduler: describe all tasks of this graph to me, a part at a time. (MON-63)
  requestId @0 :UInt64;
  graphId @1 :Data;
  clientId @2 :Data;    # the display id of its client, as in GraphShape
  first @3 :UInt32;     # place of the first task of the part, counted from 0 in the order of submission
  wantsShape @4 :Bool;  # false: the states alone
}

struct GraphPart @0xf0a7e5d1943b2c86 {
  requestId @0 :UInt64;
  first @1 :UInt32;     # as in the request
  order @2 :UInt64;
  # Chosen by the scheduler. Places of parts with the same `order` are of one list, which only grows; 0: the graph is not
  # known. A monitor that is sent another one asks for the graph anew. (MON-64)
  graph @3 :GraphShape;
  # `ids` and what goes with them are of consecutive tasks, as many as the scheduler describes at once; empty: there is no task
  # at this place. `dependencies` are places in the whole list. Without wantsShape it has `states` and `outcomes`, and no other
  # columns. (MON-63, LIM-33)
  describedCount @4 :UInt32;
  # Tasks in the list, of which parts can be asked for. The graph may have more: `taskCount`.
}

struct DumpRequest @0xe82a45a95c937813 {
  # Monitor -> scheduler: give me a part of your state, for a person who looks for a mistake in you. (MON-16)
  requestId @0 :UInt64;
  part @1 :UInt32;  # 0: begin a dump, give me its first part; n: the n-th further part of the dump that I began last
}

struct DumpPart @0xde380dbd9ed497d4 {
  # The parts in order are one text. What it says is the scheduler's own business, and no protocol. (MON-17)
  requestId @0 :UInt64;
  part @1 :UInt32;       # as it was asked for
  partCount @2 :UInt32;  # how many there are, at least 1. Zero: that dump is not there any more, begin again with 0
  data @3 :Data;         # at most 60,000 bytes
}

struct Control @0xd1c46b0f92a83e57 {
  # Monitor -> scheduler: what a person who watches wants done. (MON-49)
  requestId @0 :UInt64;
  action @1 :UInt16;
  # 1 CANCEL_TASK: end this task (MON-50); 2 CANCEL_CLIENT: end all tasks that this client has now (MON-50);
  # 3 DRAIN_WORKER: let this worker finish what it runs, and leave (MON-51). Others are answered UNKNOWN.
  subject @2 :Data;
  # 16 bytes: the id of the task, or the display id of the client or worker (MON-23)
  graceSeconds @3 :Float64 = 1;
  # What is running has so long to end. Then it is stopped.
}

struct ControlReply @0xb83fe5a17c60d249 {
  requestId @0 :UInt64;
  outcome @1 :UInt16;
  # 0 DONE: it has begun, and what comes of it shows in what is watched; 1 NOT_ALLOWED: by the operator of the scheduler;
  # 2 NO_OPERATOR: the ticket of this monitor is not an operator's; 3 UNKNOWN: there is no such action, or no such
  # unfinished task, client or worker. Only with DONE has anything been done. (MON-49)
  taskCount @2 :UInt64;
  # DONE: unfinished tasks that it concerns now. A worker's are those that it holds.
}

struct Count @0x9a7e1d3c5b2f4e60 {
  name @0 :Text;
  value @1 :UInt64;
}

struct ClientEntry @0xf08e7a6b5c4d3e21 {
  peerId @0 :Data;
  software @1 :Session.Software;
  taskCount @2 :UInt64;  # unfinished
  # Of its ticket, or of its account on the local lane; of a client in a task that of its program; empty without keys. (MON-25)
  user @3 :Text;
  objectCount @4 :UInt64;  # objects that it owns, by the storage's last answer about it; zero before the first (MON-27)
  objectBytes @5 :UInt64;  # of their values
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
  unitId @10 :Text;          # of the manager that started it, or empty
  managerId @11 :Data;
  user @12 :Text;            # as in ClientEntry
  stillSeconds @13 :Float32; # it has tasks, and has ended none for so long; zero: it has none (MON-67)
}
