@0xb52c32b5bb02cfe9;
# What only workers and the scheduler say to each other. Spec chapters 07 (WRK) and 10 (CRD).

struct Credit @0x83e64db34d0702e5 {
  # How many unfinished tasks the scheduler may have given this worker, at most, at any time. Absolute, not a
  # difference: the last one counts. The worker lowers it for long tasks and raises it for tiny ones. A limit below
  # what is held already takes nothing back. (CRD-1, CRD-2)
  limit @0 :UInt32;
  nestedReserve @1 :UInt32;  # places beyond `limit` for tasks with depth > 0, so that nesting never starves (CRD-4)
}

struct Recall @0xbd67ac35cf3d332e {
  # Give back those of these tasks that no processor has begun; another worker is idle. (SCH-20)
  ids @0 :Data;  # 16·n
}

struct Returned @0xbd332916492f3aa5 {
  # Tasks the worker will not run: the answer to Recall (those it could give back, perhaps none), or unasked when it
  # drains. They count as held until this arrives; their attempt is not used up. (WRK-9)
  ids @0 :Data;          # 16·n, may be empty
  isRecallAnswer @1 :Bool = true;
}

struct WorkerStatus @0xeeabb6285e2035e7 {
  # Sent every heartbeat. For people and the monitor (WRK-12). Scheduling depends on one thing only: tasks that it reports
  # blocked lend the amounts they take to their descendants (SCH-47).
  agentCpu @0 :Float32;       # share of one core since the last status, 0.5 is half a core
  agentRssBytes @1 :UInt64;
  hostFreeBytes @2 :UInt64;
  queuedCount @3 :UInt32;     # tasks held and not begun
  blockedCount @4 :UInt32;    # tasks that wait for children and lend their place
  processors @5 :List(ProcessorStatus);
  lagSeconds @6 :Float32;     # from a Ping to its Pong, when last measured; zero: not yet
  endedCount @7 :UInt64;
  # Tasks that have ended here since the WorkerStatus before, while SampleTasks asks for samples; else zero. (MON-11)

  samples @8 :Data;
  # 56·n: some of them, in the order in which they ended. Each: task id (16), function id (16), u64 microseconds from its
  # begin until this message was made, u64 microseconds it ran, u32 process id of its processor, u32 status as in
  # ResultBatch. (MON-10, MON-11)

  recycledCount @9 :UInt64 = 0;
  # Processors that this worker has replaced between two tasks, since it was started: after so many tasks, or because of
  # the memory that they kept. (WRK-44, WRK-45)

  limitedCount @10 :UInt64 = 0;
  # Tasks that this worker has ended with MEMORY_LIMIT, since it was started. (WRK-46)

  functions @11 :Data;
  # 32·n: the functions of tasks that this worker had begun and that have ended since the WorkerStatus before. Each: function
  # id (16), u64 microseconds that these tasks ran, u64 microseconds of processor time that was measured for them. Id zero:
  # all functions that are not named. (WRK-54, WRK-55)

  functionBuckets @12 :Data;
  # 8·m: how many of these tasks ran for how long. Each: u16 row of `functions`, counted from 0, u16 bucket, u32 tasks.
  # Bucket 2i has those that ran for at most 100·2^i microseconds, and bucket 2i + 1 those of at most 150·2^i, unless they
  # are in a bucket before; the last one, 60, has all longer ones. (WRK-54)

  stackSamples @13 :Data;
  # Where the time of tasks went since the WorkerStatus before, while SampleStacks asks for it; else empty. One tree of calls
  # after another, each: function id of the tasks (16; zero: all functions that are left out), u32 number of bytes that follow
  # in this tree, u16 number of frames f, u16 number of nodes n. Then f frames, each: u32 line of the definition, u8 length
  # of the name, u8 length of the file's base name, both in UTF-8. Then n nodes, each: u16 parent (0: the function itself;
  # i: the i-th node, which comes before), u16 frame, counted from 0, u32 microseconds in this call itself. A frame
  # "(other)" without a file is all calls that are left out there. (WRK-61, WRK-63)

  hostMemoryBytes @14 :UInt64 = 0;
  # All memory of its host, of which `hostFreeBytes` are free; zero: not told. (WRK-64)

  trouble @15 :Text;
  # Why it takes no tasks at present, one line for people, such as that no process for tasks can be started; empty: it does,
  # or it drains. (WRK-65)
}

struct SampleTasks @0xdbb7eeb51d76a39b {
  # Scheduler -> worker with the feature `samples`: describe tasks that have ended. For the rest of the session, or until
  # the next SampleTasks. (MON-10)
  sampleLimit @0 :UInt32;  # most samples in one WorkerStatus; zero, as at the beginning: none, and nothing is counted
}

struct SampleStacks @0xe4f1c6a2d07b9358 {
  # Scheduler -> worker with the feature `stack-samples`: look now and then where running tasks are in their code, and tell
  # it in WorkerStatus. It replaces the SampleStacks before. (MON-45, WRK-61)
  seconds @0 :Float32;    # from now on; zero: not any more. So it ends by itself when the scheduler is gone
  byteLimit @1 :UInt32;   # of `stackSamples` in one WorkerStatus; what takes the least time is left out first
}

struct ProcessorStatus @0xcdfb3c6438647c82 {
  processId @0 :UInt32;
  state @1 :UInt16;    # 0 starting, 1 idle, 2 running, 3 blocked, 4 stopping
  cpu @2 :Float32;
  rssBytes @3 :UInt64;
  taskId @4 :Data;     # 16 bytes when it runs or is blocked
  runningSeconds @5 :Float64;  # for how long that task has been running
}

struct Holding @0xa1d3f6b2907c4e58 {
  # Worker -> scheduler with the feature `present-held`: what a worker holds that comes from a predecessor of this
  # scheduler. Its first messages in the session, cut where limits ask for it. (WRK-35, WRK-36)

  ids @0 :Data;        # 16·n, n may be zero
  attempts @1 :Data;   # u16·n; empty: all 1
  states @2 :Data;     # u8·n; 0 QUEUED: not begun, 1 RUNNING: begun, 2 ENDED: its Results follow; empty: all 0
  clients @3 :Data;    # 16·n: header.client of each task, which owns what that task stores
  isLast @4 :Bool = true;  # false: another Holding follows

  grants @5 :Data;
  # One after another, the ownerGrant of each client that `clients` names, in the order in which they first appear there.
  # They prove that the worker was given tasks of these clients. Empty: the cluster has no keys. (WRK-42, SCH-59)

  grantSizes @6 :Data;
  # u8·m: how many bytes of `grants` are of each of them; m is the number of different clients. Empty with `grants`.

  workerCount @7 :UInt32 = 0;
  # As the last Delivered of the session before said; zero, the default: not known. A scheduler that has met as many
  # workers need not wait for more. Read from the last Holding. (HSK-37)
}

struct Delivered @0xc58e07d1b43a962f {
  # Scheduler -> worker with the feature `present-held`. The first one in a session follows the last Holding and lets the
  # worker begin what it holds. (SCH-64, SCH-71, WRK-38)

  resultsCount @0 :UInt64;
  # The first so many Results messages of this worker in this session are with their clients, or no client will ask
  # for them: the worker need not keep them. (SCH-72, WRK-40)

  workerCount @1 :UInt32;
  # How many workers with the feature `present-held` the scheduler has; zero while that changes. (HSK-37)
}
