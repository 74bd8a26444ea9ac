#include "scaler/session.h"

#include <unistd.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "constants.capnp.h"

namespace scaler {

namespace {

constexpr uint64_t acknowledgeCount = 16;          // SES-4 allows 64
constexpr size_t acknowledgeBytes = 16u << 20;     // SES-4 allows 32 MiB
constexpr size_t keptBytesMax = size_t{512} << 20;  // SES-14
constexpr int fruitlessResumesMax = 5;             // SES-20
constexpr Seconds heartbeatMin = 0.05;             // LIV-1
constexpr Seconds helloPatienceMin = 0.5, helloPatienceMax = 4;
constexpr Seconds standbyPatience = 1;  // HSK-41
constexpr Seconds retryMin = 0.05;  // whatever a standby can stand
constexpr const char* presentHeld = "present-held";
constexpr Seconds never = std::numeric_limits<Seconds>::infinity();

std::string hostName() {
    char name[256] = {};
    gethostname(name, sizeof(name) - 1);
    return name;
}

template <typename Number>
Number orDefault(Number given, Number otherwise) {
    return given == 0 ? otherwise : given;  // zero stands for the default (HSK-15)
}

Terms termsOf(Welcome::Reader welcome) {
    auto limits = welcome.getLimits();
    auto timers = welcome.getTimers();
    Limits usual;
    std::set<std::string> features;
    for (auto feature : welcome.getFeatures()) features.insert(toString(feature));
    uint64_t generation = features.count(presentHeld) > 0 ? welcome.getGeneration() : 0;
    return Terms{toBytes(welcome.getServerId()),
                 welcome.getSessionId(),
                 Limits{orDefault(limits.getInlineBytes(), usual.inlineBytes),
                        orDefault(limits.getPayloadFrameBytes(), usual.payloadFrameBytes),
                        orDefault(limits.getBatchTasks(), usual.batchTasks),
                        orDefault(limits.getEnvelopeBytes(), usual.envelopeBytes)},
                 std::max(timers.getHeartbeatSeconds(), heartbeatMin),
                 std::max(timers.getLeaseSeconds(), 3 * heartbeatMin),
                 toString(welcome.getStorageAddress()),
                 toBytes(welcome.getOwnerGrant()),
                 generation,
                 std::move(features)};
}

bool isOutsideSequence(Body::Reader body) {
    return body.isHello() || body.isWelcome() || body.isReject() || body.isAcknowledge();
}

}  // namespace

Session::Session(Introduce introduce, Seconds heartbeat, Seconds lease)
    : introduce_(std::move(introduce)), proposedHeartbeat_(heartbeat), proposedLease_(lease) {}

void Session::dial(const Id& peerId, Seconds now) {
    peerId_ = peerId;
    state_ = State::dialing;
    terms_ = Terms{};
    hellosInARow_ = 0;
    sayHello(now);
}

void Session::sayHello(Seconds now) {
    bool asksToResume = state_ == State::resuming;
    if (!asksToResume) ++incarnation_;  // a Hello that is late must not pass for this one (HSK-22)
    step_ = Step{true, {}, std::move(step_.events)};
    auto fill = [&](Body::Builder body) {
        auto hello = body.initHello();
        hello.setVersionMin(1);
        hello.setVersionMax(1);
        hello.setPeerId(asData(peerId_));
        hello.setIncarnation(incarnation_);
        hello.getTimers().setHeartbeatSeconds(proposedHeartbeat_);
        hello.getTimers().setLeaseSeconds(proposedLease_);
        auto software = hello.initSoftware();
        software.setName("scaler-port-cpp");
        software.setVersion("1.0");
        software.setLanguage("C++17");
        software.setHost(hostName());
        software.setProcessId(static_cast<uint64_t>(getpid()));
        if (asksToResume) {
            hello.initResume().setSessionId(terms_.sessionId);
            hello.getResume().setReceivedSeq(receivedSeq_);
        }
        introduce_(hello);
    };
    put(writeMessage(0, 0, fill), now);
    // Longer each time, with some randomness, so that a thousand workers do not dial in step (HSK-20).
    Seconds most = hasMetStandby_ ? standbyPatience : helloPatienceMax;
    Seconds longer = std::min(helloPatienceMin * (1 << std::min(hellosInARow_++, 4)), most);
    helloPatience_ = longer * std::uniform_real_distribution<Seconds>(0.75, 1.25)(random_);
    helloAt_ = now;
}

void Session::resume(Seconds now) {
    state_ = State::resuming;
    hellosInARow_ = 0;
    sayHello(now);
}

uint64_t Session::send(const Fill& fill, std::optional<Bytes> payload, Seconds now) {
    if (!isOpen()) return 0;  // it has just ended, and its role is about to be told
    Frames frames = writeMessage(++sentSeq_, receivedSeq_, fill, std::move(payload));
    size_t bytes = frames.envelope.size() + (frames.payload.empty() ? 0 : frames.payload[0].size());
    kept_.push_back(Kept{sentSeq_, frames, bytes});
    keptBytes_ += bytes;
    if (state_ == State::open) put(std::move(frames), now);
    uint64_t seq = sentSeq_;
    if (keptBytes_ > keptBytesMax) {
        endWithError(Refusal{OVERLOADED, "SES-14", "too much was sent and not acknowledged", true, 0});
    }
    return seq;
}

void Session::leave(uint16_t code, const std::string& text, Seconds now) {
    if (state_ == State::open) {
        send([&](Body::Builder body) {
            auto bye = body.initBye();
            bye.setCode(code);
            bye.setText(text);
        }, std::nullopt, now);
    }
    state_ = State::ended;
}

void Session::refuse(const Refusal& refusal, Seconds now) {
    if (refusal.isFatal) return endWithError(refusal);
    send([&](Body::Builder body) {
        auto error = body.initError();
        error.setCode(refusal.code);
        error.setRefSeq(refusal.seq.value_or(0));
        error.setText(refusal.text);
        error.setClause(refusal.clause);
    }, std::nullopt, now);
}

void Session::endWithError(const Refusal& refusal) {
    auto fill = [&](Body::Builder body) {
        auto error = body.initError();
        error.setCode(refusal.code);
        error.setRefSeq(refusal.seq.value_or(0));
        error.setFatal(true);
        error.setText(refusal.text);
        error.setClause(refusal.clause);
    };
    if (state_ == State::open) step_.outgoing.push_back(writeMessage(0, receivedSeq_, fill));
    end(refusal.code, refusal.text);
}

void Session::end(uint16_t code, const std::string& text, bool isRejected) {
    state_ = State::ended;
    step_.events.push_back(Lost{code, text, true, isRejected, terms_});
}

void Session::put(Frames frames, Seconds now) {
    step_.outgoing.push_back(std::move(frames));
    lastSentAt_ = now;
    unacknowledgedCount_ = 0;
    unacknowledgedBytes_ = 0;
}

void Session::receive(Frames frames, Seconds now) {
    if (state_ == State::idle || state_ == State::ended) return;
    auto read = readMessage(std::move(frames), isOpen() ? terms_.limits : Limits{});
    if (auto* message = std::get_if<Message>(&read)) return onMessage(std::move(*message), now);
    if (state_ != State::open) return;  // nothing but Hello may be said before the Welcome (HSK-1)
    Refusal& refusal = std::get<Refusal>(read);
    lastReceivedAt_ = now;
    if (refusal.isFatal) return endWithError(refusal);
    if (refusal.seq == 0 || isNext(*refusal.seq, now)) refuse(refusal, now);  // once, and behind us (SES-16)
}

// Takes the next of the sequence. What was there before is dropped (SES-10), and a gap is for the resume to mend (SES-9).
bool Session::isNext(uint64_t seq, Seconds now) {
    if (seq <= receivedSeq_) return false;
    if (seq != receivedSeq_ + 1) {
        resume(now);
        return false;
    }
    receivedSeq_ = seq;
    hasProgressed_ = true;
    return true;
}

// A server without room for a session now is dialed again: the next Hello is due in any case (ERR-10). Its text is for
// the user, if no Welcome comes (ERR-11). After a standby the next address is soon dialed (HSK-41).
void Session::onReject(Reject::Reader reject, Seconds now) {
    if (reject.getCode() != OVERLOADED) return end(reject.getCode(), toString(reject.getText()), true);
    refusal_ = toString(reject.getText());
    if (!reject.getIsStandby()) return;
    hasMetStandby_ = true;
    Seconds retry = reject.getRetrySeconds();
    if (retry > 0) helloPatience_ = std::min(helloPatience_, now - helloAt_ + std::max(retry, retryMin));
}

void Session::onMessage(Message message, Seconds now) {
    auto body = message.body();
    if (state_ == State::dialing || state_ == State::resuming) {
        if (body.isWelcome()) return onWelcome(body.getWelcome(), now);
        if (body.isReject()) return onReject(body.getReject(), now);
        if (body.isError()) return onError(message, now);
        return;
    }
    lastReceivedAt_ = now;
    if (!acknowledgedUpTo(message.ack())) {
        return endWithError(Refusal{BAD_ENVELOPE, "SES-15", "the ack is above all that was sent", true, message.seq()});
    }
    if (body.isError() && body.getError().getFatal()) return onError(message, now);
    if (isOutsideSequence(body) != (message.seq() == 0)) return onMisplaced(std::move(message), now);
    if (body.isAcknowledge() || body.isWelcome()) return;
    if (message.seq() == 0) return refuse(Refusal{NOT_ALLOWED, "HSK-13", "a server does not send that", false, 0}, now);
    if (isNext(message.seq(), now)) onSequenced(std::move(message), now);
}

// With a seq that its kind does not have (SES-23). Errors are taken as they come (ERR-5).
void Session::onMisplaced(Message message, Seconds now) {
    if (message.body().isError()) return step_.events.push_back(std::move(message));
    if (message.seq() != 0 && !isNext(message.seq(), now)) return;
    refuse(Refusal{BAD_ENVELOPE, "SES-23", "that seq has no place in a message of this kind", false, message.seq()}, now);
}

void Session::onSequenced(Message message, Seconds now) {
    auto body = message.body();
    if (body.isPing()) {
        pings_.push_back(body.getPing().getNonce());
    } else if (body.isBye()) {
        return end(body.getBye().getCode(), toString(body.getBye().getText()));
    } else if (!body.isPong()) {
        size_t bytes = message.payload().size();
        step_.events.push_back(std::move(message));
        acknowledgeSoon(bytes, now);
        return;
    }
    acknowledgeSoon(0, now);
}

void Session::settle(Seconds now) {
    for (uint64_t nonce : std::exchange(pings_, {})) {
        send([nonce](Body::Builder body) { body.initPong().setNonce(nonce); }, std::nullopt, now);
    }
}

void Session::acknowledgeSoon(size_t bytes, Seconds now) {
    ++unacknowledgedCount_;
    unacknowledgedBytes_ += bytes;
    if (unacknowledgedCount_ >= acknowledgeCount || unacknowledgedBytes_ >= acknowledgeBytes) {
        put(writeMessage(0, receivedSeq_, [](Body::Builder body) { body.setAcknowledge(); }), now);
    }
}

bool Session::acknowledgedUpTo(uint64_t seq) {
    if (seq > sentSeq_) return false;
    while (!kept_.empty() && kept_.front().seq <= seq) {
        keptBytes_ -= kept_.front().bytes;
        kept_.pop_front();
        hasProgressed_ = true;
    }
    return true;
}

void Session::onWelcome(Welcome::Reader welcome, Seconds now) {
    lastReceivedAt_ = lastSentAt_ = lastPingAt_ = now;
    hellosInARow_ = 0;
    refusal_.clear();
    hasMetStandby_ = false;
    ++welcomeCount_;
    if (welcome.getVersion() != 1) return end(VERSION_MISMATCH, "the server chose a version that was not offered", true);
    if (!welcome.getResumed()) {
        bool wasResuming = state_ == State::resuming;
        if (wasResuming) {
            const char* text = "the server does not have the session any more";
            step_.events.push_back(Lost{NO_SESSION, text, false, false, terms_});
        }
        return beginAnew(termsOf(welcome));
    }
    state_ = State::open;
    uint64_t next = kept_.empty() ? sentSeq_ + 1 : kept_.front().seq;
    if (welcome.getReceivedSeq() > sentSeq_ || welcome.getReceivedSeq() + 1 < next) {
        return endWithError(Refusal{BAD_ENVELOPE, "SES-24", "receivedSeq is not what the server can have", true, 0});
    }
    acknowledgedUpTo(welcome.getReceivedSeq());
    fruitlessResumes_ = hasProgressed_ ? 0 : fruitlessResumes_ + 1;
    hasProgressed_ = false;
    if (fruitlessResumes_ >= fruitlessResumesMax) {
        return endWithError(Refusal{LEASE_EXPIRED, "SES-20", "five resumes in a row brought nothing new", true, 0});
    }
    for (const Kept& one : kept_) put(one.frames, now);  // SES-18
}

void Session::beginAnew(Terms terms) {
    state_ = State::open;
    terms_ = std::move(terms);
    sentSeq_ = receivedSeq_ = 0;
    kept_.clear();
    keptBytes_ = 0;
    pings_.clear();
    fruitlessResumes_ = 0;
    hasProgressed_ = false;
    step_.events.push_back(Opened{});
}

void Session::onError(const Message& message, Seconds now) {
    auto error = message.body().getError();
    if (!error.getFatal()) return;
    bool isMended = error.getCode() == NO_SESSION || error.getCode() == SEQUENCE_GAP || error.getCode() == LEASE_EXPIRED;
    if (!isMended) return end(error.getCode(), toString(error.getText()));
    // Answered at once only while open: a server that is starting or stopping must not be dialed in a tight loop.
    if (state_ == State::open) resume(now);
}

// How long a silent server is waited for before redialing: three heartbeats, and less where the lease is short (LIV-7).
Seconds Session::patience() const { return std::min(3 * terms_.heartbeat, 0.7 * terms_.lease); }

std::string Session::notWelcomed() const {
    return refusal_.empty() ? "no server answered within the lease" : refusal_;
}

Seconds Session::nextDeadline() const {
    if (state_ == State::dialing) return helloAt_ + helloPatience_;
    if (state_ == State::resuming) return std::min(helloAt_ + helloPatience_, lastReceivedAt_ + terms_.lease);
    if (state_ != State::open) return never;
    Seconds ping = std::min(lastSentAt_, std::max(lastReceivedAt_, lastPingAt_)) + terms_.heartbeat;
    return std::min(ping, lastReceivedAt_ + patience());
}

void Session::tick(Seconds now) {
    if (now < nextDeadline()) return;
    if (state_ == State::dialing) return sayHello(now);
    if (state_ == State::resuming) {
        if (now >= lastReceivedAt_ + terms_.lease) return end(LEASE_EXPIRED, notWelcomed());
        return sayHello(now);
    }
    if (now >= lastReceivedAt_ + patience()) return resume(now);
    lastPingAt_ = now;
    send([](Body::Builder body) { body.initPing(); }, std::nullopt, now);
}

Step Session::take() {
    Step taken = std::move(step_);
    step_ = Step{};
    return taken;
}

}  // namespace scaler
