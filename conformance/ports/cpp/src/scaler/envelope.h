// Frames to messages and back. Spec chapter 01 (FRM).
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>

#include <capnp/message.h>
#include <capnp/serialize.h>

#include "envelope.capnp.h"
#include "scaler/bytes.h"

namespace scaler {

using Body = Envelope::Message;

struct Limits {
    uint32_t inlineBytes = 65536;
    uint64_t payloadFrameBytes = 67108864;
    uint32_t batchTasks = 65536;
    uint32_t envelopeBytes = 4194304;
};

struct Frames {
    Bytes envelope;
    std::vector<Bytes> payload;
};

// Why a message is refused. Without `seq` it could not be numbered, and the session ends (SES-13).
struct Refusal {
    uint16_t code;
    std::string clause;
    std::string text;
    bool isFatal = false;
    std::optional<uint64_t> seq = std::nullopt;
};

// A message that was read in full, so that nothing in it can surprise a role (FRM-8).
class Message {
public:
    explicit Message(kj::Array<capnp::word> words);

    uint64_t seq() const { return envelope_.getSeq(); }
    uint64_t ack() const { return envelope_.getAck(); }
    Body::Reader body() const { return envelope_.getMessage(); }
    const Bytes& payload() const { return *payload_; }

private:
    friend std::variant<Message, Refusal> readMessage(Frames frames, const Limits& limits);

    std::shared_ptr<kj::Array<capnp::word>> words_;
    std::shared_ptr<capnp::FlatArrayMessageReader> reader_;
    std::shared_ptr<Bytes> payload_;
    Envelope::Reader envelope_;
};

std::variant<Message, Refusal> readMessage(Frames frames, const Limits& limits);

using Fill = std::function<void(Body::Builder)>;

// `payload` is given for the kinds that have a payload frame, and for no other (FRM-2).
Frames writeMessage(uint64_t seq, uint64_t ack, const Fill& fill, std::optional<Bytes> payload = std::nullopt);

// A message of its own with the given struct as its root, in the encoding of FRM-6: so TaskErrors travel.
Bytes writeRoot(capnp::MessageBuilder& builder);
kj::Array<capnp::word> wordsOf(std::string_view bytes);

}  // namespace scaler
