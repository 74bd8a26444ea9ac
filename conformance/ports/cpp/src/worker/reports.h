// What a worker tells the scheduler of its tasks, gathered while it is busy and sent at the end of each turn.
#pragma once

#include <vector>

#include "worker/presenting.h"

namespace scaler {

class Reports {
public:
    void end(KeptEnd end);
    void answerCancel(const Id& task, uint8_t outcome);
    void giveBack(const std::vector<Id>& tasks, bool isRecallAnswer);
    // The results stay in `ends`, as long as the scheduler has not told that they are delivered.
    void send(Link& link, KeptEnds& ends);
    void drop();
    // The session is lost: what has ended is kept for the next one, unless it was canceled; the rest was for that session.
    void keepResults();
    // Of a task that is held again only that counts, and of two results the later attempt (WRK-36). What is left.
    const std::vector<KeptEnd>& dropSuperseded(const std::unordered_map<Id, uint64_t>& held);

private:
    struct Returning {
        std::vector<Id> tasks;
        bool isRecallAnswer;
    };
    std::vector<KeptEnd> ends_;
    std::vector<std::pair<Id, uint8_t>> answers_;
    std::vector<Returning> returning_;
};

// Resources of this machine and of a process, for WorkerStatus.
uint64_t residentBytes(int processId);
uint64_t freeHostBytes();
double processorSecondsOfAgent();
// For people: its state, its processor time and its memory.
std::string describeProcess(int processId);

}  // namespace scaler
