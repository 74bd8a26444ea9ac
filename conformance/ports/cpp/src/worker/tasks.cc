// The tasks of an agent, from their arrival to the report of their end.
#include <algorithm>
#include <cstdio>
#include <utility>

#include "constants.capnp.h"
#include "worker/agent.h"
#include "worker/functions.h"

namespace scaler {

namespace {

constexpr Seconds objectWait = 31;  // WRK-3 asks for 30 at least
const std::string namePrefix = "name:";

Failure failureOf(uint16_t code, const std::string& message) {
    Failure failure;
    failure.code = code;
    failure.message = message;
    return failure;
}

}  // namespace

Agent::Number Agent::hold(Task task) {
    Number number = ++lastNumber_;
    numbers_[task.id] = number;
    held_.emplace(number, Held(std::move(task)));
    return number;
}

void Agent::prepare(Number number) {
    auto found = held_.find(number);
    if (found == held_.end()) return;  // it awaits one that could not be kept
    Held& held = found->second;
    uint16_t format = held.task.header->callFormat;
    if (format > CALL_RAW) return refuse(number, BAD_BATCH, "call format " + std::to_string(format) + " is not known");
    if (format != CALL_RAW) {
        return refuse(number, FUNCTION_UNREADABLE,
                      "this worker runs functions by name only: ask for a capability that it does not offer");
    }
    held.missing = 1;  // not ready before all has been asked for
    if (!followAll(number)) return giveBack({number});
    size_t count = held.task.parts.size();
    fetchFunction(number);  // from here on it may have been refused, and be gone
    for (size_t index = 0; index < count && held_.count(number) > 0; ++index) {
        if (held.task.parts[index].kind == KIND_OBJECT) fetchPart(number, index);
    }
    if (held_.count(number) > 0) arrived(number);
}

void Agent::fetchFunction(Number number) {
    Held& held = held_.at(number);
    const Id& id = held.task.function;
    auto found = functions_.find(id);
    if (found != functions_.end()) {
        held.function = found->second;
        return;
    }
    ++held.missing;
    store_.get(id, held.owner(), objectWait, [this, number, id](uint16_t code, const std::string& text, Bytes value) {
        auto still = held_.find(number);
        if (still == held_.end()) return;
        if (code != OK) return refuse(number, code, "the function (object " + toHex(id) + ") is not there: " + text);
        still->second.function = std::move(value);
        arrived(number);
    });
}

void Agent::fetchPart(Number number, size_t index) {
    Held& held = held_.at(number);
    ++held.missing;
    Id id = held.task.parts[index].bytes;
    store_.get(id, held.owner(), objectWait, [=](uint16_t code, const std::string& text, Bytes value) {
        auto still = held_.find(number);
        if (still == held_.end()) return;
        if (code != OK) return refuse(number, code, "an argument (object " + toHex(id) + ") is not there: " + text);
        still->second.task.parts[index] = Part{KIND_INLINE, std::move(value)};
        arrived(number);
    });
}

void Agent::arrived(Number number) {
    Held& held = held_.at(number);
    if (--held.missing > 0) return;
    if (contentId(held.function) != held.task.function) {
        return refuse(number, FUNCTION_UNREADABLE, "the stored function is not the one that its id names (STO-29)");
    }
    bool isNamed = held.function.rfind(namePrefix, 0) == 0;
    std::string name = isNamed ? held.function.substr(namePrefix.size()) : "";
    if (!isNamed || findFunction(name) == nullptr) {
        return refuse(number, FUNCTION_UNREADABLE,
                      isNamed ? "this worker has no function '" + asText(name) + "'" : "the function is not a name");
    }
    functions_.emplace(held.task.function, held.function);
    held.function = name;
    held.state = State::ready;
}

size_t Agent::countOf(State state) const {
    auto isSo = [state](const auto& one) { return one.second.state == state; };
    return static_cast<size_t>(std::count_if(held_.begin(), held_.end(), isSo));
}

void Agent::beginAll() {
    if (processors_.hasDoomed()) return;  // what was given up has to be over before anything else begins (WRK-10)
    while (countOf(State::running) < options_.places && beginNext()) {}
}

// A parent whose children have ended comes first; then the deepest, the most urgent, the oldest (WRK-5).
bool Agent::beginNext() {
    auto rank = [](const auto& one) {
        const Header& header = *one.second.task.header;
        return std::make_tuple(one.second.state != State::returning, -int{header.depth}, -int64_t{header.priority},
                               one.first);
    };
    auto best = held_.end();
    for (auto at = held_.begin(); at != held_.end(); ++at) {
        bool isReady = at->second.state == State::ready && mayBegin();  // without a session nothing begins (WRK-41)
        if (!isReady && at->second.state != State::returning) continue;
        if (best == held_.end() || rank(*at) < rank(*best)) best = at;
    }
    if (best == held_.end()) return false;
    Held& held = best->second;
    if (held.state == State::returning) {
        goOn(held);
        return true;
    }
    if (countOf(State::blocked) > options_.blockedMax) {
        if (held.task.header->depth == 0) return false;
        refuse(best->first, TOO_DEEP, "more than " + std::to_string(options_.blockedMax) +
                                          " tasks wait for their children here: nest less, or raise --blocked");
        return true;
    }
    hand(best->first, held);
    return true;
}

// A parent whose children have ended has a place again.
void Agent::goOn(Held& held) {
    held.state = State::running;
    processors_.send(*held.processor, {{"kind", "go"}});
}

void Agent::hand(Number number, Held& held) {
    held.processor = processors_.takeIdle();
    held.processor->task = number;
    held.state = State::running;
    held.run.begunAt = steadyNow();
    held.run.processId = held.processor->pid;
    Json arguments = Json::array();
    for (Part& part : held.task.parts) arguments.push_back(binary(std::exchange(part.bytes, {})));
    processors_.send(*held.processor, {{"kind", "call"},
                                       {"task", binary(held.task.id)},
                                       {"depth", held.task.header->depth},
                                       {"scheduler", options_.scheduler},
                                       {"function", held.function},
                                       {"keywords", held.task.header->keywords.size()},
                                       {"arguments", std::move(arguments)}});
}

void Agent::onProcessor(ProcessorEvent& event) {
    Number number = event.processor->task;
    auto found = held_.find(number);
    if (event.kind == ProcessorEvent::Kind::output) {
        bool isWanted = found != held_.end() && (found->second.task.header->flags & FLAG_STREAM_OUTPUT) != 0;
        if (!isWanted || !link_.session().isOpen()) {
            std::fputs(event.text.c_str(), event.stream == 1 ? stdout : stderr);
            return;
        }
        link_.send([&](Body::Builder body) {
            auto log = body.initTaskLog();
            log.setTaskId(asData(found->second.task.id));
            log.setStream(event.stream);
            log.setText(event.text);
        });
        return;
    }
    bool isEnd = event.kind == ProcessorEvent::Kind::died || event.frame["kind"] == "ended";
    if (isEnd) event.processor->task = 0;
    if (found == held_.end()) return;
    Held& held = found->second;
    if (event.kind == ProcessorEvent::Kind::died) return onDied(number, held, event);
    if (isEnd) return onEnded(number, held, event.frame);
    if (event.frame.contains("object") || event.frame.contains("objects")) return onAsked(number, held, event.frame);
    if (event.frame["kind"] == "blocked") held.state = State::blocked;  // lends its place (WRK-6)
    if (event.frame["kind"] == "unblocked") held.state = State::returning;
    if (held.state == State::returning && held.cancels > 0) goOn(held);  // it is to end, not to wait for a place
}

// A task wants something of the storage. One that is canceled gets and stores nothing more (CAN-14).
void Agent::onAsked(Number number, Held& held, const Json& question) {
    held.question = ++lastQuestion_;
    if (held.cancels > 0) return answer(held, TASK_CANCELED, "", {});
    auto answered = [this, number, asked = held.question](uint16_t code, const std::string& text, Bytes value) {
        auto still = held_.find(number);
        if (still == held_.end() || still->second.question != asked) return;
        still->second.storing.clear();
        answer(still->second, code, text, value);
    };
    if (question["kind"] == "put") {
        held.storing = bytesOf(question["object"]);
        auto value = std::make_shared<const Bytes>(bytesOf(question["value"]));
        store_.put(held.storing, held.owner(), value, [this, number, answered](uint16_t code, const std::string& text) {
            answered(code, text, {});
            auto still = held_.find(number);
            if (still != held_.end() && still->second.death) onDied(number, still->second, *still->second.death);
        });
    } else if (question["kind"] == "get") {
        store_.get(bytesOf(question["object"]), held.owner(), question["wait"], answered);
    } else {
        std::vector<Id> objects;
        for (const Json& object : question["objects"]) objects.push_back(bytesOf(object));
        store_.release(held.owner(), objects);
        answer(held, OK, "", {});
    }
}

void Agent::answer(Held& held, uint16_t code, const std::string& text, const Bytes& value) {
    held.question = 0;
    if (!held.processor) return;  // it has died meanwhile
    processors_.send(*held.processor, {{"kind", "answer"}, {"code", code}, {"text", asText(text)}, {"value", binary(value)}});
}

void Agent::onEnded(Number number, Held& held, const Json& end) {
    held.processor.reset();
    held.killAt = 0;
    held.run.endedAt = steadyNow();
    held.run.processorNs = end.value("processorNs", uint64_t{0});
    uint8_t status = end["status"];
    if (held.isTimedOut) return reportFailure(number, STATUS_TIMED_OUT, failureOf(TASK_TIMED_OUT, "its time was up"));
    if (status == STATUS_FAILED) {
        Failure failure = failureOf(end.value("code", uint16_t{TASK_RAISED}), end["message"]);
        failure.typeName = end["typeName"];
        failure.text = failure.typeName + ": " + failure.message + "\n";
        return reportFailure(number, status, failure);
    }
    Result result = resultOf(held);
    result.status = status;
    result.durationNs = end["durationNs"];
    result.processorNs = end["processorNs"];
    result.peakBytes = end["peakBytes"];
    if (status == STATUS_CANCELED) {
        result.kind = KIND_NONE;
        return report(number, std::move(result));
    }
    store(number, held, std::move(result), bytesOf(end["value"]));
}

// A large value is an object, stored in full before anybody hears of it (WRK-13, WRK-16).
void Agent::store(Number number, Held& held, Result result, Bytes value) {
    if (value.size() <= link_.session().terms().limits.inlineBytes) {
        result.value = std::move(value);
        return report(number, std::move(result));
    }
    held.state = State::storing;
    result.kind = KIND_OBJECT;
    const auto& header = *held.task.header;
    result.value = resultObjectId(held.task.id, held.task.attempt, header.resultSalt, header.client);
    auto shared = std::make_shared<const Bytes>(std::move(value));
    store_.put(result.value, held.owner(), shared, [this, number, result](uint16_t code, const std::string& text) {
        if (code == OK) return report(number, result);
        reportFailure(number, STATUS_FAILED, failureOf(code, "the return value could not be stored: " + text));
    });
}

void Agent::onDied(Number number, Held& held, const ProcessorEvent& event) {
    held.processor.reset();
    if (!held.storing.empty()) {  // nothing may be stored behind its result (CAN-14)
        held.death = event;
        return;
    }
    held.run.endedAt = steadyNow();
    if (held.isTimedOut) return reportFailure(number, STATUS_TIMED_OUT, failureOf(TASK_TIMED_OUT, "its time was up"));
    if (held.cancels > 0) {
        Result result = resultOf(held);
        result.status = STATUS_CANCELED;
        result.kind = KIND_NONE;
        return report(number, std::move(result));
    }
    std::string text = "the processor that ran it ended with " + std::to_string(event.exitCode);
    Failure failure = failureOf(PROCESSOR_DIED, text);
    failure.exitCode = event.exitCode;
    failure.peakMemoryBytes = event.peakBytes;
    reportFailure(number, STATUS_PROCESSOR_DIED, failure);
}

void Agent::refuse(Number number, uint16_t code, const std::string& text) {
    reportFailure(number, STATUS_REFUSED, failureOf(code, text));
}

void Agent::reportFailure(Number number, uint8_t status, Failure failure) {
    Result result = resultOf(held_.at(number));
    result.status = status;
    result.value = writeFailure(failure, link_.session().terms().limits.inlineBytes);
    report(number, std::move(result));
}

void Agent::report(Number number, Result result) {
    Held& held = held_.at(number);
    bool isCanceled = result.status == STATUS_CANCELED;
    for (; held.cancels > 0; --held.cancels) {
        reports_.answerCancel(held.task.id, isCanceled ? CANCEL_CANCELED : CANCEL_TOO_LATE);
    }
    if (held.run.begunAt > 0) tally_.ended(held.task, held.run, result.status);
    reports_.end(KeptEnd{result, held.owner(), (held.task.header->flags & FLAG_PROFILING) != 0});
    std::vector<Number> followers = std::move(held.followers);
    forget(number);
    if (result.status != STATUS_SUCCESS) return giveBack(std::move(followers));
    if (link_.session().terms().has("chains")) successes_.add(result);
    for (Number follower : followers) awaitedHasSucceeded(follower, result);
}

void Agent::killOverdue() {
    Seconds now = steadyNow();
    for (auto& [number, held] : held_) {
        if (!held.processor || held.processor->isDoomed) continue;
        double limit = held.task.header->timeoutSeconds;
        held.isTimedOut = limit > 0 && now >= held.run.begunAt + limit;
        if (held.isTimedOut || (held.killAt > 0 && now >= held.killAt)) processors_.kill(*held.processor);
    }
}

}  // namespace scaler
