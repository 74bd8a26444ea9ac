@0xd7a1c4be93f2605b;
# What only worker managers and the scheduler say to each other. Spec chapter 19 (MGR).
#
# A worker manager starts and stops workers somewhere: processes on its machine, jobs of a grid, containers. It starts
# them in units, of one worker or more. The scheduler tells it how many workers it wants, as an absolute number, and
# which units may end.

struct ManagerStatus @0xe2b85f3790ad146c {
  # What the manager can do and has, in full: after its Welcome, and after each change. (MGR-3)
  targetNumber @0 :UInt64;   # of the last ManagerTarget it acts on; zero: none in this session
  maxWorkers @1 :UInt32;     # it can have no more workers than this at once; may change
  units @2 :List(Unit);      # all and only those it has started and that have not ended
  trouble @3 :Text;          # why it cannot start units at the moment, for people; empty: it can (MGR-9)
}

struct Unit @0xc61d92ab8e40f753 {
  unitId @0 :Text;        # its workers have it in their Hello (MGR-8)
  state @1 :UInt16;       # 1 starting, 2 running, 3 stopping (MGR-10)
  place @2 :Text;         # for people: a process id, the id of a job
  workerNames @3 :List(Text);  # names of its workers, when they cannot tell their unit themselves (MGR-17)
}

struct ManagerTarget @0x8f57e03ac9d1b264 {
  # How many workers the scheduler wants from this manager. Absolute: the last one counts. (MGR-4)
  number @0 :UInt64;       # rises with each target of a session, from 1
  workerCount @1 :UInt32;  # of all units together
  stop @2 :List(Text);     # ids of units that may end now: their workers hold nothing and get nothing any more (MGR-6)
}
