// A client: calls of functions by name, with bytes as arguments. Spec chapters 05 (CLI), 09 (CAN) and 13 (OWN).
#pragma once

#include <deque>
#include <map>

#include "scaler/batch.h"
#include "scaler/storage.h"
#include "scaler/submission.h"

namespace scaler {

struct Call {
    std::string function;
    std::vector<Bytes> arguments;
    CallOptions options;
};

// How a task ended. Every task ends exactly once, whatever happens to the scheduler.
struct Outcome {
    Id task;
    uint8_t status;
    Bytes value;      // of a success
    Failure failure;  // of everything else
};
struct CancelAnswer {
    Id task;
    uint8_t outcome;
};
struct LogText {
    Id task;
    uint16_t stream;
    std::string text;
};
struct ShutdownAnswer {
    bool isAccepted;
    std::string text;
};
struct Connected {
    Id serverId;
};
// What is unfinished goes on when the client connects again, unless `isOver`: then it has failed.
struct Disconnected {
    uint16_t code;
    std::string text;
    bool isOver;
};
using Happening = std::variant<Outcome, CancelAnswer, LogText, ShutdownAnswer, Connected, Disconnected>;

class Client {
public:
    struct Options {
        Standing standing;
        PassOrNone pass;
        Seconds heartbeat = 2;
        Seconds lease = 60;
        Seconds giveUp = 60;  // without a session for this long, what is unfinished fails (CLI-12)
    };
    Client(zmq::context_t& context, Options options);

    void connect(const std::string& schedulerAddress);
    Id submit(Call call);
    void cancel(const std::vector<Id>& tasks, double graceSeconds);
    void shutdownCluster(double graceSeconds);
    void leave();

    std::vector<Happening> step();
    std::vector<Pollable*> pollables() { return {&link_, &store_}; }
    Seconds nextDeadline() const;
    size_t unfinishedCount() const { return tasks_.size(); }

private:
    struct Task {
        Call call;
        uint64_t number;  // in the order of submitting
        Id function;
        std::vector<Id> objects;  // of the arguments that are too large to ride along; empty where inline
        uint64_t submitSeq = 0;   // zero: the scheduler has not heard of it
        std::optional<Result> result;  // SUCCESS whose value is being fetched
    };

    void onOpened();
    void onLost(const Lost& lost);
    void onMessage(const Message& message);
    void onResults(const Message& message);
    void onCancelReply(CancelReply::Reader reply);
    void onError(Error::Reader error);
    void fetch(Result result);
    void end(const Id& task, Outcome outcome);
    void fail(const Id& task, uint16_t code, const std::string& text);
    void failAll(uint16_t code, const std::string& text);
    void submitUnsent();
    void sendSubmission(Submission& submission, const std::vector<Id>& tasks);
    std::vector<Argument> argumentsOf(const Id& id, Task& task);
    void putArgument(const Id& task, const Id& object, const Bytes& value);
    void putFunction(const std::string& name);
    void releaseIdleFunctions();
    void putAgain();

    Options options_;
    Link link_;
    ObjectStore store_;
    Owner self_;  // the name of our session, and its grant
    // Of the last session whose loss was noticed (CLI-21, CLI-22), and the highest generation that was told (HSK-36).
    Id lastServerId_;
    uint64_t generation_ = 0;
    Bytes formerName_;
    std::map<Id, Task> tasks_;  // the unfinished ones
    uint64_t lastNumber_ = 0;
    std::vector<Id> unsent_;    // in the order of submitting; some may have ended since
    std::map<std::string, uint64_t> functions_;  // whose objects are in storage in our present name: when used last
    uint64_t lastUse_ = 0;
    unsigned endsUntilRelease_ = 1;  // of idle functions
    std::vector<Happening> happenings_;
    Seconds withoutSessionSince_ = 0;
    bool mustBeginAnew_ = false;
    bool hasStoppedCluster_ = false;
};

}  // namespace scaler
