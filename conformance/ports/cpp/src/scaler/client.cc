#include "scaler/client.h"

#include <algorithm>
#include <limits>
#include <set>

#include "constants.capnp.h"

namespace scaler {

namespace {

constexpr Seconds fetchWait = 5;  // a storage that was restarted may get the value from nobody else
constexpr size_t idleFunctionsKept = 512;  // of the functions that no unfinished task names (OWN-13)
constexpr unsigned endsBetweenReleases = 256;
constexpr Seconds never = std::numeric_limits<Seconds>::infinity();

std::string functionBytes(const std::string& name) { return "name:" + name; }

}  // namespace

Client::Client(zmq::context_t& context, Options options)
    : options_(std::move(options)),
      link_(context, options_.pass,
            [this](Hello::Builder hello) {
                hello.setRole(ROLE_CLIENT);
                hello.setParentTask(asData(options_.standing.parentTask));
                hello.initFeatures(1).set(0, "present-held");
                hello.setGeneration(generation_);
                hello.setLastServerId(asData(lastServerId_));
                hello.setFormerName(asData(formerName_));
            },
            options_.heartbeat, options_.lease),
      store_(context, options_.pass, ROLE_CLIENT) {
    store_.whenRestarted([this] { putAgain(); });
}

void Client::connect(const std::string& schedulerAddress) {
    self_.id = randomId();
    withoutSessionSince_ = steadyNow();
    link_.dial(schedulerAddress, self_.id);
}

Id Client::submit(Call call) {
    Id id = randomId();
    Id function = contentId(functionBytes(call.function));
    size_t argumentCount = call.arguments.size();
    tasks_.emplace(id, Task{std::move(call), ++lastNumber_, function, std::vector<Id>(argumentCount), 0, std::nullopt});
    unsent_.push_back(id);
    return id;
}

void Client::cancel(const std::vector<Id>& tasks, double graceSeconds) {
    Bytes known;
    for (const Id& task : tasks) {
        auto found = tasks_.find(task);
        bool isWithScheduler = found != tasks_.end() && found->second.submitSeq != 0;
        if (isWithScheduler && link_.session().isOpen()) {
            known += task;
            continue;
        }
        happenings_.push_back(CancelAnswer{task, found == tasks_.end() ? CANCEL_UNKNOWN : CANCEL_CANCELED});
        if (found != tasks_.end()) end(task, Outcome{task, STATUS_CANCELED, {}, {}});
    }
    if (known.empty()) return;
    link_.send([&](Body::Builder body) {
        auto cancel = body.initCancel();
        cancel.setIds(asData(known));
        cancel.setGraceSeconds(graceSeconds);
    });
}

void Client::shutdownCluster(double graceSeconds) {
    if (!link_.session().isOpen()) {
        happenings_.push_back(ShutdownAnswer{false, "there is no session with a scheduler"});
        return;
    }
    link_.send([&](Body::Builder body) { body.initShutdown().setGraceSeconds(graceSeconds); });
}

void Client::leave() {
    link_.leave(OK, "");
    store_.leave();
}

std::vector<Happening> Client::step() {
    for (Event& event : link_.step()) {
        if (auto* message = std::get_if<Message>(&event)) {
            if (!mustBeginAnew_) onMessage(*message);
        } else if (auto* lost = std::get_if<Lost>(&event)) {
            onLost(*lost);
        } else {
            onOpened();
        }
    }
    store_.step();
    if (withoutSessionSince_ > 0 && steadyNow() >= withoutSessionSince_ + options_.giveUp && !tasks_.empty()) {
        failAll(NO_SESSION, "no scheduler answered at " + link_.address());
    }
    if (link_.session().isOpen() && !mustBeginAnew_) submitUnsent();
    return std::move(happenings_);
}

Seconds Client::nextDeadline() const {
    if (!unsent_.empty() && link_.session().isOpen()) return 0;
    return withoutSessionSince_ > 0 && !tasks_.empty() ? withoutSessionSince_ + options_.giveUp : never;
}

void Client::onOpened() {
    if (mustBeginAnew_) {  // a session under the old name: of no use, for all is to go on under a new one (CLI-8)
        mustBeginAnew_ = false;
        link_.leave(OK, "begins again");
        link_.dialNow(self_.id);
        return;
    }
    withoutSessionSince_ = 0;
    const Terms& terms = link_.session().terms();
    self_.grant = terms.ownerGrant;
    store_.use(terms.storageAddress.empty() ? storageBeside(link_.address()) : terms.storageAddress);
    happenings_.push_back(Connected{terms.serverId});
}

// Everything goes on under a new name; what the old one owns is let go (CLI-8, CLI-11).
void Client::onLost(const Lost& lost) {
    bool isRefused = lost.code == SESSION_REPLACED || (lost.isRejected && lost.code != SHUTTING_DOWN);
    bool isFinal = lost.isOver && (hasStoppedCluster_ || isRefused);  // else a successor may come (CLI-8)
    happenings_.push_back(Disconnected{lost.code, lost.text, isFinal});
    if (isFinal) return failAll(lost.code, lost.text);
    if (withoutSessionSince_ == 0) withoutSessionSince_ = steadyNow();
    Owner former = std::exchange(self_, Owner{randomId(), {}});
    if (!lost.terms.serverId.empty()) {
        lastServerId_ = lost.terms.serverId;
        generation_ = std::max(generation_, lost.terms.generation);
        formerName_ = former.grant.empty() ? Bytes() : former.id + former.grant;
    }
    std::vector<Id> owned;
    for (const auto& [name, use] : functions_) owned.push_back(contentId(functionBytes(name)));
    functions_.clear();
    unsent_.clear();
    for (auto& [id, task] : tasks_) {
        if (task.result) continue;  // it has ended; its value is on the way
        unsent_.push_back(id);
        task.submitSeq = 0;
        for (Id& object : task.objects) {
            if (!object.empty()) owned.push_back(object);
            object.clear();
        }
    }
    std::sort(unsent_.begin(), unsent_.end(), [this](const Id& one, const Id& other) {
        return tasks_.at(one).number < tasks_.at(other).number;
    });
    store_.release(former, owned);
    if (lost.isOver) {
        link_.dialAgain(self_.id);
    } else {
        mustBeginAnew_ = true;
    }
}

void Client::onMessage(const Message& message) {
    auto body = message.body();
    switch (body.which()) {
        case Body::RESULTS:
            return onResults(message);
        case Body::CANCEL_REPLY:
            return onCancelReply(body.getCancelReply());
        case Body::TASK_LOG: {
            auto log = body.getTaskLog();
            happenings_.push_back(LogText{toBytes(log.getTaskId()), log.getStream(), toString(log.getText())});
            return;
        }
        case Body::SHUTDOWN_REPLY: {
            auto reply = body.getShutdownReply();
            hasStoppedCluster_ = reply.getIsAccepted();
            happenings_.push_back(ShutdownAnswer{reply.getIsAccepted(), toString(reply.getText())});
            return;
        }
        case Body::ERROR:
            return onError(body.getError());
        default:
            link_.refuse(Refusal{NOT_ALLOWED, "HSK-13", "a client does not receive that", false, message.seq()});
    }
}

void Client::onResults(const Message& message) {
    try {
        for (Result& result : readResults(message, link_.session().terms().limits)) {
            auto found = tasks_.find(result.id);
            if (found == tasks_.end() || found->second.result) continue;
            if (result.status != STATUS_SUCCESS) {
                end(result.id, Outcome{result.id, result.status, {}, readFailure(result.value, result.status)});
            } else if (result.kind == KIND_OBJECT) {
                fetch(std::move(result));
            } else {
                end(result.id, Outcome{result.id, result.status, std::move(result.value), {}});
            }
        }
    } catch (Refusal& refusal) {
        refusal.seq = message.seq();
        link_.refuse(refusal);
    }
}

void Client::fetch(Result result) {
    Id task = result.id, object = result.value;
    Owner owner = self_;
    tasks_.at(task).result = std::move(result);
    store_.get(object, owner, fetchWait, [=](uint16_t code, const std::string& text, Bytes value) {
        store_.release(owner, {object});  // OWN-10
        auto found = tasks_.find(task);
        if (found == tasks_.end()) return;
        if (code == OK) return end(task, Outcome{task, STATUS_SUCCESS, std::move(value), {}});
        if (owner.id == self_.id) return fail(task, code, "the return value is lost: " + text);
        found->second.result.reset();  // it went with the session, so the task is unfinished after all (CLI-8)
        found->second.submitSeq = 0;
        unsent_.push_back(task);
    });
}

void Client::end(const Id& task, Outcome outcome) {
    auto found = tasks_.find(task);
    if (found == tasks_.end()) return;
    std::vector<Id> owned;
    for (const Id& object : found->second.objects) {
        if (!object.empty()) owned.push_back(object);  // OWN-2
    }
    store_.release(self_, owned);
    tasks_.erase(found);
    happenings_.push_back(std::move(outcome));
    if (--endsUntilRelease_ == 0) releaseIdleFunctions();
}

void Client::failAll(uint16_t code, const std::string& text) {
    while (!tasks_.empty()) {
        Id first = tasks_.begin()->first;
        fail(first, code, text);
    }
}

void Client::fail(const Id& task, uint16_t code, const std::string& text) {
    Failure failure;
    failure.code = code;
    failure.message = text;
    end(task, Outcome{task, STATUS_FAILED, {}, failure});
}

void Client::onCancelReply(CancelReply::Reader reply) {
    std::vector<Id> ids = idsOf(toBytes(reply.getIds()));
    Bytes outcomes = toBytes(reply.getOutcomes());
    for (size_t index = 0; index < ids.size(); ++index) {
        bool isThere = outcomes.empty() || index < outcomes.size();
        uint8_t outcome = isThere ? numberAtOr<uint8_t>(outcomes, index, CANCEL_CANCELED) : uint8_t{CANCEL_UNKNOWN};
        happenings_.push_back(CancelAnswer{ids[index], outcome});
        // Nobody is left who could send a result (CAN-10).
        if (outcome == CANCEL_UNKNOWN) end(ids[index], Outcome{ids[index], STATUS_CANCELED, {}, {}});
    }
}

// A refused batch is refused as a whole, and no Results follow for it (CLI-10).
void Client::onError(Error::Reader error) {
    std::vector<Id> refused;
    for (const auto& [id, task] : tasks_) {
        if (task.submitSeq != 0 && task.submitSeq == error.getRefSeq()) refused.push_back(id);
    }
    Failure failure;
    failure.code = error.getCode();
    failure.message = toString(error.getText());
    for (const Id& id : refused) end(id, Outcome{id, STATUS_REFUSED, {}, failure});
}

void Client::submitUnsent() {
    const Limits& limits = link_.session().terms().limits;
    std::vector<Id> waiting = std::move(unsent_);
    unsent_.clear();
    std::vector<Id> inBatch;
    std::optional<Submission> submission;
    for (const Id& id : waiting) {
        auto found = tasks_.find(id);
        if (found == tasks_.end()) continue;  // it has ended, canceled for instance
        Task& task = found->second;
        putFunction(task.call.function);
        std::vector<Argument> arguments = argumentsOf(id, task);
        if (submission && !submission->add(id, task.function, arguments, task.call.options)) {
            sendSubmission(*submission, inBatch);
            inBatch.clear();
            submission.reset();
        }
        if (!submission) {
            Submission fresh(task.call.options, options_.standing, limits);
            if (!fresh.add(id, task.function, arguments, task.call.options)) {
                fail(id, TOO_LARGE, "the call has more arguments than a message can hold: join some of them");
                continue;
            }
            submission.emplace(std::move(fresh));
        }
        inBatch.push_back(id);
    }
    if (submission) sendSubmission(*submission, inBatch);
}

void Client::sendSubmission(Submission& submission, const std::vector<Id>& tasks) {
    uint64_t seq = link_.send(submission.fill(), submission.takePayload());
    for (const Id& task : tasks) tasks_.at(task).submitSeq = seq;
}

// A part above the limit travels as an object (PAY-1), and so does what would make the payload too large (CLI-4).
std::vector<Argument> Client::argumentsOf(const Id& id, Task& task) {
    const Limits& limits = link_.session().terms().limits;
    std::vector<Argument> arguments;
    size_t inlineTotal = 0;
    for (size_t index = 0; index < task.call.arguments.size(); ++index) {
        const Bytes& value = task.call.arguments[index];
        if (value.size() <= limits.inlineBytes && inlineTotal + value.size() <= limits.payloadFrameBytes / 2) {
            inlineTotal += value.size();
            arguments.push_back(Argument{KIND_INLINE, value});
            continue;
        }
        task.objects[index] = randomId();
        putArgument(id, task.objects[index], value);
        arguments.push_back(Argument{KIND_OBJECT, task.objects[index]});
    }
    return arguments;
}

void Client::putArgument(const Id& task, const Id& object, const Bytes& value) {
    store_.put(object, self_, std::make_shared<Bytes>(value), [=](uint16_t code, const std::string& text) {
        auto found = tasks_.find(task);
        bool isMeant = found != tasks_.end() &&
                       std::count(found->second.objects.begin(), found->second.objects.end(), object) > 0;
        if (code == OK || !isMeant) return;
        cancel({task}, 0);
        fail(task, code, "an argument could not be stored: " + text);
    });
}

void Client::putFunction(const std::string& name) {
    bool isStored = functions_.count(name) > 0;
    functions_[name] = ++lastUse_;
    if (isStored) return;
    std::string bytes = functionBytes(name);
    store_.put(contentId(bytes), self_, std::make_shared<Bytes>(bytes), nullptr);
}

// Of the functions that no unfinished task names, those that were used last are kept (OWN-13).
void Client::releaseIdleFunctions() {
    endsUntilRelease_ = endsBetweenReleases;
    std::set<std::string> used;
    for (const auto& [id, task] : tasks_) used.insert(task.call.function);
    std::vector<std::pair<uint64_t, std::string>> idle;
    for (const auto& [name, use] : functions_) {
        if (used.count(name) == 0) idle.emplace_back(use, name);
    }
    if (idle.size() <= idleFunctionsKept) return;
    std::sort(idle.begin(), idle.end());
    idle.resize(idle.size() - idleFunctionsKept);
    std::vector<Id> owned;
    for (const auto& [use, name] : idle) {
        owned.push_back(contentId(functionBytes(name)));
        functions_.erase(name);
    }
    store_.release(self_, owned);
}

// The storage has forgotten everything: what unfinished tasks need goes there again (CLI-13).
void Client::putAgain() {
    std::map<std::string, uint64_t> names = std::move(functions_);
    functions_.clear();
    for (const auto& [name, use] : names) putFunction(name);
    for (auto& [id, task] : tasks_) {
        for (size_t index = 0; index < task.objects.size(); ++index) {
            if (task.objects[index].empty()) continue;
            putArgument(id, task.objects[index], task.call.arguments[index]);
        }
    }
}

}  // namespace scaler
