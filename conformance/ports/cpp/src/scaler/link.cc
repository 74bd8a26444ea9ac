#include "scaler/link.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <stdexcept>

namespace scaler {

namespace {

constexpr int messagesPerStep = 64;  // then others have their turn
constexpr int leaveMilliseconds = 1000;
constexpr Seconds redialPause = 0.3;
constexpr size_t addressesMax = 8;

// A fresh name for every socket; ZeroMQ keeps a leading zero for itself (FRM-3).
Id routingId() {
    Id id = randomId();
    while (id[0] == '\0') id = randomId();
    return id;
}

bool receive(zmq::socket_t& socket, Frames& frames) {
    zmq::message_t frame;
    if (!socket.recv(frame, zmq::recv_flags::dontwait)) return false;
    frames.envelope = frame.to_string();
    while (frame.more()) {
        if (!socket.recv(frame, zmq::recv_flags::none)) return false;
        frames.payload.push_back(frame.to_string());
    }
    return true;
}

void transmit(zmq::socket_t& socket, const Frames& frames) {
    auto flags = [](bool isLast) { return isLast ? zmq::send_flags::none : zmq::send_flags::sndmore; };
    socket.send(zmq::buffer(frames.envelope), flags(frames.payload.empty()));
    for (size_t index = 0; index < frames.payload.size(); ++index) {
        socket.send(zmq::buffer(frames.payload[index]), flags(index + 1 == frames.payload.size()));
    }
}

Session::Introduce withTicket(PassOrNone pass, Session::Introduce introduce) {
    if (!pass) return introduce;
    return [pass, introduce](Hello::Builder hello) {
        introduce(hello);
        hello.setCredential(asData(pass->ticket));
    };
}

}  // namespace

Seconds steadyNow() {
    return std::chrono::duration<Seconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void checkAddress(const std::string& address) {
    auto beginsWith = [&](std::string_view scheme) { return address.size() > scheme.size() && address.rfind(scheme, 0) == 0; };
    const char* end = address.data() + address.size();
    uint16_t port = 0;
    bool isTcp = beginsWith("tcp://") && std::from_chars(address.data() + address.rfind(':') + 1, end, port).ptr == end;
    if ((isTcp && port > 0) || beginsWith("ipc://")) return;
    throw std::invalid_argument("'" + address + "' is no address like tcp://127.0.0.1:2345 or ipc:///tmp/scheduler");
}

std::vector<std::string> addressesOf(const std::string& list) {
    std::vector<std::string> addresses;
    for (size_t begin = 0, end = 0; end != std::string::npos; begin = end + 1) {
        end = list.find(',', begin);
        addresses.push_back(list.substr(begin, end == std::string::npos ? end : end - begin));
        checkAddress(addresses.back());
    }
    if (addresses.size() > addressesMax) throw std::invalid_argument("there are more than eight addresses in '" + list + "'");
    return addresses;
}

void waitForAny(const std::vector<Pollable*>& pollables, Seconds longest) {
    std::vector<zmq::pollitem_t> items;
    Seconds until = steadyNow() + longest;
    for (Pollable* one : pollables) {
        one->addTo(items);
        until = std::min(until, one->nextDeadline());
    }
    double milliseconds = std::ceil(std::max(0.0, until - steadyNow()) * 1000);
    try {
        zmq::poll(items, std::chrono::milliseconds(static_cast<int64_t>(milliseconds)));
    } catch (const zmq::error_t& error) {
        if (error.num() != EINTR) throw;  // a signal: the loop looks at what it has set
    }
}

Link::Link(zmq::context_t& context, PassOrNone pass, Session::Introduce introduce, Seconds heartbeat, Seconds lease)
    : context_(context), pass_(std::move(pass)), session_(withTicket(pass_, std::move(introduce)), heartbeat, lease) {}

Link::~Link() = default;

void Link::dial(const std::string& addresses, const Id& peerId) {
    addresses_ = addressesOf(addresses);
    misses_ = 0;
    dialNow(peerId);
}

void Link::dialNow(const Id& peerId) {
    redialAt_ = 0;
    session_.dial(peerId, steadyNow());
    hasPending_ = true;
}

void Link::dialAgain(const Id& peerId) {
    redialAt_ = steadyNow() + redialPause;
    redialAs_ = peerId;
}

Seconds Link::nextDeadline() const {
    if (hasPending_) return 0;
    return redialAt_ > 0 ? std::min(redialAt_, session_.nextDeadline()) : session_.nextDeadline();
}

uint64_t Link::send(const Fill& fill, std::optional<Bytes> payload) {
    hasPending_ = true;
    return session_.send(fill, std::move(payload), steadyNow());
}

void Link::refuse(const Refusal& refusal) {
    hasPending_ = true;
    session_.refuse(refusal, steadyNow());
}

void Link::leave(uint16_t code, const std::string& text) {
    session_.leave(code, text, steadyNow());
    Step step = session_.take();
    if (socket_ && !step.wantsFreshSocket) {  // else there is no session to be left
        for (const Frames& frames : step.outgoing) transmit(socket_, frames);
        socket_.set(zmq::sockopt::linger, leaveMilliseconds);
    }
    socket_.close();
}

std::vector<Event> Link::step() {
    std::vector<Event> events;
    session_.settle(steadyNow());
    flush(events);
    int count = 0;
    for (Frames frames; socket_ && count < messagesPerStep && receive(socket_, frames); frames = Frames{}) {
        session_.receive(std::move(frames), steadyNow());
        flush(events);
        ++count;
    }
    if (redialAt_ > 0 && steadyNow() >= redialAt_) dialNow(redialAs_);
    session_.tick(steadyNow());
    flush(events);
    hasPending_ = count == messagesPerStep || !session_.isSettled();
    return events;
}

void Link::flush(std::vector<Event>& events) {
    Step step = session_.take();
    if (step.wantsFreshSocket) openSocket();
    if (socket_) {
        for (const Frames& frames : step.outgoing) transmit(socket_, frames);
    }
    for (Event& event : step.events) events.push_back(std::move(event));
}

// The server that has welcomed us is dialed again; the next one, in turn, when there was no Welcome (HSK-39).
void Link::openSocket() {
    if (socket_ && session_.welcomeCount() == welcomesBefore_) ++misses_;
    welcomesBefore_ = session_.welcomeCount();
    socket_.close();
    socket_ = zmq::socket_t(context_, zmq::socket_type::dealer);
    socket_.set(zmq::sockopt::routing_id, routingId());
    socket_.set(zmq::sockopt::linger, 0);
    socket_.set(zmq::sockopt::sndhwm, 0);  // marks drop in silence; the session bounds what is queued (FRM-12)
    socket_.set(zmq::sockopt::rcvhwm, 0);
    if (pass_) {
        // ZeroMQ says nothing of a wrong key: the Hello is not answered, and the next socket tries the next key (SEC-12).
        const Bytes& serverKey = pass_->serverKeys[misses_ / addresses_.size() % pass_->serverKeys.size()];
        socket_.set(zmq::sockopt::curve_serverkey, zmq::const_buffer(serverKey.data(), serverKey.size()));
        socket_.set(zmq::sockopt::curve_publickey, zmq::const_buffer(pass_->publicKey.data(), pass_->publicKey.size()));
        socket_.set(zmq::sockopt::curve_secretkey, zmq::const_buffer(pass_->secretKey.data(), pass_->secretKey.size()));
    }
    socket_.connect(address());
}

void Link::addTo(std::vector<zmq::pollitem_t>& items) {
    if (socket_) items.push_back({socket_.handle(), 0, ZMQ_POLLIN, 0});
}

}  // namespace scaler
