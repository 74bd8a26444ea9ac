// A session on a socket. Spec chapter 01 (FRM).
#pragma once

#include <zmq.hpp>

#include "scaler/pass.h"
#include "scaler/session.h"

namespace scaler {

// The monotonic clock of this process, in seconds.
Seconds steadyNow();

// Throws std::invalid_argument with a sentence for whoever has given the address.
void checkAddress(const std::string& address);
// The addresses of a list like tcp://a:2345,tcp://b:2345, at most eight (HSK-39). Throws as `checkAddress`.
std::vector<std::string> addressesOf(const std::string& list);

// One thing a loop waits for: sockets that become readable, or a deadline.
class Pollable {
public:
    virtual ~Pollable() = default;
    virtual void addTo(std::vector<zmq::pollitem_t>& items) = 0;
    virtual Seconds nextDeadline() const = 0;
};

// Returns when one of them has something to do, at the latest after `longest` seconds.
void waitForAny(const std::vector<Pollable*>& pollables, Seconds longest);

class Link : public Pollable {
public:
    Link(zmq::context_t& context, PassOrNone pass, Session::Introduce introduce, Seconds heartbeat = 2, Seconds lease = 60);
    ~Link() override;

    void dial(const std::string& addresses, const Id& peerId);  // throws as `addressesOf`
    // The same servers, after a pause: for when a session is over and another is wanted.
    void dialAgain(const Id& peerId);
    void dialNow(const Id& peerId);
    uint64_t send(const Fill& fill, std::optional<Bytes> payload = std::nullopt);
    void refuse(const Refusal& refusal);
    // Sends Bye and waits for at most a second until it is out.
    void leave(uint16_t code, const std::string& text);

    // Receives what has arrived, does what is due, sends what there is. Everything without waiting. Its caller handles
    // the events it returns before it calls again.
    std::vector<Event> step();

    void addTo(std::vector<zmq::pollitem_t>& items) override;
    Seconds nextDeadline() const override;
    const Session& session() const { return session_; }
    std::string address() const { return addresses_.empty() ? "" : addresses_[misses_ % addresses_.size()]; }

private:
    void openSocket();
    void flush(std::vector<Event>& events);

    zmq::context_t& context_;
    PassOrNone pass_;
    Session session_;
    std::vector<std::string> addresses_;
    size_t misses_ = 0;  // sockets that got no Welcome: they say which address and which of the servers' keys is next
    uint64_t welcomesBefore_ = 0;  // the present socket
    zmq::socket_t socket_;
    Seconds redialAt_ = 0;  // zero: not to be redialed
    Id redialAs_;
    bool hasPending_ = false;  // a step ended before everything was received
};

}  // namespace scaler
