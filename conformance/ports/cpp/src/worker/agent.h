// The agent of a worker: holds tasks, hands them to processors, reports how they end. Spec chapters 07 (WRK), 09 (CAN),
// 10 (CRD) and 13 (OWN). The table of states is that of spec/07-worker.md.
#pragma once

#include <set>

#include "scaler/storage.h"
#include "worker/chains.h"
#include "worker/presenting.h"
#include "worker/processors.h"
#include "worker/reports.h"
#include "worker/tally.h"

namespace scaler {

struct WorkerOptions {
    std::string scheduler;
    std::string storage;  // empty: where the scheduler says
    PassOrNone pass;
    std::string name = "worker";
    uint32_t places = 1;
    uint32_t blockedMax = 32;  // parents that wait for their children, beyond which nested tasks are refused
    std::vector<std::pair<std::string, int64_t>> capabilities;
    Seconds heartbeat = 2;
    Seconds lease = 60;
    Seconds present = 60;  // how long tasks are kept without a session (WRK-34)
    Seconds grace = 5;  // for running tasks, when the operator ends the worker
};

class Agent {
public:
    Agent(zmq::context_t& context, WorkerOptions options, int signalFd);

    // Until the cluster or the operator ends it. The exit code of the process.
    int run();

private:
    enum class State { fetching, ready, running, blocked, returning, storing };
    struct Held {
        explicit Held(Task arrived) : task(std::move(arrived)) {}
        Owner owner() const { return Owner{task.header->client, task.header->ownerGrant}; }

        Task task;
        State state = State::fetching;
        std::string function = {};
        int missing = 0;  // what it needs and is not here yet
        std::vector<uint64_t> followers = {};  // tasks here that await this one, by their numbers
        std::shared_ptr<Processor> processor = nullptr;
        Run run = {};
        uint64_t question = 0;  // of its processor to the storage, and not answered yet; zero: none
        Id storing = {};        // the object that it is about
        std::optional<ProcessorEvent> death = {};  // of its processor, while that object was on its way
        Seconds killAt = 0;  // zero: not to be killed
        bool isTimedOut = false;
        int cancels = 0;  // each of them is answered when the task has ended (CAN-8)
    };
    using Number = uint64_t;  // of a task here, in the order of arrival

    void introduce(Hello::Builder hello) const;
    void step();
    void onSignals();
    void onOpened();
    void present();
    void dropCanceled();
    bool mayBegin() const { return link_.session().isOpen() && !awaitsDelivered_; }
    void onLost(const Lost& lost);
    void onMessage(const Message& message);
    void onDispatch(const Message& message);
    void onError(Error::Reader error);
    void onCancel(Cancel::Reader cancel);
    void onRecall(Recall::Reader recall);
    void onDelivered(Delivered::Reader delivered);
    void onStackRequest(StackRequest::Reader request);
    void drain(Seconds grace);

    Number hold(Task task);
    void prepare(Number number);
    bool followAll(Number number);
    static void insertValue(Held& held, const Id& awaited, const Part& value);
    void awaitedHasSucceeded(Number follower, const Result& result);
    std::vector<Id> takeBack(std::vector<Number> numbers);
    void giveBack(std::vector<Number> numbers);
    void forget(Number number);
    void fetchFunction(Number number);
    void fetchPart(Number number, size_t index);
    void arrived(Number number);
    void beginAll();
    bool beginNext();
    void hand(Number number, Held& held);
    void goOn(Held& held);
    void onProcessor(ProcessorEvent& event);
    void onAsked(Number number, Held& held, const Json& question);
    void answer(Held& held, uint16_t code, const std::string& text, const Bytes& value);
    void onEnded(Number number, Held& held, const Json& end);
    void onDied(Number number, Held& held, const ProcessorEvent& event);
    void store(Number number, Held& held, Result result, Bytes value);
    void report(Number number, Result result);
    void reportFailure(Number number, uint8_t status, Failure failure);
    void refuse(Number number, uint16_t code, const std::string& text);
    void cancelOne(const Id& id, Seconds grace);
    void killOverdue();
    void tellCredit();
    void tellStatus();
    void stop(Held& held);
    void forgetAll();
    void finishDraining();

    size_t countOf(State state) const;
    Seconds nextDeadline() const;
    bool hasBegun(const Held& held) const { return held.state != State::fetching && held.state != State::ready; }
    static Result resultOf(const Held& held) { return Result{held.task.id, held.task.attempt, 0, 0, {}}; }

    WorkerOptions options_;
    int signalFd_;
    Link link_;
    ObjectStore store_;
    Processors processors_;
    Reports reports_;
    Id peerId_ = randomId();

    std::map<Number, Held> held_;
    std::unordered_map<Id, Number> numbers_;
    Number lastNumber_ = 0;
    uint64_t lastQuestion_ = 0;
    std::unordered_map<Id, Bytes> functions_;  // those it has, by the ids of their objects, which never change (STO-2)
    Successes successes_;  // kept where the feature `chains` is in force
    Tally tally_;
    KeptEnds ends_;  // results that are not with their clients yet, as far as we know
    Id lastServerId_;          // of our last session
    uint64_t generation_ = 0;  // the highest that a scheduler has told (HSK-36)
    uint64_t sessionGeneration_ = 0;  // the highest that the scheduler of the present session has told (WRK-33)
    uint32_t workerCount_ = 0;  // as the last Delivered of the session has said
    bool awaitsDelivered_ = false;  // nothing begins before (WRK-38)
    Seconds presentUntil_ = 0;  // zero: there is a session, or nothing is kept for the next one
    size_t toldBlocked_ = 0;
    Seconds statusAt_ = 0;
    uint64_t statusSeq_ = 0;  // of the last WorkerStatus
    double statusProcessorSeconds_ = 0;
    bool isDraining_ = false;
    Seconds drainUntil_ = 0;
    std::optional<int> exitCode_;
};

}  // namespace scaler
