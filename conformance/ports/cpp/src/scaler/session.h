// A session as its dialer sees it. Spec chapters 02 (HSK), 03 (SES) and 04 (LIV).
//
// No socket, no clock, no thread: frames and the time come in, `Step` goes out. The table of states is that of
// spec/03-session.md, "A session, as its dialer sees it". Times are in seconds, on a clock that never goes back.
#pragma once

#include <deque>
#include <random>
#include <set>

#include "scaler/envelope.h"

namespace scaler {

using Seconds = double;

// What the Welcome has settled.
struct Terms {
    Id serverId;
    uint64_t sessionId = 0;
    Limits limits;
    Seconds heartbeat = 2;
    Seconds lease = 60;
    std::string storageAddress;
    Bytes ownerGrant;
    uint64_t generation = 0;  // of the scheduler; zero: none, or it does not know of generations
    std::set<std::string> features = {};  // in force (HSK-6)

    bool has(const char* feature) const { return features.count(feature) > 0; }
};

// There is a session, and nothing has been said in it yet.
struct Opened {};

// There is none any more. What was sent and not acknowledged is gone with it (SES-11). `isOver` is false when the same
// Welcome has opened another session in its place.
struct Lost {
    uint16_t code;
    std::string text;
    bool isOver = true;
    bool isRejected = false;  // by a Reject: dialing again makes no sense, except after SHUTTING_DOWN (HSK-12)
    Terms terms = {};         // of the session that is lost; without a serverId: there was none
};

using Event = std::variant<Opened, Lost, Message>;

struct Step {
    bool wantsFreshSocket = false;  // close the old one first; `outgoing` belongs to the fresh one
    std::vector<Frames> outgoing;
    std::vector<Event> events;
};

class Session {
public:
    // Fills in what the role has to say of itself: role, worker, parentTask and the like.
    using Introduce = std::function<void(Hello::Builder)>;

    Session(Introduce introduce, Seconds heartbeat, Seconds lease);

    // Begins a life under this id. May be called again after the session is over.
    void dial(const Id& peerId, Seconds now);
    // Numbered now, and kept until the other side has it. The number is returned; Errors refer to it. Zero: there is no
    // session, and nothing was sent.
    uint64_t send(const Fill& fill, std::optional<Bytes> payload, Seconds now);
    // The last message of this session (LIV-8).
    void leave(uint16_t code, const std::string& text, Seconds now);
    // A message of the server that the role cannot accept (ERR-1).
    void refuse(const Refusal& refusal, Seconds now);

    void receive(Frames frames, Seconds now);
    // The role has handled all events taken so far: now the Pongs, which come after what they have caused (LIV-4).
    void settle(Seconds now);
    bool isSettled() const { return pings_.empty(); }
    void tick(Seconds now);
    Seconds nextDeadline() const;
    Step take();

    bool isOpen() const { return state_ == State::open || state_ == State::resuming; }
    bool isOver() const { return state_ == State::ended; }
    bool isEverythingReceived() const { return kept_.empty(); }
    const Terms& terms() const { return terms_; }
    uint64_t welcomeCount() const { return welcomeCount_; }

private:
    enum class State { idle, dialing, open, resuming, ended };
    struct Kept {
        uint64_t seq;
        Frames frames;
        size_t bytes;
    };

    void sayHello(Seconds now);
    void resume(Seconds now);
    void beginAnew(Terms terms);
    void end(uint16_t code, const std::string& text, bool isRejected = false);
    void endWithError(const Refusal& refusal);
    void onWelcome(Welcome::Reader welcome, Seconds now);
    void onReject(Reject::Reader reject, Seconds now);
    void onError(const Message& message, Seconds now);
    void onMessage(Message message, Seconds now);
    void onMisplaced(Message message, Seconds now);
    void onSequenced(Message message, Seconds now);
    bool isNext(uint64_t seq, Seconds now);
    bool acknowledgedUpTo(uint64_t seq);
    void acknowledgeSoon(size_t bytes, Seconds now);
    void put(Frames frames, Seconds now);
    std::string notWelcomed() const;
    Seconds patience() const;

    Introduce introduce_;
    Seconds proposedHeartbeat_, proposedLease_;
    State state_ = State::idle;
    Terms terms_;
    Id peerId_;
    uint64_t incarnation_ = 0;
    Step step_;

    uint64_t sentSeq_ = 0;      // of the last message we numbered
    uint64_t receivedSeq_ = 0;  // the highest without a gap
    std::deque<Kept> kept_;     // what the server has not acknowledged, in order
    size_t keptBytes_ = 0;
    std::vector<uint64_t> pings_;  // nonces whose Pong is due
    uint64_t unacknowledgedCount_ = 0;
    size_t unacknowledgedBytes_ = 0;

    Seconds lastSentAt_ = 0, lastReceivedAt_ = 0, lastPingAt_ = 0;
    Seconds helloAt_ = 0, helloPatience_ = 0;
    int hellosInARow_ = 0;
    uint64_t welcomeCount_ = 0;
    bool hasMetStandby_ = false;  // since the last Welcome
    std::string refusal_;  // the text of the last Reject OVERLOADED before the session
    int fruitlessResumes_ = 0;
    bool hasProgressed_ = false;
    std::mt19937 random_{std::random_device{}()};
};

}  // namespace scaler
