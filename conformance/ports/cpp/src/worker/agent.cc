#include "worker/agent.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <limits>

#include "constants.capnp.h"

namespace scaler {

namespace {

constexpr Seconds never = std::numeric_limits<Seconds>::infinity();

}  // namespace

Agent::Agent(zmq::context_t& context, WorkerOptions options, int signalFd)
    : options_(std::move(options)),
      signalFd_(signalFd),
      link_(context, options_.pass, [this](Hello::Builder hello) { introduce(hello); }, options_.heartbeat, options_.lease),
      store_(context, options_.pass, ROLE_WORKER) {
    link_.dial(options_.scheduler, peerId_);
}

void Agent::introduce(Hello::Builder hello) const {
    hello.setRole(ROLE_WORKER);
    auto offer = hello.initWorker();
    offer.setName(options_.name);
    offer.setCredit(options_.places + 1);  // one in reserve, which covers the round trip
    offer.setNestedReserve(options_.places);
    constexpr const char* features[] = {"chains", "present-held", "samples", "stacks"};
    auto named = hello.initFeatures(std::size(features));
    for (unsigned index = 0; index < named.size(); ++index) named.set(index, features[index]);
    hello.setGeneration(generation_);
    hello.setLastServerId(asData(lastServerId_));
    auto capabilities = offer.initCapabilities(static_cast<unsigned>(options_.capabilities.size()));
    for (unsigned index = 0; index < capabilities.size(); ++index) {
        capabilities[index].setName(options_.capabilities[index].first);
        capabilities[index].setAmount(options_.capabilities[index].second);
    }
}

int Agent::run() {
    std::vector<Pollable*> pollables = {&link_, &store_, &processors_};
    class Signals : public Pollable {
    public:
        explicit Signals(int fd) : fd_(fd) {}
        void addTo(std::vector<zmq::pollitem_t>& items) override { items.push_back({nullptr, fd_, ZMQ_POLLIN, 0}); }
        Seconds nextDeadline() const override { return never; }

    private:
        int fd_;
    } signals(signalFd_);
    pollables.push_back(&signals);
    while (!exitCode_) {
        waitForAny(pollables, std::clamp(nextDeadline() - steadyNow(), 0.0, 1.0));
        step();
    }
    store_.leave();
    return *exitCode_;
}

void Agent::step() {
    onSignals();
    for (Event& event : link_.step()) {
        if (auto* message = std::get_if<Message>(&event)) {
            onMessage(*message);
        } else if (auto* lost = std::get_if<Lost>(&event)) {
            onLost(*lost);
        } else {
            onOpened();
        }
    }
    store_.step();
    for (ProcessorEvent& event : processors_.step()) onProcessor(event);
    killOverdue();
    if (presentUntil_ > 0 && steadyNow() >= presentUntil_) forgetAll();
    beginAll();
    if (!link_.session().isOpen()) return;
    reports_.send(link_, ends_);
    tellCredit();
    tellStatus();
    if (isDraining_) finishDraining();
}

void Agent::onSignals() {
    signalfd_siginfo info{};
    while (read(signalFd_, &info, sizeof(info)) > 0) {
        if (isDraining_ || !link_.session().isOpen()) {
            exitCode_ = 0;  // asked twice, or there is nobody to hand anything back to
        } else {
            drain(options_.grace);
        }
    }
}

void Agent::onOpened() {
    const Terms& terms = link_.session().terms();
    bool isSuccessor = !lastServerId_.empty() && lastServerId_ != terms.serverId;
    presentUntil_ = 0;
    awaitsDelivered_ = false;
    bool isPresenting = terms.has("present-held");
    ends_.beginSession(isPresenting);
    tally_.sampleUpTo(0);
    if (isPresenting && isSuccessor) {
        present();
    } else {
        forgetAll();  // it has given us up, or knows nothing of presenting (WRK-39)
    }
    workerCount_ = 0;
    lastServerId_ = terms.serverId;
    generation_ = std::max(generation_, terms.generation);
    sessionGeneration_ = terms.generation;
    const std::string& told = terms.storageAddress;
    std::string address = !options_.storage.empty() ? options_.storage : told;
    store_.use(address.empty() ? storageBeside(link_.address()) : address);
    toldBlocked_ = 0;
    statusAt_ = 0;
}

void Agent::onLost(const Lost& lost) {
    bool isRefused = lost.code == SESSION_REPLACED || (lost.isRejected && lost.code != SHUTTING_DOWN);
    if (lost.terms.has("present-held") && !isRefused) {
        dropCanceled();
        reports_.keepResults();
        presentUntil_ = presentUntil_ > 0 ? presentUntil_ : steadyNow() + options_.present;
    } else if (!lost.terms.serverId.empty()) {
        forgetAll();
    }
    if (!lost.isOver) return;
    if (isDraining_) {
        exitCode_ = 0;  // the cluster ends, and there is nobody to report to (SCH-24)
    } else if (isRefused) {
        std::fprintf(stderr, "scaler_port_worker: %s\n", lost.text.c_str());
        exitCode_ = 1;
    } else {
        link_.dialAgain(peerId_);
    }
}

// The scheduler has given them to others, or has itself forgotten them (WRK-10). What they have stored, and nobody was
// told of, would be found by nobody any more (OWN-8).
void Agent::stop(Held& held) {
    if (held.processor) processors_.kill(*held.processor);
    if (!held.storing.empty()) store_.abandon(held.owner(), held.storing);
    if (held.state != State::storing) return;
    const auto& header = *held.task.header;
    store_.abandon(held.owner(), resultObjectId(held.task.id, held.task.attempt, header.resultSalt, header.client));
}

void Agent::forgetAll() {
    for (auto& [number, held] : held_) stop(held);
    held_.clear();
    numbers_.clear();
    reports_.drop();
    ends_.drop();
    successes_.clear();
    presentUntil_ = 0;
}

// Their clients count them as ended. What awaits them is not presented: its time will not come here.
void Agent::dropCanceled() {
    std::vector<Number> canceled;
    for (const auto& [number, held] : held_) {
        if (held.cancels > 0) canceled.push_back(number);
    }
    for (Number number : canceled) {
        stop(held_.at(number));
        takeBack(std::move(held_.at(number).followers));
        forget(number);
    }
}

// What we hold of a predecessor of this scheduler, and what has ended there; then the results of that (WRK-35 to -37).
void Agent::present() {
    std::vector<Presented> rows;
    for (const auto& [number, held] : held_) {
        auto state = hasBegun(held) ? Presented::running : Presented::queued;
        rows.push_back(Presented{held.task.id, held.task.attempt, state, held.owner()});
    }
    for (KeptEnd& end : ends_.takeAll()) reports_.end(std::move(end));
    for (const KeptEnd& end : reports_.dropSuperseded(numbers_)) {
        rows.push_back(Presented{end.result.id, end.result.attempt, Presented::ended, end.owner});
    }
    sendHoldings(link_, rows, workerCount_);
    awaitsDelivered_ = true;
}

void Agent::onDelivered(Delivered::Reader delivered) {
    workerCount_ = delivered.getWorkerCount();
    awaitsDelivered_ = false;
    ends_.delivered(delivered.getResultsCount());
}

void Agent::onMessage(const Message& message) {
    auto body = message.body();
    switch (body.which()) {
        case Body::DISPATCH:
            return onDispatch(message);
        case Body::CANCEL:
            return onCancel(body.getCancel());
        case Body::RECALL:
            return onRecall(body.getRecall());
        case Body::DELIVERED:
            return onDelivered(body.getDelivered());
        case Body::SAMPLE_TASKS:
            return tally_.sampleUpTo(body.getSampleTasks().getSampleLimit());
        case Body::STACK_REQUEST:
            return onStackRequest(body.getStackRequest());
        case Body::SHUTDOWN:
            return drain(body.getShutdown().getGraceSeconds());
        case Body::ERROR:
            return onError(body.getError());
        default:
            link_.refuse(Refusal{NOT_ALLOWED, "HSK-13", "a worker does not receive that", false, message.seq()});
    }
}

void Agent::onDispatch(const Message& message) {
    try {
        std::vector<Task> tasks = readDispatch(message, link_.session().terms().limits);
        std::vector<Id> returned;
        std::vector<Number> accepted;  // all are here before any is looked at: they may await each other
        for (Task& task : tasks) {
            uint64_t told = task.header->generation;
            bool isStale = told != 0 && told < sessionGeneration_;  // another scheduler has followed its own (WRK-33)
            sessionGeneration_ = std::max(sessionGeneration_, told);
            generation_ = std::max(generation_, told);
            if (isDraining_ || isStale) {
                returned.push_back(task.id);
            } else {
                accepted.push_back(hold(std::move(task)));
            }
        }
        for (Number number : accepted) prepare(number);
        if (!returned.empty()) reports_.giveBack(returned, false);
    } catch (Refusal& refusal) {
        refusal.seq = message.seq();
        link_.refuse(refusal);
    }
}

// The first message of a worker is its status. Only a server that is no scheduler refuses it as a whole.
void Agent::onError(Error::Reader error) {
    if (error.getCode() == NOT_ALLOWED && error.getRefSeq() == statusSeq_) {
        std::fprintf(stderr, "scaler_port_worker: %s is no scheduler, but perhaps a storage: %s\n",
                     options_.scheduler.c_str(), error.getText().cStr());
        exitCode_ = 1;
        return;
    }
    std::fprintf(stderr, "scaler_port_worker: the scheduler refused a message: %s\n", error.getText().cStr());
}

void Agent::onCancel(Cancel::Reader cancel) {
    std::vector<Id> ids = idsOf(toBytes(cancel.getIds()));
    for (const Id& id : std::set<Id>(ids.begin(), ids.end())) cancelOne(id, cancel.getGraceSeconds());
}

void Agent::cancelOne(const Id& id, Seconds grace) {
    auto known = numbers_.find(id);
    if (known == numbers_.end()) return reports_.answerCancel(id, CANCEL_UNKNOWN);  // CAN-9
    Held& held = held_.at(known->second);
    ++held.cancels;
    if (!hasBegun(held)) {
        Result result = resultOf(held);
        result.status = STATUS_CANCELED;
        result.kind = KIND_NONE;
        return report(known->second, std::move(result));
    }
    if (!held.processor) return;  // its value is on the way to the storage: too late
    Seconds killAt = steadyNow() + grace;
    held.killAt = held.killAt > 0 ? std::min(held.killAt, killAt) : killAt;
    processors_.interrupt(*held.processor);
    if (held.question != 0 && held.storing.empty()) answer(held, TASK_CANCELED, "", {});  // what it waits for is of no use now
    if (held.state == State::returning) goOn(held);
}

void Agent::onRecall(Recall::Reader recall) {
    std::vector<Number> named;
    for (const Id& id : idsOf(toBytes(recall.getIds()))) {
        auto known = numbers_.find(id);
        if (known != numbers_.end()) named.push_back(known->second);
    }
    reports_.giveBack(takeBack(std::move(named)), true);
}

// Hands back what has not begun and lets the rest go on for a while (WRK-11).
void Agent::drain(Seconds grace) {
    Seconds until = steadyNow() + grace;
    drainUntil_ = isDraining_ ? std::min(drainUntil_, until) : until;
    if (isDraining_) return;
    isDraining_ = true;
    link_.send([](Body::Builder body) { body.initCredit(); });
    std::vector<Number> all;
    for (const auto& [number, held] : held_) all.push_back(number);
    giveBack(std::move(all));  // but for those that have begun
}

void Agent::finishDraining() {
    bool isOverdue = steadyNow() >= drainUntil_;
    if (!held_.empty() && !isOverdue) return;
    forgetAll();
    link_.leave(OK, "the worker was asked to end");
    exitCode_ = 0;
}

// The functions of this worker are compiled, so there is no stack to be had in their language: people see what the system
// tells of the process (WRK-56).
void Agent::onStackRequest(StackRequest::Reader request) {
    Id task = toBytes(request.getTaskId());
    auto known = numbers_.find(task);
    const Held* held = known == numbers_.end() ? nullptr : &held_.at(known->second);
    bool isRunning = held != nullptr && held->processor;
    link_.send([&](Body::Builder body) {
        auto reply = body.initStackReply();
        reply.setRequestId(request.getRequestId());
        reply.setTaskId(asData(task));
        reply.setOutcome(isRunning ? STACK_NO_ANSWER : STACK_NOT_RUNNING);
        reply.setWorker(options_.name);
        if (!isRunning) return;
        reply.setProcess(describeProcess(held->processor->pid));
        reply.setIsBlocked(held->state == State::blocked || held->state == State::returning);
        reply.setRunningSeconds(steadyNow() - held->run.begunAt);
    });
}

// A task that waits for its children still counts as held, so the limit rises with it (CRD-8).
void Agent::tellCredit() {
    size_t blocked = countOf(State::blocked) + countOf(State::returning);
    if (blocked == toldBlocked_ || isDraining_) return;
    toldBlocked_ = blocked;
    link_.send([&](Body::Builder body) {
        auto credit = body.initCredit();
        credit.setLimit(options_.places + 1 + static_cast<uint32_t>(blocked));
        credit.setNestedReserve(options_.places);
    });
}

void Agent::tellStatus() {
    Seconds now = steadyNow(), heartbeat = link_.session().terms().heartbeat;
    if (now < statusAt_) return;
    double used = processorSecondsOfAgent();
    statusSeq_ = link_.send([&](Body::Builder body) {
        auto status = body.initWorkerStatus();
        status.setAgentCpu(static_cast<float>((used - statusProcessorSeconds_) / heartbeat));
        status.setAgentRssBytes(residentBytes(getpid()));
        status.setHostFreeBytes(freeHostBytes());
        status.setQueuedCount(static_cast<uint32_t>(countOf(State::fetching) + countOf(State::ready)));
        status.setBlockedCount(static_cast<uint32_t>(countOf(State::blocked) + countOf(State::returning)));
        auto list = status.initProcessors(static_cast<unsigned>(processors_.count()));
        for (unsigned index = 0; index < list.size(); ++index) {
            const Processor& one = *processors_.all()[index];
            auto running = held_.find(one.task);
            bool isIdle = running == held_.end();
            list[index].setProcessId(static_cast<uint32_t>(one.pid));
            list[index].setState(isIdle ? 1 : running->second.state == State::running ? 2 : 3);
            list[index].setRssBytes(residentBytes(one.pid));
            if (isIdle) continue;
            list[index].setTaskId(asData(running->second.task.id));
            list[index].setRunningSeconds(now - running->second.run.begunAt);
        }
        tally_.fill(status, now);
    });
    statusProcessorSeconds_ = used;
    statusAt_ = now + heartbeat;
}

Seconds Agent::nextDeadline() const {
    Seconds next = isDraining_ ? drainUntil_ : never;
    if (presentUntil_ > 0) next = std::min(next, presentUntil_);
    if (link_.session().isOpen()) next = std::min(next, statusAt_);
    for (const auto& [number, held] : held_) {
        if (held.killAt > 0) next = std::min(next, held.killAt);
        double limit = held.task.header->timeoutSeconds;
        if (limit > 0 && held.processor) next = std::min(next, held.run.begunAt + limit);
    }
    return next;
}

}  // namespace scaler
