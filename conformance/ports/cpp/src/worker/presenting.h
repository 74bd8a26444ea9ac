// What a worker keeps when its scheduler is lost, and how it presents that to the next one. Spec chapter 07, "Losing the
// scheduler" (feature `present-held`).
#pragma once

#include <deque>
#include <unordered_map>

#include "scaler/batch.h"
#include "scaler/link.h"
#include "scaler/storage.h"

namespace scaler {

// How a task has ended, and in whose name it ran.
struct KeptEnd {
    Result result;
    Owner owner;
    bool isProfiled = false;
};

// The Results messages of a session that no Delivered has counted yet (WRK-40). Bounded: what falls out is run again if
// the scheduler dies before the client has it.
class KeptEnds {
public:
    void beginSession(bool isKeeping);
    // The rows of the Results that were just sent.
    void keep(std::vector<KeptEnd> rows);
    void delivered(uint64_t resultsCount);
    // Those of the session that is lost. Canceled tasks are not among them (WRK-36).
    std::vector<KeptEnd> takeAll();
    void drop();

private:
    void dropFirst();

    std::deque<std::vector<KeptEnd>> messages_;
    uint64_t firstNumber_ = 1;  // of the Results that `messages_` begins with; the first of a session has 1
    size_t taskCount_ = 0, bytes_ = 0;
    bool isKeeping_ = false;
};

// A row of Holding.
struct Presented {
    enum State : uint8_t { queued = 0, running = 1, ended = 2 };
    Id task;
    uint16_t attempt;
    State state;
    Owner owner;
};

// As many messages as the limits ask for, at least one.
void sendHoldings(Link& link, const std::vector<Presented>& rows, uint32_t workerCount);

}  // namespace scaler
