#include "scaler/envelope.h"

#include <capnp/dynamic.h>
#include <kj/exception.h>

#include <cmath>
#include <cstring>
#include <unordered_map>

#include "constants.capnp.h"

namespace scaler {

namespace {

constexpr uint32_t segmentsMax = 64;
constexpr int nestingMax = 16;
constexpr unsigned listItemsMax = 65536;

// What an id field may hold (FRM-8); `peerId` is missing, because a wrong one is answered with a Reject.
enum class IdForm { always, optional, column };
const std::unordered_map<std::string, IdForm> idFields = {
    {"serverId", IdForm::always},     {"objectId", IdForm::always},   {"owner", IdForm::always},
    {"source", IdForm::always},       {"target", IdForm::always},     {"client", IdForm::optional},
    {"serializer", IdForm::optional}, {"graphId", IdForm::optional},  {"parentTask", IdForm::optional},
    {"managerId", IdForm::optional},  {"taskId", IdForm::optional},   {"functions", IdForm::column},
    {"ids", IdForm::column},          {"dependencies", IdForm::column}, {"inputIds", IdForm::column},
};

[[noreturn]] void refuse(uint16_t code, const char* clause, std::string text, bool isFatal = false) {
    throw Refusal{code, clause, std::move(text), isFatal};
}

void checkId(const std::string& field, size_t size) {
    auto found = idFields.find(field);
    if (found == idFields.end()) return;
    bool isRight = found->second == IdForm::column     ? size % idBytes == 0
                   : found->second == IdForm::optional ? size == 0 || size == idBytes
                                                       : size == idBytes;
    if (!isRight) refuse(BAD_ENVELOPE, "FRM-8", field + " has " + std::to_string(size) + " bytes; ids have 16");
}

void checkValue(const std::string& field, const capnp::DynamicValue::Reader& value);

void checkStruct(const capnp::DynamicStruct::Reader& reader) {
    for (auto field : reader.getSchema().getNonUnionFields()) {
        if (reader.has(field)) checkValue(field.getProto().getName(), reader.get(field));
    }
    KJ_IF_MAYBE (active, reader.which()) {
        if (reader.has(*active)) checkValue(active->getProto().getName(), reader.get(*active));
    }
}

// Visits every field, so that whatever Cap'n Proto has to object to is found here and not in a role.
void checkValue(const std::string& field, const capnp::DynamicValue::Reader& value) {
    switch (value.getType()) {
        case capnp::DynamicValue::STRUCT:
            checkStruct(value.as<capnp::DynamicStruct>());
            return;
        case capnp::DynamicValue::LIST: {
            auto list = value.as<capnp::DynamicList>();
            if (list.size() > listItemsMax) refuse(BAD_ENVELOPE, "FRM-8", field + " has more than 65536 items");
            for (auto item : list) checkValue(field, item);
            return;
        }
        case capnp::DynamicValue::TEXT: {
            auto text = value.as<capnp::Text>();
            if (!isUtf8(std::string_view(text.cStr(), text.size()))) refuse(BAD_ENVELOPE, "FRM-8", field + " is not UTF-8");
            return;
        }
        case capnp::DynamicValue::DATA:
            checkId(field, value.as<capnp::Data>().size());
            return;
        case capnp::DynamicValue::FLOAT: {
            double number = value.as<double>();
            if (!std::isfinite(number) || number < 0) refuse(BAD_ENVELOPE, "FRM-8", field + " is no amount");
            return;
        }
        default:
            return;
    }
}

size_t payloadFramesOf(Body::Which kind) {
    switch (kind) {
        case Body::SUBMIT:
        case Body::DISPATCH:
        case Body::RESULTS:
        case Body::PUT:
        case Body::VALUE:
            return 1;
        default:
            return 0;
    }
}

void checkFrames(const Envelope::Reader& envelope, const std::vector<Bytes>& payload, const Limits& limits) {
    size_t right = payloadFramesOf(envelope.getMessage().which());
    if (envelope.getPayloadFrames() != right || payload.size() != right) {
        refuse(BAD_FRAMING, "FRM-2", "this kind has " + std::to_string(right) + " payload frames; its envelope says " +
                                         std::to_string(envelope.getPayloadFrames()) + " and " +
                                         std::to_string(payload.size()) + " came");
    }
    for (const Bytes& frame : payload) {
        if (frame.size() > limits.payloadFrameBytes) {
            refuse(TOO_LARGE, "FRM-5", "the payload has " + std::to_string(frame.size()) + " bytes: cut it smaller");
        }
    }
}

void checkSegments(const Bytes& envelope) {
    uint32_t lastSegment = envelope.size() < 8 ? segmentsMax : numberAt<uint32_t>(envelope, 0);
    if (lastSegment >= segmentsMax) refuse(BAD_ENVELOPE, "FRM-7", "this is no envelope of up to 64 segments", true);
}

}  // namespace

Message::Message(kj::Array<capnp::word> words)
    : words_(std::make_shared<kj::Array<capnp::word>>(kj::mv(words))), payload_(std::make_shared<Bytes>()) {
    capnp::ReaderOptions options;
    options.nestingLimit = nestingMax;
    options.traversalLimitInWords = 4 * words_->size() + listItemsMax;  // checked once, then read by the role
    reader_ = std::make_shared<capnp::FlatArrayMessageReader>(words_->asPtr(), options);
    envelope_ = reader_->getRoot<Envelope>();
}

std::variant<Message, Refusal> readMessage(Frames frames, const Limits& limits) {
    std::optional<uint64_t> seq;
    try {
        if (frames.envelope.size() > limits.envelopeBytes) {
            refuse(TOO_LARGE, "FRM-4", "the envelope has " + std::to_string(frames.envelope.size()) + " bytes", true);
        }
        checkSegments(frames.envelope);
        Message message(wordsOf(frames.envelope));
        if (message.reader_->getEnd() != message.words_->end() || frames.envelope.size() % sizeof(capnp::word) != 0) {
            refuse(BAD_ENVELOPE, "FRM-6", "bytes follow the last segment", true);
        }
        seq = message.seq();
        capnp::DynamicStruct::Reader whole(message.envelope_);
        capnp::DynamicStruct::Reader body(message.body());
        if (body.which() == nullptr) {
            refuse(UNKNOWN_MESSAGE, "ERR-2", "this peer does not know messages of that kind: do without");
        }
        checkFrames(message.envelope_, frames.payload, limits);
        checkStruct(whole);
        if (!frames.payload.empty()) *message.payload_ = std::move(frames.payload[0]);
        return message;
    } catch (Refusal& refusal) {
        refusal.seq = seq;
        refusal.isFatal = refusal.isFatal || !seq;
        return refusal;
    } catch (const kj::Exception& error) {
        std::string reason = toString(error.getDescription());
        return Refusal{BAD_ENVELOPE, "FRM-8", "the envelope cannot be read: " + reason, !seq, seq};
    }
}

Frames writeMessage(uint64_t seq, uint64_t ack, const Fill& fill, std::optional<Bytes> payload) {
    capnp::MallocMessageBuilder builder;
    auto envelope = builder.initRoot<Envelope>();
    envelope.setSeq(seq);
    envelope.setAck(ack);
    envelope.setPayloadFrames(payload ? 1 : 0);
    fill(envelope.getMessage());
    Frames frames{writeRoot(builder), {}};
    if (payload) frames.payload.push_back(std::move(*payload));
    return frames;
}

Bytes writeRoot(capnp::MessageBuilder& builder) {
    auto words = capnp::messageToFlatArray(builder);
    auto bytes = words.asBytes();
    return Bytes(reinterpret_cast<const char*>(bytes.begin()), bytes.size());
}

kj::Array<capnp::word> wordsOf(std::string_view bytes) {
    auto words = kj::heapArray<capnp::word>(bytes.size() / sizeof(capnp::word));
    memcpy(words.begin(), bytes.data(), words.size() * sizeof(capnp::word));
    return words;
}

}  // namespace scaler
