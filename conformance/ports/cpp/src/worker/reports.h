// What a worker tells the scheduler of its tasks, gathered while it is busy and sent at the end of each turn.
#pragma once

#include <vector>

#include "scaler/batch.h"
#include "scaler/link.h"

namespace scaler {

class Reports {
public:
    void end(Result result, bool isProfiled);
    void answerCancel(const Id& task, uint8_t outcome);
    void giveBack(const std::vector<Id>& tasks, bool isRecallAnswer);
    void send(Link& link);
    void drop();

private:
    struct Returning {
        std::vector<Id> tasks;
        bool isRecallAnswer;
    };
    std::vector<Result> results_;
    bool hasProfiles_ = false;
    std::vector<std::pair<Id, uint8_t>> answers_;
    std::vector<Returning> returning_;
};

// Resources of this machine and of a process, for WorkerStatus.
uint64_t residentBytes(int processId);
uint64_t freeHostBytes();
double processorSecondsOfAgent();

}  // namespace scaler
