// Between the agent and a processor: frames of CBOR over a pair of sockets. No part of the protocol.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>

#include "scaler/bytes.h"

namespace scaler {

using Json = nlohmann::json;

class Channel {
public:
    explicit Channel(int fd) : fd_(fd) {}
    Channel(Channel&& other) noexcept;
    Channel& operator=(Channel&&) = delete;
    ~Channel();

    int fd() const { return fd_; }
    bool wantsToWrite() const { return writtenBytes_ < unwritten_.size(); }

    // For the agent, whose end does not block: false when the other end is gone.
    void queue(const Json& frame);
    bool pump();
    bool hasNext() const;
    std::optional<Json> next();

    // For the processor, which has nothing else to do: nothing when the agent is gone.
    std::optional<Json> waitForNext();
    void writeAll(const Json& frame);

private:
    int fd_;
    Bytes unwritten_, unread_;
    size_t writtenBytes_ = 0;  // of `unwritten_`, which is cleared when all of it is
};

inline Json binary(const Bytes& bytes) { return Json::binary(std::vector<uint8_t>(bytes.begin(), bytes.end())); }
inline Bytes bytesOf(const Json& value) { return Bytes(value.get_binary().begin(), value.get_binary().end()); }

}  // namespace scaler
